/* gemv_panel.cuh - One warp's slice of a GEMV with a panel; loops are not unrolled.
 *
 * A kernel for one row does so little that fetching its instructions takes as long as running them:
 * loops are not unrolled, and loads in flight go to shared memory instead of registers.  A slice is
 * a contiguous range of a panel's blocks (two groups, 64 columns); for types that store parameters
 * in front of super-groups it is whole super-groups.  A lane takes one row of one of a block's two
 * groups. */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMV_PANEL_CUH
#define SL_RUNTIME_CUDA_KERNELS_GEMV_PANEL_CUH
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/gemv_panel.h"
#include "runtime/cuda/kernels/panel.cuh"
#include "runtime/cuda/kernels/rows.cuh"

/* A row of activations in shared memory: its a8 codes; per group {scale, sum of the codes, sum of
 * the first 16 codes, sum of the values}; its f32 values. */
struct shared_row {
    uint8_t *codes;
    float4 *groups;
    float *values;
};

/* A slice: blocks [first, first + count) of a panel.  `above` are the super-group headers of types
 * that keep them in a plane of their own, else NULL.  `bytes` is the size of the slice, super_bytes
 * that of the parameters in front of a super-group. */
enum { SUPER_BLOCKS = SL_CUDA_SUPER_GROUPS / 2 };
struct panel_part {
    const uint8_t *data, *above;
    int first, count, last; /* last: the end of its groups */
    unsigned bytes, super_bytes, block_bytes;
    MEMBER int supers() const {
        return (first + count + SUPER_BLOCKS - 1) / SUPER_BLOCKS - first / SUPER_BLOCKS;
    }
};
template <class TYPE>
DEVICE panel_part part_of(const sl_cuda_panels &p, const uint8_t *data, int panel, int first,
                          int count) {
    panel_part part;
    part.super_bytes = p.super_bytes;
    part.block_bytes = p.block_bytes;
    part.first = first;
    part.count = min(count, (p.groups + 1) / 2 - first);
    part.last = min(p.groups, 2 * (first + count));
    const unsigned before =
        (unsigned)(first / SUPER_BLOCKS) * p.super_bytes + (unsigned)first * p.block_bytes;
    part.bytes = (unsigned)part.supers() * p.super_bytes + (unsigned)part.count * p.block_bytes;
    part.bytes = min(part.bytes, (unsigned)p.panel_bytes - before);
    part.data = data + p.header_bytes + (uint64_t)panel * p.panel_bytes + before;
    part.above = nullptr;
    if (TYPE::ABOVE_BYTES == 8)
        part.above = data + 8 * ((int64_t)panel * p.supers + first / SUPER_BLOCKS);
    return part;
}

/* Starts copying a slice to shared memory, by one warp. */
template <class TYPE> DEVICE void ask_part(uint8_t *to, const panel_part &part) {
    const shared_place place = shared_place_of(to);
#pragma unroll 1
    for (unsigned i = 16 * (unsigned)lane_id(); i < part.bytes; i += 16 * WARP)
        copy_to<16>(place + i, part.data + i);
    if (TYPE::ABOVE_BYTES == 8 && lane_id() < part.supers())
        copy_async<8>(to + part.bytes + 8 * lane_id(), part.above + 8 * lane_id());
}

/* A row of group g: the block, in which the group is number k, and the super-group's parameters. */
struct part_row {
    const uint8_t *block, *above;
    int g, k, row;
};

/* The dot product of half a group's codes.  Lanes with the second group of a block read their words
 * in another order, which avoids bank conflicts. */
