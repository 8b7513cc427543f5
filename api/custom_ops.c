/* custom_ops.c - Sets of custom ops (sluice/experimental.h). */
#include "api/needs.h"
#include "base/structs.h"
#include "core/custom.h"
#include <string.h>

sl_status sl_custom_ops_create(sl_custom_ops **out, sl_error *err) {
    SL_NEED(out);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_custom_ops *ops = SL_ARENA_NEW(&arena, sl_custom_ops);
    if (!ops) return sl_no_memory(err, "a set of ops", sizeof *ops);
    ops->arena = arena;
    *out = ops;
    return SL_OK;
}

void sl_custom_ops_destroy(sl_custom_ops *ops) {
    if (!ops) return;
    sl_arena arena = ops->arena;
    sl_arena_deinit(&arena);
}

sl_status sl_custom_ops_add(sl_custom_ops *ops, const sl_custom_op *op, sl_error *err) {
    SL_NEED(ops && op);
    sl_custom_op known = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_custom_op, &known, op, err));
    if (!known.name || !known.name[0]) return sl_fail(err, SL_INVALID, "a custom op has no name");
    if (!known.shape)
        return sl_fail(err, SL_INVALID, "custom op '%s' has no shape function", known.name);
    if (sl_custom_find(ops, known.name))
        return sl_fail(err, SL_INVALID, "custom op '%s' is already registered", known.name);
    sl_custom_entry *fresh = SL_ARENA_NEW(&ops->arena, sl_custom_entry);
    known.name = sl_arena_copy_text(&ops->arena, known.name, strlen(known.name));
    if (!fresh || !known.name) return sl_no_memory(err, "a custom op", sizeof *fresh);
    *fresh = (sl_custom_entry){known, ops->first};
    ops->first = fresh;
    return SL_OK;
}
