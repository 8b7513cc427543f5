/* moe_pairs.cu - Few pairs through their experts, one by one: GEMV at the bandwidth of reading the
 * weights.
 *
 * A block takes four panels; several warps divide the K dimension of each.  A warp stages its slice
 * of a panel (blocks of 64 columns with their parameters) in shared memory with cp.async before it
 * uses any of it; then each lane computes one row of one of the two groups of a block. */
#include "runtime/cuda/kernels/async.cuh"
#include "runtime/cuda/kernels/moe.cuh"
#include <stddef.h>

enum {
    PANELS = SL_MOE_PANELS,
    UP_SHARES = SL_MOE_UP_SHARES,
    DOWN_SHARES = SL_MOE_DOWN_SHARES,
    UP_THREADS = PANELS * UP_SHARES * WARP,
    DOWN_THREADS = PANELS * DOWN_SHARES * WARP,
    AT_ONCE = SL_MOE_DEPTH
};

/* ---- finding the expert of a place (an index in the sorted order) ---- */

/* One thread's candidate in the search for the expert of a place: an expert, its weights, and its
 * places [first, last). */
struct expert_look {
    const uint8_t *at;
    int expert, first, last;
};
DEVICE expert_look look_in_table(const sl_moe_places &p) {
    const int e = (int)threadIdx.x;
    return {e < p.experts ? (const uint8_t *)p.table[e] : nullptr, e, 0, 0};
}
DEVICE bool has_place(const sl_moe_places &p, const expert_look &look, int place) {
    const int first = look.first, last = look.last;
    if (first < 0 || last < first || last > p.pairs)
        checked(p.fault, SL_FAULT_RUN, look.expert,
                first < 0      ? first
                : last < first ? -1
                               : last,
                p.pairs + 1);
    return place >= first && place < last;
}

/* The weights of the expert to which a place belongs (NULL: not on the device), its number, and
 * *pair.  The table was read before `starts` and `order` were valid; the other loads are issued
 * together.  Ends with a barrier. */
DEVICE const uint8_t *expert_of_place(const sl_moe_places &p, expert_look look, int place,
                                      int *pair, int *out_number) {
    __shared__ const uint8_t *found;
    __shared__ int number;
    const int own = p.order[place];
    if (look.expert < p.experts) {
        look.first = p.starts[look.expert];
        look.last = p.starts[look.expert + 1];
    }
    if (threadIdx.x == 0) {
        found = nullptr;
        number = -1;
    }
    __syncthreads();
    /* Invalid runs raise a fault and may overlap: the first thread wins. */
    if (look.expert < p.experts && has_place(p, look, place) &&
        atomicCAS(&number, -1, look.expert) == -1)
        found = look.at;
    for (int e = (int)(threadIdx.x + blockDim.x); e < p.experts; e += (int)blockDim.x) {
        const expert_look more = {(const uint8_t *)p.table[e], e, p.starts[e], p.starts[e + 1]};
        if (has_place(p, more, place) && atomicCAS(&number, -1, e) == -1) found = more.at;
    }
    *pair = checked(p.fault, SL_FAULT_PAIR, place, own, p.pairs);
    __syncthreads();
    *out_number = number; /* meaningless where no expert was found */
    const uint8_t *expert = found;
    SL_IN_GLOBAL(expert);
    return expert;
}

/* ---- products ---- */

/* One block in shared memory: its parameters, the codes of both groups (with a gap, so that a row
 * of the first group and a row of the second are in different banks), the super-group parameters,
 * and the 64 activations that the block is multiplied with. */
template <class TYPE> struct staged {
    enum { APART = 64 };
    uint8_t block[64 + 2 * TYPE::GROUP_BYTES + APART];
    uint8_t above[TYPE::ABOVE_BYTES == 64 ? 64 : 16];
    int8_t codes[64];
    float scales[2], sums[2], halves[2], reserved[2];
};
#define STAGED_BYTES(TYPE) SL_MOE_STAGED_BYTES(TYPE::GROUP_BYTES, TYPE::ABOVE_BYTES == 64)

/* The source addresses of one lane: its 16 bytes of the panel's blocks, of the super-group
 * parameters and of the activation codes; and the a8 parameters of the row's first group. */
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

/* Stages the weights of the block whose first group is `group`. */
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

/* Stages the activations for that block; the second group may be beyond the end of the row. */
template <class TYPE>
DEVICE void stage_row(staged<TYPE> *to, const pair_sources &f, const sl_cuda_panels &p, int group) {
    const int lane = lane_id();
    if (lane < 4 && group + lane / 2 < p.groups)
        copy_async<16>(to->codes + 16 * lane, f.codes + 32 * group);
    const int half = lane % 2;
    if (lane / 2 != 4 || group + half >= p.groups) return;
    copy_async<4>(&to->scales[half], f.scales + group + half);
    if (TYPE::MINIMUM) copy_async<4>(&to->sums[half], f.sums + group + half);
    if (TYPE::HALVES && TYPE::MINIMUM) copy_async<4>(&to->halves[half], f.halves + group + half);
}

DEVICE int dot8(uint2 w, uint2 x, int sum) {
    return __dp4a((int)w.y, (int)x.y, __dp4a((int)w.x, (int)x.x, sum));
}

/* Integer to float without a conversion: an integer accumulated onto the bits of 3 * 2^22 reads as
 * the float 12582912 + the integer. */
enum { WHOLE = 0x4b400000 };
DEVICE float float_of_whole(int bits) {
    return __int_as_float(bits) - 12582912.0f;
}