template <class TYPE> DEVICE int dot_of(const part_row &t, const uint2 *x, int half) {
    const uint8_t *codes = t.block + 64 + t.k * TYPE::GROUP_BYTES;
    int dot = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int j = 2 * half + (i ^ t.k);
        const uint2 w = TYPE::codes(codes, t.row, j), own = x[j];
        dot = __dp4a((int)w.y, (int)own.y, __dp4a((int)w.x, (int)own.x, dot));
    }
    return dot;
}
template <class TYPE> DEVICE float coded_row(const part_row &t, const shared_row &x) {
    const float4 by = x.groups[t.g];
    const uint2 *own = (const uint2 *)(x.codes + 32 * t.g);
    const int first = dot_of<TYPE>(t, own, 0), second = dot_of<TYPE>(t, own, 1);
    const params p = TYPE::of(t.block, t.k, t.above, t.row, 0);
    float y;
    if (TYPE::HALVES) {
        const params q = TYPE::of(t.block, t.k, t.above, t.row, 1);
        y = fmaf(p.scale, (float)first, q.scale * (float)second);
        if (TYPE::MINIMUM) y -= fmaf(p.minimum, by.z, q.minimum * (by.y - by.z));
    } else {
        y = p.scale * (float)(first + second);
        if (TYPE::MINIMUM) y = fmaf(-p.minimum, by.y, y);
    }
    return by.x * y;
}

DEVICE float exact_four(unsigned codes, float4 x) {
    return fmaf((float)(int8_t)codes, x.x, (float)(int8_t)(codes >> 8) * x.y) +
           fmaf((float)(int8_t)(codes >> 16), x.z, (float)(int8_t)(codes >> 24) * x.w);
}
/* The product with the f32 values instead of the codes; for types without HALVES. */
template <class TYPE> DEVICE float exact_row(const part_row &t, const shared_row &x) {
    const uint8_t *codes = t.block + 64 + t.k * TYPE::GROUP_BYTES;
    const float4 *own = (const float4 *)(x.values + 32 * t.g);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int j = i ^ t.k;
        const uint2 w = TYPE::codes(codes, t.row, j);
        sum += exact_four(w.x, own[2 * j]) + exact_four(w.y, own[2 * j + 1]);
    }
    const params p = TYPE::of(t.block, t.k, t.above, t.row, 0);
    sum *= p.scale;
    if (TYPE::MINIMUM) sum = fmaf(-p.minimum, x.groups[t.g].w, sum);
    return sum;
}

/* The dot products of the panel's 16 rows over a slice: row r on lanes r and r + 16. */
template <class TYPE, bool EXACT>
DEVICE float sum_part(const uint8_t *from, const panel_part &part, const shared_row &x) {
    const unsigned above_step =
        TYPE::ABOVE_BYTES == 8 ? 8 : part.super_bytes + SUPER_BLOCKS * part.block_bytes;
    part_row t = {from, TYPE::ABOVE_BYTES == 8 ? from + part.bytes : from, 0, lane_id() / 16,
                  lane_id() % 16};
    float sum = 0;
    if (TYPE::ABOVE_BYTES == 64) t.block += part.super_bytes;
    int left = SUPER_BLOCKS - part.first % SUPER_BLOCKS; /* blocks of the super-group */
    t.g = 2 * part.first + t.k;
#pragma unroll 1
    for (int b = part.count; b > 0; b--, t.g += 2) {
        if (t.g < part.last) sum += EXACT ? exact_row<TYPE>(t, x) : coded_row<TYPE>(t, x);
        t.block += part.block_bytes;
        if (--left > 0) continue;
        left = SUPER_BLOCKS;
        t.above += above_step;
        if (TYPE::ABOVE_BYTES == 64) t.block += part.super_bytes;
    }
    return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
}

/* ---- a8 rows to shared memory, by the whole block ---- */

/* Starts copying the codes of `groups` groups from `first` on, and stores their parameters. */
DEVICE void take_codes(const sl_cuda_rows8 &x, int64_t first, int groups, const shared_row &to) {
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < 2 * groups; i += (int)blockDim.x)
        copy_async<16>(to.codes + 16 * i, x.codes + 32 * first + 16 * i);
#pragma unroll 1
    for (int g = (int)threadIdx.x; g < groups; g += (int)blockDim.x)
        to.groups[g] =
            make_float4(x.scales[first + g], x.sums[first + g], x.halves[first + g], 0.0f);
}
#endif
