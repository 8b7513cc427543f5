/* everywhere.h - Functions that the evaluator, CPU kernels and CUDA kernels share. */
#ifndef SL_CORE_EVERYWHERE_H
#define SL_CORE_EVERYWHERE_H

#ifdef __CUDACC__
#define SL_EVERYWHERE static __host__ __device__ inline
#else
#define SL_EVERYWHERE static inline
#endif
#endif
