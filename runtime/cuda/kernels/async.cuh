/* async.cuh - Asynchronous copies from device memory to shared memory (cp.async).
 *
 * Copies are counted in groups, separated by copy_commit.  copy_wait<N> waits until all but the
 * last N groups of this thread have arrived; for copies of other threads a barrier must follow. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ASYNC_CUH
#define SL_RUNTIME_CUDA_KERNELS_ASYNC_CUH
#include "runtime/cuda/kernels/cuda.cuh"

/* A shared-memory address in the form that cp.async takes. */
#if SL_EMULATED
typedef uint8_t *shared_place;
DEVICE shared_place shared_place_of(void *shared) {
    return (uint8_t *)shared;
}
#else
typedef unsigned shared_place;
DEVICE shared_place shared_place_of(void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
#endif

/* BYTES: 4, 8 or 16; both addresses are aligned to it. */
template <int BYTES> DEVICE void copy_to(shared_place to, const void *from) {
#if SL_EMULATED
    memcpy(to, from, BYTES);
#else
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES)
                     : "memory");
#endif
}
template <int BYTES> DEVICE void copy_async(void *shared, const void *from) {
    copy_to<BYTES>(shared_place_of(shared), from);
}
/* Predicated copy of 16 aligned bytes: if !is_there, `from` is not read and zeros are written. */
DEVICE void copy_some(shared_place to, const void *from, bool is_there) {
#if SL_EMULATED
    if (is_there)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
#endif
}
DEVICE void copy_start(void *shared, const void *from, bool is_there) {
    copy_some(shared_place_of(shared), from, is_there);
}
DEVICE void copy_commit() {
#if !SL_EMULATED
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT> DEVICE void copy_wait() {
#if !SL_EMULATED
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}
/* Waits for all copies of this thread, committed or not. */
DEVICE void copy_wait_all() {
#if !SL_EMULATED
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif
