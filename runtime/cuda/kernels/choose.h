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

/* The logits of a row are processed in tiles, one block per tile. */
enum { SL_CHOOSE_TILE = 2048, SL_CHOOSE_THREADS = 256, SL_CHOOSE_LAST_THREADS = 1024 };
/* Capacity of a row's candidate list, which holds the tokens that may pass the filters. */
enum { SL_CHOOSE_ROOM = 4096 };

/* The largest logit of a tile and its token; token -1 if all logits are NaN. */
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
    int32_t scale_bits; /* weights are fixed-point numbers with so many fraction bits, so that their
                         * sums do not depend on the order */
    /* Scratch. */
    sl_tile_best *best; /* [rows, tiles] */
    uint64_t *weights;  /* [rows, tiles] */
    int32_t *count;     /* [rows]: candidates; above SL_CHOOSE_ROOM the list is incomplete */
    int32_t *apart;     /* [rows, SL_CHOOSE_ROOM]: the candidates */
    sl_fault *fault;
} sl_chosen;
#endif
