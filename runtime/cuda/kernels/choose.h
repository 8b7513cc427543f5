/* choose.h - Arguments of the kernels in choose.cu. */
#ifndef SL_RUNTIME_CUDA_KERNELS_CHOOSE_H
#define SL_RUNTIME_CUDA_KERNELS_CHOOSE_H
#include "runtime/gpu/fault.h"
#include <stdint.h>

typedef struct {
    const int32_t *tokens, *slots, *chosen;
    int32_t *out;
    int32_t rows, slot_count;
    sl_fault *fault;
} sl_resumed;

/* A row's logits are looked at in tiles, a block each. */
enum { SL_CHOOSE_TILE = 2048, SL_CHOOSE_THREADS = 256, SL_CHOOSE_LAST_THREADS = 1024 };
/* As many tokens of a row are set apart from the others, if those are all that can be chosen. */
enum { SL_CHOOSE_ROOM = 4096 };

/* The largest logit of a tile and where it is; -1 where none is a number. */
typedef struct {
    float logit;
    int32_t token;
} sl_tile_best;

typedef struct {
    const float *logits; /* [rows, vocab] */
    const double *how;   /* [rows, SL_CHOOSE_COLUMNS] */
    const int32_t *slots;
    int32_t *chosen, *out;
    int32_t vocab, tiles, slot_count;
    int32_t scale_bits; /* weights are whole numbers of 2^-scale_bits, whose sums do not depend on
                         * their order */
    /* Scratch. */
    sl_tile_best *best; /* [rows, tiles] */
    uint64_t *weights;  /* [rows, tiles] */
    int32_t *count;     /* [rows]: tokens set apart, or that would have been */
    int32_t *apart;     /* [rows, SL_CHOOSE_ROOM] */
    sl_fault *fault;
} sl_chosen;
#endif
