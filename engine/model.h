/* model.h - What an open model holds. */
#ifndef SL_ENGINE_MODEL_H
#define SL_ENGINE_MODEL_H
#include "engine/experts/store.h"
#include "engine/models/architecture.h"
#include "engine/session/steps.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"
#include "sluice/sluice.h"
#include <pthread.h>

enum { SL_MAX_END_TOKENS = 16, SL_MAX_SESSIONS = 256 };

typedef struct {
    sl_tokenizer *tokenizer; /* NULL when the source has none */
    sl_template *chat;       /* NULL when the source has none */
    const char *bos, *eos;   /* "" when unknown */
    sl_token end_tokens[SL_MAX_END_TOKENS];
    uint32_t end_count;
    sl_sampling sampling;
} sl_model_text;

struct sl_model {
    sl_allocator allocator;
    sl_arena arena;
    sl_source *source;
    sl_model_config config;
    sl_weights weights;
    sl_expert_table experts;
    sl_reader *reader;
    sl_expert_store *store;
    sl_device *device; /* NULL: the reference evaluator */
    char device_name[128];
    sl_steps *steps;
    sl_model_text text;
    const char *note; /* what of the source is not used; NULL: nothing */
    uint32_t context_tokens, slots;
    uint32_t chunk_tokens; /* of a prefill step, unless a session says otherwise */
    double files_seconds, memory_seconds, weights_seconds, text_seconds; /* of opening */
    bool slot_taken[SL_MAX_SESSIONS];
    pthread_mutex_t lock; /* held while a step runs */
    /* The session whose logits still lie in the result of the last step; NULL: none. */
    struct sl_session *waiting;
    /* The session whose last token is being computed, while nobody waits for it; NULL: none. */
    struct sl_session *ahead;
};

/* The type of the experts, or of the first layer's network where there are none. */
sl_dtype sl_model_main_dtype(const sl_model *model);

/* text.c: tokenizer, template, end tokens and sampling defaults, each optional. */
SL_CHECKED sl_status sl_model_text_load(sl_model *model, sl_error *err);
void sl_model_text_unload(sl_model_text *text);
#endif
