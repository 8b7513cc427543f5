/* recurrence.c - Linear recurrences with explicit state. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/reals.h"

enum { CHANNELS = 16 };

/* Channels [first, first + n) of a batch entry; `size` state elements each. */
typedef struct {
    int64_t batch, first, n, size;
} block;

typedef struct {
    int64_t steps, key_dim, value_dim;
    double scale;
} delta_shape;

#define REAL     float
#define NAMED(x) x##_f32
#include "runtime/cpu/kernels/recurrence_step.h"
#undef REAL
#undef NAMED
#define REAL     double
#define NAMED(x) x##_f64
#include "runtime/cpu/kernels/recurrence_step.h" /* NOLINT: once per REAL */

static size_t real_bytes(sl_dtype dtype) {
    return dtype == SL_DTYPE_f64 ? sizeof(double) : sizeof(float);
}

/* ---- selective_scan: an item is CHANNELS channels of a batch entry ---- */

SPLIT(selective_scan) {
    const sl_selective_scan_args *a = args;
    const int64_t size = dim(&a->a.type, 1), blocks = parts_of(dim(&a->x.type, 2), CHANNELS);
    const int64_t numbers = 2 * CHANNELS * size + 3 * CHANNELS + 3 * size;
    return (sl_split){dim(&a->x.type, 0) * blocks,
                      grain_of(dim(&a->x.type, 1) * CHANNELS * (size + 8)),
                      (size_t)numbers * real_bytes(a->x.type.dtype)};
}
RUN(selective_scan) {
    const sl_selective_scan_args *a = args;
    const int64_t width = dim(&a->x.type, 2), blocks = parts_of(width, CHANNELS);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % blocks * CHANNELS;
        const block k = {item / blocks, first, least(CHANNELS, width - first), dim(&a->a.type, 1)};
        if (a->x.type.dtype == SL_DTYPE_f64)
            run_scan_f64(a, &k, worker->scratch);
        else
            run_scan_f32(a, &k, worker->scratch);
    }
    return SL_OK;
}

/* ---- gated_delta_net: an item is a head of a batch entry ---- */

SPLIT(gated_delta_net) {
    const sl_gated_delta_net_args *a = args;
    const int64_t size = last_dim(&a->q.type), width = last_dim(&a->v.type);
    const int64_t numbers = size * width + 2 * size + 3 * width;
    return (sl_split){dim(&a->v.type, 0) * dim(&a->v.type, 2),
                      grain_of(dim(&a->v.type, 1) * size * width / 2),
                      (size_t)numbers * real_bytes(a->q.type.dtype)};
}
RUN(gated_delta_net) {
    const sl_gated_delta_net_args *a = args;
    const int64_t size = last_dim(&a->q.type);
    const delta_shape s = {dim(&a->v.type, 1), size, last_dim(&a->v.type),
                           a->attrs.scale != 0 ? (double)a->attrs.scale : 1 / sqrt((double)size)};
    for (int64_t item = begin; item < end; item++)
        if (a->q.type.dtype == SL_DTYPE_f64)
            run_delta_f64(a, &s, item, worker->scratch);
        else
            run_delta_f32(a, &s, item, worker->scratch);
    return SL_OK;
}
