/* product.h - Generic matrix products of any number type.
 *
 * An item is a block of PRODUCT_ROWS x PRODUCT_COLS of one output matrix.  A kernel supplies
 * functions that unpack blocks of both operands to one of five number kinds, and one that stores
 * the sums, so the same loops serve strided operands, low-bit weights and convolutions.  Each
 * element is accumulated over the inner dim in order. */
#ifndef SL_RUNTIME_CPU_PRODUCT_H
#define SL_RUNTIME_CPU_PRODUCT_H
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"

enum { PRODUCT_ROWS = 64, PRODUCT_COLS = 64, PRODUCT_INNER = 256 };

/* The type of the arithmetic: f16 and bf16 are computed as f32, integers as unsigned of 32 or 64
 * bits, which wrap. */
typedef enum { PRODUCT_F32, PRODUCT_F64, PRODUCT_I32, PRODUCT_I64, PRODUCT_C64 } product_kind;
product_kind SL_KERNEL(sl_product_kind)(sl_dtype dtype);
#define product_kind_of SL_KERNEL(sl_product_kind)

/* Rows [row, row + rows) and columns [col, col + cols) of one output matrix, and the current range
 * [k, k + ks) of the inner dim. */
typedef struct {
    int64_t batch, row, rows, col, cols, k, ks;
    const int64_t *chosen; /* row indices, in x and the output; NULL: row, row + 1, ... */
} product_block;

typedef struct product product;
struct product {
    product_kind kind;
    int64_t batches, rows, cols, inner;
    const void *context;
    void (*left)(const product *p, const product_block *b, void *to);  /* [rows][PRODUCT_INNER] */
    void (*right)(const product *p, const product_block *b, void *to); /* [ks][PRODUCT_COLS] */
    void (*finish)(const product *p, const product_block *b,
                   const void *sums); /* [][PRODUCT_COLS] */
};

size_t SL_KERNEL(sl_product_scratch)(const product *p);
#define product_scratch SL_KERNEL(sl_product_scratch)
sl_split SL_KERNEL(sl_product_split)(const product *p);
#define product_split SL_KERNEL(sl_product_split)
void SL_KERNEL(sl_product_items)(const product *p, int64_t begin, int64_t end, void *scratch);
#define product_items SL_KERNEL(sl_product_items)
/* Computes one block; sets k and ks itself. */
void SL_KERNEL(sl_product_block)(const product *p, product_block block, void *scratch);
#define product_run_block SL_KERNEL(sl_product_block)

/* A block of elements at offsets rows[r] + cols[c]. */
typedef struct {
    sl_dtype dtype;
    const void *data;
    const int64_t *rows, *cols;
    int64_t row_count, col_count;
} product_source;
/* Converts the block to the dtype's kind; rows of `to` are `stride` numbers apart. */
void SL_KERNEL(sl_product_gather)(const product_source *s, void *to, int64_t stride);
#define product_gather SL_KERNEL(sl_product_gather)
/* Converts numbers to elements of a type, rounding or wrapping. */
void SL_KERNEL(sl_product_store)(sl_dtype dtype, const void *numbers, int64_t count, void *data,
                                 int64_t at);
#define product_store SL_KERNEL(sl_product_store)
#endif
