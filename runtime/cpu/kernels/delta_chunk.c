/* delta_chunk.c - The delta net's recurrence in chunks of rows, as products of small matrices.
 *
 * For rows of one slot, with G the running sum of decay and M the state before them,
 *
 *   change_i = beta_i (v_i - e^G_i M^T k_i - sum_{j<i} e^(G_i - G_j) (k_i . k_j) change_j)
 *   out_i    = e^G_i M^T q_i + sum_{j<=i} e^(G_i - G_j) (q_i . k_j) change_j
 *   M        = e^G_last M + sum_j e^(G_last - G_j) k_j change_j^T
 *
 * An item is a key head with its value heads, which share the products of queries and keys. */
#include "runtime/cpu/kernels/delta.h"
#include "runtime/cpu/kernels/gemm.h"

/* Triangular matrices are computed in blocks of this many rows; the accumulators of one column of a
 * block fill the registers. */
enum { BLOCK = LANES == 16 ? 16 : 8 };

typedef struct {
    int64_t start, n;
    float *sums, *fades;  /* G and e^G: [n] */
    float *q, *k, *k_t;   /* rows of the chunk: [n, dk]; k transposed: [dk, n] */
    float *k_k, *q_k;     /* x_i . k_j: [n, n]; only j <= i is used */
    float *mix_k, *mix_q; /* e^(G_i - G_j) times k_k and q_k; 0 for j > i within i's block */
    float *changes;       /* [n, dv] */
} chunk;

static size_t chunk_floats(int64_t n, int64_t dk, int64_t dv) {
    return (size_t)(n * (2 + 3 * dk + 4 * n + dv));
}
static chunk chunk_of(float *scratch, int64_t n, int64_t dk) {
    chunk p = {.sums = scratch};
    p.fades = p.sums + n;
    p.q = p.fades + n;
    p.k = p.q + n * dk;
    p.k_t = p.k + n * dk;
    p.k_k = p.k_t + n * dk;
    p.q_k = p.k_k + n * n;
    p.mix_k = p.q_k + n * n;
    p.mix_q = p.mix_k + n * n;
    p.changes = p.mix_q + n * n;
    return p;
}

/* ---- computed once for all value heads of a key head ---- */

/* The lower triangle of x k^T, in blocks. */
static void multiply_keys(const chunk *p, int64_t dk, const float *x, float *products) {
    for (int64_t r = 0; r < p->n; r += BLOCK)
        gemm_run(&(gemm){.a = x + r * dk,
                         .a_row = dk,
                         .a_col = 1,
                         .b = p->k_t,
                         .b_row = p->n,
                         .c = products + r * p->n,
                         .c_row = p->n,
                         .rows = least(BLOCK, p->n - r),
                         .cols = least(r + BLOCK, p->n),
                         .inner = dk});
}

static void prepare_keys(const delta *d, const chunk *p) {
    const int64_t first = p->start * d->key_stride;
    const size_t row_bytes = (size_t)d->dk * sizeof(float);
    for (int64_t i = 0; i < p->n; i++) {
        memcpy(p->q + i * d->dk, d->q + first + i * d->key_stride, row_bytes);
        memcpy(p->k + i * d->dk, d->k + first + i * d->key_stride, row_bytes);
    }
    for (int64_t r = 0; r < d->dk; r++)
        for (int64_t i = 0; i < p->n; i++) p->k_t[r * p->n + i] = p->k[i * d->dk + r];
    multiply_keys(p, d->dk, p->k, p->k_k);
    multiply_keys(p, d->dk, p->q, p->q_k);
}

/* ---- one value head ---- */

static void scale_row(float *x, vf factor, int64_t n) {
    FOR_VECTORS(i, count, n, vstore_n(x + i, vload_n(x + i, count) * factor, count););
}

static void fade(const delta *d, const chunk *p) {
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++)
        p->sums[i] = (float)(sum += (double)d->decay[(p->start + i) * d->heads]);
    FOR_VECTORS(i, count, p->n, vstore_n(p->fades + i, vexp(vload_n(p->sums + i, count)), count););
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t at = i * p->n, end = least((i / BLOCK + 1) * BLOCK, p->n);
        const vf sum_i = vsplat(p->sums[i]);
        FOR_VECTORS(j, count, i + 1, {
            const vf factor = vexp(sum_i - vload_n(p->sums + j, count));
            vstore_n(p->mix_k + at + j, factor * vload_n(p->k_k + at + j, count), count);
            vstore_n(p->mix_q + at + j, factor * vload_n(p->q_k + at + j, count), count);
        });
        for (int64_t j = i + 1; j < end; j++) p->mix_k[at + j] = p->mix_q[at + j] = 0;
    }
}

/* out_i = e^G_i M^T x_i, where x is q or k. */
static void recall(const delta *d, const chunk *p, const float *x, float *out, int64_t out_row) {
    gemm_run(&(gemm){.a = x,
                     .a_row = d->dk,
                     .a_col = 1,
                     .b = d->memory + d->slots[p->start] * d->heads * d->dk * d->dv,
                     .b_row = d->dv,
                     .c = out,
                     .c_row = out_row,
                     .rows = p->n,
                     .cols = d->dv,
                     .inner = d->dk});
    for (int64_t i = 0; i < p->n; i++) scale_row(out + i * out_row, vsplat(p->fades[i]), d->dv);
}

/* Rows [r, r + BLOCK) of out += mix times the first `inner` rows of changes. */
static void add_changes(const delta *d, const chunk *p, const float *mix, int64_t r, int64_t inner,
                        gemm g) {
    g.a = mix + r * p->n;
    g.a_row = p->n;
    g.a_col = 1;
    g.b = p->changes;
    g.b_row = d->dv;
    g.rows = least(BLOCK, p->n - r);
    g.cols = d->dv;
    g.inner = inner;
    g.add = true;
    gemm_run(&g);
}

