/* product.c - The loops of product.h. */
#include "runtime/cpu/kernels/product.h"
#include "core/codec.h"
#include "runtime/cpu/kernels/gemm.h"

product_kind product_kind_of(sl_dtype dtype) {
    switch (dtype) {
    case SL_DTYPE_f64:
        return PRODUCT_F64;
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
        return PRODUCT_I64;
    case SL_DTYPE_c64:
        return PRODUCT_C64;
    default:
        return sl_dtype_infos[dtype].kind == SL_KIND_INT ? PRODUCT_I32 : PRODUCT_F32;
    }
}

static size_t number_bytes(product_kind kind) {
    return kind == PRODUCT_F32 || kind == PRODUCT_I32 ? 4 : 8;
}

/* ---- conversion of elements ---- */

/* Contiguous columns use a loop that the compiler can vectorise. */
#define GATHER(FROM, TO, EXPRESSION)                                                               \
    for (int64_t r = 0; r < s->row_count; r++) {                                                   \
        const FROM *row = (const FROM *)s->data + s->rows[r];                                      \
        TO *restrict out = (TO *)to + r * stride;                                                  \
        for (int64_t c = 0; c < s->col_count && adjacent; c++) {                                   \
            const FROM v = row[s->cols[0] + c];                                                    \
            out[c] = (EXPRESSION);                                                                 \
        }                                                                                          \
        for (int64_t c = 0; c < s->col_count && !adjacent; c++) {                                  \
            const FROM v = row[s->cols[c]];                                                        \
            out[c] = (EXPRESSION);                                                                 \
        }                                                                                          \
    }                                                                                              \
    break

void product_gather(const product_source *s, void *to, int64_t stride) {
    bool adjacent = true;
    for (int64_t c = 1; c < s->col_count; c++) adjacent &= s->cols[c] == s->cols[0] + c;
    switch (s->dtype) {
    case SL_DTYPE_f32:
        GATHER(float, float, v);
    case SL_DTYPE_f16:
        GATHER(uint16_t, float, sl_f32_from_f16(v));
    case SL_DTYPE_bf16:
        GATHER(uint16_t, float, sl_f32_from_bf16(v));
    case SL_DTYPE_f64:
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
    case SL_DTYPE_c64:
        GATHER(uint64_t, uint64_t, v);
    case SL_DTYPE_i8:
        GATHER(int8_t, uint32_t, (uint32_t)(int32_t)v);
    case SL_DTYPE_i16:
        GATHER(int16_t, uint32_t, (uint32_t)(int32_t)v);
    case SL_DTYPE_u8:
        GATHER(uint8_t, uint32_t, v);
    case SL_DTYPE_u16:
        GATHER(uint16_t, uint32_t, v);
    default:
        GATHER(uint32_t, uint32_t, v);
    }
}

#define STORE(FROM, TO, EXPRESSION)                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
        const FROM v = ((const FROM *)numbers)[i];                                                 \
        ((TO *)data)[at + i] = (TO)(EXPRESSION);                                                   \
    }                                                                                              \
    break

void product_store(sl_dtype dtype, const void *numbers, int64_t count, void *data, int64_t at) {
    switch (dtype) {
    case SL_DTYPE_f32:
        STORE(float, float, v);
    case SL_DTYPE_f16:
        STORE(float, uint16_t, sl_f16_from_f32(v));
    case SL_DTYPE_bf16:
        STORE(float, uint16_t, sl_bf16_from_f32(v));
    case SL_DTYPE_f64:
    case SL_DTYPE_i64:
    case SL_DTYPE_u64:
    case SL_DTYPE_c64:
        STORE(uint64_t, uint64_t, v);
    case SL_DTYPE_i8:
    case SL_DTYPE_u8:
        STORE(uint32_t, uint8_t, v);
    case SL_DTYPE_i16:
    case SL_DTYPE_u16:
        STORE(uint32_t, uint16_t, v);
    default:
        STORE(uint32_t, uint32_t, v);
    }
}

/* ---- products of one block ---- */

