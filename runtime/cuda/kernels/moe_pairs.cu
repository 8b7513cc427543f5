/* moe_pairs.cu - A few pairs through their experts, each by itself, as fast as weights are read.
 *
 * A block takes four panels, each read by four warps: blocks of 64 columns in turn, a lane one row
 * of one of the two groups.  All that a warp needs of 512 columns is asked for before any of it is
 * used. */
#include "runtime/cuda/kernels/moe.cuh"

enum { PANELS = 4, SHARES = 4, PAIR_THREADS = PANELS * SHARES * WARP, AT_ONCE = 4 };

/* ---- finding the expert of a place ---- */

/* NULL where it is not here.  Ends with a barrier. */
DEVICE const uint8_t *expert_of_place(const sl_moe_places &p, int place) {
    __shared__ const uint8_t *found;
    if (threadIdx.x == 0) found = nullptr;
    __syncthreads();
    for (int e = (int)threadIdx.x; e < p.experts; e += (int)blockDim.x) {
        const int first = p.starts[e], last = p.starts[e + 1];
        const uint8_t *at = (const uint8_t *)p.table[e];
        if (first < 0 || last < first || last > p.pairs)
            checked(p.fault, SL_FAULT_RUN, e, first < 0 ? first : last < first ? -1 : last,
                    p.pairs + 1);
        if (place >= first && place < last) found = at;
    }
    __syncthreads();
    return found;
}

/* ---- products ---- */

struct group8 {
    uint4 codes[2];
    float scale, sum, half;
};
DEVICE group8 load_group8(const sl_cuda_rows8 &x, int row, int group) {
    const int64_t at = (int64_t)row * x.groups + group;
    const uint4 *codes = (const uint4 *)(x.codes + 32 * at);
    return {{codes[0], codes[1]}, x.scales[at], x.sums[at], x.halves[at]};
}
DEVICE int dot8(uint2 w, unsigned low, unsigned high, int sum) {
    return __dp4a((int)w.y, (int)high, __dp4a((int)w.x, (int)low, sum));
}

/* As an integer that is added to 3 * 2^22 the sum of products is the float 12582912 + itself. */
enum { WHOLE = 0x4b400000 };
DEVICE float float_of_whole(int bits) {
    return __int_as_float(bits) - 12582912.0f;
}

template <class TYPE> struct loaded {
    uint2 w[4];
    params p[TYPE::HALVES + 1];
};
template <class TYPE>
DEVICE loaded<TYPE> load_row(const sl_cuda_panels &p, int panel, int group, int row) {
    const uint8_t *at = panel_at(p, panel), *codes = group_codes(p, at, group);
    loaded<TYPE> l;
#pragma unroll
    for (int j = 0; j < 4; j++) l.w[j] = TYPE::codes(codes, row, j);
#pragma unroll
    for (int half = 0; half <= TYPE::HALVES; half++)
        l.p[half] = TYPE::read(p, panel, at, group, row, half);
    return l;
}
template <class TYPE> DEVICE float group_product(const loaded<TYPE> &l, const group8 &x) {
    const int first = dot8(l.w[1], x.codes[0].z, x.codes[0].w,
                           dot8(l.w[0], x.codes[0].x, x.codes[0].y, WHOLE));
    const int second = dot8(l.w[3], x.codes[1].z, x.codes[1].w,
                            dot8(l.w[2], x.codes[1].x, x.codes[1].y,
                                 TYPE::HALVES ? (int)WHOLE : first));
    float y;
    if (TYPE::HALVES) {
        const params &other = l.p[TYPE::HALVES];
        y = l.p[0].scale * float_of_whole(first) + other.scale * float_of_whole(second) -
            (l.p[0].minimum * x.half + other.minimum * (x.sum - x.half));
    } else {
        y = l.p[0].scale * float_of_whole(second) - l.p[0].minimum * x.sum;
    }
    return x.scale * y;
}

