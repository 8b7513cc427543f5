#include "runtime/arguments.h"
#include <string.h>

/* How many views an args struct holds before its attributes; a list is one. */
typedef struct {
    uint32_t inputs, outs; /* with a name */
    uint32_t count;
} layout;

static layout layout_of(const sl_op_info *info) {
    layout l = {.inputs = info->input_count};
    for (uint32_t o = 0; o < info->output_count; o++) l.outs += info->output_state[o] < 0;
    l.count = l.inputs + l.outs + (info->list_name != NULL) + (info->outs_name != NULL);
    return l;
}

sl_view *sl_argument(const sl_step *step, void *args, uint32_t operand) {
    const sl_op_info *info = sl_op_info_of(step->op);
    const layout l = layout_of(info);
    sl_view *views = args;
    const uint32_t first_out = l.inputs + (info->list_name != NULL);
    if (operand < l.inputs) return &views[operand];
    if (operand < step->input_count) return (sl_view *)views[l.inputs].data + (operand - l.inputs);
    const uint32_t out = operand - step->input_count;
    if (out < l.outs) return &views[first_out + out];
    return (sl_view *)views[first_out + l.outs].data + (out - l.outs);
}

static bool make_list(sl_view *view, uint32_t count, sl_arena *arena) {
    view->data = SL_ARENA_NEW_ARRAY(arena, sl_view, (size_t)count + 1);
    view->type.shape = (sl_dims){.rank = 1, .dims = {count}};
    return view->data != NULL;
}

void *sl_arguments_create(const sl_step *step, sl_arena *arena) {
    const sl_op_info *info = sl_op_info_of(step->op);
    const layout l = layout_of(info);
    sl_view *views = sl_arena_alloc(arena, info->args_bytes, 64);
    if (!views) return NULL;
    if (info->list_name && !make_list(&views[l.inputs], step->input_count - l.inputs, arena))
        return NULL;
    if (info->outs_name &&
        !make_list(&views[l.count - 1], step->operand_count - step->input_count - l.outs, arena))
        return NULL;
    for (uint32_t i = 0; i < step->operand_count; i++)
        sl_argument(step, views, i)->type = step->operands[i].type;
    memcpy(views + l.count, step->attrs, info->attrs_bytes);
    return views;
}
