/* attention.h - Arguments of the kernels in attention.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ATTENTION_H
#define SL_RUNTIME_CUDA_KERNELS_ATTENTION_H
#include <stdint.h>

enum {
    SL_ATTENTION_THREADS = 128,
    SL_ATTENTION_LANES = 8, /* threads that share a row */
    SL_ATTENTION_KEYS = 32, /* positions per tile */
    SL_ATTENTION_DEPTH = 64 /* elements of queries, keys and values that are loaded at once */
};

/* The masks of core/attention.h, as far as kernels tell them apart. */
enum { SL_ATTENDED_ALL, SL_ATTENDED_BACK, SL_ATTENDED_SHOWN, SL_ATTENDED_BIASED };

/* q and out are [heads, rows, ..], k and v [heads, keys, ..], where heads are the KV heads of all
 * batch entries, and rows the `queries` of each query head that reads the KV head. */
typedef struct {
    const void *q, *k, *v;
    const void *mask, *sinks; /* NULL: none */
    void *out;
    int64_t queries, rows, keys, key_dim, value_dim;
    int64_t tiles;      /* of rows, per head */
    int64_t window;     /* of SL_ATTENDED_BACK: the last positions that a query attends to */
    int64_t mask_by[4]; /* strides of [B,Hq,S,T] */
    int64_t kv_heads;   /* per batch entry */
    int32_t mask_kind;
    double scale, softcap; /* softcap 0: none */
} sl_attended;

/* Shared memory of a block: query, keys or values, and weights (attention.cu); then the mixes. */
static inline int64_t sl_attention_bytes(int64_t element_bytes, int64_t rows, int64_t value_dim) {
    const int64_t loaded = (rows + SL_ATTENTION_KEYS) * (SL_ATTENTION_DEPTH + 1);
    const int64_t weights = rows * (SL_ATTENTION_KEYS + 1);
    return 2 * rows * (int64_t)sizeof(int64_t) +
           (loaded + weights + rows * value_dim) * element_bytes;
}
#endif
