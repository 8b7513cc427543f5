/* attention_backward.h - The gradient of attention for a tile of rows; included once per REAL
 * (reals.h), after head_at and job.
 *
 * Two passes over the keys: the first computes each row's softmax maximum and sum and the weighted
 * mean of its weight gradients, the second recomputes the weights and accumulates the gradients. */
#include "runtime/cpu/kernels/attention_tile.h"

/* Accumulators of the gradients; NULL: not computed. */
typedef struct {
    REAL *dq;    /* [TILE, key_dim], of this tile only */
    REAL *dk;    /* [keys, key_dim] */
    REAL *dv;    /* [keys, value_dim] */
    REAL *dbias; /* the bias plane of the row's head */
    REAL *dsink; /* one number */
} NAMED(sums);

typedef struct {
    const void *dout;
    int64_t dout_at; /* offset of the first head of the group, in elements */
    NAMED(room) m;
    REAL *douts;   /* [TILE, value_dim] */
    REAL *slopes;  /* [TILE, KEYS]: derivative of each score with respect to its dot product */
    REAL *changes; /* [TILE, KEYS]: gradients of weights, later of dot products */
    REAL *mean;    /* [TILE]: sum of weight * gradient of the weight */
    REAL *keys;    /* [KEYS, key_dim]: a block of keys, converted but not transposed */
} NAMED(backward);

static NAMED(backward) NAMED(backward_of)(carver *c, int64_t key_dim, int64_t value_dim) {
    const size_t each = sizeof(REAL);
    NAMED(backward) b = {.m = NAMED(room_of)(c, key_dim, value_dim)};
    b.douts = carve(c, TILE * value_dim, each);
    b.slopes = carve(c, TILE * KEYS, each);
    b.changes = carve(c, TILE * KEYS, each);
    b.mean = carve(c, TILE, each);
    b.keys = carve(c, KEYS * key_dim, each);
    return b;
}

/* Scores, their slopes and the gradients of the softmax weights for one block of keys. */
static void NAMED(backward_scores)(const heads *h, int64_t first_row, int64_t rows, span s,
                                   NAMED(backward) * b) {
    const matrix keys = keys_of(h, s), values = values_of(h, s);
    NAMED(products)(b->m.query, rows, &keys, &b->m, b->m.scores);
    NAMED(products)(b->douts, rows, &values, &b->m, b->changes);
    for (int64_t r = 0; r < rows; r++)
        NAMED(score)(h, first_row + r, s, b->m.scores + r * KEYS, b->slopes + r * KEYS);
}

/* First pass: the softmax maximum, sum and mean of each row. */
static void NAMED(backward_means)(const heads *h, int64_t first_row, int64_t rows, sl_seen seen,
                                  NAMED(backward) * b) {
    NAMED(begin)(h, first_row, rows, &b->m);
    for (int64_t r = 0; r < rows; r++) {
        b->mean[r] = 0;
        NAMED(copy)
        (h->dtype, b->dout, b->dout_at + (first_row + r) * h->value_dim, h->value_dim,
         b->douts + r * h->value_dim);
    }
    for (int64_t p = seen.first; p < seen.end; p += KEYS) {
        const span s = next_span(seen, p);
        NAMED(backward_scores)(h, first_row, rows, s, b);
        for (int64_t r = 0; r < rows; r++) {
            REAL *scores = b->m.scores + r * KEYS;
            const REAL keep = NAMED(weigh)(scores, s.n, &b->m.largest[r], &b->m.sum[r]);
            b->mean[r] = b->mean[r] * keep + NAMED(dot)(scores, b->changes + r * KEYS, s.n);
        }
    }
    for (int64_t r = 0; r < rows; r++) {
        b->m.sum[r] = b->m.sum[r] != 0 ? 1 / b->m.sum[r] : 0; /* the inverse from here on */
        b->mean[r] *= b->m.sum[r];
    }
}

