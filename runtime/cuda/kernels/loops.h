/* loops.h - Arguments of the kernels in loops.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_LOOPS_H
#define SL_RUNTIME_CUDA_KERNELS_LOOPS_H

enum { SL_CUDA_LOOP_TILES = 8 }; /* m16n8k16, per warp and round */

typedef struct {
    float *out; /* never written; keeps the compiler from removing the loop */
    int rounds;
} sl_mma_loop;
#endif
