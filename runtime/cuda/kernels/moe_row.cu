/* moe_row.cu - One row through its experts, in two launches; every block computes the routing
 * itself.
 *
 * The second launch overlaps the first (programmatic dependent launch).  The router's logits are
 * complete by then, so that it can route and load weights before the first has finished
 * (gemv_panel.cuh). */
#include "runtime/cuda/kernels/elementwise.cuh"
#include "runtime/cuda/kernels/gemv_panel.cuh"
#include "runtime/cuda/kernels/moe.cuh"
#include "runtime/cuda/kernels/moe_route.cuh"
#include "runtime/cuda/kernels/moe_row.h"

enum {
    CHOICES = SL_MOE_ROW_CHOICES,
    UP_THREADS = SL_MOE_ROW_WARPS * WARP,
    DOWN_THREADS = UP_THREADS + WARP, /* the last warp does the combine */
    UP_SHARES = SL_MOE_ROW_UP_SHARES,
    DOWN_SHARES = SL_MOE_ROW_DOWN_SHARES,
    AT_A_TIME = SL_MOE_ROW_WARPS / DOWN_SHARES /* concurrent experts in a block of down */
};

/* ---- routing by a block ---- */

/* The top k of each warp's 32 experts, best first; then the top k of those. */
struct choices {
    unsigned ranks[SL_MOE_ROW_WARPS * CHOICES];
    int experts[SL_MOE_ROW_WARPS * CHOICES];
    unsigned rank[CHOICES];
    int expert[CHOICES];
    float weight[CHOICES];
};

/* A warp's top k of its 32 experts: a lane's position is the number of lanes that precede it, by
 * higher rank, then lower lane.  Lanes without an expert have rank 0 and come last. */
DEVICE void choose_of_warp(const sl_route_rows &a, choices &c) {
    const int e = (int)threadIdx.x, lane = lane_id();
    const unsigned own = e < a.experts ? rank_of(a.logits[e]) : 0;
    int before = 0;
#pragma unroll 4
    for (int d = 0; d < WARP; d++) {
        const unsigned other = __shfl_sync(ALL_LANES, own, d);
        before += (int)(other > own || (other == own && d < lane));
    }
    if (before < a.k) {
        c.ranks[warp_id() * a.k + before] = own;
        c.experts[warp_id() * a.k + before] = e;
    }
}

/* Also waits for the thread's own copies; ends with a barrier. */
DEVICE void choose(const sl_route_rows &a, choices &c) {
    enum { EACH = 8 }; /* lanes that count predecessors for one candidate */
    const int warps = (a.experts + WARP - 1) / WARP, count = warps * a.k;
    if (warp_id() < warps) choose_of_warp(a, c);
    copy_wait<0>();
    __syncthreads();
    const int part = (int)threadIdx.x % EACH;
    for (int base = warp_id() * (WARP / EACH); base < count; base += (int)blockDim.x / EACH) {
        const int own = base + lane_id() / EACH;
        const unsigned rank = own < count ? c.ranks[own] : 0;
        int before = 0;
        for (int i = part; i < count; i += EACH) {
            const unsigned other = c.ranks[i];
            before += (int)(other > rank || (other == rank && i < own));
        }
#pragma unroll
        for (int d = 1; d < EACH; d *= 2) before += __shfl_xor_sync(ALL_LANES, before, d);
        if (part > 0 || own >= count || before >= a.k) continue;
        c.rank[before] = rank;
        c.expert[before] =
            rank ? c.experts[own] : checked(a.fault, SL_FAULT_ROUTE, 0, -1, a.experts);
    }
    __syncthreads();
}

