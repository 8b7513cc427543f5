/* sdpa_step.h - Arguments of the kernels in sdpa_step.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_STEP_H
#define SL_RUNTIME_CUDA_KERNELS_SDPA_STEP_H
#include "runtime/cuda/kernels/panel.h"
#include "runtime/cuda/kernels/sdpa.h"
#include "runtime/cuda/kernels/sdpa_append.h"

/* One row: writes its key and value to the cache, normalises and rotates its queries, and computes
 * the splits. */
typedef struct {
    sl_sdpa_splits splits; /* q: query i of the row is at i * query_step */
    sl_head_change query;
    sl_cache_append append; /* the same cache as in `splits` */
    int32_t query_step, reserved;
} sl_sdpa_step;

enum { SL_CUDA_MERGE_COLUMNS = 64, SL_CUDA_MERGE_THREADS = 256 };

/* Merges all splits of the row's queries; with `gate`, multiplies by sigmoid(gate) and quantises to
 * a8. */
typedef struct {
    sl_sdpa_joined joined; /* one group */
    const int32_t *positions;
    const float *gate; /* gate of query i at i * gate_step; NULL: `out` is stored */
    sl_cuda_rows8_out codes;
    int32_t gate_step;
    int32_t window; /* sliding window in positions; 0: none */
} sl_sdpa_merge_step;
#endif
