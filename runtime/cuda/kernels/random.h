/* random.h - Arguments of the kernels in random.cu: random numbers and sampling.  Types are
 * numbered as in core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_RANDOM_H
#define SL_RUNTIME_CUDA_KERNELS_RANDOM_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

enum { SL_RANDOM_THREADS = 128, SL_SAMPLE_THREADS = 256 };

typedef struct {
    const uint32_t *key, *counter; /* key: two words; counter: two or four */
    int64_t counter_words;
} sl_random_stream;

/* One thread per number. */
typedef struct {
    sl_random_stream stream;
    void *out;
    int64_t count;
    int32_t type, normal;
} sl_random;

/* One block per row. */
typedef struct {
    sl_random_stream stream;
    const void *logits;
    double *weights; /* [rows, cols], scratch */
    int32_t *out;
    sl_fault *fault;
    int64_t rows, cols, top_k;
    double temperature, top_p;
    int32_t type, reserved;
} sl_sampled;
#endif
