/* linear_a8.cuh - Rows of a8 in shared memory, the product of one of them, and its convolution.
 *
 * In shared memory: the codes of the block's tokens, [group][token][32]; then what a group's sums
 * are scaled with, {scale, scale * sum of codes}, [group][token], tokens rounded up to pairs. */
#ifndef SL_RUNTIME_CUDA_KERNELS_LINEAR_A8_CUH
#define SL_RUNTIME_CUDA_KERNELS_LINEAR_A8_CUH
#include "runtime/cuda/kernels/conv.cuh"
#include "runtime/cuda/kernels/linear_panels.cuh"

/* Sums begin with these bits: added to an integer below 2^22, they are 12582912 + it as a float. */
enum { FLOAT_BITS = 0x4b400000 };
DEVICE float sum_of(int bits) {
    return __int_as_float(bits) - 12582912.0f;
}

struct rows_in_shared {
    unsigned char *codes;
    float2 *scales;
    int tokens, pairs;

    MEMBER rows_in_shared(unsigned char *shared, const sl_linear_panels &a, int count)
        : codes(shared), scales((float2 *)(shared + (int64_t)a.slab * count * 32)), tokens(count),
          pairs((count + 1) / 2) {}
    MEMBER void fill(const sl_linear_panels &a, const block_tokens &t, int first, int groups) {
        const sl_cuda_rows8 &x = a.x8;
        for (int i = (int)threadIdx.x; i < groups * tokens; i += (int)blockDim.x) {
            const int g = i % groups, token = i / groups;
            const int64_t at = (int64_t)(t.first + token) * x.groups + first + g;
            const uint4 *from = (const uint4 *)(x.codes + 32 * at);
            uint4 *to = (uint4 *)codes + 2 * (g * tokens + token);
            const uint4 low = from[0], high = from[1];
            const float scale = x.scales[at], sum = x.sums[at];
            to[0] = low, to[1] = high;
            scales[g * 2 * pairs + token] = make_float2(scale, scale * sum);
        }
    }
    /* Columns 8j to 8j+7 of a token. */
    MEMBER uint2 columns(int group, int token, int j) const {
        return *(const uint2 *)(codes + 32 * (group * tokens + token) + 8 * j);
    }
};

/* One token, by scalar products of four bytes.  A warp takes a block (two groups) at a time, 16
 * bytes of each lane: four rows, eight columns of one group. */
template <class TYPE_> struct one_token {
    typedef TYPE_ TYPE;
    enum { PARTS = 1, ROWS = 4, BLOCKS = SL_LINEAR_BATCH / 2 };
    typedef panel_batch<TYPE, ROWS, BLOCKS> batch;
    rows_in_shared x;
    float sums[ROWS];

    MEMBER one_token(unsigned char *shared, const sl_linear_panels &a, const block_tokens &)
        : x(shared, a, 1), sums{0, 0, 0, 0} {}
    MEMBER int own_group() const {
        return lane_id() / 16;
    }
    MEMBER panel_lane place() const {
        return {nullptr, 0, lane_id() % 4 * ROWS, lane_id() % 16 / 4};
    }
    MEMBER void fill(const sl_linear_panels &a, const block_tokens &t, int first, int groups) {
        x.fill(a, t, first, groups);
    }
    MEMBER void load(batch &b, const sl_cuda_panels &p, const panel_lane &lane, int group) const {
        const uint8_t *block = lane.data + block_offset(p, group);
        load_super(b, p, lane, group);
#pragma unroll
        for (int k = 0; k < BLOCKS; k++)
            if (group + 2 * k + own_group() < p.groups)
                load_group<TYPE>(b.groups[k], block + k * (64 + 2 * TYPE::GROUP), lane,
                                 own_group());
    }
    /* This lane's part of group g. */
    template <class SUPER, class GROUP>
    MEMBER void add_group(const SUPER &super, const GROUP &group, int g) {
        const panel_lane lane = place();
        const uint2 codes = x.columns(g, 0, lane.j);
        const float2 by = x.scales[2 * g];
        const float quarter = 0.25f * by.y; /* four lanes have a part of the group */
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const uint2 w = TYPE::codes(group, r, lane.j);
            int dot = __dp4a((int)signed_codes<TYPE>(w.x), (int)codes.x, (int)FLOAT_BITS);
            dot = __dp4a((int)signed_codes<TYPE>(w.y), (int)codes.y, dot);
            const params s = TYPE::scale(super, group, r, lane.j / 2);
            sums[r] += s.scale * by.x * sum_of(dot);
            if (TYPE::MINIMUM) sums[r] -= s.minimum * quarter;
        }
    }
    MEMBER void multiply(const batch &b, int group, int count) {
#pragma unroll
        for (int k = 0; k < BLOCKS; k++)
            if (2 * k + own_group() < count)
                add_group(b.super, b.groups[k], group + 2 * k + own_group());
    }
    MEMBER void clear() {
#pragma unroll
        for (int r = 0; r < ROWS; r++) sums[r] = 0;
    }
    MEMBER void store(float *out) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int d = 4; d < WARP; d *= 2) sums[r] += __shfl_xor_sync(ALL_LANES, sums[r], d);
        if (lane_id() < 4)
            ((float4 *)out)[lane_id()] = make_float4(sums[0], sums[1], sums[2], sums[3]);
    }
};