/* Turns scores into softmax weights, and gradients of weights into gradients of dot products. */
static void NAMED(backward_row)(const heads *h, int64_t row, span s, const NAMED(sums) * to,
                                NAMED(backward) * b, int64_t r) {
    const int64_t n = s.n;
    REAL *weights = b->m.scores + r * KEYS, *changes = b->changes + r * KEYS;
    const REAL *slopes = b->slopes + r * KEYS;
    (void)NAMED(terms)(weights, n, b->m.largest[r]);
    for (int64_t j = 0; j < n; j++) {
        weights[j] *= b->m.sum[r];
        changes[j] = weights[j] * (changes[j] - b->mean[r]);
    }
    const int64_t *by = h->mask_by.by;
    const int64_t at = row % h->queries * by[2] + s.first * by[3];
    for (int64_t j = 0; j < n && to->dbias; j++) to->dbias[at + j * by[3]] += changes[j];
    for (int64_t j = 0; j < n; j++) changes[j] *= slopes[j];
}

/* to[n, width] += weights^T from, with weights [rows, n] and from [rows, width]. */
static void NAMED(add_transposed)(const REAL *weights, int64_t rows, int64_t n, const REAL *from,
                                  int64_t width, REAL *to) {
    NAMED(multiply)
    (&(NAMED(gemm)){.a = weights,
                    .a_row = 1,
                    .a_col = KEYS,
                    .b = from,
                    .b_row = width,
                    .c = to,
                    .c_row = width,
                    .rows = n,
                    .cols = width,
                    .inner = rows,
                    .add = true});
}

/* Adds one block of keys' share of dq. */
static void NAMED(add_queries)(const heads *h, int64_t rows, span s, NAMED(backward) * b,
                               REAL *dq) {
    for (int64_t j = 0; j < s.n; j++) NAMED(copy)
    (h->dtype, h->k, h->k_at + (s.first + j) * h->k_row, h->key_dim, b->keys + j * h->key_dim);
    NAMED(multiply)
    (&(NAMED(gemm)){.a = b->changes,
                    .a_row = KEYS,
                    .a_col = 1,
                    .b = b->keys,
                    .b_row = h->key_dim,
                    .c = dq,
                    .c_row = h->key_dim,
                    .rows = rows,
                    .cols = h->key_dim,
                    .inner = s.n,
                    .add = true});
}

static void NAMED(backward_tile)(const heads *h, int64_t first_row, int64_t rows,
                                 const NAMED(sums) * to, NAMED(backward) * b) {
    const sl_seen seen = rows_see(h, first_row, rows);
    NAMED(backward_means)(h, first_row, rows, seen, b);
    for (int64_t r = 0; r < rows && to->dsink; r++) {
        const int64_t head = (first_row + r) / h->queries;
        const REAL sink = NAMED(element)(h->dtype, h->sinks, h->sinks_at + head);
        *to->dsink -= NAMED(exponential)(sink - b->m.largest[r]) * b->m.sum[r] * b->mean[r];
    }
    if (to->dq) memset(to->dq, 0, (size_t)(rows * h->key_dim) * sizeof *to->dq);
    if (!to->dq && !to->dbias) return;
    for (int64_t p = seen.first; p < seen.end; p += KEYS) {
        const span s = next_span(seen, p);
        NAMED(backward_scores)(h, first_row, rows, s, b);
        for (int64_t r = 0; r < rows; r++) NAMED(backward_row)(h, first_row + r, s, to, b, r);
        if (!to->dq) continue;
        NAMED(add_queries)(h, rows, s, b, to->dq);
        NAMED(add_transposed)
        (b->m.scores, rows, s.n, b->douts, h->value_dim, to->dv + p * h->value_dim);
        NAMED(add_transposed)
        (b->changes, rows, s.n, b->m.query, h->key_dim, to->dk + p * h->key_dim);
    }
}

/* ---- work of one item ---- */