/* This warp's share of a panel's 16 sums, on lanes 0 to 15 and again 16 to 31. */
template <class TYPE>
DEVICE float panel_share(const sl_cuda_panels &p, int panel, const sl_cuda_rows8 &x, int x_row,
                         int share) {
    const int row = lane_id() % 16;
    float sum = 0;
    for (int group = 2 * share + lane_id() / 16; group - lane_id() / 16 < p.groups;
         group += 2 * SHARES * AT_ONCE) {
        loaded<TYPE> l[AT_ONCE];
        group8 g[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int at = min(group + 2 * SHARES * i, p.groups - 1);
            l[i] = load_row<TYPE>(p, panel, at, row);
            g[i] = load_group8(x, x_row, at);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const float y = group_product<TYPE>(l[i], g[i]);
            if (group + 2 * SHARES * i < p.groups) sum += y;
        }
    }
    return sum + __shfl_xor_sync(ALL_LANES, sum, 16);
}

/* ---- the two launches: blocks are (rows, place) ---- */

DEVICE float share_sum(const float (*shares)[SHARES][16], int row) {
    const float(*of)[16] = shares[row / 16];
    return (of[0][row % 16] + of[1][row % 16]) + (of[2][row % 16] + of[3][row % 16]);
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

/* Panels 2b and 2b + 1 of gate, then of up. */
template <class TYPE> DEVICE void pairs_up(const sl_moe_up &a) {
    __shared__ float shares[PANELS][SHARES][16];
    const int place = (int)blockIdx.y, which = warp_id() / SHARES, share = warp_id() % SHARES;
    const int pair =
        checked(a.places.fault, SL_FAULT_PAIR, place, a.places.order[place], a.places.pairs);
    const uint8_t *expert = expert_of_place(a.places, place);
    if (!expert) return;
    const int panel = (int)blockIdx.x * 2 + which % 2;
    sl_cuda_panels w = a.w;
    w.data = expert + (which < 2 ? a.gate_offset : a.up_offset);
    float sum = 0;
    if (panel * 16 < w.rows)
        sum = panel_share<TYPE>(w, panel, a.x, pair / a.places.k, share);
    if (lane_id() < 16) shares[which][share][lane_id()] = sum;
    __syncthreads();
    if (warp_id() > 0) return;
    const bool inside = (int)blockIdx.x * 32 + lane_id() < w.rows;
    const float gate = share_sum(shares, lane_id()), up = share_sum(shares + 2, lane_id());
    write_group8(a.mid, place, (int)blockIdx.x, inside ? swiglu(gate, up) : 0.0f);
}

template <class TYPE> DEVICE void pairs_down(const sl_moe_down &a) {
    __shared__ float shares[PANELS][SHARES][16];
    const int place = (int)blockIdx.y, which = warp_id() / SHARES, share = warp_id() % SHARES;
    const int pair =
        checked(a.places.fault, SL_FAULT_PAIR, place, a.places.order[place], a.places.pairs);
    const uint8_t *expert = expert_of_place(a.places, place);
    if (!expert) return;
    const int panel = (int)blockIdx.x * PANELS + which;
    sl_cuda_panels w = a.w;
    w.data = expert + a.offset;
    float sum = 0;
    if (panel * 16 < w.rows) sum = panel_share<TYPE>(w, panel, a.mid, place, share);
    if (lane_id() < 16) shares[which][share][lane_id()] = sum;
    __syncthreads();
    const int inside = (int)threadIdx.x, row = (int)blockIdx.x * PANELS * 16 + inside;
    if (inside < PANELS * 16 && row < w.rows)
        a.out[(int64_t)pair * w.rows + row] = share_sum(shares, inside);
}

#define PAIRS(TYPE)                                                                                \
    SL_CUDA_KERNEL(sl_moe_pairs_up_##TYPE, sl_moe_up, PAIR_THREADS) {                              \
        pairs_up<type_##TYPE>(a);                                                                  \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_moe_pairs_down_##TYPE, sl_moe_down, PAIR_THREADS) {                          \
        pairs_down<type_##TYPE>(a);                                                                \
    }
PAIRS(q4)
PAIRS(q8)
PAIRS(q4_k)
PAIRS(q4_0)
PAIRS(q6_k)
PAIRS(q4_m)
