/* experts_made.h - What a source of experts is made of (sluice/experts.h). */
#ifndef SL_API_EXPERTS_MADE_H
#define SL_API_EXPERTS_MADE_H
#include "api/experts.h"
#include "engine/experts/store.h"
#include <pthread.h>

/* A source of callbacks (experts_called.c). */
typedef struct {
    sl_expert_source base; /* first */
    sl_expert_callbacks calls;
    const sl_experts *owner;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t returned;
    uint32_t taken;       /* lent, or being taken */
    uint32_t layer, left; /* of the current request: experts that nobody has begun to take */
    sl_error failure;     /* of it */
    unsigned char *state; /* [experts]: of the current request */
    sl_expert *lent;      /* [experts] */
} sl_called_experts;

typedef struct {
    sl_experts base; /* first */
    sl_arena arena;  /* the struct itself */
    /* Of files and of a reading function. */
    sl_expert_store *store;
    sl_reader *reader;
    sl_source *files;
    sl_expert_table table;
    sl_expert_reader function;
    uint64_t stride; /* from expert to expert in the reader's files */
    sl_called_experts called;
} sl_made_experts;

/* experts_called.c */
SL_CHECKED sl_status sl_called_experts_init(sl_made_experts *experts,
                                            const sl_expert_callbacks *callbacks, sl_error *err);
#endif
