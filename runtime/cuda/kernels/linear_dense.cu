/* linear_dense.cu - Few f32 rows with weights of f32, f16 or bf16.
 *
 * A unit is four rows of weights.  The warps that share it take columns in turn; a lane loads 16
 * bytes of each row if rows are aligned, else one element. */
#include "runtime/cuda/kernels/linear.cuh"

enum { ROWS = SL_LINEAR_DENSE_ROWS };

struct of_f32 {
    typedef float element;
    enum { WIDE = 4 };
    DEVICE float value(float w) {
        return w;
    }
    DEVICE void values(float (&to)[WIDE], const uint4 &w) {
        to[0] = __uint_as_float(w.x), to[1] = __uint_as_float(w.y);
        to[2] = __uint_as_float(w.z), to[3] = __uint_as_float(w.w);
    }
};
template <class HALF> struct of_half {
    typedef uint16_t element;
    enum { WIDE = 8 };
    DEVICE void values(float (&to)[WIDE], const uint4 &w) {
        const float2 v[4] = {HALF::pair(w.x), HALF::pair(w.y), HALF::pair(w.z), HALF::pair(w.w)};
#pragma unroll
        for (int i = 0; i < 4; i++) to[2 * i] = v[i].x, to[2 * i + 1] = v[i].y;
    }
};
struct of_f16 : of_half<of_f16> {
    DEVICE float value(uint16_t w) {
        return f32_of_f16(w);
    }
    DEVICE float2 pair(unsigned w) {
        return f32_of_f16_pair(w);
    }
};
struct of_bf16 : of_half<of_bf16> {
    DEVICE float value(uint16_t w) {
        return f32_of_bf16(w);
    }
    DEVICE float2 pair(unsigned w) {
        return f32_of_bf16_pair(w);
    }
};

/* 16 bytes of each row of weights from `column` on, to be multiplied with every token. */
template <class TYPE, int TOKENS> struct wide_columns {
    enum { STEP = WARP * TYPE::WIDE };
    uint4 w[ROWS];
    MEMBER void load(const char *const (&rows)[ROWS], int column) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            w[r] = __ldcs((const uint4 *)((const typename TYPE::element *)rows[r] + column));
    }
    MEMBER void multiply(float (&sums)[ROWS * TOKENS], const float *x, int64_t stride, int tokens,
                         int column) const {
        float values[ROWS][TYPE::WIDE];
#pragma unroll
        for (int r = 0; r < ROWS; r++) TYPE::values(values[r], w[r]);
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const float *from = x + (t < tokens ? t : 0) * stride + column;
#pragma unroll
            for (int q = 0; q < TYPE::WIDE / 4; q++) {
                const float4 v = __ldg((const float4 *)from + q);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    float sum = sums[t * ROWS + r];
                    sum = fmaf(values[r][4 * q], v.x, sum);
                    sum = fmaf(values[r][4 * q + 1], v.y, sum);
                    sum = fmaf(values[r][4 * q + 2], v.z, sum);
                    sums[t * ROWS + r] = fmaf(values[r][4 * q + 3], v.w, sum);
                }
            }
        }
    }
};
/* The same for one element of each row. */
template <class TYPE, int TOKENS> struct single_columns {
    enum { STEP = WARP };
    typename TYPE::element w[ROWS];
    MEMBER void load(const char *const (&rows)[ROWS], int column) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) w[r] = ((const typename TYPE::element *)rows[r])[column];
    }
    MEMBER void multiply(float (&sums)[ROWS * TOKENS], const float *x, int64_t stride, int tokens,
                         int column) const {
#pragma unroll
        for (int t = 0; t < TOKENS; t++) {
            const float v = t < tokens ? x[t * stride + column] : 0.0f;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sums[t * ROWS + r] = fmaf(TYPE::value(w[r]), v, sums[t * ROWS + r]);
        }
    }
};

/* Transposing butterfly reduction over the warp (with D = 1): lane l gets the sum over all lanes of
 * v[l % N], N a power of two.  At each step a lane exchanges half of its values with lane l ^ D. */