/* One token, one of whose products goes through a convolution.  Windows and taps are nobody else's:
 * a thread asks for those of its row before the steps before are done. */
struct then_conv : nothing_more {
    enum { TASKS = 1 };
    history h;
    float4 taps;
    int channel; /* what they are of */
    float *window;

    MEMBER then_conv() : h{{0, 0, 0}}, taps(make_float4(0, 0, 0, 0)), channel(-1), window(nullptr) {}
    MEMBER void look(const sl_conv &c, int at) {
        const int slot = checked(c.fault, SL_FAULT_SLOT, 0, c.slots[0], c.slot_count);
        const int position = checked(c.fault, SL_FAULT_POSITION, 0, c.positions[0], INT32_MAX);
        channel = at;
        window = c.window + (int64_t)slot * (SL_CONV_TAPS - 1) * c.channels + at;
        taps = ((const float4 *)c.w)[at];
#pragma unroll
        for (int i = 0; i < SL_CONV_TAPS - 1; i++) {
            const float x = window[(int64_t)i * c.channels];
            h.x[i] = position == 0 ? 0.0f : x;
        }
    }
    /* The row of a weight that thread i of a task finishes; -1 where there is none. */
    DEVICE int row_of(const sl_linear_panels &a, int task, int i, int *out_weight) {
        const unit_place u = unit_at(a.d, a.finish, task, i / SL_CUDA_PANEL_ROWS);
        const int row = u.unit * SL_CUDA_PANEL_ROWS + i % SL_CUDA_PANEL_ROWS;
        *out_weight = u.weight;
        return u.unit >= 0 && row < a.d.rows[u.weight] ? row : -1;
    }
    MEMBER void ahead(const sl_linear_panels &a, int task) {
        int weight;
        if ((int)threadIdx.x >= a.d.units * SL_CUDA_PANEL_ROWS) return;
        const int row = row_of(a, task, (int)threadIdx.x, &weight);
        if (row >= 0 && weight == a.conv.weight) look(a.conv.how, row);
    }
    template <class SUMS> MEMBER void task(const sl_linear_panels &a, const SUMS &sums, int task) {
        const sl_conv &c = a.conv.how;
        for (int i = (int)threadIdx.x; i < a.d.units * SL_CUDA_PANEL_ROWS; i += (int)blockDim.x) {
            int weight;
            const int row = row_of(a, task, i, &weight);
            if (row < 0) continue;
            const float value = sums.at(i / SL_CUDA_PANEL_ROWS, 0, i % SL_CUDA_PANEL_ROWS);
            if (weight != a.conv.weight) {
                a.finish.out[weight][row] = value;
                continue;
            }
            if (row != channel) look(c, row);
            c.out[row] = convolve(h, taps, value);
#pragma unroll
            for (int k = 0; k < SL_CONV_TAPS - 1; k++) window[(int64_t)k * c.channels] = h.x[k];
        }
    }
};
#endif
