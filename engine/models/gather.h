/* gather.h - Weights that are gathered from the rows of another tensor. */
#ifndef SL_ENGINE_MODELS_GATHER_H
#define SL_ENGINE_MODELS_GATHER_H
#include "engine/models/weights.h"

/* Sets the dtype of a weight from what it is gathered from; fails if that has the wrong shape. */
SL_CHECKED sl_status sl_weight_gather_type(const sl_weights *weights, sl_weight *weight,
                                           sl_error *err);
/* Sets the weight's data, in the weights' arena; from: the bytes of its entry. */
SL_CHECKED sl_status sl_weight_gather_rows(sl_weights *weights, sl_weight *weight, const void *from,
                                           sl_error *err);
/* The same as floats, without loss: sl_type_elements(&weight->type) of them.  The entry stays
 * loaded. */
SL_CHECKED sl_status sl_weight_gather_floats(const sl_weights *weights, const sl_weight *weight,
                                             float *out, sl_error *err);
/* Bytes that gathering takes beside the weight and what it is gathered from. */
uint64_t sl_weight_gather_bytes(const sl_weight *weight);
#endif