/* The routing weights as in route_row, by one warp: softmax over all logits or over the chosen. */
DEVICE void weigh(const sl_route_rows &a, choices &c) {
    const int lane = lane_id();
    const float most = of_rank(c.rank[0]);
    const float own = lane < a.k ? expf(of_rank(c.rank[lane]) - most) : 0.0f;
    float sum = 0;
    if (a.normalise) {
        for (int j = 0; j < a.k; j++) sum += __shfl_sync(ALL_LANES, own, j);
    } else {
        for (int e = lane; e < a.experts; e += WARP) sum += expf(a.logits[e] - most);
        sum = warp_sum(sum);
    }
    if (lane < a.k) c.weight[lane] = own / sum;
}

/* ---- up ---- */

/* The addresses of the experts, copied to shared memory before it is known which are chosen. */
struct expert_table {
    const uint8_t *at[SL_MOE_ROW_EXPERTS];
};
DEVICE void ask_table(expert_table &to, const sl_moe_places &p) {
    const int e = (int)threadIdx.x;
    if (e < p.experts) copy_async<8>(&to.at[e], &p.table[e]);
    copy_commit();
}
DEVICE const uint8_t *expert_at(const expert_table &table, int expert) {
    const uint8_t *at = table.at[expert];
    SL_IN_GLOBAL(at);
    return at;
}

/* The a8 rows in shared memory, behind the slices of all warps. */
DEVICE shared_row rows_after(uint8_t *shared, const sl_moe_row_share &share, int groups) {
    float4 *of = (float4 *)(shared + SL_MOE_ROW_WARPS * share.bytes);
    return {(uint8_t *)(of + groups), of, nullptr};
}

template <class TYPE> DEVICE void row_up(const sl_moe_row_up &a) {
    SL_DYNAMIC_SHARED(uint8_t, shared);
    __shared__ float sums[SL_MOE_ROW_WARPS][16];
    __shared__ choices c;
    __shared__ expert_table table;
    const sl_moe_up &up = a.up;
    const int place = (int)blockIdx.y, which = warp_id() / UP_SHARES, groups = up.w.groups;
    const int panel = (int)blockIdx.x * 2 + which % 2;
    uint8_t *own = shared + warp_id() * a.share.bytes;
    const shared_row x = rows_after(shared, a.share, groups);
    ask_table(table, up.places);
    follow();
    lead(); /* after follow(): the next launch reads the router's logits before its own follow() */
    if (place == a.choice.route.k) {
        if (blockIdx.x == 0 && warp_id() == 0) route_and_group(a.choice);
        return;
    }
    take_codes(up.x, 0, groups, x);
    copy_commit();
    choose(a.choice.route, c);
    const uint8_t *expert = expert_at(table, c.expert[place]);
    if (!expert) return;
    const panel_part part =
        part_of<TYPE>(up.w, expert + (which < 2 ? up.gate_offset : up.up_offset), panel,
                      warp_id() % UP_SHARES * a.share.blocks, a.share.blocks);
    const bool has_part = panel * 16 < up.w.rows && part.count > 0;
    if (has_part) ask_part<TYPE>(own, part);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    const float sum = has_part ? sum_part<TYPE, false>(own, part, x) : 0.0f;
    if (lane_id() < 16) sums[warp_id()][lane_id()] = sum;
    __syncthreads();
    if (warp_id() > 0) return;
    const int first = lane_id() / 16 * UP_SHARES, row = lane_id() % 16;
    float gate = 0, other = 0;
#pragma unroll
    for (int i = 0; i < UP_SHARES; i++) {
        gate += sums[first + i][row];
        other += sums[2 * UP_SHARES + first + i][row];
    }
    const bool inside = (int)blockIdx.x * 32 + lane_id() < up.w.rows;
    quantise_warp(up.mid, (int64_t)place * up.mid.groups + blockIdx.x, true,
                  inside ? swiglu(gate, other) : 0.0f);
}

/* ---- down ---- */

