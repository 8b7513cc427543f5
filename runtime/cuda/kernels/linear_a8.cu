/* linear_a8.cu - Few a8 rows with panel weights: int8 dot products, scaled group by group.
 *
 * In shared memory: the codes of the block's tokens, [group][token][32]; then the factors of the
 * group sums, {scale, scale * sum of codes}, [group][token], tokens rounded up to pairs. */
#include "runtime/cuda/kernels/linear_panels.cuh"
#include "runtime/cuda/kernels/mma.cuh"

/* Integer dot products as floats, without conversions: accumulators start with the bits of
 * 12582912.0f = 3 * 2^22; its ulp is 1, so adding n to the bits adds n to the float. */
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
    /* The codes of columns 8j to 8j+7 of a token's group. */
    MEMBER uint2 columns(int group, int token, int j) const {
        return *(const uint2 *)(codes + 32 * (group * tokens + token) + 8 * j);
    }
};

/* One token, by dp4a.  A warp takes a block (two groups) at a time, a lane four rows by eight
 * columns of one group. */
template <class TYPE_> struct one_token {
    typedef TYPE_ TYPE;
    enum { PARTS = 1, ROWS = 4, BLOCKS = SL_LINEAR_BATCH / 2 };
    typedef panel_batch<TYPE, ROWS, BLOCKS> batch;
    rows_in_shared x;
    float sums[ROWS];

    MEMBER one_token(unsigned char *shared, const sl_linear_panels &a, const block_tokens &)
        : x(shared, a, 1), sums{0, 0, 0, 0} {}
    MEMBER int own_group() const { return lane_id() / 16; }
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
    MEMBER void multiply(const batch &b, int group, int count) {
        const panel_lane lane = place();
#pragma unroll
        for (int k = 0; k < BLOCKS; k++) {
            const int g = group + 2 * k + own_group();
            if (2 * k + own_group() >= count) continue;
            const uint2 codes = x.columns(g, 0, lane.j);
            const float2 by = x.scales[2 * g];
            /* Four lanes share a row's group: each subtracts a quarter of the minimum's term.  With
             * HALVES it needs the sum of its own columns instead. */
            float part = 0.25f * by.y;
            if (TYPE::HALVES && TYPE::MINIMUM)
                part = by.x *
                       (float)__dp4a((int)codes.y, 0x01010101, __dp4a((int)codes.x, 0x01010101, 0));
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const uint2 w = TYPE::codes(b.groups[k], r, lane.j);
                int dot = __dp4a((int)signed_codes<TYPE>(w.x), (int)codes.x, (int)FLOAT_BITS);
                dot = __dp4a((int)signed_codes<TYPE>(w.y), (int)codes.y, dot);
                const params s = TYPE::scale(b.super, b.groups[k], r, lane.j / 2);
                sums[r] = fmaf(s.scale * by.x, sum_of(dot), sums[r]);
                if (TYPE::MINIMUM) sums[r] = fmaf(-s.minimum, part, sums[r]);
            }
        }
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

/* Up to eight tokens, by m16n8k32 mma: m is the panel, n the tokens, k a group.  Row r of the mma
 * is row 2r of the panel, row r + 8 is row 2r + 1, so that a lane's two rows are adjacent. */
template <class TYPE_> struct eight_tokens {
    typedef TYPE_ TYPE;
    enum { PARTS = 1, ROWS = 2, GROUPS = SL_LINEAR_BATCH };
    typedef panel_batch<TYPE, ROWS, GROUPS> batch;
    rows_in_shared x;
    float sums[4]; /* [2 rows][2 tokens] */

    MEMBER eight_tokens(unsigned char *shared, const sl_linear_panels &a, const block_tokens &t)
        : x(shared, a, t.count), sums{0, 0, 0, 0} {}
    MEMBER panel_lane place() const { return {nullptr, 0, lane_id() / 4 * ROWS, lane_id() % 4}; }
    MEMBER void fill(const sl_linear_panels &a, const block_tokens &t, int first, int groups) {
        x.fill(a, t, first, groups);
    }
    MEMBER void load(batch &b, const sl_cuda_panels &p, const panel_lane &lane, int group) const {
        const uint8_t *block = lane.data + block_offset(p, group);
        load_super(b, p, lane, group);
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
            if (group + k < p.groups) load_group<TYPE>(b.groups[k], block, lane, k);
    }
    MEMBER void multiply_group(const batch &b, int k, int group) {
        const panel_lane lane = place();
        const int column = lane_id() / 4, pair = lane_id() % 4;
        const uint2 codes = column < x.tokens ? x.columns(group, column, lane.j) : make_uint2(0, 0);
        const float4 by = pair < x.pairs ? ((const float4 *)x.scales)[group * x.pairs + pair]
                                         : make_float4(0, 0, 0, 0);
        const uint2 w0 = TYPE::codes(b.groups[k], 0, lane.j);
        const uint2 w1 = TYPE::codes(b.groups[k], 1, lane.j);
        const unsigned rows[4] = {signed_codes<TYPE>(w0.x), signed_codes<TYPE>(w1.x),
                                  signed_codes<TYPE>(w0.y), signed_codes<TYPE>(w1.y)};
        const unsigned columns[2] = {codes.x, codes.y};
#pragma unroll
        for (int half = 0; half <= TYPE::HALVES; half++) {
            int dots[4] = {FLOAT_BITS, FLOAT_BITS, FLOAT_BITS, FLOAT_BITS};
            const bool mine = !TYPE::HALVES || lane.j / 2 == half;
            const unsigned part[4] = {mine ? rows[0] : 0, mine ? rows[1] : 0, mine ? rows[2] : 0,
                                      mine ? rows[3] : 0};
            mma_s8(dots, part, columns);
            /* With HALVES, sums of half a group of each token, by a product with ones. */
            float low = by.y, high = by.w;
            if (TYPE::HALVES && TYPE::MINIMUM) {
                const unsigned one = mine ? 0x01010101u : 0, ones[4] = {one, one, one, one};
                int halves[4] = {FLOAT_BITS, FLOAT_BITS, FLOAT_BITS, FLOAT_BITS};
                mma_s8(halves, ones, columns);
                low = by.x * sum_of(halves[0]), high = by.z * sum_of(halves[1]);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const params s = TYPE::scale(b.super, b.groups[k], r, half);
                sums[2 * r] = fmaf(s.scale * by.x, sum_of(dots[2 * r]), sums[2 * r]);
                sums[2 * r + 1] = fmaf(s.scale * by.z, sum_of(dots[2 * r + 1]), sums[2 * r + 1]);
                if (!TYPE::MINIMUM) continue;
                sums[2 * r] = fmaf(-s.minimum, low, sums[2 * r]);
                sums[2 * r + 1] = fmaf(-s.minimum, high, sums[2 * r + 1]);
            }
        }
    }
    MEMBER void multiply(const batch &b, int group, int count) {
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
            if (k < count) multiply_group(b, k, group + k);
    }
    MEMBER void clear() {
#pragma unroll
        for (int i = 0; i < 4; i++) sums[i] = 0;
    }
    MEMBER void store(float *out) {
        const int row = lane_id() / 4 * ROWS, token = lane_id() % 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (token + i < x.tokens)
                *(float2 *)(out + (token + i) * SL_CUDA_PANEL_ROWS + row) =
                    make_float2(sums[i], sums[2 + i]);
    }
};

#define INSTANCE(NAME, THREADS, ...)                                                               \
    SL_CUDA_KERNEL_AHEAD(sl_linear_a8_1_##NAME, sl_linear_panels, THREADS) {                       \
        multiply_panels<one_token<rows_##NAME>>(a);                                                \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_linear_a8_8_##NAME, sl_linear_panels, THREADS) {                       \
        multiply_panels<eight_tokens<rows_##NAME>>(a);                                             \
    }
SL_PANEL_TYPES(INSTANCE)
