/* experts.h - Experts for the MoE ops of your own graphs (moe_group, moe_ffn, moe_ffn_biased).
 *
 * Experts are not values in memory: a run requests those that its rows chose, and takes them from a
 * source while they arrive.  A source is made of files, of a function that reads one expert, in
 * front of which the library keeps a cache under a byte budget, or of callbacks that do all of it.
 *
 *   sl_value base = sl_graph_add_experts(g, "experts", "f32", 3, (int64_t[]){64, 512, 256});
 *   ...
 *   sl_experts_create(&shape, &reader, &experts, err);
 *   options.experts = experts;
 *   sl_compile(g, &options, &compiled, err);
 *
 * One layer is requested at a time: in a graph, the moe_group of a layer comes after the moe_ffn of
 * the layer before it, and each has one moe_ffn; sl_compile refuses others.  A source serves one
 * run at a time, of any number of compiled graphs, and outlives them. */
#ifndef SLUICE_EXPERTS_H
#define SLUICE_EXPERTS_H
#include "sluice/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Declares experts: dims are [experts, width, hidden], and dtype that of the gate matrices. */
SL_API sl_value sl_graph_add_experts(sl_graph *graph, const char *name, const char *dtype,
                                     uint32_t rank, const int64_t *dims);

/* All experts of a source have one shape: gate and up are [width, hidden], down is [hidden, width],
 * each row by row, or in the layout that sl_weight_pack (weights.h) writes. */
typedef struct {
    size_t struct_size;
    uint32_t layers, experts; /* experts of each layer */
    int64_t width, hidden;
    const char *dtype;      /* of gate and up */
    const char *down_dtype; /* NULL: the same */
} sl_expert_shape;

/* ---- A function that reads one expert, behind a cache ---- */

typedef struct {
    size_t struct_size;
    void *ctx;
    /* Fills the three matrices of an expert (64-byte aligned), or fills err and returns its status:
     * the run that waits for the expert fails then, and the next run may ask again.  It is called
     * on threads of the library, by several at a time, and not after the source was destroyed. */
    sl_status (*read)(void *ctx, uint32_t layer, uint32_t expert, void *gate, void *up, void *down,
                      sl_error *err);
    uint64_t budget_bytes; /* of the cache; 0: all experts stay.  Too little is an error. */
    uint32_t threads;      /* that call read; 0: 4 */
} sl_expert_reader;
SL_API SL_CHECKED sl_status sl_experts_create(const sl_expert_shape *shape,
                                              const sl_expert_reader *reader, sl_experts **out,
                                              sl_error *err);

/* ---- Files ---- */

/* The experts of a model: a pack, a GGUF file, or a folder of safetensors with its config.json.
 * sl_experts_shape says which there are. */
SL_API SL_CHECKED sl_status sl_experts_open(const char *path, uint64_t budget_bytes,
                                            sl_experts **out, sl_error *err);

/* ---- Callbacks ---- */

/* An expert that is lent to a run until it is released. */
typedef struct {
    uint32_t expert;
    const void *gate, *up, *down; /* 64-byte aligned */
    size_t gate_bytes, up_bytes, down_bytes;
    void *handle; /* yours */
} sl_expert;      /* closed */
typedef struct {
    size_t struct_size;
    void *ctx;
    /* Experts, ascending and distinct, of which each is taken once; it should start to bring them
     * in and not wait for them.  What an earlier request left is not taken any more.  May be NULL.
     */
    sl_status (*request)(void *ctx, uint32_t layer, const uint32_t *experts, uint32_t count,
                         sl_error *err);
    /* Any expert that was requested and was not taken yet; may wait until there is one.  Called by
     * several threads at a time, as often as experts were requested. */
    sl_status (*take)(void *ctx, uint32_t layer, sl_expert *out, sl_error *err);
    /* By the thread that took it.  May be NULL. */
    void (*release)(void *ctx, uint32_t layer, const sl_expert *expert);
    uint32_t most_taken; /* experts that may be lent at a time; 0: no limit */
} sl_expert_callbacks;
/* What take returns is checked: an expert that was not requested, a matrix of another size or
 * without alignment fails the run, and the expert is released.  After an error, nothing more of the
 * request is taken. */
SL_API SL_CHECKED sl_status sl_experts_create_from(const sl_expert_shape *shape,
                                                   const sl_expert_callbacks *callbacks,
                                                   sl_experts **out, sl_error *err);

SL_API void sl_experts_destroy(sl_experts *experts); /* NULL is fine; waits for reads in flight */
/* The shape; its texts are valid as long as the source. */
SL_API SL_CHECKED sl_status sl_experts_shape(const sl_experts *experts, sl_expert_shape *out,
                                             sl_error *err);
/* Counters of the cache since it was made; all 0 of callbacks. */
typedef struct {
    size_t struct_size;
    uint64_t hits, misses; /* experts found in the cache, and experts read */
    uint64_t bytes_read;
    uint64_t slots, used_bytes; /* experts that the cache has room for; memory that it takes */
    double stall_seconds;       /* in which a run could only wait for reads */
} sl_expert_counts;
SL_API SL_CHECKED sl_status sl_experts_counts(const sl_experts *experts, sl_expert_counts *out,
                                              sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
