/* architecture.h - What a model family provides: the graph of one step.
 *
 * The graph takes `rows` tokens of any sequences (inputs "tokens", "slots", "positions", i32[rows])
 * and updates the states of their slots.  With wanted rows it gives "logits" f32[wanted, vocab] and
 * "hidden" f32[wanted, hidden], the residual after the last norm; "wanted" i32[wanted] is an input
 * unless every row is wanted.  A family is one file and one row of the table in architecture.c. */
#ifndef SL_ENGINE_MODELS_ARCHITECTURE_H
#define SL_ENGINE_MODELS_ARCHITECTURE_H
#include "compiler/graph.h"
#include "engine/experts/table.h"
#include "engine/models/config.h"
#include "engine/models/weights.h"

typedef struct {
    const sl_model_config *config;
    sl_weights *weights; /* found and checked as the graph asks for them */
    const sl_expert_table *experts;
    uint32_t rows, wanted;    /* wanted: 0 to rows */
    uint32_t slots, capacity; /* sequences, and tokens of context each */
    sl_dtype kv_dtype;        /* of cached keys (core/kv.h): f32, f16 or k16 */
} sl_step_shape;

typedef sl_status sl_architecture_build(const sl_step_shape *shape, sl_graph *graph, sl_error *err);

typedef struct {
    const char *model_type;
    sl_architecture_build *build;
} sl_architecture;

/* NULL when the type is unknown. */
const sl_architecture *sl_architecture_find(const char *model_type);

/* Builds the graph of one row and throws it away: what remains is in weights, every tensor that
 * the model needs. */
SL_CHECKED sl_status sl_architecture_ask(const sl_model_config *config, sl_weights *weights,
                                         const sl_expert_table *experts, sl_error *err);

sl_architecture_build sl_qwen3_5_moe_build;
#endif
