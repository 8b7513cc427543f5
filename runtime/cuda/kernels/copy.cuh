/* copy.cuh - Asynchronous copies to shared memory (async.cuh), and loads from there into the
 * operands of tensor cores (mma.cuh). */
#ifndef SL_RUNTIME_CUDA_KERNELS_COPY_CUH
#define SL_RUNTIME_CUDA_KERNELS_COPY_CUH
#include "runtime/cuda/kernels/async.cuh"

/* Loads 16 bytes that nothing writes during the kernel (non-coherent, not kept in L1).  The asm is
 * volatile so that the load is issued here instead of where its result is used. */
DEVICE uint4 load_now(const void *from) {
#if SL_EMULATED
    uint4 x;
    memcpy(&x, from, sizeof x);
    return x;
#else
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
#endif
}

/* Loads 16 aligned bytes of any type. */
DEVICE uint4 load_bits(const void *from) {
#if SL_EMULATED
    uint4 x;
    memcpy(&x, from, sizeof x);
    return x;
#else
    return *(const uint4 *)from;
#endif
}

#if SL_EMULATED
/* Lanes 8 i to 8 i + 7 pass the addresses of the rows of matrix i, 8 halves each. */
static void load_matrices_emulated(unsigned (&out)[4], const void *row, bool transposed) {
    const unsigned char *all = emulated::warp_exchange(&row, sizeof row);
    const int r = lane_id() / 4, c = lane_id() % 4;
    for (int i = 0; i < 4; i++)
        for (int half = 0; half < 2; half++) {
            const int from = transposed ? 2 * c + half : r, at = transposed ? r : 2 * c + half;
            const uint16_t *halves;
            memcpy(&halves, all + 64 * (8 * i + from), sizeof halves);
            out[i] = half ? out[i] | (unsigned)halves[at] << 16 : halves[at];
        }
}
#endif
/* ldmatrix.x4: four 8 x 8 matrices of halves from shared memory.  Lane 8 i + j passes the address
 * of row j of matrix i.  Lane l gets, with r = l / 4 and c = l % 4, elements 2c and 2c + 1 of row r
 * of each matrix. */
DEVICE void load_matrices(unsigned (&out)[4], const void *row) {
#if SL_EMULATED
    load_matrices_emulated(out, row, false);
#else
    const unsigned shared = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
#endif
}
/* The same for the transposed matrices: lane l gets element r of rows 2c and 2c + 1. */
DEVICE void load_transposed(unsigned (&out)[4], const void *row) {
#if SL_EMULATED
    load_matrices_emulated(out, row, true);
#else
    const unsigned shared = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared)
                 : "memory");
#endif
}
#endif
