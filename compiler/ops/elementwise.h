/* elementwise.h - Shared by the files of elementwise ops: classes of element types, broadcasting of
 * any number of operands, and integers that wrap. */
#ifndef SL_COMPILER_OPS_ELEMENTWISE_H
#define SL_COMPILER_OPS_ELEMENTWISE_H
#include "compiler/ops/check.h"

enum {
    SL_FLOATS = 1,
    SL_INTS = 2,
    SL_NUMBERS = SL_FLOATS | SL_INTS,
    SL_BOOLS = 4,
    SL_COMPLEXES = 8,
    SL_PLAIN = SL_NUMBERS | SL_BOOLS | SL_COMPLEXES
};

/* Fails unless the input is a tensor, possibly empty, of one of the classes. */
SL_CHECKED sl_status sl_elementwise_class(const sl_infer_args *a, uint32_t input, const char *name,
                                          unsigned classes, sl_error *err);
/* Fails unless both inputs have the same element type. */
SL_CHECKED sl_status sl_elementwise_alike(const sl_infer_args *a, uint32_t first, uint32_t second,
                                          const char *const *names, sl_error *err);
/* The broadcast shape of the first `count` inputs. */
SL_CHECKED sl_status sl_elementwise_broadcast(const sl_infer_args *a, uint32_t count, sl_dims *out,
                                              sl_error *err);
#endif
