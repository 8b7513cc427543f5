/* sdpa_step.h - Arguments of the kernels in sdpa_step.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SDPA_STEP_H
#define SL_RUNTIME_CUDA_KERNELS_SDPA_STEP_H
#include "runtime/cuda/kernels/panel.h"
#include "runtime/cuda/kernels/sdpa.h"
#include "runtime/cuda/kernels/sdpa_append.h"

/* One row: its key and value enter the cache, its queries are changed, and splits attended to. */
typedef struct {
    sl_sdpa_splits splits; /* its q: query i of the row at i * query_step */
    sl_head_change query;
    sl_cache_append append; /* into the cache of the splits */
    int32_t query_step, reserved;
} sl_sdpa_step;

enum { SL_CUDA_MERGE_COLUMNS = 64, SL_CUDA_MERGE_THREADS = 256 };

/* All splits of that row's queries become one, which may then be gated and coded. */
typedef struct {
    sl_sdpa_joined joined; /* one group */
    const int32_t *positions;
    const float *gate; /* of query i at i * gate_step; NULL: none, and `out` is stored */
    sl_cuda_rows8_out codes;
    int32_t gate_step;
    int32_t window; /* positions that a row sees at most; 0: all */
} sl_sdpa_merge_step;
#endif
