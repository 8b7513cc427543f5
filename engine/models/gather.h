/* gather.h - Weights that are gathered from the rows of another tensor. */
#ifndef SL_ENGINE_MODELS_GATHER_H
#define SL_ENGINE_MODELS_GATHER_H
#include "engine/models/weights.h"

/* Fills in out's type and data, which is in weights' arena. */
SL_CHECKED sl_status sl_weight_gather_rows(sl_weights *weights, const sl_weight_request *request,
                                           const sl_tensor_entry *from, sl_weight *out,
                                           sl_error *err);
/* The same as floats, without loss: sl_type_elements(&weight->type) of them.  The weight has been
 * found (sl_weights_get) and is gathered. */
SL_CHECKED sl_status sl_weight_gather_floats(const sl_weights *weights, const sl_weight *weight,
                                             float *out, sl_error *err);
#endif
