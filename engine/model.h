/* model.h - An open model. */
#ifndef SL_ENGINE_MODEL_H
#define SL_ENGINE_MODEL_H
#include "engine/experts/store.h"
#include "engine/models/architecture.h"
#include "engine/session/steps.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"
#include "runtime/devices.h"
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
    const sl_device_row *device_row;
    sl_device *device; /* NULL: the reference evaluator */
    sl_device_info device_info;
    sl_steps *steps;
    sl_model_text text;
    const char *note; /* as in sl_model_info */
    uint32_t context_tokens, slots;
    uint32_t
        chunk_tokens; /* tokens per forward pass in prefill, unless a session sets another number */
    double files_seconds, memory_seconds, weights_seconds, text_seconds; /* of opening */
    bool slot_taken[SL_MAX_SESSIONS];
    pthread_mutex_t lock; /* held during a forward pass */
    /* The session whose logits are still in the result of the last forward pass; NULL: none. */
    struct sl_session *waiting;
    /* The session with a forward pass in flight; NULL: none. */
    struct sl_session *ahead;
};

/* The type of the experts, or of the first layer's feed-forward weights if there are none. */
sl_dtype sl_model_main_dtype(const sl_model *model);

/* text/model_text.c: tokenizer, template, end tokens and sampling defaults, each optional. */
SL_CHECKED sl_status sl_model_text_load(sl_model *model, sl_error *err);
void sl_model_text_unload(sl_model_text *text);
#endif
