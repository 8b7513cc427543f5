/* unused.h - Tensors of a source that a model has not asked for. */
#ifndef SL_ENGINE_MODELS_UNUSED_H
#define SL_ENGINE_MODELS_UNUSED_H
#include "engine/formats/source.h"
#include "engine/models/config.h"

/* To be called when the model has asked for all it needs.  Fails when there are others, which names
 * some of them: the model is not what its config says.  What is known to belong to something else
 * (vision towers, heads for predicting further tokens) only makes a note, in arena; NULL: nothing.
 */
SL_CHECKED sl_status sl_model_check_unused(const sl_source *source, const sl_model_config *config,
                                           sl_arena *arena, const char **out_note, sl_error *err);
#endif