/* Portable vectors that the compiler splits into registers; unused rows and columns are zero. */
enum { TILE_ROWS = 4 };
#define MULTIPLY(NAME, TYPE)                                                                       \
    typedef TYPE vector_##NAME __attribute__((vector_size(64), aligned(8), may_alias));            \
    static void multiply_##NAME(const TYPE *a, const TYPE *b, TYPE *c, const product_block *p) {   \
        enum { WIDTH = 64 / sizeof(TYPE) };                                                        \
        for (int64_t r = 0; r < p->rows; r += TILE_ROWS)                                           \
            for (int64_t n = 0; n < p->cols; n += WIDTH) {                                         \
                vector_##NAME sums[TILE_ROWS];                                                     \
                for (int i = 0; i < TILE_ROWS; i++)                                                \
                    sums[i] = *(const vector_##NAME *)(c + (r + i) * PRODUCT_COLS + n);            \
                for (int64_t k = 0; k < p->ks; k++) {                                              \
                    const vector_##NAME row = *(const vector_##NAME *)(b + k * PRODUCT_COLS + n);  \
                    for (int i = 0; i < TILE_ROWS; i++)                                            \
                        sums[i] += a[(r + i) * PRODUCT_INNER + k] * row;                           \
                }                                                                                  \
                for (int i = 0; i < TILE_ROWS; i++)                                                \
                    *(vector_##NAME *)(c + (r + i) * PRODUCT_COLS + n) = sums[i];                  \
            }                                                                                      \
    }
MULTIPLY(f64, double)
MULTIPLY(i32, uint32_t)
MULTIPLY(i64, uint64_t)

static void multiply_c64(const float *a, const float *b, float *c, const product_block *p) {
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t k = 0; k < p->ks; k++) {
            const float *factor = a + (r * PRODUCT_INNER + k) * 2;
            const float re = factor[0], im = factor[1], *row = b + k * PRODUCT_COLS * 2;
            float *to = c + r * PRODUCT_COLS * 2;
            for (int64_t n = 0; n < p->cols; n++) {
                to[2 * n] += re * row[2 * n] - im * row[2 * n + 1];
                to[2 * n + 1] += re * row[2 * n + 1] + im * row[2 * n];
            }
        }
}

static void multiply_f32(const float *a, const float *b, float *c, const product_block *p) {
    gemm_run(&(gemm){.a = a,
                     .a_row = PRODUCT_INNER,
                     .a_col = 1,
                     .b = b,
                     .b_row = PRODUCT_COLS,
                     .c = c,
                     .c_row = PRODUCT_COLS,
                     .rows = p->rows,
                     .cols = p->cols,
                     .inner = p->ks,
                     .add = true});
}

/* ---- blocks and items ---- */

enum {
    LEFT = PRODUCT_ROWS * PRODUCT_INNER,
    RIGHT = PRODUCT_INNER * PRODUCT_COLS,
    SUMS = PRODUCT_ROWS * PRODUCT_COLS
};

size_t product_scratch(const product *p) {
    return (size_t)(LEFT + RIGHT + SUMS) * number_bytes(p->kind);
}

void product_run_block(const product *p, product_block block, void *scratch) {
    const size_t each = number_bytes(p->kind);
    char *left = scratch, *right = left + LEFT * each, *sums = right + RIGHT * each;
    memset(sums, 0, SUMS * each);
    if (p->kind != PRODUCT_F32) memset(scratch, 0, (LEFT + RIGHT) * each);
    for (block.k = 0; block.k < p->inner; block.k += block.ks) {
        block.ks = least(PRODUCT_INNER, p->inner - block.k);
        p->left(p, &block, left);
        p->right(p, &block, right);
        if (p->kind == PRODUCT_F32)
            multiply_f32((float *)left, (float *)right, (float *)sums, &block);
        else if (p->kind == PRODUCT_F64)
            multiply_f64((double *)left, (double *)right, (double *)sums, &block);
        else if (p->kind == PRODUCT_I32)
            multiply_i32((uint32_t *)left, (uint32_t *)right, (uint32_t *)sums, &block);
        else if (p->kind == PRODUCT_I64)
            multiply_i64((uint64_t *)left, (uint64_t *)right, (uint64_t *)sums, &block);
        else
            multiply_c64((float *)left, (float *)right, (float *)sums, &block);
    }
    p->finish(p, &block, sums);
}

sl_split product_split(const product *p) {
    const int64_t blocks = parts_of(p->rows, PRODUCT_ROWS) * parts_of(p->cols, PRODUCT_COLS);
    const int64_t operations = least(p->rows, PRODUCT_ROWS) * least(p->cols, PRODUCT_COLS);
    return (sl_split){p->batches * blocks, grain_of(operations * p->inner / 4), product_scratch(p)};
}

void product_items(const product *p, int64_t begin, int64_t end, void *scratch) {
    const int64_t row_blocks = parts_of(p->rows, PRODUCT_ROWS);
    const int64_t col_blocks = parts_of(p->cols, PRODUCT_COLS);
    for (int64_t item = begin; item < end; item++) {
        product_block b = {.batch = item / (row_blocks * col_blocks),
                           .row = item / col_blocks % row_blocks * PRODUCT_ROWS,
                           .col = item % col_blocks * PRODUCT_COLS};
        b.rows = least(PRODUCT_ROWS, p->rows - b.row);
        b.cols = least(PRODUCT_COLS, p->cols - b.col);
        product_run_block(p, b, scratch);
    }
}
