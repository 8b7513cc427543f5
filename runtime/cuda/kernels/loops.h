/* loops.h - Arguments of the kernels in loops.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_LOOPS_H
#define SL_RUNTIME_CUDA_KERNELS_LOOPS_H

enum { SL_CUDA_LOOP_TILES = 8 }; /* of 16 x 8 x 16, per warp and round */

typedef struct {
    float *out; /* never written: keeps the work from being left out */
    int rounds;
} sl_mma_loop;
#endif
