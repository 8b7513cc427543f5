/* builder.h - Builder for the graph of a forward pass.
 *
 * Weights are requested by their names after "model." in a checkpoint; those of a layer without
 * "layers.N.".  After the first failure every call does nothing. */
#ifndef SL_ENGINE_MODELS_BUILDER_H
#define SL_ENGINE_MODELS_BUILDER_H
#include "engine/models/architecture.h"
#include "engine/models/wire.h"

struct sl_builder {
    sl_graph *graph;
    const sl_forward_shape *shape;
    const sl_model_config *config;
    sl_rows rows;
    sl_rope_angles rope;
    sl_chosen_value chosen; /* where the step chooses */
    uint32_t layer;         /* under construction */
    sl_value *revealed;     /* [layers][SL_LAYER_VALUE_COUNT]; NULL: the step reveals nothing */
    uint32_t kept_inputs;   /* of a step that replays, so far */
    sl_status status;
    sl_error *err;
};

/* A weight of the whole model; otherwise may be NULL. */
sl_value sl_builder_weight(sl_builder *b, const char *name, sl_weight_kind kind, sl_dims dims,
                           const sl_weight_gather *otherwise);

/* Weights and states of the layer. */
sl_value sl_builder_matrix(sl_builder *b, const char *name, int64_t rows, int64_t cols);
sl_value sl_builder_vector(sl_builder *b, const char *name, int64_t size);
/* Of any shape, or gathered from the rows of another of the layer's tensors. */
sl_value sl_builder_tensor(sl_builder *b, const char *name, sl_weight_kind kind, sl_dims dims,
                           const sl_weight_gather *otherwise);
sl_value sl_builder_state(sl_builder *b, sl_state_kind kind, const char *name, sl_type type);

/* The step's interface.  Outputs are given in the order of their enum. */
sl_value sl_builder_input(sl_builder *b, sl_forward_input input, sl_type type);
void sl_builder_output(sl_builder *b, sl_forward_output output, sl_value value);
/* What another step kept of the layer; tagged with SL_FORWARD_INPUT_COUNT and up. */
sl_value sl_builder_kept_input(sl_builder *b, sl_layer_value which, sl_type type);
/* A value of the layer; becomes an output at the end if the step reveals or keeps it. */
void sl_builder_reveal(sl_builder *b, sl_layer_value which, sl_value value);
/* Makes room for what is revealed, and outputs of it after all others. */
void sl_builder_begin_reveal(sl_builder *b);
void sl_builder_end_reveal(sl_builder *b);
static inline sl_rope_apply_attrs sl_builder_rope(const sl_builder *b) {
    return (sl_rope_apply_attrs){.interleaved = b->config->rope.interleaved};
}
/* How attention of the layer is computed. */
static inline sl_sdpa_options sl_builder_sdpa(const sl_builder *b) {
    return (sl_sdpa_options){.scale = b->config->score_scale,
                             .window = b->config->layer[b->layer].window,
                             .divide =
                                 !b->shape->undivided &&
                                 sl_wire_divides_positions(b->shape->rows, b->shape->capacity)};
}
/* How the norms of the model are computed. */
static inline sl_rms_norm_attrs sl_builder_norm(const sl_builder *b) {
    return (sl_rms_norm_attrs){.eps = b->config->norm_eps, .offset = b->config->norm_offset};
}
#endif