/* dq, dk and dv of one KV head, written to `outs` from elements `at` on. */
static void NAMED(backward_head)(const heads *h, const sl_view *const outs[3], const int64_t at[3],
                                 carver *c, NAMED(backward) * b) {
    const int64_t rows = h->group * h->queries;
    NAMED(sums)
    to = {.dq = carve(c, TILE * h->key_dim, sizeof(REAL)),
          .dk = carve(c, h->keys * h->key_dim, sizeof(REAL)),
          .dv = carve(c, h->keys * h->value_dim, sizeof(REAL))};
    memset(to.dk, 0, (size_t)(h->keys * h->key_dim) * sizeof(REAL));
    memset(to.dv, 0, (size_t)(h->keys * h->value_dim) * sizeof(REAL));
    for (int64_t r = 0; r < rows; r += TILE) {
        const int64_t n = rows - r < TILE ? rows - r : TILE;
        NAMED(backward_tile)(h, r, n, &to, b);
        NAMED(store)(h->dtype, outs[0]->data, at[0] + r * h->key_dim, n * h->key_dim, to.dq);
    }
    NAMED(store)(h->dtype, outs[1]->data, at[1], h->keys * h->key_dim, to.dk);
    NAMED(store)(h->dtype, outs[2]->data, at[2], h->keys * h->value_dim, to.dv);
}

/* Adds the gradient from head `head` of the group to a bias plane or to a sink. */
static void NAMED(backward_extra)(const heads *h, int64_t head, const NAMED(sums) * to,
                                  NAMED(backward) * b) {
    for (int64_t r = 0; r < h->queries; r += TILE) {
        const int64_t n = h->queries - r < TILE ? h->queries - r : TILE;
        NAMED(backward_tile)(h, head * h->queries + r, n, to, b);
    }
}

/* ---- items ---- */

static NAMED(backward) NAMED(open)(const job *j, const heads *h, int64_t head, carver *c) {
    NAMED(backward) b = NAMED(backward_of)(c, h->key_dim, h->value_dim);
    b.dout = j->dout->data;
    b.dout_at = head * h->group * h->queries * h->value_dim;
    return b;
}

static void NAMED(run_head)(const job *j, int64_t i, void *scratch) {
    const heads h = head_at(&j->o, i);
    carver c = {scratch, 0};
    NAMED(backward) b = NAMED(open)(j, &h, i, &c);
    NAMED(backward_head)(&h, j->outs, (int64_t[]){h.q_at, h.k_at, h.v_at}, &c, &b);
}

static void NAMED(run_plane)(const job *j, int64_t plane, void *scratch) {
    const int64_t size = plane_of(&j->dbias->type);
    REAL *total = NULL;
    for (int64_t i = 0; i < j->items[0]; i++) {
        const heads h = head_at(&j->o, i);
        carver c = {scratch, 0};
        NAMED(backward) b = NAMED(open)(j, &h, i, &c);
        REAL *sums = carve(&c, size, sizeof(REAL));
        if (!total) memset(sums, 0, (size_t)size * sizeof(REAL));
        total = sums;
        for (int64_t g = 0; g < h.group; g++)
            if (reads_plane(&h, g, size, plane))
                NAMED(backward_extra)(&h, g, &(NAMED(sums)){.dbias = sums}, &b);
    }
    NAMED(store)(j->o.q->type.dtype, j->dbias->data, plane * size, size, total);
}

static void NAMED(run_sink)(const job *j, int64_t head, void *scratch) {
    const int64_t kv_heads = dim(&j->o.k->type, 1), group = dim(&j->o.q->type, 1) / kv_heads;
    REAL total = 0;
    for (int64_t i = head / group; i < j->items[0]; i += kv_heads) {
        const heads h = head_at(&j->o, i);
        carver c = {scratch, 0};
        NAMED(backward) b = NAMED(open)(j, &h, i, &c);
        NAMED(backward_extra)(&h, head % group, &(NAMED(sums)){.dsink = &total}, &b);
    }
    NAMED(store)(j->o.q->type.dtype, j->dsinks->data, head, 1, &total);
}

static void NAMED(run_item)(const job *j, int64_t item, void *scratch) {
    if (item < j->items[0])
        NAMED(run_head)(j, item, scratch);
    else if (item < j->items[0] + j->items[1])
        NAMED(run_plane)(j, item - j->items[0], scratch);
    else
        NAMED(run_sink)(j, item - j->items[0] - j->items[1], scratch);
}
