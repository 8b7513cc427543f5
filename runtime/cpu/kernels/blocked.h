/* blocked.h - Matrix products with a long inner dim: each block of BLOCK_INNER terms is summed
 * separately in f32 (gemm.apart), and the block sums are added in order, to limit rounding errors.
 */
#ifndef SL_RUNTIME_CPU_BLOCKED_H
#define SL_RUNTIME_CPU_BLOCKED_H
#include "runtime/cpu/kernels/gemm.h"

/* Two vectors of each row of B for this many terms fit in the L1 cache. */
enum { BLOCK_INNER = 192 };

#endif