template <int N, int D> DEVICE float spread_sum(const float (&v)[N]) {
    if constexpr (N == 1) {
        float sum = v[0];
#pragma unroll
        for (int d = D; d < WARP; d *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, d);
        return sum;
    } else {
        const bool odd = lane_id() & D;
        float half[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            const float keep = odd ? v[2 * i + 1] : v[2 * i], give = odd ? v[2 * i] : v[2 * i + 1];
            half[i] = keep + __shfl_xor_sync(ALL_LANES, give, D);
        }
        return spread_sum<N / 2, 2 * D>(half);
    }
}

/* COLUMNS: wide_columns or single_columns; AHEAD loads are in flight at a time. */
template <class COLUMNS, int TOKENS, int AHEAD>
DEVICE void add_columns(float (&sums)[ROWS * TOKENS], const char *const (&rows)[ROWS],
                        const float *x, int tokens, const sl_linear_dense &a, int wide) {
    const int share = warp_id() % a.d.split, step = a.d.split * COLUMNS::STEP;
    int column = share * COLUMNS::STEP + lane_id() * wide;
    for (; column + (AHEAD - 1) * step < a.cols; column += AHEAD * step) {
        COLUMNS c[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) c[i].load(rows, column + i * step);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) c[i].multiply(sums, x, a.cols, tokens, column + i * step);
    }
    for (; column < a.cols; column += step) {
        COLUMNS c;
        c.load(rows, column);
        c.multiply(sums, x, a.cols, tokens, column);
    }
}

template <class TYPE, int TOKENS, bool WIDE> DEVICE void multiply_dense(const sl_linear_dense &a) {
    SL_DYNAMIC_SHARED(float, parts);
    const int first = (int)blockIdx.y * TOKENS, tokens = min(a.d.tokens - first, TOKENS);
    const float *x = a.x + (int64_t)first * a.cols;
    const int task = (int)blockIdx.x;
    const unit_place u = unit_at(a.d, a.finish, task, warp_id() / a.d.split);
    float sums[ROWS * TOKENS];
    const char *rows[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS * TOKENS; i++) sums[i] = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) { /* beyond the last row: the last again */
        const int row = min(max(u.unit, 0) * ROWS + r, a.d.rows[u.weight] - 1);
        rows[r] = (const char *)a.w[u.weight] +
                  (int64_t)row * a.cols * (int64_t)sizeof(typename TYPE::element);
    }
    if (u.unit >= 0) {
        enum { AHEAD = TOKENS == 8 ? 1 : 2 };
        if (WIDE)
            add_columns<wide_columns<TYPE, TOKENS>, TOKENS, AHEAD>(sums, rows, x, tokens, a,
                                                                   TYPE::WIDE);
        else
            add_columns<single_columns<TYPE, TOKENS>, TOKENS, 4>(sums, rows, x, tokens, a, 1);
    }
    const float sum = spread_sum<ROWS * TOKENS, 1>(sums);
    if (lane_id() < tokens * ROWS) parts[warp_id() * tokens * ROWS + lane_id()] = sum;
    __syncthreads();
    const task_sums<ROWS, 1> all = {parts, tokens, a.d.split};
    finish_task(a.finish, a.d, all, task, first, tokens);
}

#define INSTANCE(TYPE, TOKENS)                                                                     \
    SL_CUDA_KERNEL(sl_linear_dense_##TOKENS##_##TYPE, sl_linear_dense) {                           \
        multiply_dense<of_##TYPE, TOKENS, false>(a);                                               \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_linear_wide_##TOKENS##_##TYPE, sl_linear_dense) {                            \
        multiply_dense<of_##TYPE, TOKENS, true>(a);                                                \
    }
#define INSTANCES(TYPE) INSTANCE(TYPE, 1) INSTANCE(TYPE, 4) INSTANCE(TYPE, 8)
INSTANCES(f32)
INSTANCES(f16)
INSTANCES(bf16)
