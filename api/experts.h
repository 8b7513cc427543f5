/* experts.h - Sources of experts for graphs (sluice/experts.h). */
#ifndef SL_API_EXPERTS_H
#define SL_API_EXPERTS_H
#include "compiler/graph.h"
#include "core/program.h"
#include "engine/experts/store.h"
#include "sluice/experts.h"
#include <pthread.h>

/* A source of callbacks (experts_called.c). */
typedef struct {
    sl_expert_source base; /* first */
    sl_expert_callbacks calls;
    sl_experts *owner;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t returned;
    uint32_t taken;       /* lent, or being taken */
    uint32_t layer, left; /* of the current request: experts that nobody has begun to take */
    sl_error failure;     /* of it */
    unsigned char *state; /* [experts]: of the current request */
    sl_expert *lent;      /* [experts] */
} sl_called_experts;

struct sl_experts {
    sl_arena arena;        /* the struct itself */
    sl_expert_shape shape; /* texts in the arena */
    sl_type gate, down;    /* of one expert; up is like gate */
    sl_expert_source *source;
    /* Of files and of a reading function. */
    sl_expert_store *store;
    sl_reader *reader;
    sl_source *files;
    sl_expert_table table;
    sl_expert_reader function;
    uint64_t stride; /* from expert to expert in the reader's files */
    sl_called_experts called;
};

/* Checks the experts of a graph against the source: shapes, types and the layers that nodes name.
 * source NULL: an error if the graph has experts. */
SL_CHECKED sl_status sl_experts_check_graph(const sl_experts *experts, const sl_graph *graph,
                                            sl_error *err);
/* Checks that one layer is requested at a time, whatever order the device runs the steps in. */
SL_CHECKED sl_status sl_experts_check_program(const sl_program *program, sl_error *err);
/* experts_called.c */
SL_CHECKED sl_status sl_called_experts_init(sl_experts *experts,
                                            const sl_expert_callbacks *callbacks, sl_error *err);
#endif
