#include "core/custom.h"
#include <string.h>

const sl_custom_op *sl_custom_find(const sl_custom_ops *ops, const char *name) {
    for (const sl_custom_entry *e = ops->first; e; e = e->next)
        if (strcmp(e->op.name, name) == 0) return &e->op;
    return NULL;
}

sl_tensor_type sl_tensor_type_of(const sl_type *type) {
    sl_tensor_type seen = {.dtype = sl_dtype_infos[type->dtype].name, .rank = type->shape.rank};
    memcpy(seen.dims, type->shape.dims, sizeof seen.dims);
    return seen;
}

sl_status sl_custom_result(const sl_custom_op *op, const char *what, sl_status status,
                           sl_error *err) {
    if (err) err->message[sizeof err->message - 1] = '\0'; /* a callback may have filled it all */
    if (status == SL_OK || (err && err->message[0])) {
        if (err && status != SL_OK) err->status = status;
        return status;
    }
    return sl_fail(err, status, "custom op '%s': its %s failed: %s", op->name, what,
                   sl_status_text(status));
}
