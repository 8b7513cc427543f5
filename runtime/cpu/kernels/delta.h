/* delta.h - The operands of the delta net's recurrence, and one step of it. */
#ifndef SL_RUNTIME_CPU_DELTA_H
#define SL_RUNTIME_CPU_DELTA_H
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

/* Checks the slot and position of every row before any state is changed. */
SL_CHECKED static inline sl_status check_rows(const sl_cview *slots, const sl_cview *positions,
                                              const sl_type *state, sl_error *err) {
    const int32_t *slot = slots->data, *position = positions->data;
    for (int64_t t = 0; t < dim(&slots->type, 0); t++) {
        SL_TRY(check_index(slot[t], dim(state, 0), "delta net: slot", t, err));
        SL_TRY(check_index(position[t], INT32_MAX, "delta net: position", t, err));
    }
    return SL_OK;
}

/* Operands of delta_step and delta_chunk for one head.  Rows of q and k are key_stride apart, rows
 * of v and out value_stride. */
typedef struct {
    const float *q, *k, *v, *decay, *beta;
    const int32_t *slots, *positions;
    float *memory, *out;
    int64_t rows, heads, dk, dv, key_stride, value_stride;
} delta;

/* The operands of head h; decay and beta have stride `heads`, memory is indexed by slot. */
static inline delta delta_head(const sl_delta_step_args *a, int64_t h) {
    const int64_t key_heads = dim(&a->k.type, 1), heads = dim(&a->v.type, 1);
    const int64_t dk = dim(&a->k.type, 2), dv = dim(&a->v.type, 2);
    const int64_t key = (a->attrs.tiled ? h % key_heads : h / (heads / key_heads)) * dk;
    return (delta){
        .q = (const float *)a->q.data + key,
        .k = (const float *)a->k.data + key,
        .v = (const float *)a->v.data + h * dv,
        .decay = (const float *)a->decay.data + h,
        .beta = (const float *)a->beta.data + h,
        .slots = a->slots.data,
        .positions = a->positions.data,
        .memory = (float *)a->memory.data + h * dk * dv,
        .out = (float *)a->out.data + h * dv,
        .rows = dim(&a->v.type, 0),
        .heads = heads,
        .dk = dk,
        .dv = dv,
        .key_stride = key_heads * dk,
        .value_stride = heads * dv,
    };
}

/* The state matrix of row t's slot, zeroed at the start of a sequence. */
static inline float *memory_of(const delta *d, int64_t t) {
    float *memory = d->memory + d->slots[t] * d->heads * d->dk * d->dv;
    if (d->positions[t] == 0) memset(memory, 0, (size_t)(d->dk * d->dv) * sizeof *memory);
    return memory;
}

/* One step: change = beta (v - keep M^T k); M = keep M + k change^T; out = M^T q. */
typedef struct {
    const float *q, *k, *v;
    float *out;
    float keep, beta;
    int64_t dk, dv;
} delta_row;

enum { DELTA_VECTORS = 8 }; /* column vectors whose accumulators fit in registers */

/* Prefetches half of a row of `vectors` vectors: the first half for even r, the second for odd r.
 * The address may be invalid. */
INLINE void prefetch_row(uintptr_t row, int64_t r, const int vectors) {
    const int line = 64, lines = vectors * (int)sizeof(vf) / line / 2;
    for (int i = 0; i < lines; i++)
        __builtin_prefetch((const void *)(row + (uintptr_t)((r % 2 * lines + i) * line)), 0, 2);
}

/* A step for `vectors` (a constant) vectors of columns, the last with n lanes.  A first pass over
 * the state computes M^T k; a second, which finds it in a cache, updates the state and computes the
 * output.  The state that is needed next, at `ahead`, is prefetched meanwhile. */
INLINE void delta_columns(const delta_row *row, float *memory, uintptr_t ahead, const int vectors,
                          int64_t n) {
    vf sums[DELTA_VECTORS], change[DELTA_VECTORS];
    const vf keep = vsplat(row->keep);
    for (int i = 0; i < vectors; i++) sums[i] = vzero();
    for (int64_t r = 0; r < row->dk; r++) {
        const vf key = vsplat(row->k[r]);
        prefetch_row(ahead + (uintptr_t)(r / 2 * row->dv) * sizeof(float), r, vectors);
        for (int i = 0; i < vectors; i++) {
            const float *m = memory + r * row->dv + i * LANES;
            sums[i] = vfma(key, vload_n(m, i + 1 < vectors ? LANES : n), sums[i]);
        }
    }
    for (int i = 0; i < vectors; i++) {
        const vf v = vload_n(row->v + i * LANES, i + 1 < vectors ? LANES : n);
        change[i] = vsplat(row->beta) * (v - keep * sums[i]);
        sums[i] = vzero();
    }
    for (int64_t r = 0; r < row->dk; r++) {
        const vf key = vsplat(row->k[r]), query = vsplat(row->q[r]);
        prefetch_row(ahead + (uintptr_t)((row->dk + r) / 2 * row->dv) * sizeof(float), r, vectors);
        for (int i = 0; i < vectors; i++) {
            const int64_t lanes = i + 1 < vectors ? LANES : n;
            float *m = memory + r * row->dv + i * LANES;
            const vf now = vfma(key, change[i], vload_n(m, lanes) * keep);
            vstore_n(m, now, lanes);
            sums[i] = vfma(query, now, sums[i]);
        }
    }
    for (int i = 0; i < vectors; i++)
        vstore_n(row->out + i * LANES, sums[i], i + 1 < vectors ? LANES : n);
}

/* Address of the state that is needed after row t's: the next row's, or the next head's. */
static inline uintptr_t memory_after(const delta *d, int64_t t) {
    const bool more = t + 1 < d->rows;
    const int64_t slot = d->slots[more ? t + 1 : 0] * d->heads + !more;
    return (uintptr_t)d->memory + (uintptr_t)(slot * d->dk * d->dv) * sizeof(float);
}

/* The step of row t for one head. */
static inline void delta_one(const delta *d, int64_t t) {
    float *memory = memory_of(d, t);
    const uintptr_t ahead = memory_after(d, t);
    delta_row row = {
        .q = d->q + t * d->key_stride,
        .k = d->k + t * d->key_stride,
        .v = d->v + t * d->value_stride,
        .out = d->out + t * d->value_stride,
        .keep = expf(d->decay[t * d->heads]),
        .beta = d->beta[t * d->heads],
        .dk = d->dk,
        .dv = d->dv,
    };
    const int64_t block = DELTA_VECTORS * LANES;
    int64_t c = 0;
    for (; c + block <= d->dv; c += block, row.v += block, row.out += block)
        delta_columns(&row, memory + c, ahead + (uintptr_t)c * sizeof(float), DELTA_VECTORS, LANES);
    for (; c < d->dv; c += LANES, row.v += LANES, row.out += LANES)
        delta_columns(&row, memory + c, ahead + (uintptr_t)c * sizeof(float), 1,
                      least(LANES, d->dv - c));
}
#endif
