/* number.h - The kinds of reductions, shared by plans and kernels. */
#ifndef SL_RUNTIME_CUDA_KERNELS_NUMBER_H
#define SL_RUNTIME_CUDA_KERNELS_NUMBER_H

/* Numbered as the attribute `combine` of scatter. */
enum { SL_FOLD_SET, SL_FOLD_ADD, SL_FOLD_MUL, SL_FOLD_MAX, SL_FOLD_MIN };
#endif
