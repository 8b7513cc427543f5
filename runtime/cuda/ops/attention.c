/* attention.c - Attention without a cache. */
#include "runtime/cuda/kernels/attention.h"
#include "core/attention.h"
#include "runtime/cuda/ops/ops.h"

/* In the order of SL_ATTENTION_FORMS; tall tiles, of 64 rows, are for floats that are computed in
 * f32. */
enum { SHORT_ROWS = 16, TALL_ROWS = 64, TALL_FORMS = 4 };

static int form_of(sl_dtype dtype) {
    return dtype == SL_DTYPE_f16 ? 1 : dtype == SL_DTYPE_bf16 ? 2 : dtype == SL_DTYPE_f64 ? 3 : 0;
}

static int32_t mask_kind_of(uint32_t mask) {
    switch (mask) {
    case SL_MASK_CUSTOM:
        return SL_ATTENDED_SHOWN;
    case SL_MASK_BIAS:
        return SL_ATTENDED_BIASED;
    default:
        return mask == SL_MASK_NONE ? SL_ATTENDED_ALL : SL_ATTENDED_BACK;
    }
}

static sl_attended attended(const sl_attention_args *a) {
    const sl_attention_form form = SL_ATTENTION_FORM(&a->attrs, dim(&a->q.type, 3));
    const int64_t kv_heads = dim(&a->k.type, 1), group = dim(&a->q.type, 1) / kv_heads;
    sl_attended launch = {.q = a->q.data,
                          .k = a->k.data,
                          .v = a->v.data,
                          .out = a->out.data,
                          .queries = dim(&a->q.type, 2),
                          .rows = group * dim(&a->q.type, 2),
                          .keys = dim(&a->k.type, 2),
                          .key_dim = dim(&a->q.type, 3),
                          .value_dim = dim(&a->v.type, 3),
                          .window = form.mask == SL_MASK_SLIDING ? form.window : INT64_MAX,
                          .kv_heads = kv_heads,
                          .mask_kind = mask_kind_of(form.mask),
                          .scale = form.scale,
                          .softcap = form.softcap};
    if (form.mask == SL_MASK_CUSTOM || form.mask == SL_MASK_BIAS) {
        const sl_strides strides = sl_strides_of(&a->extra.items[0].type.shape);
        launch.mask = a->extra.items[0].data;
        for (int i = 0; i < 4; i++) launch.mask_by[i] = strides.by[i];
    }
    if (a->attrs.sinks) launch.sinks = a->extra.items[SL_LIST_COUNT(a->extra) - 1].data;
    return launch;
}

/* Tall tiles read keys and values less often, if there are enough of them to fill the device. */
PLAN(attention) {
    const sl_attention_args *a = args;
    const sl_dtype dtype = a->q.type.dtype;
    sl_attended launch = attended(a);
    const int64_t heads = dim(&a->q.type, 0) * launch.kv_heads;
    const int64_t element_bytes = dtype == SL_DTYPE_f64 ? sizeof(double) : sizeof(float);
    const bool tall =
        dtype != SL_DTYPE_f64 &&
        heads * parts_of(launch.rows, TALL_ROWS) >= 2 * (int64_t)planner->multiprocessors &&
        sl_attention_bytes(element_bytes, TALL_ROWS, launch.value_dim) <= planner->shared_limit;
    const int64_t rows = tall ? TALL_ROWS : SHORT_ROWS;
    const int64_t bytes = sl_attention_bytes(element_bytes, rows, launch.value_dim);
    if (bytes > planner->shared_limit)
        return sl_fail(err, SL_UNSUPPORTED, "%s: values of %lld elements are too long",
                       planner->label, (long long)launch.value_dim);
    launch.tiles = parts_of(launch.rows, rows);
    const int place = form_of(dtype) + (tall ? TALL_FORMS : 0);
    SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_attention), place), heads * launch.tiles,
                SL_ATTENTION_THREADS, launch)
        ->shared_bytes = (uint32_t)bytes;
    return SL_OK;
}
