// expect: undeclared|undefined|unknown type
#include "runtime/cuda/kernel.h"

const sl_rope_heads *f(const sl_gpu_launch *launch);
const sl_rope_heads *f(const sl_gpu_launch *launch) {
#ifdef WRONG
    return SL_CUDA_ARGS(launch, sl_rope_of_no_row);
#else
    return SL_CUDA_ARGS(launch, sl_rope);
#endif
}