/* Forward substitution for one vector of columns in rows [r, r + rows). */
INLINE void solve_columns(const delta *d, const chunk *p, int64_t r, const int64_t rows, int64_t c,
                          int64_t lanes) {
    const float *v = d->v + (p->start + r) * d->value_stride + c;
    const float *beta = d->beta + (p->start + r) * d->heads, *mix = p->mix_k + r * p->n + r;
    float *changes = p->changes + r * d->dv + c;
    vf known[BLOCK];
    for (int64_t i = 0; i < rows; i++) known[i] = vload_n(changes + i * d->dv, lanes);
    for (int64_t j = 0; j < rows; j++) {
        const vf error = vload_n(v + j * d->value_stride, lanes) - known[j];
        const vf change = vsplat(beta[j * d->heads]) * error;
        vstore_n(changes + j * d->dv, change, lanes);
        for (int64_t i = j + 1; i < rows; i++)
            known[i] = vfma(vsplat(mix[i * p->n + j]), change, known[i]);
    }
}

/* Solves for the changes by blocked forward substitution; on entry, changes holds e^G_i M^T k_i. */
static void solve_changes(const delta *d, const chunk *p) {
    for (int64_t r = 0; r < p->n; r += BLOCK) {
        const int64_t rows = least(BLOCK, p->n - r);
        if (r > 0)
            add_changes(d, p, p->mix_k, r, r, (gemm){.c = p->changes + r * d->dv, .c_row = d->dv});
        if (rows == BLOCK)
            FOR_VECTORS(c, lanes, d->dv, solve_columns(d, p, r, BLOCK, c, lanes););
        else
            FOR_VECTORS(c, lanes, d->dv, solve_columns(d, p, r, rows, c, lanes););
    }
}

static void read_changes(const delta *d, const chunk *p, float *out) {
    for (int64_t r = 0; r < p->n; r += BLOCK)
        add_changes(d, p, p->mix_q, r, least(r + BLOCK, p->n),
                    (gemm){.c = out + r * d->value_stride, .c_row = d->value_stride});
}

static void update_memory(const delta *d, const chunk *p, float *memory) {
    const float last = p->sums[p->n - 1];
    scale_row(memory, vsplat(p->fades[p->n - 1]), d->dk * d->dv);
    for (int64_t j = 0; j < p->n; j++)
        scale_row(p->changes + j * d->dv, vexp(vsplat(last - p->sums[j])), d->dv);
    gemm_run(&(gemm){.a = p->k,
                     .a_row = 1,
                     .a_col = d->dk,
                     .b = p->changes,
                     .b_row = d->dv,
                     .c = memory,
                     .c_row = d->dv,
                     .rows = d->dk,
                     .cols = d->dv,
                     .inner = p->n,
                     .add = true});
}

static void run_chunk(const delta *d, const chunk *p) {
    float *memory = memory_of(d, p->start), *out = d->out + p->start * d->value_stride;
    fade(d, p);
    recall(d, p, p->k, p->changes, d->dv);
    solve_changes(d, p);
    recall(d, p, p->q, out, d->value_stride);
    read_changes(d, p, out);
    update_memory(d, p, memory);
}

/* ---- the kernel ---- */

/* Number of rows from `start` on that belong to the same sequence, at most `most`. */
static int64_t run_length(const delta *d, int64_t start, int64_t most) {
    int64_t n = 1;
    while (n < most && start + n < d->rows && d->slots[start + n] == d->slots[start] &&
           d->positions[start + n] != 0)
        n++;
    return n;
}

static int64_t longest_chunk(const sl_delta_chunk_args *a) {
    return least(a->attrs.chunk, dim(&a->v.type, 0));
}

SPLIT(delta_chunk) {
    const sl_delta_chunk_args *a = args;
    return (sl_split){dim(&a->k.type, 1), 1,
                      chunk_floats(longest_chunk(a), dim(&a->k.type, 2), dim(&a->v.type, 2)) *
                          sizeof(float)};
}

/* All value heads of one key head, over all rows. */
static void run_heads(const sl_delta_step_args *a, int64_t key, int64_t most, float *scratch) {
    const int64_t key_heads = dim(&a->k.type, 1), share = dim(&a->v.type, 1) / key_heads;
    const int64_t first = a->attrs.tiled ? key : key * share, step = a->attrs.tiled ? key_heads : 1;
    const delta any = delta_head(a, first);
    chunk p = chunk_of(scratch, most, any.dk);
    for (p.start = 0; p.start < any.rows; p.start += p.n) {
        p.n = run_length(&any, p.start, most);
        if (p.n > 1) prepare_keys(&any, &p);
        for (int64_t i = 0; i < share; i++) {
            const delta d = delta_head(a, first + i * step);
            if (p.n == 1)
                delta_one(&d, p.start);
            else
                run_chunk(&d, &p);
        }
    }
}

RUN(delta_chunk) {
    const sl_delta_chunk_args *a = args;
    SL_TRY(check_rows(&a->slots, &a->positions, &a->memory.type, worker->err));
    const sl_delta_step_args same = {.q = a->q,
                                     .k = a->k,
                                     .v = a->v,
                                     .decay = a->decay,
                                     .beta = a->beta,
                                     .slots = a->slots,
                                     .positions = a->positions,
                                     .memory = a->memory,
                                     .out = a->out,
                                     .attrs = {.tiled = a->attrs.tiled}};
    for (int64_t key = begin; key < end; key++)
        run_heads(&same, key, longest_chunk(a), worker->scratch);
    return SL_OK;
}
