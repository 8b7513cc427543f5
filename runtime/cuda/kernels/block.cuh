/* block.cuh - Reductions over the threads of a block, in double. */
#ifndef SL_RUNTIME_CUDA_KERNELS_BLOCK_CUH
#define SL_RUNTIME_CUDA_KERNELS_BLOCK_CUH
#include "runtime/cuda/kernels/cuda.cuh"

/* Argmax over a block of THREADS threads: the index that belongs to the largest value, on ties the
 * lowest index.  Every thread gets the result. */
template <int THREADS> DEVICE int64_t place_of_largest(double own, int64_t place) {
    __shared__ double sizes[THREADS];
    __shared__ int64_t places[THREADS];
    const int me = (int)threadIdx.x;
    sizes[me] = own;
    places[me] = place;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        const int other = me + half;
        if (me < half && (sizes[other] > sizes[me] ||
                          (sizes[other] == sizes[me] && places[other] < places[me]))) {
            sizes[me] = sizes[other];
            places[me] = places[other];
        }
        __syncthreads();
    }
    place = places[0];
    __syncthreads();
    return place;
}
#endif
