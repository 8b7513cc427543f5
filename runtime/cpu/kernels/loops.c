/* loops.c - The least that reading and computing can cost. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vec.h"

enum { STREAMS = 4, LINE = 64, VECTORS = LINE / (int)sizeof(vf), CHAINS = 12 };

/* Four quarters of the block side by side, as a row of panels is read; integers, because sums of
 * any bytes as floats could be slow. */
float SL_KERNEL(sl_loop_read)(const void *block, size_t bytes) {
    const size_t quarter = bytes / STREAMS / LINE * LINE;
    vu sums[STREAMS][VECTORS] = {0};
    for (size_t at = 0; at < quarter; at += LINE) {
#pragma GCC unroll 4
        for (size_t s = 0; s < STREAMS; s++)
#pragma GCC unroll 4
            for (size_t v = 0; v < VECTORS; v++)
                sums[s][v] += vload_u32((const char *)block + s * quarter + at + v * sizeof(vf));
    }
    vu total = {0};
    for (int s = 0; s < STREAMS; s++)
        for (int v = 0; v < VECTORS; v++) total += sums[s][v];
    return (float)total[0] + (float)total[LANES - 1];
}

/* Enough chains to hide the latency of two units, few enough for sixteen registers. */
float SL_KERNEL(sl_loop_fma)(uint64_t rounds, uint64_t *out_operations) {
    const vf factor = vsplat(0.999f), addend = vsplat(0.001f);
    vf chains[CHAINS];
    for (int c = 0; c < CHAINS; c++) chains[c] = vsplat((float)c);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++) chains[c] = vfma(chains[c], factor, addend);
    }
    vf total = vzero();
    for (int c = 0; c < CHAINS; c++) total += chains[c];
    *out_operations = rounds * CHAINS * LANES * 2;
    return vsum(total);
}
