/* gemv_panel.h - How panels are divided among warps, and the shared memory for it (gemv_panel.cuh).
 */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMV_PANEL_H
#define SL_RUNTIME_CUDA_KERNELS_GEMV_PANEL_H
#include "runtime/cuda/kernels/panel.h"

/* The number of a panel's blocks that each of `shares` warps takes; whole super-groups if the type
 * stores parameters in front of them. */
static inline int32_t sl_share_blocks(const sl_cuda_panels *w, int32_t shares) {
    const int32_t whole = w->super_bytes ? SL_CUDA_SUPER_GROUPS / 2 : 1;
    const int32_t units = ((w->groups + 1) / 2 + whole - 1) / whole;
    return (units + shares - 1) / shares * whole;
}
/* Bytes of shared memory for so many blocks, with the super-group headers that some types keep in a
 * plane of their own. */
static inline uint32_t sl_share_bytes(const sl_cuda_panels *w, int32_t blocks) {
    const uint32_t supers = (uint32_t)blocks / (SL_CUDA_SUPER_GROUPS / 2) + 2;
    return ((uint32_t)blocks * w->block_bytes + supers * (w->super_bytes + 8) + 15) / 16 * 16;
}
#endif
