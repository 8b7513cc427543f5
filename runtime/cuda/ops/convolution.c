/* convolution.c - im2col, transposed and causal convolutions of any plain type. */
#include "core/window.h"
#include "runtime/cuda/kernels/windows.h"
#include "runtime/cuda/ops/strides.h"

#define BIAS_OF(ARGS)   (SL_LIST_COUNT((ARGS)->bias) ? (ARGS)->bias.items[0].data : NULL)
#define GROUPS_OF(ARGS) ((ARGS)->attrs.groups ? (ARGS)->attrs.groups : 1)

PLAN(im2col) {
    const sl_im2col_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    const sl_columns c = {.x = a->x.data,
                          .out = a->out.data,
                          .count = sl_type_elements(&a->out.type),
                          .channels = dim(&a->x.type, 1),
                          .type = number_of(&a->x.type),
                          .w = sl_window_over(&lists, a->attrs.kernel.items, &a->x.type)};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_im2col), c.count, c);
    return SL_OK;
}

/* The window slides over the result. */
static sl_status plan_transposed(sl_gpu_planner *planner, const sl_cview *x, const sl_cview *weight,
                                 const sl_view *out, sl_transposed *t) {
    t->x = x->data;
    t->weight = weight->data;
    t->out = out->data;
    t->count = sl_type_elements(&out->type);
    t->results = dim(&weight->type, 1);
    t->sources = dim(&x->type, 1) / t->groups;
    t->type = number_of(&out->type);
    ADD_PLAIN(planner, SL_CUDA_FN(sl_conv_transposed), t->count, *t);
    return SL_OK;
}
PLAN(conv_transpose) {
    const sl_conv_transpose_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    sl_transposed t = {
        .bias = BIAS_OF(a),
        .groups = GROUPS_OF(a),
        .w = sl_window_of(&lists, a->w.type.shape.dims + 2, &a->out.type, &a->x.type)};
    return plan_transposed(planner, &a->x, &a->w, &a->out, &t);
}
PLAN(conv_backward_input) {
    const sl_conv_backward_input_args *a = args;
    const sl_window_lists lists = SL_WINDOW_LISTS(&a->attrs);
    sl_transposed t = {
        .groups = GROUPS_OF(a),
        .w = sl_window_of(&lists, a->w.type.shape.dims + 2, &a->dx.type, &a->dy.type)};
    return plan_transposed(planner, &a->dy, &a->w, &a->dx, &t);
}

PLAN(causal_conv1d) {
    const sl_causal_conv1d_args *a = args;
    const sl_causal c = {.x = a->x.data,
                         .weight = a->w.data,
                         .bias = BIAS_OF(a),
                         .out = a->out.data,
                         .count = sl_type_elements(&a->out.type),
                         .channels = dim(&a->x.type, 1),
                         .length = dim(&a->x.type, 2),
                         .taps = dim(&a->w.type, 1),
                         .dilation = a->attrs.dilation ? a->attrs.dilation : 1,
                         .type = number_of(&a->x.type)};
    ADD_PLAIN(planner, SL_CUDA_FN(sl_conv_causal), c.count, c);
    return SL_OK;
}
