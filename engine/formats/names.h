/* names.h - Tensor names of checkpoints.
 *
 * Canonical names are Hugging Face's without the wrapper of multimodal models:
 * "model.layers.0.mlp.gate.weight", "lm_head.weight". */
#ifndef SL_ENGINE_FORMATS_NAMES_H
#define SL_ENGINE_FORMATS_NAMES_H
#include "engine/formats/source.h"

/* "layers.0.mlp.gate.weight" or "lm_head.weight": tries every known prefix, and marks the
 * tensor as used.  NULL: absent. */
const sl_tensor_entry *sl_model_tensor(const sl_source *source, const char *suffix);

/* Whether there is such a tensor, even of an unsupported type.  Does not mark it. */
bool sl_model_tensor_known(const sl_source *source, const char *suffix);

/* The error for a tensor that sl_model_tensor does not find; if it exists with an unsupported type,
 * the message says so. */
SL_CHECKED sl_status sl_model_tensor_missing(const sl_source *source, const char *suffix,
                                             sl_error *err);

/* The part of a tensor's name after any known prefix, or NULL for tensors the text model does not
 * use (vision towers, multi-token prediction heads).  Points into name. */
const char *sl_tensor_suffix(const char *name);
#endif
