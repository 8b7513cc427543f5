/* linear.c - Linear layers with dense weights, and the choice of kernel by weight type.
 *
 * Each (token, output) pair is one vector of partial sums over the columns in order, reduced at the
 * end.  A register tile covers DENSE_ROWS weight rows and several tokens, to reuse loads. */
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vmath.h"

enum { TILE_TOKENS = LANES == 16 ? 4 : 2 };

/* Loads LANES (or the first n) weights of a row from column c on. */
typedef vf load_fn(const char *row, int64_t c, int64_t n);

INLINE vf load_f32(const char *row, int64_t c, int64_t n) {
    return vload_n(row + c * 4, n);
}
/* A partial load goes through a zero-filled buffer. */
#define LOAD_HALF(TYPE)                                                                            \
    INLINE vf load_##TYPE(const char *row, int64_t c, int64_t n) {                                 \
        if (n == LANES) return vload_##TYPE(row + c * 2);                                          \
        char part[LANES * 2] = {0};                                                                \
        memcpy(part, row + c * 2, (size_t)n * 2);                                                  \
        return vload_##TYPE(part);                                                                 \
    }
LOAD_HALF(f16)
LOAD_HALF(bf16)

/* A register tile of outputs; rows and tokens are compile-time constants where it is used. */
typedef struct {
    const char *weights;
    size_t row_bytes;
    const float *x;
    int64_t x_stride, cols;
    float *out;
    int64_t out_stride;
    int rows, tokens;
} tile;

/* Adds the products of columns [c, c + n) to the accumulators. */
INLINE void add_columns(const tile *b, int64_t c, int64_t n, vf (*sums)[TILE_TOKENS],
                        load_fn *load) {
    vf w[DENSE_ROWS];
    UNROLL(4)
    for (int r = 0; r < b->rows; r++) w[r] = load(b->weights + (size_t)r * b->row_bytes, c, n);
    UNROLL(4)
    for (int t = 0; t < b->tokens; t++) {
        const vf x = vload_n(b->x + t * b->x_stride + c, n);
        UNROLL(4)
        for (int r = 0; r < b->rows; r++) sums[r][t] = vfma(w[r], x, sums[r][t]);
    }
}

INLINE void run_tile(const tile *b, load_fn *load) {
    vf sums[DENSE_ROWS][TILE_TOKENS];
    for (int r = 0; r < b->rows; r++)
        for (int t = 0; t < b->tokens; t++) sums[r][t] = vzero();
    int64_t c = 0;
    for (; c + LANES <= b->cols; c += LANES) add_columns(b, c, LANES, sums, load);
    if (c < b->cols) add_columns(b, c, b->cols - c, sums, load);
    for (int r = 0; r < b->rows; r++)
        for (int t = 0; t < b->tokens; t++) b->out[t * b->out_stride + r] = vsum(sums[r][t]);
}

/* `rows` (a constant) weight rows from `row` on, for all tokens. */
INLINE void run_rows(const sl_linear_job *job, int64_t row, const int rows, size_t element,
                     load_fn *load) {
    const size_t row_bytes = (size_t)job->cols * element;
    tile b = {.weights = (const char *)job->weights + (size_t)row * row_bytes,
              .row_bytes = row_bytes,
              .x_stride = job->x_stride,
              .cols = job->cols,
              .out_stride = job->out_stride,
              .rows = rows};
    for (int64_t t = 0; t < job->tokens; t += b.tokens) {
        b.x = job->x + t * job->x_stride;
        b.out = job->out + t * job->out_stride + (row - job->first);
        if (t + TILE_TOKENS <= job->tokens) {
            b.tokens = TILE_TOKENS;
            run_tile(&b, load);
        } else {
            b.tokens = 1;
            run_tile(&b, load);
        }
    }
}

INLINE void run_parts(const sl_linear_job *job, int64_t begin, int64_t end, size_t element,
                      load_fn *load) {
    const int64_t last = least(end * DENSE_ROWS, job->rows);
    int64_t row = begin * DENSE_ROWS;
    for (; row + DENSE_ROWS <= last; row += DENSE_ROWS)
        run_rows(job, row, DENSE_ROWS, element, load);
    for (; row < last; row++) run_rows(job, row, 1, element, load);
}

void SL_KERNEL(sl_linear_part_dense)(const sl_linear_job *job, int64_t begin, int64_t end,
                                     void *scratch) {
    (void)scratch;
    if (job->dtype == SL_DTYPE_f32)
        run_parts(job, begin, end, 4, load_f32);
    else if (job->dtype == SL_DTYPE_f16)
        run_parts(job, begin, end, 2, load_f16);
    else
        run_parts(job, begin, end, 2, load_bf16);
}

/* ---- choice by weight type ---- */

static sl_linear_fn *const panels[SL_DTYPE_COUNT] = {
#define PANEL(NAME, ...) [SL_DTYPE_##NAME] = SL_KERNEL(sl_linear_part_##NAME),
#include "core/panels.def"
};

