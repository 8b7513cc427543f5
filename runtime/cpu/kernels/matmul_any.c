/* matmul_any.c - Matrix products of any number type: matmul (f32 is in matmul.c), dot_general and
 * lora_matmul. */
#include "runtime/cpu/kernels/product.h"

/* ---- strided iteration over some dims, with strides in both operands ---- */

typedef struct {
    uint32_t rank;
    int64_t sizes[SL_MAX_RANK], left[SL_MAX_RANK], right[SL_MAX_RANK]; /* outermost dim first */
} walk;

static void walk_add(walk *w, int64_t size, int64_t left, int64_t right) {
    w->sizes[w->rank] = size;
    w->left[w->rank] = left;
    w->right[w->rank++] = right;
}
static int64_t walk_count(const walk *w) {
    int64_t count = 1;
    for (uint32_t i = 0; i < w->rank; i++) count *= w->sizes[i];
    return count;
}
static int64_t walk_offset(const walk *w, const int64_t *strides, int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = w->rank; i-- > 0; index /= w->sizes[i])
        offset += index % w->sizes[i] * strides[i];
    return offset;
}
/* Offsets of the range[1] indices from range[0] on. */
static void walk_offsets(const walk *w, const int64_t *strides, const int64_t range[2],
                         int64_t *out) {
    for (int64_t i = 0; i < range[1]; i++) out[i] = walk_offset(w, strides, range[0] + i);
}

typedef struct {
    const sl_cview *a, *b;
    const sl_view *out;
    walk batch, rows, cols, inner;
} contraction;

static void unpack_left(const product *p, const product_block *b, void *to) {
    const contraction *c = p->context;
    int64_t rows[PRODUCT_ROWS], inner[PRODUCT_INNER];
    walk_offsets(&c->rows, c->rows.left, (int64_t[2]){b->row, b->rows}, rows);
    walk_offsets(&c->inner, c->inner.left, (int64_t[2]){b->k, b->ks}, inner);
    const int64_t base = walk_offset(&c->batch, c->batch.left, b->batch);
    for (int64_t r = 0; r < b->rows; r++) rows[r] += base;
    product_gather(&(product_source){c->a->type.dtype, c->a->data, rows, inner, b->rows, b->ks}, to,
                   PRODUCT_INNER);
}

static void unpack_right(const product *p, const product_block *b, void *to) {
    const contraction *c = p->context;
    int64_t cols[PRODUCT_COLS], inner[PRODUCT_INNER];
    walk_offsets(&c->cols, c->cols.right, (int64_t[2]){b->col, b->cols}, cols);
    walk_offsets(&c->inner, c->inner.right, (int64_t[2]){b->k, b->ks}, inner);
    const int64_t base = walk_offset(&c->batch, c->batch.right, b->batch);
    for (int64_t k = 0; k < b->ks; k++) inner[k] += base;
    product_gather(&(product_source){c->b->type.dtype, c->b->data, inner, cols, b->ks, b->cols}, to,
                   PRODUCT_COLS);
}

/* Stores rows of sums to their rows of the output matrix. */
static void store_rows(const product *p, const product_block *b, const void *sums,
                       const sl_view *out) {
    const size_t each = p->kind == PRODUCT_F32 || p->kind == PRODUCT_I32 ? 4 : 8;
    for (int64_t r = 0; r < b->rows; r++)
        product_store(out->type.dtype, (const char *)sums + (size_t)(r * PRODUCT_COLS) * each,
                      b->cols, out->data, (b->batch * p->rows + b->row + r) * p->cols + b->col);
}
static void finish(const product *p, const product_block *b, const void *sums) {
    store_rows(p, b, sums, ((const contraction *)p->context)->out);
}

static product product_of(const contraction *c) {
    return (product){.kind = product_kind_of(c->a->type.dtype),
                     .batches = walk_count(&c->batch),
                     .rows = walk_count(&c->rows),
                     .cols = walk_count(&c->cols),
                     .inner = walk_count(&c->inner),
                     .context = c,
                     .left = unpack_left,
                     .right = unpack_right,
                     .finish = finish};
}

/* ---- matmul ---- */

