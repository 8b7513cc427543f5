/* gemv_panel.h - How panels are divided among warps, and the shared memory for it (gemv_panel.cuh).
 */
#ifndef SL_RUNTIME_CUDA_KERNELS_GEMV_PANEL_H
#define SL_RUNTIME_CUDA_KERNELS_GEMV_PANEL_H
#include "runtime/cuda/kernels/panel.h"

/* Blocks of a panel for each of `shares` warps: of types with parameters above super-groups, those
 * of whole ones. */
static inline int32_t sl_share_blocks(const sl_cuda_panels *w, int32_t shares) {
    const int32_t whole = w->super_bytes ? SL_CUDA_SUPER_GROUPS / 2 : 1;
    const int32_t units = ((w->groups + 1) / 2 + whole - 1) / whole;
    return (units + shares - 1) / shares * whole;
}
/* Bytes of so many blocks, and of what is kept apart of some types. */
static inline uint32_t sl_share_bytes(const sl_cuda_panels *w, int32_t blocks) {
    const uint32_t supers = (uint32_t)blocks / (SL_CUDA_SUPER_GROUPS / 2) + 2;
    return ((uint32_t)blocks * w->block_bytes + supers * (w->super_bytes + 8) + 15) / 16 * 16;
}
#endif