/* Combines one row of the panel over the k experts; DOWN_SHARES warps share each dot product. */
DEVICE float sum_of_row(const choices &c, const float (*sums)[DOWN_SHARES][16], int k, int row) {
    float result = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        float y = 0;
#pragma unroll
        for (int i = 0; i < DOWN_SHARES; i++) y += sums[j][i][row];
        result = fmaf(c.weight[j], y, result);
    }
    return result;
}

/* A warp's slice of this block's panel of the expert of a place; empty where there is none. */
template <class TYPE>
DEVICE panel_part part_down(const sl_moe_row_down &a, const expert_table &table, const choices &c,
                            int place) {
    panel_part part;
    part.count = 0;
    if (place >= a.route.k) return part;
    const uint8_t *expert = expert_at(table, c.expert[place]);
    if (!expert) return part;
    return part_of<TYPE>(a.down.w, expert + a.down.offset, (int)blockIdx.x,
                         warp_id() % DOWN_SHARES * a.share.blocks, a.share.blocks);
}

/* Each warp multiplies its slices of the experts' panels; the first slices are requested before
 * follow(), while the activations are still being computed. */
template <class TYPE>
DEVICE void go_down(const sl_moe_row_down &a, const expert_table &table, const choices &c,
                    float (*sums)[DOWN_SHARES][16]) {
    SL_DYNAMIC_SHARED(uint8_t, shared);
    const int groups = a.down.w.groups, k = a.route.k;
    uint8_t *own = shared + warp_id() * a.share.bytes;
    const shared_row all = rows_after(shared, a.share, k * groups);
#pragma unroll 1
    for (int base = 0; base < k; base += AT_A_TIME) {
        const int place = base + warp_id() / DOWN_SHARES;
        const bool works = warp_id() < SL_MOE_ROW_WARPS && place < k;
        panel_part part;
        part.count = 0;
        if (works) part = part_down<TYPE>(a, table, c, place);
        if (part.count > 0) ask_part<TYPE>(own, part);
        if (base == 0) {
            follow();
            take_codes(a.down.mid, 0, k * groups, all);
        }
        copy_commit();
        copy_wait<0>();
        __syncthreads();
        const shared_row x = {all.codes + 32 * place * groups, all.groups + place * groups,
                              nullptr};
        const float sum = part.count > 0 ? sum_part<TYPE, false>(own, part, x) : 0.0f;
        if (works && lane_id() < 16) sums[place][warp_id() % DOWN_SHARES][lane_id()] = sum;
    }
}

template <class TYPE> DEVICE void row_down(const sl_moe_row_down &a) {
    __shared__ float sums[CHOICES][DOWN_SHARES][16];
    __shared__ choices c;
    __shared__ expert_table table;
    const sl_mixture &m = a.mix;
    const int row = (int)blockIdx.x * 16 + lane_id();
    const bool is_mine = warp_id() == SL_MOE_ROW_WARPS && lane_id() < 16 && row < m.width;
    lead();
    ask_table(table, a.down.places);
    choose(a.route, c);
    if (warp_id() == SL_MOE_ROW_WARPS) weigh(a.route, c);
    go_down<TYPE>(a, table, c, sums);
    float residual = 0, shared = 0, gate = 1;
    if (is_mine) {
        residual = m.residual[row];
        if (m.shared) shared = m.shared[row];
        if (m.gate) gate = apply_sigmoid(m.gate[0]);
    }
    __syncthreads();
    if (is_mine)
        m.out[row] = residual + fmaf(gate, shared, sum_of_row(c, sums, a.route.k, row % 16));
}

#define INSTANCE(TYPE, ...)                                                                        \
    SL_CUDA_KERNEL_AHEAD(sl_moe_row_up_##TYPE, sl_moe_row_up, UP_THREADS) {                        \
        row_up<type_##TYPE>(a);                                                                    \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_moe_row_down_##TYPE, sl_moe_row_down, DOWN_THREADS) {                  \
        row_down<type_##TYPE>(a);                                                                  \
    }
SL_PANEL_TYPES(INSTANCE)