/* The stride of a batch dim, counted from the end; 0 if it is broadcast. */
static int64_t batch_stride(const sl_dims *shape, uint32_t back) {
    if (back > shape->rank || shape->dims[shape->rank - back] == 1) return 0;
    return sl_dims_tail(shape, shape->rank - back + 1);
}

static contraction contraction_of_matmul(const sl_matmul_args *m) {
    contraction c = {.a = &m->a, .b = &m->b, .out = &m->out};
    const sl_dims *a = &m->a.type.shape, *b = &m->b.type.shape, *out = &m->out.type.shape;
    const int64_t inner = last_dim(&m->a.type), cols = last_dim(&m->b.type);
    for (uint32_t back = out->rank; back > 2; back--)
        walk_add(&c.batch, out->dims[out->rank - back], batch_stride(a, back),
                 batch_stride(b, back));
    walk_add(&c.rows, out->dims[out->rank - 2], inner, 0);
    walk_add(&c.inner, inner, 1, cols);
    walk_add(&c.cols, cols, 0, 1);
    return c;
}

SPLIT(matmul_any) {
    const contraction c = contraction_of_matmul(args);
    const product p = product_of(&c);
    return product_split(&p);
}
RUN(matmul_any) {
    const contraction c = contraction_of_matmul(args);
    const product p = product_of(&c);
    product_items(&p, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- dot_general ---- */

static uint32_t axis_at(sl_integers list, uint32_t i, const sl_dims *shape) {
    return (uint32_t)(list.items[i] < 0 ? list.items[i] + shape->rank : list.items[i]);
}

/* Adds pairs of dims of both operands, or dims of one operand that are in neither list. */
static uint32_t add_pairs(walk *w, const contraction *c, sl_integers left, sl_integers right) {
    const sl_dims *a = &c->a->type.shape, *b = &c->b->type.shape;
    for (uint32_t i = 0; i < left.count; i++) {
        const uint32_t x = axis_at(left, i, a), y = axis_at(right, i, b);
        walk_add(w, a->dims[x], sl_dims_tail(a, x + 1), sl_dims_tail(b, y + 1));
    }
    return w->rank;
}
static bool is_among(sl_integers list, uint32_t axis, const sl_dims *shape) {
    for (uint32_t i = 0; i < list.count; i++)
        if (axis_at(list, i, shape) == axis) return true;
    return false;
}
static void add_left_over(walk *w, const sl_dims *shape, sl_integers first, sl_integers second) {
    for (uint32_t d = 0; d < shape->rank; d++)
        if (!is_among(first, d, shape) && !is_among(second, d, shape))
            walk_add(w, shape->dims[d], sl_dims_tail(shape, d + 1), sl_dims_tail(shape, d + 1));
}

static contraction contraction_of_dot(const sl_dot_general_args *d) {
    contraction c = {.a = &d->a, .b = &d->b, .out = &d->out};
    add_pairs(&c.batch, &c, d->attrs.lhs_batch, d->attrs.rhs_batch);
    add_pairs(&c.inner, &c, d->attrs.lhs_contract, d->attrs.rhs_contract);
    add_left_over(&c.rows, &d->a.type.shape, d->attrs.lhs_batch, d->attrs.lhs_contract);
    add_left_over(&c.cols, &d->b.type.shape, d->attrs.rhs_batch, d->attrs.rhs_contract);
    return c;
}

SPLIT(dot_general) {
    const contraction c = contraction_of_dot(args);
    const product p = product_of(&c);
    return product_split(&p);
}
RUN(dot_general) {
    const contraction c = contraction_of_dot(args);
    const product p = product_of(&c);
    product_items(&p, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- lora_matmul: [x, scale x a] times [w; b] ---- */

typedef struct {
    const sl_lora_matmul_args *args;
    void *scratch;  /* for the product x a */
    char *to;       /* destination of scale x a */
    int64_t column; /* added to a column of the product to get its column in `to` */
} lora;

/* Reads the block rows[0..], cols[0..] of a matrix. */
static void gather_part(const sl_cview *matrix, const int64_t rows[2], const int64_t cols[2],
                        void *to, int64_t stride) {
    const int64_t width = last_dim(&matrix->type);
    int64_t row_at[PRODUCT_INNER], col_at[PRODUCT_INNER];
    for (int64_t r = 0; r < rows[1]; r++) row_at[r] = (rows[0] + r) * width;
    for (int64_t c = 0; c < cols[1]; c++) col_at[c] = cols[0] + c;
    product_gather(
        &(product_source){matrix->type.dtype, matrix->data, row_at, col_at, rows[1], cols[1]}, to,
        stride);
}

static void low_left(const product *p, const product_block *b, void *to) {
    gather_part(&((const lora *)p->context)->args->x, (int64_t[2]){b->row, b->rows},
                (int64_t[2]){b->k, b->ks}, to, PRODUCT_INNER);
}
static void low_right(const product *p, const product_block *b, void *to) {
    gather_part(&((const lora *)p->context)->args->a, (int64_t[2]){b->k, b->ks},
                (int64_t[2]){b->col, b->cols}, to, PRODUCT_COLS);
}
static void low_finish(const product *p, const product_block *b, const void *sums) {
    const lora *l = p->context;
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; c < b->cols; c++) {
            const int64_t from = r * PRODUCT_COLS + c;
            const int64_t to = r * PRODUCT_INNER + b->col + c + l->column;
            if (p->kind == PRODUCT_F64)
                ((double *)(void *)l->to)[to] =
                    ((const double *)sums)[from] * (double)l->args->attrs.scale;
            else
                ((float *)(void *)l->to)[to] = ((const float *)sums)[from] * l->args->attrs.scale;
        }
}

/* How many of the block's inner columns come from x and w. */
static int64_t plain_part(const product_block *b, int64_t inner) {
    return b->k < inner ? least(b->ks, inner - b->k) : 0;
}

static void lora_left(const product *p, const product_block *b, void *to) {
    lora l = *(const lora *)p->context;
    const int64_t inner = last_dim(&l.args->x.type), plain = plain_part(b, inner);
    gather_part(&l.args->x, (int64_t[2]){b->row, b->rows}, (int64_t[2]){b->k, plain}, to,
                PRODUCT_INNER);
    const int64_t first = b->k + plain - inner, last = b->k + b->ks - inner;
    l.to = to;
    l.column = inner - b->k;
    const product low = {.kind = p->kind,
                         .inner = inner,
                         .context = &l,
                         .left = low_left,
                         .right = low_right,
                         .finish = low_finish};
    for (int64_t c = first; c < last; c += PRODUCT_COLS) {
        const product_block part = {
            .row = b->row, .rows = b->rows, .col = c, .cols = least(PRODUCT_COLS, last - c)};
        product_run_block(&low, part, l.scratch);
    }
}

static void lora_right(const product *p, const product_block *b, void *to) {
    const sl_lora_matmul_args *l = ((const lora *)p->context)->args;
    const int64_t inner = last_dim(&l->x.type), plain = plain_part(b, inner);
    const size_t each = p->kind == PRODUCT_F64 ? 8 : 4;
    const int64_t cols[2] = {b->col, b->cols};
    gather_part(&l->w, (int64_t[2]){b->k, plain}, cols, to, PRODUCT_COLS);
    gather_part(&l->b, (int64_t[2]){b->k + plain - inner, b->ks - plain}, cols,
                (char *)to + (size_t)(plain * PRODUCT_COLS) * each, PRODUCT_COLS);
}

static void lora_finish(const product *p, const product_block *b, const void *sums) {
    store_rows(p, b, sums, &((const lora *)p->context)->args->out);
}

static product product_of_lora(const lora *l) {
    const sl_lora_matmul_args *a = l->args;
    return (product){.kind = product_kind_of(a->x.type.dtype),
                     .batches = 1,
                     .rows = rows_of(&a->out.type),
                     .cols = last_dim(&a->out.type),
                     .inner = last_dim(&a->x.type) + last_dim(&a->a.type),
                     .context = l,
                     .left = lora_left,
                     .right = lora_right,
                     .finish = lora_finish};
}

SPLIT(lora_matmul) {
    const lora l = {.args = args};
    const product p = product_of_lora(&l);
    sl_split split = product_split(&p);
    split.scratch_bytes *= 2;
    return split;
}
RUN(lora_matmul) {
    lora l = {.args = args};
    const product p = product_of_lora(&l);
    l.scratch = (char *)worker->scratch + product_scratch(&p);
    product_items(&p, begin, end, worker->scratch);
    return SL_OK;
}
