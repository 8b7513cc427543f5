/* attention_tile.h - Attention of a tile of rows over blocks of keys with a running maximum (online
 * softmax); included once per REAL (reals.h). */
#include "runtime/cpu/kernels/attention_heads.h"

/* Scratch of a tile. */
typedef struct {
    REAL *query;         /* [TILE, key_dim] */
    REAL *packed;        /* [key_dim or value_dim, KEYS]: a transposed block of keys or values */
    REAL *rows;          /* [KEYS, the larger dim]: a block converted to REAL */
    REAL *scores, *mix;  /* [TILE, KEYS] and [TILE, value_dim] */
    REAL *largest, *sum; /* [TILE]: running maximum and sum of the online softmax */
} NAMED(room);

static NAMED(room) NAMED(room_of)(carver *c, int64_t key_dim, int64_t value_dim) {
    const int64_t wide = key_dim > value_dim ? key_dim : value_dim;
    const size_t each = sizeof(REAL);
    NAMED(room) m;
    m.query = carve(c, TILE * key_dim, each);
    m.packed = carve(c, KEYS * wide, each);
    m.rows = carve(c, KEYS * wide, each);
    m.scores = carve(c, TILE * KEYS, each);
    m.mix = carve(c, TILE * value_dim, each);
    m.largest = carve(c, TILE, each);
    m.sum = carve(c, TILE, each);
    return m;
}

/* Transposes the rows of x into m->packed. */
static void NAMED(pack)(const matrix *x, NAMED(room) * m) {
    for (int64_t j = 0; j < x->n; j += PACKED) {
        const REAL *from[PACKED];
        const int64_t count = x->n - j < PACKED ? x->n - j : PACKED;
        for (int64_t i = 0; i < count; i++)
            from[i] = NAMED(load)(x->dtype, x->data, x->at + (j + i) * x->step, x->width,
                                  m->rows + i * x->width);
        for (int64_t d = 0; d < x->width; d++)
            for (int64_t i = 0; i < count; i++) m->packed[d * KEYS + j + i] = from[i][d];
    }
}

/* out = own x^T, out [rows, KEYS]. */
static void NAMED(products)(const REAL *own, int64_t rows, const matrix *x, NAMED(room) * m,
                            REAL *out) {
    if (rows <= FEW) {
        for (int64_t j = 0; j < x->n; j++) {
            const REAL *other =
                NAMED(load)(x->dtype, x->data, x->at + j * x->step, x->width, m->rows);
            for (int64_t r = 0; r < rows; r++)
                out[r * KEYS + j] = NAMED(dot)(own + r * x->width, other, x->width);
        }
        return;
    }
    NAMED(pack)(x, m);
    NAMED(multiply)
    (&(NAMED(gemm)){.a = own,
                    .a_row = x->width,
                    .a_col = 1,
                    .b = m->packed,
                    .b_row = KEYS,
                    .c = out,
                    .c_row = KEYS,
                    .rows = rows,
                    .cols = x->n,
                    .inner = x->width});
}

/* Applies the mask (-inf where false) or adds the bias, for the positions of s. */
static void NAMED(apply_mask)(const heads *h, int64_t row, span s, REAL *scores) {
    const int64_t *by = h->mask_by.by;
    const int64_t at =
        h->mask_at + row / h->queries * by[1] + row % h->queries * by[2] + s.first * by[3];
    if (h->form->mask == SL_MASK_CUSTOM) {
        const uint8_t *shown = (const uint8_t *)h->mask + at;
        for (int64_t j = 0; j < s.n; j++)
            if (!shown[j * by[3]]) scores[j] = (REAL)-INFINITY;
        return;
    }
    for (int64_t j = 0; j < s.n; j++)
        scores[j] += NAMED(element)(h->mask_dtype, h->mask, at + j * by[3]);
}

/* Turns dot products into scores (scale, soft cap, mask; -inf where masked).  slopes, unless NULL,
 * gets the derivative of each score with respect to its dot product. */
