/* sdpa_few.cu - Attention of few rows over a cache of f16 (sdpa_few.cuh). */
#include "runtime/cuda/kernels/sdpa_few.cuh"

template <int D, int TILES> DEVICE void attend_few(const sl_sdpa_splits &a, few<D, TILES> &s) {
    enum { QUERIES = few<D, TILES>::QUERIES, STRIPES = few<D, TILES>::STRIPES };
    const range rows = rows_of_block(a, max(QUERIES / a.ratio, 1));
    if (rows.first == rows.end) return;
    const int first = (int)blockIdx.x * SPLIT;
    const range seen = set_queries<D, TILES>(a, s, rows);
    if (first >= seen.end || first + SPLIT <= seen.first) {
        leave_empty<D, TILES>(a, s); /* no barrier: a thread reads only what it wrote */
        return;
    }
    const int chunks = (a.ratio + QUERIES - 1) / QUERIES;
    const int stripe = warp_id() % STRIPES, from = first + warp_id() / STRIPES * SIDE;
    const bool is_used = from < seen.end && from + SIDE > seen.first; /* by the warp: one page */
    const int64_t place =
        is_used ? place_at(a, rows.end - 1, a.heads, (int)blockIdx.y / chunks, from) : 0;
    const uint16_t *keys = (const uint16_t *)a.keys + place * D;
    const uint16_t *values = (const uint16_t *)a.values + place * D;
    const int r = lane_id() / 4, c = lane_id() % 4;
    uint4 near[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) { /* 8 positions of one element */
        const int position = from + r * 8, d = stripe * SIDE + 4 * i + c;
        const int64_t at = (int64_t)(r / 2 * D + d) * KV_LANES + r % 2 * 8;
        const bool is_seen = position + 8 > seen.first && position < seen.end;
        near[i] = is_seen ? load_now(keys + at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++) { /* 8 elements of one position */
        const int position = from + 4 * i + c, d = stripe * SIDE + r * 8;
        copy_start(&s.values[i][threadIdx.x], values + (int64_t)(position - from) * D + d,
                   position >= seen.first && position < seen.end);
    }
    copy_commit();
    __syncthreads();
    put_queries<D, TILES>(a, s);
    __syncthreads();
    score<D, TILES>(s, near);
    __syncthreads();
    weigh<D, TILES>(a, s, first);
    copy_wait<0>();
    __syncthreads();
    mix<D, TILES>(a, s);
}

#define FEW(D, TILES)                                                                              \
    static_assert(sizeof(few<D, TILES>) <= SL_CUDA_FEW_BYTES(D, TILES), "room in shared memory");  \
    SL_CUDA_KERNEL(sl_sdpa_few_##D##_##TILES, sl_sdpa_splits, 2 * D / SIDE * WARP) {               \
        SL_DYNAMIC_SHARED(unsigned char, shared);                                                  \
        attend_few<D, TILES>(a, *(few<D, TILES> *)shared);                                         \
    }
FEW(64, 1)
FEW(64, 4)
FEW(128, 1)
FEW(128, 4)
FEW(256, 1)
FEW(256, 4)
