/* sdpa_place.cuh - Where positions of a sequence are in the KV cache (core/kv.h). */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_PLACE_CUH
#define SL_RUNTIME_CUDA_KERNELS_SDPA_PLACE_CUH
#include "runtime/cuda/kernels/cuda.cuh"

enum { KV_LANES = 16, KV_PAGE = 64 };

/* The slot or page of a position of row t, which need not be one that the row sees. */
template <class ARGS> DEVICE int slot_of(const ARGS &a, int t, int position) {
    return a.pages ? a.slots[(int64_t)t * a.pages + min(position / KV_PAGE, a.pages - 1)]
                   : a.slots[t];
}

/* A position of a KV head, counted over the whole cache; those of a page follow each other. */
template <class ARGS>
DEVICE int64_t place_in(const ARGS &a, int t, int slot, int heads, int head, int position) {
    const int64_t before = (int64_t)checked(a.fault, SL_FAULT_SLOT, t, slot, a.slot_count) * heads;
    return a.pages ? (before + head) * KV_PAGE + position % KV_PAGE
                   : (before + head) * a.capacity + position;
}
template <class ARGS>
DEVICE int64_t place_at(const ARGS &a, int t, int heads, int head, int position) {
    return place_in(a, t, slot_of(a, t, position), heads, head, position);
}
#endif