static void NAMED(score)(const heads *h, int64_t row, span s, REAL *scores, REAL *slopes) {
    const int64_t n = s.n;
    const REAL scale = (REAL)h->form->scale, cap = (REAL)h->form->softcap;
    for (int64_t j = 0; j < n; j++) scores[j] *= scale;
    for (int64_t j = 0; j < n && slopes; j++) slopes[j] = scale;
    if (cap > 0) {
        for (int64_t j = 0; j < n; j++) scores[j] /= cap;
        NAMED(tanh)(scores, n);
        for (int64_t j = 0; j < n && slopes; j++) slopes[j] *= 1 - scores[j] * scores[j];
        for (int64_t j = 0; j < n; j++) scores[j] *= cap;
    }
    if (h->mask) NAMED(apply_mask)(h, row, s, scores);
    const sl_seen seen = sl_attention_seen(h->form, h->queries, h->keys, row % h->queries);
    for (int64_t j = 0; j < n && s.first + j < seen.first; j++) scores[j] = (REAL)-INFINITY;
    for (int64_t j = seen.end > s.first ? seen.end - s.first : 0; j < n; j++)
        scores[j] = (REAL)-INFINITY;
}

/* Loads the queries of the tile and initialises the online softmax; an attention sink counts as a
 * first score without a value. */
static void NAMED(begin)(const heads *h, int64_t first_row, int64_t rows, NAMED(room) * m) {
    for (int64_t r = 0; r < rows; r++) {
        const int64_t head = (first_row + r) / h->queries, query = (first_row + r) % h->queries;
        NAMED(copy)
        (h->dtype, h->q, h->q_at + head * h->q_head + query * h->q_row, h->key_dim,
         m->query + r * h->key_dim);
        m->largest[r] = NAMED(lowest), m->sum[r] = 0;
        if (!h->sinks) continue;
        const REAL sink = NAMED(element)(h->dtype, h->sinks, h->sinks_at + head);
        if (sink > m->largest[r]) m->largest[r] = sink;
        m->sum[r] = NAMED(exponential)(sink - m->largest[r]);
    }
}

/* Online softmax: replaces scores by e^(score - maximum) and updates the running maximum and sum.
 * Returns the factor by which earlier results must be scaled. */
static REAL NAMED(weigh)(REAL *scores, int64_t n, REAL *largest, REAL *sum) {
    const REAL here = NAMED(most)(scores, n), before = *largest;
    if (here > before) *largest = here;
    const REAL keep = NAMED(exponential)(before - *largest);
    *sum = *sum * keep + NAMED(terms)(scores, n, *largest);
    return keep;
}

/* m->mix += m->scores times values. */
static void NAMED(add_values)(const matrix *values, int64_t rows, NAMED(room) * m) {
    const int64_t width = values->width;
    const bool as_it_is = sizeof(REAL) == sl_dtype_infos[values->dtype].bytes;
    for (int64_t j = 0; j < values->n && !as_it_is; j++) NAMED(copy)
    (values->dtype, values->data, values->at + j * values->step, width, m->rows + j * width);
    NAMED(multiply)
    (&(NAMED(gemm)){.a = m->scores,
                    .a_row = KEYS,
                    .a_col = 1,
                    .b = as_it_is ? (const REAL *)values->data + values->at : m->rows,
                    .b_row = as_it_is ? values->step : width,
                    .c = m->mix,
                    .c_row = width,
                    .rows = rows,
                    .cols = width,
                    .inner = values->n,
                    .add = true});
}

/* Attention of rows [first_row, first_row + rows) of the group; the result is left in m->mix. */
static void NAMED(attend)(const heads *h, int64_t first_row, int64_t rows, NAMED(room) * m) {
    const int64_t width = h->value_dim;
    const sl_seen seen = rows_see(h, first_row, rows);
    NAMED(begin)(h, first_row, rows, m);
    memset(m->mix, 0, (size_t)(rows * width) * sizeof *m->mix);
    for (int64_t p = seen.first; p < seen.end; p += KEYS) {
        const span s = next_span(seen, p);
        const matrix keys = keys_of(h, s), values = values_of(h, s);
        NAMED(products)(m->query, rows, &keys, m, m->scores);
        for (int64_t r = 0; r < rows; r++) {
            REAL *scores = m->scores + r * KEYS, *mix = m->mix + r * width;
            NAMED(score)(h, first_row + r, s, scores, NULL);
            const REAL keep = NAMED(weigh)(scores, s.n, &m->largest[r], &m->sum[r]);
            for (int64_t d = 0; d < width && keep != 1; d++) mix[d] *= keep;
        }
        NAMED(add_values)(&values, rows, m);
    }
    for (int64_t r = 0; r < rows; r++) {
        const REAL inverse = m->sum[r] != 0 ? 1 / m->sum[r] : 0;
        for (int64_t d = 0; d < width; d++) m->mix[r * width + d] *= inverse;
    }
}
