// expect: negative
#include "runtime/cuda/kernel.h"

void f(sl_gpu_planner *planner, const sl_copies *copies, const sl_gathering *gathering);
void f(sl_gpu_planner *planner, const sl_copies *copies, const sl_gathering *gathering) {
    (void)copies, (void)gathering;
#ifdef WRONG
    SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_copy), 0), 1, 32, *gathering);
#else
    SL_CUDA_ADD(planner, SL_CUDA_FN_OF_FORM(SL_CUDA_FN(sl_copy), 0), 1, 32, *copies);
#endif
}
