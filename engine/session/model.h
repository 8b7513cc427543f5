/* model.h - An open model. */
#ifndef SL_ENGINE_SESSION_MODEL_H
#define SL_ENGINE_SESSION_MODEL_H
#include "base/meter.h"
#include "engine/experts/store.h"
#include "engine/models/architecture.h"
#include "engine/session/fingerprint.h"
#include "engine/session/forward.h"
#include "engine/text/model_text.h"
#include "runtime/devices.h"
#include "sluice/sluice.h"
#include <pthread.h>

enum {
    SL_MAX_SESSIONS = 256,
    SL_LEAST_CONTEXT = 512, /* a default context is lowered to this, where memory is short */
};

struct sl_model {
    sl_allocator allocator;
    /* Count what is allocated for files, tokenizer, compiled programs and the device. */
    sl_meter source_meter, text_meter, program_meter, device_meter;
    uint64_t file_bytes, program_bytes, loading_bytes; /* as in sl_memory_use, known at opening */
    sl_arena arena, text_arena;                        /* text_arena: counted by text_meter */
    sl_source *source;
    sl_model_config config;
    sl_weights weights;
    sl_expert_table experts;
    sl_reader *reader;
    sl_expert_store *store;
    const sl_device_row *device_row;
    sl_device *device; /* NULL: the reference evaluator */
    sl_device_info device_info;
    sl_forward *forward;
    sl_model_text text;
    sl_fingerprint fingerprint; /* of the states of its sessions */
    const char *note;           /* as in sl_model_info */
    uint32_t context_tokens, slots;
    uint32_t
        chunk_tokens; /* tokens per forward pass in prefill, unless a session sets another number */
    double files_seconds, memory_seconds, weights_seconds, text_seconds; /* of opening */
    bool slot_taken[SL_MAX_SESSIONS];
    pthread_mutex_t lock; /* held during a forward pass */
    /* Prefixes of conversations in memory and on disk; NULL: none.  Used with the lock held. */
    struct sl_prefix_tree *prefixes;
    struct sl_prefix_disk *prefixes_on_disk;
    struct sl_keeper *keeper; /* writes to that disk for schedulers; NULL: none does */
    uint64_t prefix_bytes;    /* budget of those in memory: pages of the KV cache, and the rest */
    uint64_t prefix_pages, prefix_host_bytes;
    /* The session whose logits are still in the result of the last forward pass; NULL: none. */
    struct sl_session *waiting;
    /* The session whose draft's rows are kept; NULL: none. */
    struct sl_session *drafted;
    /* The session with a forward pass in flight; NULL: none. */
    struct sl_session *ahead;
};

/* The type of the experts, or of the first layer's feed-forward weights if there are none. */
sl_dtype sl_model_main_dtype(const sl_model *model);

/* The options are complete (api/model.c). */
SL_CHECKED sl_status sl_model_create(const char *path, const sl_model_options *options,
                                     sl_model **out, sl_error *err);
void sl_model_destroy(sl_model *model); /* NULL is allowed */
#endif
