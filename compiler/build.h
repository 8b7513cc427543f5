/* build.h - One typed builder per op:
 *
 *   sl_value y = sl_build_rms_norm(g, (sl_rms_norm_in){.x = x, .gain = w},
 *                                  (sl_rms_norm_attrs){.eps = 1e-6f}).out;
 *
 * Ops with lists of operands or results are appended with sl_graph_append_list. */
#ifndef SL_COMPILER_BUILD_H
#define SL_COMPILER_BUILD_H
#include "compiler/graph.h"

#define OP(NAME, ...)                                                                              \
    static inline sl_##NAME##_out sl_build_##NAME(sl_graph *graph, sl_##NAME##_in in,              \
                                                  sl_##NAME##_attrs attrs) {                       \
        sl_##NAME##_out out;                                                                       \
        sl_value ins[sizeof in / sizeof(sl_value)], outs[sizeof out / sizeof(sl_value)];           \
        __builtin_memcpy(ins, &in, sizeof in);                                                     \
        sl_graph_append(graph, SL_OP_##NAME, ins, &attrs, outs);                                   \
        __builtin_memcpy(&out, outs, sizeof out);                                                  \
        return out;                                                                                \
    }
#include "core/ops.def"

/* Splits x into equal parts along its last axis, at most SL_MAX_OUTPUTS. */
static inline void sl_build_even_split(sl_graph *graph, sl_value x, sl_value_slots parts) {
    const sl_value_info *info = sl_graph_value(graph, x);
    const sl_dims *shape = info ? &info->type.shape : &(sl_dims){0};
    int64_t sizes[SL_MAX_OUTPUTS];
    for (uint32_t i = 0; i < parts.count; i++)
        sizes[i] = shape->rank ? shape->dims[shape->rank - 1] / parts.count : 0;
    const sl_split_attrs attrs = {.axis = -1, .sizes = {parts.count, sizes}};
    sl_graph_append_list(graph, SL_OP_split, (sl_values){1, &x}, &attrs, parts);
}

/* Concatenates two values along axis. */
static inline sl_value sl_build_join(sl_graph *graph, sl_value first, sl_value second,
                                     int64_t axis) {
    const sl_value parts[2] = {first, second};
    const sl_concat_attrs attrs = {.axis = axis};
    sl_value out;
    sl_graph_append_list(graph, SL_OP_concat, (sl_values){2, parts}, &attrs,
                         (sl_value_slots){1, &out});
    return out;
}
#endif
