/* blocked.h - Long products of matrices whose sums are kept short: each block of BLOCK_INNER terms
 * is one chain in f32 (gemm.apart), and chains are added in order. */
#ifndef SL_RUNTIME_CPU_BLOCKED_H
#define SL_RUNTIME_CPU_BLOCKED_H
#include "runtime/cpu/kernels/gemm.h"

enum { BLOCK_INNER = 192 }; /* so that the nearest cache keeps two vectors of each row of B */

#endif
