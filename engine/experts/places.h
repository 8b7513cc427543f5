/* places.h - Where in the tensors of a source routed experts are.
 *
 * Experts lie in "mlp.experts", "block_sparse_moe.experts" or, as MLX calls it, "switch_mlp" of one
 * of both: one tensor per matrix ("model.layers.L.mlp.experts.E.gate_proj.weight", up_proj,
 * down_proj; w1, w3, w2), stacked ("...gate_up_proj" [E, 2I, H] and "...down_proj" [E, H, I]), or
 * all three stacked apart ("...gate_proj" and "...up_proj" [E, I, H], "...down_proj"), with or
 * without ".weight". */
#ifndef SL_ENGINE_EXPERTS_PLACES_H
#define SL_ENGINE_EXPERTS_PLACES_H
#include "engine/experts/table.h"

/* True for the suffix of a tensor that holds routed experts. */
bool sl_suffix_is_expert(const char *suffix);

/* One matrix of an expert: share `index` of `count` of a tensor of the source. */
typedef struct {
    const sl_tensor_entry *entry;
    sl_type type; /* of the matrix alone */
    uint64_t index, count;
} sl_expert_place;

/* Finds gate, up and down of every expert of a layer, out[config->experts], and checks shapes
 * against the config and that elements are floats, or of a type that the tensor's form makes; the
 * message names the tensor, what was found and what was wanted. */
SL_CHECKED sl_status sl_experts_find(const sl_source *source, const sl_model_config *config,
                                     uint32_t layer, sl_expert_place (*out)[SL_EXPERT_MATRICES],
                                     sl_error *err);
#endif