/* Dot product of one row of one group. */
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
        y = fmaf(p.scale, float_of_whole(first), q.scale * float_of_whole(second));
        if (TYPE::MINIMUM) {
            const float x_half = s->halves[half];
            y -= fmaf(p.minimum, x_half, q.minimum * (s->sums[half] - x_half));
        }
    } else {
        y = p.scale * (float_of_whole(first) + float_of_whole(second));
        if (TYPE::MINIMUM) y = fmaf(-p.minimum, s->sums[half], y);
    }
    return s->scales[half] * y;
}

/* Sums over the staged blocks in the order of their copies; LEFT copy groups follow this one. */
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
    DEVICE float sum(const staged<TYPE> *, int, int) { return 0.0f; }
};

/* This warp's partial sums of the panel's 16 rows, on lanes 0 to 15 and again on 16 to 31.  `depth`
 * blocks per warp fit in shared memory.  AHEAD: stages the first weights before follow(), while the
 * activations are still being computed. */
template <class TYPE, int SHARES, bool AHEAD>
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

/* ---- the two launches: gridDim is (row blocks, places) ---- */

/* Sum over the warps that share a panel, in a fixed order. */
template <int SHARES> DEVICE float share_sum(const float (*shares)[SHARES][16], int row) {
    const float(*of)[16] = shares[row / 16];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < SHARES; i += 4)
        sum +=
            (of[i][row % 16] + of[i + 1][row % 16]) + (of[i + 2][row % 16] + of[i + 3][row % 16]);
    return sum;
}

/* A warp starts copying the biases of rows [first, first + 32) of an expert with `rows` rows.  They
 * can be read after copy_all_wait() and a barrier; until then they occupy no registers. */
DEVICE void ask_bias(float *to, const float *bias, int expert, int first, int rows) {
    const int row = first + lane_id();
    if (row < rows) copy_async<4>(to + lane_id(), bias + (int64_t)expert * rows + row);
}
DEVICE void copy_all_wait() {
    copy_commit();
    copy_wait<0>();
}

/* One warp quantises a group of 32 values to a8. */
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

/* Block b computes panels 2b and 2b + 1 of gate and of up. */
template <class TYPE> DEVICE void pairs_up(const sl_moe_up &a) {
    __shared__ float shares[PANELS][UP_SHARES][16], biases[2][32];
    const int place = (int)blockIdx.y, which = warp_id() / UP_SHARES;
    const expert_look look = look_in_table(a.places);
    int pair, number;
    follow();
    lead(); /* after follow(): the next launch reads `order` and `starts` before its own follow() */
    const uint8_t *expert = expert_of_place(a.places, look, place, &pair, &number);
    if (!expert) return;
    if (a.act.limit > 0.0f && warp_id() == 0) {
        ask_bias(biases[0], a.gate_bias, number, (int)blockIdx.x * 32, a.w.rows);
        ask_bias(biases[1], a.up_bias, number, (int)blockIdx.x * 32, a.w.rows);
    }
    const int panel = (int)blockIdx.x * 2 + which % 2;
    sl_cuda_panels w = a.w;
    w.data = expert + (which < 2 ? a.gate_offset : a.up_offset);
    float sum = 0;
    if (panel * 16 < w.rows)
        sum = panel_share<TYPE, UP_SHARES, false>(w, panel, a.x, pair / a.places.k, a.depth);
    if (lane_id() < 16) shares[which][warp_id() % UP_SHARES][lane_id()] = sum;
    copy_all_wait();
    __syncthreads();
    if (warp_id() > 0) return;
    const bool inside = (int)blockIdx.x * 32 + lane_id() < w.rows;
    const float gate = share_sum(shares, lane_id()), up = share_sum(shares + 2, lane_id());
    float value = 0.0f;
    if (inside && a.act.limit > 0.0f)
        value = limited_swiglu(a.act, gate + biases[0][lane_id()], up + biases[1][lane_id()]);
    else if (inside)
        value = swiglu(gate, up);
    write_group8(a.mid, place, (int)blockIdx.x, value);
}

template <class TYPE> DEVICE void pairs_down(const sl_moe_down &a) {
    lead();
    __shared__ float shares[PANELS][DOWN_SHARES][16], biases[PANELS * 16];
    const int place = (int)blockIdx.y, which = warp_id() / DOWN_SHARES;
    int pair, number;
    const uint8_t *expert =
        expert_of_place(a.places, look_in_table(a.places), place, &pair, &number);
    if (!expert) return;
    const int panel = (int)blockIdx.x * PANELS + which;
    if (a.bias && warp_id() < PANELS / 2)
        ask_bias(biases + 32 * warp_id(), a.bias, number,
                 (int)blockIdx.x * PANELS * 16 + 32 * warp_id(), a.w.rows);
    sl_cuda_panels w = a.w;
    w.data = expert + a.offset;
    float sum = 0;
    if (panel * 16 < w.rows)
        sum = panel_share<TYPE, DOWN_SHARES, true>(w, panel, a.mid, place, a.depth);
    else
        follow();
    if (lane_id() < 16) shares[which][warp_id() % DOWN_SHARES][lane_id()] = sum;
    copy_all_wait();
    __syncthreads();
    const int inside = (int)threadIdx.x, row = (int)blockIdx.x * PANELS * 16 + inside;
    if (inside < PANELS * 16 && row < w.rows)
        a.out[(int64_t)pair * w.rows + row] =
            share_sum(shares, inside) + (a.bias ? biases[inside] : -0.0f);
}

#define PAIRS(TYPE, ...)                                                                           \
    SL_CUDA_KERNEL_AHEAD(sl_moe_pairs_up_##TYPE, sl_moe_up, UP_THREADS) {                          \
        pairs_up<type_##TYPE>(a);                                                                  \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_moe_pairs_down_##TYPE, sl_moe_down, DOWN_THREADS) {                    \
        pairs_down<type_##TYPE>(a);                                                                \
    }
SL_PANEL_TYPES(PAIRS)