sl_linear_product SL_KERNEL(sl_linear_product_of)(sl_dtype x, sl_dtype w) {
    if (x == SL_DTYPE_a8) {
        const bool panel = sl_dtype_infos[w].kind == SL_KIND_PANEL;
        return (sl_linear_product){panel ? SL_KERNEL(sl_linear_part_i8) : NULL, PAIR_ROWS};
    }
    if (w == SL_DTYPE_f32 || w == SL_DTYPE_f16 || w == SL_DTYPE_bf16)
        return (sl_linear_product){SL_KERNEL(sl_linear_part_dense), DENSE_ROWS};
    return (sl_linear_product){panels[w], panels[w] ? SL_PANEL_ROWS : 1};
}

/* For panels: the sum of every group and of its first half, and rows padded to whole groups. */
size_t SL_KERNEL(sl_linear_scratch)(sl_dtype x, int64_t tokens, int64_t cols) {
    if (x == SL_DTYPE_a8) return 0;
    const int64_t groups = parts_of(cols, SL_GROUP_COLS);
    return (size_t)(tokens * (groups * (2 + SL_GROUP_COLS) + PANEL_PAD)) * sizeof(float);
}

bool SL_KERNEL(sl_linear_whole)(const sl_linear_job *job, void *scratch) {
    const sl_linear_product p =
        SL_KERNEL(sl_linear_product_of)(job->x ? SL_DTYPE_f32 : SL_DTYPE_a8, job->dtype);
    if (!p.run) return false;
    p.run(job, 0, parts_of(job->rows, p.rows), scratch);
    return true;
}

/* ---- linear: an item is a part of the outputs (linear.h) ---- */

SPLIT(linear) {
    const sl_linear_args *a = args;
    const int64_t tokens = dim(&a->x.type, 0), cols = dim(&a->x.type, 1);
    const int64_t rows = dim(&a->w.type, 0);
    const int64_t part = SL_KERNEL(sl_linear_product_of)(a->x.type.dtype, a->w.type.dtype).rows;
    return (sl_split){parts_of(rows, part), grain_of(part * tokens * cols / 8),
                      SL_KERNEL(sl_linear_scratch)(a->x.type.dtype, tokens, cols)};
}
RUN(linear) {
    const sl_linear_args *a = args;
    const sl_linear_job job = sl_linear_job_of(&a->x, &a->w, &a->out);
    const sl_linear_product product =
        SL_KERNEL(sl_linear_product_of)(a->x.type.dtype, a->w.type.dtype);
    if (!product.run)
        return sl_fail(worker->err, SL_UNSUPPORTED, "linear: weights of type %s are not supported",
                       sl_dtype_infos[a->w.type.dtype].name);
    product.run(&job, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- linear_heads: an item is a part of a head's output ---- */

/* Number of parts of one head. */
static int64_t head_parts(const sl_linear_heads_args *a, const sl_linear_product *product) {
    return parts_of(dim(&a->w.type, 1), product->rows);
}

SPLIT(linear_heads) {
    const sl_linear_heads_args *a = args;
    const int64_t tokens = dim(&a->x.type, 0), cols = dim(&a->x.type, 2);
    const sl_linear_product product =
        SL_KERNEL(sl_linear_product_of)(SL_DTYPE_f32, a->w.type.dtype);
    return (sl_split){dim(&a->w.type, 0) * head_parts(a, &product),
                      grain_of(product.rows * tokens * cols / 8),
                      SL_KERNEL(sl_linear_scratch)(SL_DTYPE_f32, tokens, cols)};
}

static sl_linear_job head_job(const sl_linear_heads_args *a, int64_t head) {
    const int64_t heads = dim(&a->w.type, 0), rows = dim(&a->w.type, 1), cols = dim(&a->w.type, 2);
    const uint64_t matrix_bytes = sl_type_bytes(&a->w.type) / (uint64_t)heads;
    return (sl_linear_job){.x = (const float *)a->x.data + head * cols,
                           .x_stride = heads * cols,
                           .tokens = dim(&a->x.type, 0),
                           .dtype = a->w.type.dtype,
                           .weights = (const char *)a->w.data + (uint64_t)head * matrix_bytes,
                           .rows = rows,
                           .cols = cols,
                           .out = (float *)a->out.data + head * rows,
                           .out_stride = heads * rows};
}

RUN(linear_heads) {
    const sl_linear_heads_args *a = args;
    const sl_linear_product product =
        SL_KERNEL(sl_linear_product_of)(SL_DTYPE_f32, a->w.type.dtype);
    if (!product.run)
        return sl_fail(worker->err, SL_UNSUPPORTED,
                       "linear_heads: weights of type %s are not supported",
                       sl_dtype_infos[a->w.type.dtype].name);
    const int64_t parts = head_parts(a, &product);
    for (int64_t at = begin, next; at < end; at = next) {
        const int64_t head = at / parts, before = head * parts;
        const sl_linear_job job = head_job(a, head);
        next = least(end, before + parts);
        product.run(&job, at - before, next - before, worker->scratch);
    }
    return SL_OK;
}
