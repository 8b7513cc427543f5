/* unused.h - Tensors of a source that the model does not use. */
#ifndef SL_ENGINE_MODELS_UNUSED_H
#define SL_ENGINE_MODELS_UNUSED_H
#include "engine/config/config.h"
#include "engine/formats/source.h"

/* Call this after the model has looked up all its tensors.  Fails if others are left and names some
 * of them: the model does not match its config.  Tensors that are known to belong to something else
 * (vision encoders, multi-token prediction heads) only cause a note, in arena; NULL: none.
 */
SL_CHECKED sl_status sl_model_check_unused(const sl_source *source, const sl_model_config *config,
                                           sl_arena *arena, const char **out_note, sl_error *err);
#endif
