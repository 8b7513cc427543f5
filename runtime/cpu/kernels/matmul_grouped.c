/* matmul_grouped.c - Grouped matrix products (each row selects its weights), and products with
 * packed low-bit weights.  The latter are accumulated in doubles: unpacking takes longer than the
 * arithmetic, and the weights of one row may differ by orders of magnitude. */
#include "core/schemes.h"
#include "runtime/cpu/kernels/channels.h"
#include "runtime/cpu/kernels/product.h"

_Static_assert((int)PRODUCT_INNER == (int)SL_PACKED_STEP,
               "packed weights are unpacked in one step");

/* x times one weight matrix, or one of a stack of matrices. */
typedef struct {
    const sl_cview *x, *w;
    const sl_view *out;
    bool is_packed;
    sl_packed packed; /* packed.w points to the current expert's matrix */
    float *unpacked;  /* UNPACKED floats of scratch */
} rows_product;
enum { UNPACKED = PRODUCT_INNER * PRODUCT_COLS };

static int64_t row_of(const product_block *b, int64_t r) {
    return b->chosen ? b->chosen[r] : b->row + r;
}

static void left(const product *p, const product_block *b, void *to) {
    const rows_product *g = p->context;
    for (int64_t r = 0; r < b->rows && g->is_packed; r++)
        for (int64_t k = 0; k < b->ks; k++)
            ((double *)to)[r * PRODUCT_INNER + k] =
                element(g->x, row_of(b, r) * p->inner + b->k + k);
    if (g->is_packed) return;
    int64_t rows[PRODUCT_ROWS], cols[PRODUCT_INNER];
    for (int64_t r = 0; r < b->rows; r++) rows[r] = row_of(b, r) * p->inner;
    for (int64_t k = 0; k < b->ks; k++) cols[k] = b->k + k;
    product_gather(&(product_source){g->x->type.dtype, g->x->data, rows, cols, b->rows, b->ks}, to,
                   PRODUCT_INNER);
}

static void right(const product *p, const product_block *b, void *to) {
    const rows_product *g = p->context;
    if (g->is_packed) {
        const sl_packed_part part = {b->k, b->ks, b->col, b->cols};
        sl_packed_decode(&g->packed, &part, g->unpacked, PRODUCT_COLS);
        for (int64_t k = 0; k < b->ks; k++)
            for (int64_t n = k * PRODUCT_COLS; n < k * PRODUCT_COLS + b->cols; n++)
                ((double *)to)[n] = (double)g->unpacked[n];
        return;
    }
    int64_t rows[PRODUCT_INNER], cols[PRODUCT_COLS];
    for (int64_t k = 0; k < b->ks; k++) rows[k] = (b->batch * p->inner + b->k + k) * p->cols;
    for (int64_t n = 0; n < b->cols; n++) cols[n] = b->col + n;
    product_gather(&(product_source){g->w->type.dtype, g->w->data, rows, cols, b->ks, b->cols}, to,
                   PRODUCT_COLS);
}

static void finish(const product *p, const product_block *b, const void *sums) {
    const rows_product *g = p->context;
    const size_t each = p->kind == PRODUCT_F32 ? 4 : 8;
    for (int64_t r = 0; r < b->rows && g->is_packed; r++)
        set_elements(g->out, row_of(b, r) * p->cols + b->col, b->cols,
                     (const double *)sums + r * PRODUCT_COLS);
    for (int64_t r = 0; r < b->rows && !g->is_packed; r++)
        product_store(g->out->type.dtype, (const char *)sums + (size_t)(r * PRODUCT_COLS) * each,
                      b->cols, g->out->data, row_of(b, r) * p->cols + b->col);
}

static product product_of(const rows_product *g) {
    return (product){.kind = g->is_packed ? PRODUCT_F64 : product_kind_of(g->x->type.dtype),
                     .batches = 1,
                     .rows = rows_of(&g->out->type),
                     .cols = last_dim(&g->out->type),
                     .inner = last_dim(&g->x->type),
                     .context = g,
                     .left = left,
                     .right = right,
                     .finish = finish};
}

/* ---- grouped_matmul: an item is a block of columns of one expert ---- */

static sl_split split_grouped(const product *p, int64_t experts) {
    const int64_t each = p->rows / experts + 1, cols = least(p->cols, PRODUCT_COLS);
    return (sl_split){
        experts * parts_of(p->cols, PRODUCT_COLS), grain_of(each * cols * p->inner / 4),
        product_scratch(p) + PRODUCT_ROWS * sizeof(int64_t) + UNPACKED * sizeof(float)};
}

static int64_t index_at(const sl_cview *indices, int64_t i) {
    return indices->type.dtype == SL_DTYPE_i64 ? ((const int64_t *)indices->data)[i]
                                               : ((const int32_t *)indices->data)[i];
}

/* Multiplies all rows that chose the expert, up to PRODUCT_ROWS at a time. */
static sl_status run_expert(const product *p, const sl_cview *chosen, int64_t experts,
                            product_block b, sl_worker *worker) {
    int64_t *rows = (int64_t *)(void *)((char *)worker->scratch + product_scratch(p));
    b.chosen = rows;
    for (int64_t i = 0; i < p->rows; i++) {
        const int64_t expert = index_at(chosen, i);
        SL_TRY(check_index(expert, experts, "experts", i, worker->err));
        if (expert == b.batch) rows[b.rows++] = i;
        if (b.rows < PRODUCT_ROWS && i + 1 < p->rows) continue;
        if (b.rows) product_run_block(p, b, worker->scratch);
        b.rows = 0;
    }
    return SL_OK;
}

