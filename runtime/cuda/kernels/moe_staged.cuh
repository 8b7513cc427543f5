/* moe_staged.cuh - Panels of experts times a row of a8: a warp asks for its share of a panel, blocks
 * of 64 columns with what they are multiplied with, before it uses any of it; then a lane is one
 * row of one of the two groups of a block. */
#ifndef SL_RUNTIME_CUDA_KERNELS_MOE_STAGED_CUH
#define SL_RUNTIME_CUDA_KERNELS_MOE_STAGED_CUH
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/moe.cuh"
#include <stddef.h>

/* A block in shared memory: its parameters, the codes of both groups (apart, so that both are read
 * at once: a row of one and of the other are in different banks), the parameters above, and both
 * groups of the row it is multiplied with. */
template <class TYPE> struct staged {
    enum { APART = 64 };
    uint8_t block[64 + 2 * TYPE::GROUP_BYTES + APART];
    uint8_t above[TYPE::ABOVE_BYTES == 64 ? 64 : 16];
    int8_t codes[64];
    float scales[2], sums[2], halves[2], reserved[2];
};
#define STAGED_BYTES(TYPE) SL_MOE_STAGED_BYTES(TYPE::GROUP_BYTES, TYPE::ABOVE_BYTES == 64)

/* Where a lane copies from: its 16 bytes of a panel's blocks, of the parameters above and of the
 * row's codes; and the parameters of the row's first group. */
struct pair_sources {
    const uint8_t *blocks, *above;
    const int8_t *codes;
    const float *scales, *sums, *halves;
};
template <class TYPE>
DEVICE pair_sources find_sources(const sl_cuda_panels &p, int panel, const sl_cuda_rows8 &x,
                                 int row) {
    const int64_t first = (int64_t)row * x.groups;
    const uint8_t *at = panel_at(p, panel), *above = TYPE::above(p, panel, at, 0);
    pair_sources f = {at + 16 * lane_id(),
                      TYPE::ABOVE_BYTES == 64 ? above + 16 * (lane_id() % 4) : above,
                      x.codes + 32 * first + 16 * (lane_id() % 4),
                      x.scales + first,
                      x.sums + first,
                      x.halves + first};
    SL_KEEP_POINTER(f.blocks);
    SL_KEEP_POINTER(f.above);
    SL_KEEP_POINTER(f.codes);
    SL_KEEP_POINTER(f.scales);
    SL_KEEP_POINTER(f.sums);
    return f;
}

/* The weights of a block whose first group is `group`. */
template <class TYPE>
DEVICE void stage_block(staged<TYPE> *to, const pair_sources &f, const sl_cuda_panels &p,
                        int group) {
    enum { FIRST = 64 + TYPE::GROUP_BYTES, ALL = FIRST + TYPE::GROUP_BYTES };
    typedef staged<TYPE> here;
    const int lane = lane_id(), byte = 16 * lane;
    const uint8_t *from = f.blocks + block_offset(p, group);
    shared_place place = shared_place_of(to) + byte;
    SL_KEEP_POINTER(from);
    SL_KEEP_WORD(place);
#pragma unroll
    for (int i = 0; i < ALL; i += 16 * WARP)
        if (byte + i < ALL)
            copy_to<16>(place + i + (byte + i < FIRST ? 0 : (int)here::APART), from + i);
    const unsigned above = (unsigned)(group / SL_CUDA_SUPER_GROUPS) * TYPE::above_step(p);
    if (TYPE::ABOVE_BYTES == 8 && lane == WARP - 1) copy_async<8>(to->above, f.above + above);
    if (TYPE::ABOVE_BYTES == 64 && lane >= WARP - 4)
        copy_async<16>(to->above + 16 * (lane % 4), f.above + above);
}

/* What they are multiplied with; half of it may be missing. */
template <class TYPE>
DEVICE void stage_row(staged<TYPE> *to, const pair_sources &f, const sl_cuda_panels &p, int group) {
    const int lane = lane_id();
    if (lane < 4 && group + lane / 2 < p.groups)
        copy_async<16>(to->codes + 16 * lane, f.codes + 32 * group);
    const int half = lane % 2;
    if (lane / 2 != 4 || group + half >= p.groups) return;
    copy_async<4>(&to->scales[half], f.scales + group + half);
    if (TYPE::MINIMUM) copy_async<4>(&to->sums[half], f.sums + group + half);
    if (TYPE::HALVES) copy_async<4>(&to->halves[half], f.halves + group + half);
}

