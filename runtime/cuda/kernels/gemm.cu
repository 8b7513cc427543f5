/* gemm.cu - GEMM of many a8 rows with panel weights, on int8 tensor cores. */
#include "runtime/cuda/kernels/gemm.cuh"

/* Grid: (rows of weights, tokens, split-K parts). */
template <class TYPE> DEVICE void gemm_rows(const sl_gemm_rows &a) {
    SL_DYNAMIC_SHARED(gemm_shared<TYPE>, s);
    const int first = (int)blockIdx.y * TOKENS;
    const int tokens = min(a.tokens - first, (int)TOKENS);
    const int thread = (int)threadIdx.x;
    const int panel = (int)blockIdx.x * TYPE::PANELS + gemm_first_panel<TYPE>();
    const int last = (a.w.rows - 1) / 16;
    const gemm_panel panels[2] = {{a.w.data, min(panel, last)}, {a.w.data, min(panel + 1, last)}};
    if (thread < TOKENS) s->tokens[thread] = thread < tokens ? first + thread : -1;
    gemm_sums<TYPE> sums;
    sl_cuda_panels part = a.w;
    const int begin = (int)blockIdx.z * a.part_groups;
    part.groups = min(begin + a.part_groups, a.w.groups);
    float *out = a.out + blockIdx.z * (a.tokens * a.out_stride);
    gemm_tile<TYPE>(s, part, panels, a.x, tokens, &sums, begin);
    gemm_write<TYPE>(s, &sums, tokens, a.w.rows, [&](int token, int row, float y) {
        out[(first + token) * a.out_stride + row] = y;
    });
}

#define GEMM(TYPE, ...)                                                                            \
    SL_CUDA_KERNEL(sl_gemm_wide_##TYPE, sl_gemm_rows, GEMM_THREADS) {                              \
        gemm_rows<wide<type_##TYPE>>(a);                                                           \
    }                                                                                              \
    SL_CUDA_KERNEL(sl_gemm_narrow_##TYPE, sl_gemm_rows, GEMM_THREADS) {                            \
        gemm_rows<narrow<type_##TYPE>>(a);                                                         \
    }
SL_PANEL_TYPES(GEMM)
