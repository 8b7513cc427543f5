/* quantise.h - From floats to panel types, with scales that minimise the error. */
#ifndef SL_ENGINE_QUANT_QUANTISE_H
#define SL_ENGINE_QUANT_QUANTISE_H
#include "base/memory.h"
#include "core/codec.h"

/* Codes a rows x cols matrix (rows of cols floats) as q4, q6_k or q8 into out
 * (sl_panel_layout_of(...).matrix_bytes).  Deterministic. */
SL_CHECKED sl_status sl_quantise(sl_dtype dtype, const float *matrix, int64_t rows, int64_t cols,
                                 void *out, sl_error *err);

/* The implementation for one type; out must be zeroed. */
typedef void sl_quantise_fn(const float *matrix, const int64_t dims[2], uint8_t *out);
sl_quantise_fn sl_quantise_q6;
#endif
