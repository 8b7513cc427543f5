/* custom.h - Sets of custom ops (sluice/experimental.h). */
#ifndef SL_CORE_CUSTOM_H
#define SL_CORE_CUSTOM_H
#include "base/memory.h"
#include "core/type.h"
#include "sluice/experimental.h"

typedef struct sl_custom_entry sl_custom_entry;
struct sl_custom_entry {
    sl_custom_op op;
    sl_custom_entry *next;
};

struct sl_custom_ops {
    sl_arena arena; /* the set itself lives in it */
    sl_custom_entry *first;
};

/* NULL if there is no op of that name; the op lives as long as the set. */
const sl_custom_op *sl_custom_find(const sl_custom_ops *ops, const char *name);
/* A type as callbacks get it. */
sl_tensor_type sl_tensor_type_of(const sl_type *type);
/* The status of a callback; adds a message if the callback left none. */
SL_CHECKED sl_status sl_custom_result(const sl_custom_op *op, const char *what, sl_status status,
                                      sl_error *err);
#endif
