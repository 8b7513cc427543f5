/* custom.h - Sets of ops that others define (sluice/graph.h). */
#ifndef SL_CORE_CUSTOM_H
#define SL_CORE_CUSTOM_H
#include "core/type.h"
#include "sluice/graph.h"

/* NULL when none has that name; it lives as long as the set. */
const sl_custom_op *sl_custom_find(const sl_custom_ops *ops, const char *name);
/* What callbacks see of a type. */
sl_tensor_type sl_tensor_type_of(const sl_type *type);
/* The status of a callback, with a message even where it left none. */
SL_CHECKED sl_status sl_custom_result(const sl_custom_op *op, const char *what, sl_status status,
                                      sl_error *err);
#endif
