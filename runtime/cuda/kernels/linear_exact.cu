/* linear_exact.cu - A few rows of f32 with weights of panels (linear_exact.cuh). */
#include "runtime/cuda/kernels/linear_exact.cuh"

/* Tiles hold 2, 5 and 8 tokens. */
#define INSTANCE(NAME, THREADS, ...)                                                               \
    SL_CUDA_KERNEL_AHEAD(sl_linear_exact_2_##NAME, sl_linear_panels, THREADS) {                    \
        multiply_panels<exact_tokens<rows_##NAME, 1>>(a);                                          \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_linear_exact_5_##NAME, sl_linear_panels, 512) {                        \
        multiply_panels<exact_tokens<rows_##NAME, 2>>(a);                                          \
    }                                                                                              \
    SL_CUDA_KERNEL_AHEAD(sl_linear_exact_8_##NAME, sl_linear_panels, 512) {                        \
        multiply_panels<exact_tokens<rows_##NAME, 3>>(a);                                          \
    }
SL_PANEL_TYPES(INSTANCE)
