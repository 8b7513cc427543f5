/* rope.c - Tables of RoPE angles, RoPE of a head, and RoPE after a norm. */
#include "core/rope.h"
#include "runtime/cpu/kernels/norm_rms.h"
#include "runtime/cpu/kernels/rope.h"

/* ---- rope_table: an item is a row ---- */

SPLIT(rope_table) {
    const sl_rope_table_args *a = args;
    return (sl_split){dim(&a->positions.type, 0), grain_of(a->attrs.rotary * (int64_t)64),
                      a->attrs.rotary / 2 * sizeof(double)};
}
RUN(rope_table) {
    const sl_rope_table_args *a = args;
    const sl_rope_form form = sl_rope_form_of(&a->attrs);
    const int64_t half = form.rotary / 2;
    double *frequencies = worker->scratch;
    for (int64_t j = 0; j < half; j++) frequencies[j] = sl_rope_frequency(&form, j);
    for (int64_t t = begin; t < end; t++) {
        const int32_t position = ((const int32_t *)a->positions.data)[t];
        float *cosines = (float *)a->cos.data + t * half, *sines = (float *)a->sin.data + t * half;
        SL_TRY(check_index(position, INT32_MAX, "rope_table: position", t, worker->err));
        for (int64_t j = 0; j < half; j++) {
            cosines[j] = (float)(form.magnitude * cos((double)position * frequencies[j]));
            sines[j] = (float)(form.magnitude * sin((double)position * frequencies[j]));
        }
    }
    return SL_OK;
}

/* ---- one head ---- */

/* Pairs (j, j + half). */
INLINE void rotate_halves(const head_turn *turn, int64_t at, const float *x, float *out) {
    const float *cosines = turn->cosines + at, *sines = turn->sines + at;
    const int64_t half = turn->rotary / 2;
    FOR_VECTORS(j, n, half, {
        const vf first = vload_n(x + j, n), second = vload_n(x + j + half, n);
        const vf cosine = vload_n(cosines + j, n), sine = vload_n(sines + j, n);
        vstore_n(out + j, first * cosine - second * sine, n);
        vstore_n(out + j + half, second * cosine + first * sine, n);
    });
}
/* Pairs (2j, 2j + 1). */
INLINE void rotate_neighbours(const head_turn *turn, int64_t at, const float *x, float *out) {
    const float *cosines = turn->cosines + at, *sines = turn->sines + at;
    for (int64_t j = 0; j < turn->rotary / 2; j++) {
        const float first = x[2 * j], second = x[2 * j + 1];
        out[2 * j] = first * cosines[j] - second * sines[j];
        out[2 * j + 1] = second * cosines[j] + first * sines[j];
    }
}

void rope_head(const head_turn *turn, int64_t at, const float *x, float *out) {
    if (turn->interleaved)
        rotate_neighbours(turn, at, x, out);
    else
        rotate_halves(turn, at, x, out);
    memcpy(out + turn->rotary, x + turn->rotary,
           (size_t)(turn->width - turn->rotary) * sizeof *out);
}

/* ---- norm and rope: an item is a row ---- */

SPLIT(norm_rope) {
    const sl_norm_rope_args *a = args;
    return (sl_split){dim(&a->x.type, 0), grain_of(2 * sl_dims_tail(&a->x.type.shape, 1)),
                      (size_t)dim(&a->x.type, 2) * sizeof(float)};
}
RUN(norm_rope) {
    const sl_norm_rope_args *a = args;
    const int64_t heads = dim(&a->x.type, 1), width = dim(&a->x.type, 2);
    const head_turn turn =
        head_turn_of(&a->cos, &a->sin, width, a->attrs.rotary, a->attrs.interleaved);
    const rms_norm norm = {a->gain.data, width, a->attrs.eps, a->attrs.offset};
    float *normed = worker->scratch; /* rounded here before it is rotated */
    for (int64_t i = begin * heads; i < end * heads; i++) {
        rms_norm_row(&norm, (const float *)a->x.data + i * width, normed);
        rope_head(&turn, i / heads * turn.columns, normed, (float *)a->out.data + i * width);
    }
    return SL_OK;
}
