/* matmul_dequant.c - Products with low-bit weights (core/schemes.h). */
#include "runtime/cuda/kernels/matmul_dequant.h"
#include "core/schemes.h"
#include "runtime/cuda/ops/strides.h"

static sl_packed_weights weights_of(const char *text, const void *w, int64_t inner, int64_t cols) {
    sl_scheme scheme;
    (void)sl_scheme_find(text, &scheme);
    sl_packed_weights p = {.w = w, .inner = inner, .cols = cols, .kind = (int32_t)scheme.kind};
    p.two_params = scheme.params == 2;
    p.bits = (int32_t)scheme.bits;
    if (scheme.kind == SL_SCHEME_NVFP4) p.block = SL_NVFP4_BLOCK;
    if (!scheme.gguf) return p;
    p.gguf = (int32_t)(scheme.gguf - sl_gguf_layouts);
    p.block = scheme.gguf->cols;
    p.block_bytes = (int32_t)scheme.gguf->bytes;
    p.row_bytes = inner / p.block * p.block_bytes;
    return p;
}

static void add_product(sl_gpu_planner *planner, const sl_packed_weights *weights,
                        const sl_cview *x, const sl_view *out, sl_packed_product launch) {
    launch.weights = *weights;
    launch.x = x->data;
    launch.out = out->data;
    launch.type = number_of(&out->type);
    launch.count = sl_type_elements(&out->type);
    ADD_EACH(planner, SL_CUDA_FN(sl_multiply_packed), launch.count, SL_DEQUANT_THREADS, launch);
}

sl_gpu_plan_fn sl_cuda_plan_matmul; /* matmul.c */
/* Dequantises the weights to scratch, then uses the f32 matmul. */
static sl_status plan_floats(sl_gpu_planner *planner, const sl_dequant_matmul_args *a,
                             const sl_packed_weights *w, sl_error *err) {
    const int64_t count = w->inner * w->cols, rows = rows_of(&a->x.type);
    float *unpacked = sl_gpu_scratch(planner, (uint64_t)count * sizeof *unpacked);
    const sl_unpacked launch = {.weights = *w, .out = unpacked, .count = count};
    ADD_EACH(planner, SL_CUDA_FN(sl_unpack), launch.count, SL_DEQUANT_THREADS, launch);
    const sl_matmul_args product = {
        .a = {a->x.data, sl_type_make(SL_DTYPE_f32, 2, rows, w->inner)},
        .b = {unpacked, sl_type_make(SL_DTYPE_f32, 2, w->inner, w->cols)},
        .out = {a->out.data, sl_type_make(SL_DTYPE_f32, 2, rows, w->cols)}};
    return sl_cuda_plan_matmul(&product, planner, err);
}

PLAN(dequant_matmul) {
    const sl_dequant_matmul_args *a = args;
    sl_packed_weights w =
        weights_of(a->attrs.scheme, a->w.data, last_dim(&a->x.type), last_dim(&a->out.type));
    if (a->attrs.block) w.block = a->attrs.block;
    w.w_signed = a->w.type.dtype == SL_DTYPE_i8;
    for (uint32_t i = 0; i < SL_LIST_COUNT(a->params); i++) w.params[i] = a->params.items[i].data;
    if (SL_LIST_COUNT(a->params)) w.one_scale = sl_type_elements(&a->params.items[0].type) == 1;
    if (a->x.type.dtype == SL_DTYPE_f32) return plan_floats(planner, a, &w, err);
    add_product(planner, &w, &a->x, &a->out, (sl_packed_product){0});
    return SL_OK;
}

PLAN(dequant_grouped_matmul) {
    const sl_dequant_grouped_matmul_args *a = args;
    const sl_packed_weights w =
        weights_of(a->attrs.scheme, a->w.data, last_dim(&a->x.type), last_dim(&a->out.type));
    add_product(planner, &w, &a->x, &a->out,
                (sl_packed_product){.experts = indices_of(planner, &a->experts),
                                    .expert_count = dim(&a->w.type, 0)});
    return SL_OK;
}

PLAN(dequant_moe_weights) {
    const sl_dequant_moe_weights_args *a = args;
    const sl_unpacked launch = {.weights = weights_of(a->attrs.scheme, a->w.data,
                                                      dim(&a->out.type, 1), dim(&a->out.type, 2)),
                                .out = a->out.data,
                                .count = sl_type_elements(&a->out.type)};
    ADD_EACH(planner, SL_CUDA_FN(sl_unpack), launch.count, SL_DEQUANT_THREADS, launch);
    return SL_OK;
}