static sl_status run_grouped(rows_product *g, const sl_cview *chosen, const int64_t range[2],
                             sl_worker *worker) {
    const product p = product_of(g);
    g->unpacked = (float *)(void *)((char *)worker->scratch + product_scratch(&p) +
                                    PRODUCT_ROWS * sizeof(int64_t));
    const int64_t experts = dim(&g->w->type, 0), blocks = parts_of(p.cols, PRODUCT_COLS);
    const size_t stride = (size_t)sl_dims_tail(&g->w->type.shape, 1);
    for (int64_t item = range[0]; item < range[1]; item++) {
        product_block b = {.batch = item / blocks, .col = item % blocks * PRODUCT_COLS};
        b.cols = least(PRODUCT_COLS, p.cols - b.col);
        /* `stride` is in elements, which are bytes if the weights are packed; else this is unused.
         */
        g->packed.w = (const char *)g->w->data + (size_t)b.batch * stride;
        SL_TRY(run_expert(&p, chosen, experts, b, worker));
    }
    return SL_OK;
}

SPLIT(grouped_matmul) {
    const sl_grouped_matmul_args *a = args;
    const rows_product g = {.x = &a->x, .w = &a->w, .out = &a->out};
    const product p = product_of(&g);
    return split_grouped(&p, dim(&a->w.type, 0));
}
RUN(grouped_matmul) {
    const sl_grouped_matmul_args *a = args;
    rows_product g = {.x = &a->x, .w = &a->w, .out = &a->out};
    return run_grouped(&g, &a->experts, (int64_t[2]){begin, end}, worker);
}

static rows_product packed_experts(const sl_dequant_grouped_matmul_args *a) {
    rows_product g = {.x = &a->x, .w = &a->w, .out = &a->out, .is_packed = true};
    (void)sl_scheme_find(a->attrs.scheme, &g.packed.scheme);
    g.packed.inner = last_dim(&a->x.type);
    g.packed.cols = last_dim(&a->out.type);
    return g;
}
SPLIT(dequant_grouped_matmul) {
    const sl_dequant_grouped_matmul_args *a = args;
    const rows_product g = packed_experts(a);
    const product p = product_of(&g);
    return split_grouped(&p, dim(&a->w.type, 0));
}
RUN(dequant_grouped_matmul) {
    const sl_dequant_grouped_matmul_args *a = args;
    rows_product g = packed_experts(a);
    return run_grouped(&g, &a->experts, (int64_t[2]){begin, end}, worker);
}

/* ---- dequant_matmul ---- */

static rows_product packed_matrix(const sl_dequant_matmul_args *a) {
    rows_product g = {.x = &a->x, .w = &a->w, .out = &a->out, .is_packed = true};
    sl_packed *p = &g.packed;
    (void)sl_scheme_find(a->attrs.scheme, &p->scheme);
    p->inner = last_dim(&a->x.type);
    p->cols = last_dim(&a->out.type);
    p->block = p->scheme.kind == SL_SCHEME_NVFP4 ? SL_NVFP4_BLOCK : a->attrs.block;
    p->w = a->w.data;
    p->w_signed = a->w.type.dtype == SL_DTYPE_i8;
    for (uint32_t i = 0; i < p->scheme.params; i++) p->params[i] = a->params.items[i].data;
    if (p->scheme.params) p->one_scale = sl_type_elements(&a->params.items[0].type) == 1;
    return g;
}
SPLIT(dequant_matmul) {
    const rows_product g = packed_matrix(args);
    const product p = product_of(&g);
    sl_split split = product_split(&p);
    split.scratch_bytes += UNPACKED * sizeof(float);
    return split;
}
RUN(dequant_matmul) {
    rows_product g = packed_matrix(args);
    const product p = product_of(&g);
    g.unpacked = (float *)(void *)((char *)worker->scratch + product_scratch(&p));
    product_items(&p, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- dequant_moe_weights: an item is SL_PACKED_STEP rows of an expert's matrix ---- */

SPLIT(dequant_moe_weights) {
    const sl_dequant_moe_weights_args *a = args;
    const int64_t inner = dim(&a->out.type, 1), cols = dim(&a->out.type, 2);
    return (sl_split){dim(&a->out.type, 0) * parts_of(inner, SL_PACKED_STEP),
                      grain_of(least(inner, SL_PACKED_STEP) * cols * 4), 0};
}
RUN(dequant_moe_weights) {
    const sl_dequant_moe_weights_args *a = args;
    const int64_t inner = dim(&a->out.type, 1), cols = dim(&a->out.type, 2);
    const int64_t steps = parts_of(inner, SL_PACKED_STEP);
    sl_packed p = {.inner = inner, .cols = cols};
    (void)sl_scheme_find(a->attrs.scheme, &p.scheme);
    for (int64_t item = begin; item < end; item++) {
        const int64_t expert = item / steps, k = item % steps * SL_PACKED_STEP;
        const sl_packed_part part = {k, least(SL_PACKED_STEP, inner - k), 0, cols};
        p.w = (const char *)a->w.data + expert * sl_dims_tail(&a->w.type.shape, 1);
        sl_packed_decode(&p, &part, (float *)a->out.data + (expert * inner + k) * cols, cols);
    }
    return SL_OK;
}
