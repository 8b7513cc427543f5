/* moe_pairs.cu - A few pairs through their experts, each by itself, as fast as weights are read.
 *
 * A block takes four panels, each read by several warps (moe_staged.cuh). */
#include "runtime/cuda/kernels/moe_staged.cuh"

enum {
    PANELS = SL_MOE_PANELS,
    UP_SHARES = SL_MOE_UP_SHARES,
    DOWN_SHARES = SL_MOE_DOWN_SHARES,
    UP_THREADS = PANELS * UP_SHARES * WARP,
    DOWN_THREADS = PANELS * DOWN_SHARES * WARP
};

/* ---- finding the expert of a place ---- */

/* A thread's part of looking for an expert: one of those in the table, and where its places are. */
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
        checked(p.fault, SL_FAULT_RUN, look.expert, first < 0 ? first : last < first ? -1 : last,
                p.pairs + 1);
    return place >= first && place < last;
}

/* The expert of a place, NULL where it is not here, its number, and *pair.  The table was looked
 * into before runs and order were there; all else is loaded at once.  Ends with a barrier. */
DEVICE const uint8_t *expert_of_place(const sl_moe_places &p, expert_look look, int place,
                                      int *pair, int *out_number) {
    __shared__ const uint8_t *found;
    __shared__ int number;
    const int own = p.order[place];
    if (look.expert < p.experts) {
        look.first = p.starts[look.expert];
        look.last = p.starts[look.expert + 1];
    }
    if (threadIdx.x == 0) found = nullptr;
    __syncthreads();
    if (look.expert < p.experts && has_place(p, look, place)) {
        found = look.at;
        number = look.expert;
    }
    for (int e = (int)(threadIdx.x + blockDim.x); e < p.experts; e += (int)blockDim.x) {
        const expert_look more = {(const uint8_t *)p.table[e], e, p.starts[e], p.starts[e + 1]};
        if (has_place(p, more, place)) {
            found = more.at;
            number = e;
        }
    }
    *pair = checked(p.fault, SL_FAULT_PAIR, place, own, p.pairs);
    __syncthreads();
    *out_number = number; /* of no use where nothing was found */
    const uint8_t *expert = found;
    SL_IN_GLOBAL(expert);
    return expert;
}

/* ---- the two launches: blocks are (rows, place) ---- */

/* Of four warps, and then of four more. */
template <int SHARES> DEVICE float share_sum(const float (*shares)[SHARES][16], int row) {
    const float(*of)[16] = shares[row / 16];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < SHARES; i += 4)
        sum += (of[i][row % 16] + of[i + 1][row % 16]) +
               (of[i + 2][row % 16] + of[i + 3][row % 16]);
    return sum;
}

/* A warp asks for the biases of an expert's rows [first, first + 32), of which there are `rows`.
 * They are there after copy_all_wait() and a barrier; until then they take no registers. */
DEVICE void ask_bias(float *to, const float *bias, int expert, int first, int rows) {
    const int row = first + lane_id();
    if (row < rows) copy_async<4>(to + lane_id(), bias + (int64_t)expert * rows + row);
}
DEVICE void copy_all_wait() {
    copy_commit();
    copy_wait<0>();
}

/* Panels 2b and 2b + 1 of gate, then of up. */
template <class TYPE> DEVICE void pairs_up(const sl_moe_up &a) {
    __shared__ float shares[PANELS][UP_SHARES][16], biases[2][32];
    const int place = (int)blockIdx.y, which = warp_id() / UP_SHARES;
    const expert_look look = look_in_table(a.places);
    int pair, number;
    follow();
    lead(); /* those that come next may look at what this one could */
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
        sum = panel_share<TYPE, UP_SHARES, false, SL_MOE_DEPTH>(w, panel, a.x, pair / a.places.k, a.depth);
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
        sum = panel_share<TYPE, DOWN_SHARES, true, SL_MOE_DEPTH>(w, panel, a.mid, place, a.depth);
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
