/* names.h - Tensor names of checkpoints.
 *
 * Canonical names are Hugging Face's without the wrapper of multimodal models:
 * "model.layers.0.mlp.gate.weight", "lm_head.weight".  Experts lie in "mlp.experts",
 * "block_sparse_moe.experts" or, as MLX calls it, "switch_mlp" of one of both: one tensor per
 * matrix ("model.layers.L.mlp.experts.E.gate_proj.weight", up_proj, down_proj; w1, w3, w2), stacked
 * ("...gate_up_proj" [E, 2I, H] and "...down_proj" [E, H, I]), or all three stacked apart
 * ("...gate_proj" and "...up_proj" [E, I, H], "...down_proj"), with or without ".weight". */
#ifndef SL_ENGINE_MODELS_NAMES_H
#define SL_ENGINE_MODELS_NAMES_H
#include "engine/experts/table.h"
#include "engine/models/config.h"

/* "layers.0.mlp.gate.weight" or "lm_head.weight": tries every known prefix, and marks the
 * tensor as used.  NULL: absent. */
const sl_tensor_entry *sl_model_tensor(const sl_source *source, const char *suffix);

/* Fails for a tensor that sl_model_tensor does not find; when it is there in a type that no kernel
 * knows, the message says that. */
SL_CHECKED sl_status sl_model_tensor_missing(const sl_source *source, const char *suffix,
                                             sl_error *err);

/* The part of a tensor's name after any known prefix, or NULL for tensors the text model does not
 * use (vision towers, multi-token prediction heads).  Points into name. */
const char *sl_tensor_suffix(const char *name);

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
