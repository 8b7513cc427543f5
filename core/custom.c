#include "core/custom.h"
#include "base/memory.h"
#include <string.h>

typedef struct entry entry;
struct entry {
    sl_custom_op op;
    entry *next;
};

struct sl_custom_ops {
    sl_arena arena; /* the set itself lives in it */
    entry *first;
};

sl_status sl_custom_ops_new(sl_custom_ops **out, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_custom_ops *ops = SL_ARENA_NEW(&arena, sl_custom_ops);
    if (!ops) return sl_no_memory(err, "a set of ops", sizeof *ops);
    ops->arena = arena;
    *out = ops;
    return SL_OK;
}

void sl_custom_ops_free(sl_custom_ops *ops) {
    if (!ops) return;
    sl_arena arena = ops->arena;
    sl_arena_deinit(&arena);
}

const sl_custom_op *sl_custom_find(const sl_custom_ops *ops, const char *name) {
    for (const entry *e = ops->first; e; e = e->next)
        if (strcmp(e->op.name, name) == 0) return &e->op;
    return NULL;
}

sl_status sl_custom_ops_add(sl_custom_ops *ops, const sl_custom_op *op, sl_error *err) {
    sl_custom_op known = {0};
    const size_t bytes = op->struct_size < sizeof known ? op->struct_size : sizeof known;
    if (bytes < offsetof(sl_custom_op, eval))
        return sl_fail(err, SL_INVALID, "a custom op: struct_size is %zu, must be %zu",
                       op->struct_size, sizeof *op);
    memcpy(&known, op, bytes);
    if (!known.name || !known.name[0]) return sl_fail(err, SL_INVALID, "a custom op has no name");
    if (!known.shape)
        return sl_fail(err, SL_INVALID, "custom op '%s' has no shape function", known.name);
    if (sl_custom_find(ops, known.name))
        return sl_fail(err, SL_INVALID, "custom op '%s' is already registered", known.name);
    entry *fresh = SL_ARENA_NEW(&ops->arena, entry);
    known.name = sl_arena_copy_text(&ops->arena, known.name, strlen(known.name));
    if (!fresh || !known.name) return sl_no_memory(err, "a custom op", sizeof *fresh);
    *fresh = (entry){known, ops->first};
    ops->first = fresh;
    return SL_OK;
}

sl_tensor_type sl_tensor_type_of(const sl_type *type) {
    sl_tensor_type seen = {.dtype = sl_dtype_infos[type->dtype].name, .rank = type->shape.rank};
    memcpy(seen.dims, type->shape.dims, sizeof seen.dims);
    return seen;
}

sl_status sl_custom_result(const sl_custom_op *op, const char *what, sl_status status,
                           sl_error *err) {
    if (status == SL_OK || (err && err->message[0])) {
        if (err && status != SL_OK) err->status = status;
        return status;
    }
    return sl_fail(err, status, "custom op '%s': its %s failed: %s", op->name, what,
                   sl_status_text(status));
}