DEVICE int dot8(uint2 w, uint2 x, int sum) {
    return __dp4a((int)w.y, (int)x.y, __dp4a((int)w.x, (int)x.x, sum));
}

/* As an integer that is added to 3 * 2^22 the sum of products is the float 12582912 + itself. */
enum { WHOLE = 0x4b400000 };
DEVICE float float_of_whole(int bits) {
    return __int_as_float(bits) - 12582912.0f;
}

/* One row of one group. */
template <class TYPE> DEVICE float staged_product(const staged<TYPE> *s, int half, int row) {
    const uint8_t *codes = s->block + 64 + half * (TYPE::GROUP_BYTES + staged<TYPE>::APART);
    const uint2 *x = (const uint2 *)(s->codes + 32 * half);
    int first = WHOLE, second = WHOLE;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        first = dot8(TYPE::codes(codes, row, j), x[j], first);
        second = dot8(TYPE::codes(codes, row, 2 + j), x[2 + j], second);
    }
    const params p = TYPE::of(s->block, half, s->above, row, 0);
    float y;
    if (TYPE::HALVES) {
        const params q = TYPE::of(s->block, half, s->above, row, 1);
        const float x_half = s->halves[half];
        y = p.scale * float_of_whole(first) + q.scale * float_of_whole(second) -
            (p.minimum * x_half + q.minimum * (s->sums[half] - x_half));
    } else {
        y = p.scale * (float_of_whole(first) + float_of_whole(second));
        if (TYPE::MINIMUM) y -= p.minimum * s->sums[half];
    }
    return s->scales[half] * y;
}

/* Blocks in the order in which they were asked for; LEFT come after this one. */
template <class TYPE, int SHARES, int LEFT> struct each_staged {
    DEVICE float sum(const staged<TYPE> *s, int group, int groups) {
        copy_wait<LEFT>();
        __syncwarp();
        const int half = lane_id() / 16;
        float y = 0;
        if (group + half < groups) y = staged_product<TYPE>(s, half, lane_id() % 16);
        return y + each_staged<TYPE, SHARES, LEFT - 1>::sum(s + 1, group + 2 * SHARES, groups);
    }
};
template <class TYPE, int SHARES> struct each_staged<TYPE, SHARES, -1> {
    DEVICE float sum(const staged<TYPE> *, int, int) {
        return 0.0f;
    }
};

/* This warp's share of a panel's 16 sums, on lanes 0 to 15 and again 16 to 31.  There is room for
 * `depth` blocks of a warp, AT_ONCE at most.  AHEAD: the first weights are asked for before the row
 * is there. */
template <class TYPE, int SHARES, bool AHEAD, int AT_ONCE>
DEVICE float panel_share(const sl_cuda_panels &p, int panel, const sl_cuda_rows8 &x, int x_row,
                         int depth) {
    static_assert(sizeof(staged<TYPE>) == STAGED_BYTES(TYPE), "as the plan has it");
    SL_DYNAMIC_SHARED(staged<TYPE>, all);
    staged<TYPE> *mine = all + warp_id() * depth;
    const pair_sources f = find_sources<TYPE>(p, panel, x, x_row);
    const int first = 2 * (warp_id() % SHARES);
    float sum = 0;
    if (AHEAD) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int at = first + 2 * SHARES * i;
            if (i < depth && at < p.groups) stage_block<TYPE>(mine + i, f, p, at);
        }
        follow();
    }
    for (int group = first; group < p.groups; group += 2 * SHARES * depth) {
        const int end = min(group + 2 * SHARES * depth, p.groups);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int at = group + 2 * SHARES * i;
            if (at < end) {
                if (!AHEAD || group > first) stage_block<TYPE>(mine + i, f, p, at);
                stage_row<TYPE>(mine + i, f, p, at);
            }
            copy_commit();
        }
        sum += each_staged<TYPE, SHARES, AT_ONCE - 1>::sum(mine, group, end);
        __syncwarp();
    }
    return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
}

/* The first warp codes a group of 32. */
DEVICE void write_group8(const sl_cuda_rows8_out &out, int row, int group, float value) {
    const a8_scale s = a8_scale_of(warp_max(fabsf(value)), warp_sum(value * 0.0f));
    const int code = a8_code(value, s);
    const int64_t at = (int64_t)row * out.groups + group;
    const float half = warp_sum(lane_id() < 16 ? (float)code : 0.0f);
    const float sum = warp_sum((float)code);
    out.codes[32 * at + lane_id()] = (int8_t)code;
    if (lane_id() == 0) {
        out.scales[at] = s.scale;
        out.sums[at] = sum;
        out.halves[at] = half;
    }
}
#endif
