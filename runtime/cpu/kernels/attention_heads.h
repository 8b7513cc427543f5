/* attention_heads.h - One KV head and the queries that use it, with any strides. */
#ifndef SL_RUNTIME_CPU_ATTENTION_HEADS_H
#define SL_RUNTIME_CPU_ATTENTION_HEADS_H
#include "core/attention.h"
#include "runtime/cpu/kernels/reals.h"

enum {
    TILE = 64,  /* rows of a tile; rows are the queries of all heads of a group, head after head */
    KEYS = 128, /* positions of a block of keys */
    PACKED = 8, /* keys that are transposed together */
    FEW = 4     /* up to this many rows, transposing the keys does not pay */
};

typedef struct {
    const sl_attention_form *form;
    sl_dtype dtype; /* of everything but the mask */
    const void *q, *k, *v;
    int64_t q_at, k_at, v_at;                         /* offset of the head, in elements */
    int64_t q_head, q_row, k_row, v_row;              /* strides, in elements */
    int64_t queries, group, keys, key_dim, value_dim; /* group: query heads */
    const void *mask;                                 /* NULL: no mask or bias tensor */
    sl_dtype mask_dtype;
    int64_t mask_at; /* offset of the first head of the group */
    sl_strides mask_by;
    const void *sinks; /* from the first head of the group on; NULL: none */
    int64_t sinks_at;
} heads;

/* Positions [first, first + n). */
typedef struct {
    int64_t first, n;
} span;

/* Rows of keys or values: n rows of `width` elements, `step` elements apart. */
typedef struct {
    sl_dtype dtype;
    const void *data;
    int64_t at, step, width, n;
} matrix;

static inline matrix keys_of(const heads *h, span s) {
    return (matrix){h->dtype, h->k, h->k_at + s.first * h->k_row, h->k_row, h->key_dim, s.n};
}
static inline matrix values_of(const heads *h, span s) {
    return (matrix){h->dtype, h->v, h->v_at + s.first * h->v_row, h->v_row, h->value_dim, s.n};
}

/* The block of positions from `first` on, clipped to the visible range. */
static inline span next_span(sl_seen seen, int64_t first) {
    return (span){first, seen.end - first < KEYS ? seen.end - first : KEYS};
}

/* The union of the ranges of positions that are visible to the rows. */
static inline sl_seen rows_see(const heads *h, int64_t first_row, int64_t rows) {
    sl_seen all = {h->keys, 0};
    for (int64_t r = first_row; r < first_row + rows; r++) {
        const sl_seen own = sl_attention_seen(h->form, h->queries, h->keys, r % h->queries);
        if (own.first >= own.end) continue;
        all.first = own.first < all.first ? own.first : all.first;
        all.end = own.end > all.end ? own.end : all.end;
    }
    return all;
}
#endif
