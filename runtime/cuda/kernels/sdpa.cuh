/* sdpa.cuh - Common parts of the attention kernels: row addresses in the cache, and the positions
 * of a split. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_CUH
#define SL_RUNTIME_CUDA_KERNELS_SDPA_CUH
#include "runtime/cuda/kernels/sdpa.h"
#include "runtime/cuda/kernels/sdpa_place.cuh"

/* An element of an f16 cache. */
struct half_bits {
    uint16_t bits;
};
DEVICE float f32_of(float x) {
    return x;
}
DEVICE float f32_of(half_bits x) {
    return f32_of_f16(x.bits);
}

/* Row t attends to positions [first, count) of its sequence: causal mask and sliding window. */
struct cached_row {
    int first, count;
};
DEVICE cached_row row_of(const sl_sdpa_splits &a, int t) {
    const int count = 1 + checked(a.fault, SL_FAULT_POSITION, t, a.positions[t], a.capacity);
    return {a.window ? max(count - a.window, 0) : 0, count};
}
/* Whether row t goes on with the sequence of the row before it: it has the next position, and sees
 * the page of that row's own position, which no other sequence has.  What a table says of positions
 * that its row does not see is arbitrary: it may name a page that another sequence has now. */
DEVICE bool continues(const sl_sdpa_splits &a, int t) {
    if (!a.pages) return a.slots[t - 1] == a.slots[t];
    const int own = row_of(a, t - 1).count - 1;
    const cached_row row = row_of(a, t);
    return row.count == own + 2 && row.first <= own && slot_of(a, t - 1, own) == slot_of(a, t, own);
}

struct range {
    int first, end;
};
/* The positions of a split out of [seen.first, seen.end), in whole steps: the first may be below
 * seen.first. */
DEVICE range split_of(const sl_sdpa_splits &a, int split, range seen, int step) {
    const int base = a.span ? 0 : seen.first / step * step;
    const int even = (seen.end - base + a.splits - 1) / a.splits;
    const int span = a.span ? a.span : (even + step - 1) / step * step;
    const int64_t first = base + (int64_t)split * span, end = first + span;
    if (end <= seen.first) return {seen.first, seen.first};
    return {(int)min(first, (int64_t)seen.end), (int)min(end, (int64_t)seen.end)};
}

/* ---- f32 operands for tensor cores, as two f16: x = high + low, accurate to 22 bits ---- */

/* A power of two and its inverse.  `down` scales numbers up to `most` to about 1, where both f16
 * halves neither overflow nor underflow. */
struct power {
    float down, up;
};
DEVICE power power_for(float most) {
    enum { BIAS = 127, NARROWEST = 30 };
    const int exponent = (int)(__float_as_uint(most) >> 23 & 255);
    const int kept = min(max(exponent, (int)NARROWEST), 2 * BIAS - (int)NARROWEST);
    return {__uint_as_float((unsigned)(2 * BIAS - kept) << 23),
            __uint_as_float((unsigned)kept << 23)};
}
DEVICE uint16_t low_half(float x, uint16_t high) {
    return f16_of_f32(x - f32_of_f16(high));
}

/* Softmax factors e^(score - largest) are multiplied by this before they are split into two f16. */
#define FACTOR_SCALE 256.0f
#endif
