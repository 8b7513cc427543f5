/* architecture.h - What a model family provides: the keys of its config and the graph of a layer.
 *
 * The graph of a step takes `rows` tokens of any sequences (inputs "tokens", "slots", "positions",
 * i32[rows]) and updates the states of their slots.  With wanted rows it gives "logits" f32[wanted,
 * vocab] and "hidden" f32[wanted, hidden], the residual after the last norm; "wanted" i32[wanted]
 * is an input unless every row is wanted.  Where it chooses, every row must be: "token" i32[rows]
 * is chosen as the input "how" f64[rows, 5] says (core/choose.h), kept in the state "chosen"
 * i32[slots], and comes in again where a token is -1.  A family is one file and one row of
 * architecture.def. */
#ifndef SL_ENGINE_MODELS_ARCHITECTURE_H
#define SL_ENGINE_MODELS_ARCHITECTURE_H
#include "compiler/graph.h"
#include "core/roles.h"
#include "engine/experts/table.h"
#include "engine/models/config.h"
#include "engine/models/weights.h"

typedef struct {
    const sl_model_config *config;
    sl_weights *weights; /* found and checked as the graph asks for them */
    const sl_expert_table *experts;
    uint32_t rows, wanted; /* wanted: 0 to rows */
    bool chooses;
    uint32_t slots, capacity; /* sequences, and tokens of context each */
    sl_dtype kv_dtype;        /* of cached keys (core/kv.h): f32, f16 or k16 */
} sl_step_shape;

typedef struct sl_builder sl_builder;

typedef struct {
    const char *name;    /* its model_type */
    const char *also[2]; /* other model_types of the same, or NULL */
    sl_config_family config;
    /* The residual after layer b->layer; builder.h and blocks.h have what it is made of. */
    sl_residual_value (*layer)(sl_builder *b, sl_residual_value residual);
} sl_architecture;

/* NULL when the type is unknown. */
const sl_architecture *sl_architecture_find(const char *model_type);
/* "qwen3, mixtral, ...": all of them. */
enum { SL_ARCHITECTURE_NAMES_BYTES = 256 };
const char *sl_architecture_names(char *text, size_t capacity);

SL_CHECKED sl_status sl_architecture_build(const sl_architecture *architecture,
                                           const sl_step_shape *shape, sl_graph *graph,
                                           sl_error *err);

/* Builds the graph of one row and throws it away: what remains is in weights, every tensor that
 * the model needs. */
SL_CHECKED sl_status sl_architecture_ask(const sl_model_config *config, sl_weights *weights,
                                         const sl_expert_table *experts, sl_error *err);
#endif
