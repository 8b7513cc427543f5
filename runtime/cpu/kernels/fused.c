/* fused.c - Transformer blocks; intermediate results stay in the worker's scratch memory. */
#include "core/elementwise_math.h"
#include "core/ops.h"
#include "runtime/cpu/kernels/activate.h"
#include "runtime/cpu/kernels/attention_heads.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/matrices.h"
#include "runtime/cpu/kernels/norm.h"

enum { ITEM_ROWS = 16, ITEM_COLS = 128 };

typedef struct {
    int64_t width;
    double eps;
} norm;

/* A block of an output matrix: rows x cols from column `col` on. */
typedef struct {
    int64_t a_at, b_at, out_at, col;
    int64_t rows, cols, inner, all_cols;
} tile;

/* A dense layer act(x w + bias); bias may be NULL. */
typedef struct {
    const sl_cview *w, *bias;
    uint32_t act;
} dense;

/* Operands of an attention block; those that are absent are NULL. */
typedef struct {
    const sl_cview *x, *qkv_w, *out_w;
    const sl_cview *qkv_b, *out_b, *fc1_b, *fc2_b, *mask, *cos, *sin;
    sl_attention_form form;
    int64_t tokens, heads, width, dim; /* width: of all heads together */
    bool interleaved;
} layer;

/* ---- instantiated for float and double ---- */

static void activate_f64(double *x, int64_t n, uint32_t act) {
    for (int64_t i = 0; i < n && act; i++) x[i] = sl_activate(x[i], act);
}

#define REAL     float
#define NAMED(x) x##_f32
#include "runtime/cpu/kernels/fused_row.h"
#undef REAL
#undef NAMED
#define REAL     double
#define NAMED(x) x##_f64
#include "runtime/cpu/kernels/fused_row.h" /* NOLINT: once per REAL */

static bool in_doubles(const sl_type *type) {
    return type->dtype == SL_DTYPE_f64;
}
static size_t real_bytes(const sl_type *type) {
    return in_doubles(type) ? sizeof(double) : sizeof(float);
}

/* ---- fused_swiglu: an item is a row ---- */

SPLIT(fused_swiglu) {
    const sl_fused_swiglu_args *a = args;
    const int64_t width = last_dim(&a->x.type);
    return (sl_split){rows_of(&a->x.type), grain_of(2 * width),
                      (size_t)(2 * width) * sizeof(double)};
}

static void swiglu_row_f32(const float *gate, const float *up, int64_t n, float *out) {
    FOR_VECTORS(
        i, count, n,
        vstore_n(out + i, vswiglu(vload_n(gate + i, count), vload_n(up + i, count)), count););
}
static void swiglu_row_f64(const double *gate, const double *up, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
}

RUN(fused_swiglu) {
    const sl_fused_swiglu_args *a = args;
    const sl_dtype dtype = a->x.type.dtype;
    const int64_t half = last_dim(&a->out.type);
    const int64_t gate = a->attrs.gate_first ? 0 : half, up = half - gate;
    for (int64_t row = begin; row < end; row++) {
        if (in_doubles(&a->x.type)) {
            const double *x = (const double *)a->x.data + row * 2 * half;
            swiglu_row_f64(x + gate, x + up, half, (double *)a->out.data + row * half);
            continue;
        }
        float *room = worker->scratch, *out = room + 2 * half;
        const float *x = load_f32(dtype, a->x.data, row * 2 * half, 2 * half, room);
        swiglu_row_f32(x + gate, x + up, half, out);
        store_f32(dtype, a->out.data, row * half, half, out);
    }
    return SL_OK;
}

/* ---- fused_residual_ln: an item is a row ---- */

SPLIT(fused_residual_ln) {
    const sl_type *x = &((const sl_fused_residual_ln_args *)args)->x.type;
    const int64_t width = last_dim(x);
    return (sl_split){rows_of(x), grain_of(width), (size_t)(6 * width) * real_bytes(x)};
}
RUN(fused_residual_ln) {
    const sl_fused_residual_ln_args *a = args;
    const norm n = {last_dim(&a->x.type), (double)a->attrs.eps};
    if (in_doubles(&a->x.type))
        residual_rows_f64(a, &n, begin, end, worker->scratch);
    else
        residual_rows_f32(a, &n, begin, end, worker->scratch);
    return SL_OK;
}

/* ---- fused_matmul_bias_act: an item is a block of one output matrix ---- */

typedef struct {
    int64_t rows, cols, inner, row_blocks, col_blocks, matrices;
} extents;

static extents extents_of(const sl_fused_matmul_bias_act_args *a) {
    const sl_dims *out = &a->out.type.shape;
    extents e = {out->dims[out->rank - 2], last_dim(&a->out.type), last_dim(&a->a.type), 0, 0, 0};
    e.row_blocks = parts_of(e.rows, ITEM_ROWS), e.col_blocks = parts_of(e.cols, ITEM_COLS);
    e.matrices = sl_type_elements(&a->out.type) / (e.rows * e.cols);
    return e;
}

SPLIT(fused_matmul_bias_act) {
    const sl_fused_matmul_bias_act_args *a = args;
    const extents e = extents_of(a);
    const size_t each = real_bytes(&a->a.type);
    carver k = {NULL, 0};
    (void)carve(&k, ITEM_ROWS * ITEM_COLS, each);
    (void)carve(&k, ITEM_COLS, each);
    (void)carve(&k, ITEM_ROWS * e.inner, each);
    (void)carve(&k, e.inner * ITEM_COLS, each);
    return (sl_split){e.matrices * e.row_blocks * e.col_blocks,
                      grain_of(ITEM_ROWS * least(e.cols, ITEM_COLS) * (e.inner / 8 + 4)), k.bytes};
}
RUN(fused_matmul_bias_act) {
    const sl_fused_matmul_bias_act_args *a = args;
    const extents e = extents_of(a);
    const sl_dims *out = &a->out.type.shape;
    for (int64_t item = begin; item < end; item++) {
        const int64_t col = item % e.col_blocks * ITEM_COLS;
        const int64_t row = item / e.col_blocks % e.row_blocks * ITEM_ROWS;
        const int64_t m = item / (e.col_blocks * e.row_blocks);
        const tile t = {.a_at = (matrix_index(&a->a.type.shape, out, m) * e.rows + row) * e.inner,
                        .b_at = matrix_index(&a->b.type.shape, out, m) * e.inner * e.cols + col,
                        .out_at = (m * e.rows + row) * e.cols + col,
                        .col = col,
                        .rows = least(ITEM_ROWS, e.rows - row),
                        .cols = least(ITEM_COLS, e.cols - col),
                        .inner = e.inner,
                        .all_cols = e.cols};
        if (in_doubles(&a->a.type))
            matmul_block_f64(a, &t, worker->scratch);
        else
            matmul_block_f32(a, &t, worker->scratch);
    }
    return SL_OK;
}

/* ---- fused_attention_block, fused_transformer_layer: an item is a batch entry ---- */

static int64_t converted(const sl_cview *view) {
    if (!view || sl_dtype_infos[view->type.dtype].bytes >= sizeof(float)) return 0;
    return sl_type_elements(&view->type) + 16; /* parts are aligned to 64 bytes */
}

/* Scratch for the block's own buffers and for tensors converted from 16 bits. */
static size_t block_bytes(const layer *l) {
    carver k = {NULL, 0};
    const size_t each = real_bytes(&l->x->type);
    (void)carve(&k, l->tokens * 4 * l->width + 32, each);
    if (in_doubles(&l->x->type))
        (void)room_of_f64(&k, l->dim, l->dim);
    else
        (void)room_of_f32(&k, l->dim, l->dim);
    (void)carve(&k, converted(l->qkv_w) + converted(l->qkv_b), each);
    (void)carve(&k, converted(l->out_w) + converted(l->out_b), each);
    (void)carve(&k, converted(l->cos) + converted(l->sin), each);
    return k.bytes;
}

/* The next operand of an optional list if `wanted`, else NULL. */
static const sl_cview *take(const sl_cview_list *list, uint32_t *next, bool wanted) {
    return wanted ? &list->items[(*next)++] : NULL;
}

#define LAYER(A, L)                                                                                \
    layer L = {.x = &(A)->x,                                                                       \
               .qkv_w = &(A)->qkv_w,                                                               \
               .out_w = &(A)->out_w,                                                               \
               .tokens = dim(&(A)->x.type, 1),                                                     \
               .heads = (A)->attrs.heads,                                                          \
               .width = dim(&(A)->out_w.type, 0)};                                                 \
    L.dim = L.width / L.heads;                                                                     \
    L.form = SL_ATTENTION_FORM(&(A)->attrs, L.dim);                                                \
    uint32_t next = 0;                                                                             \
    L.mask =                                                                                       \
        take(&(A)->extra, &next, L.form.mask == SL_MASK_CUSTOM || L.form.mask == SL_MASK_BIAS);    \
    L.qkv_b = take(&(A)->extra, &next, (A)->attrs.bias);                                           \
    L.out_b = take(&(A)->extra, &next, (A)->attrs.bias)

static layer block_of(const sl_fused_attention_block_args *a) {
    LAYER(a, l);
    l.cos = take(&a->extra, &next, a->attrs.rope);
    l.sin = take(&a->extra, &next, a->attrs.rope);
    l.interleaved = a->attrs.interleaved;
    return l;
}

static layer layer_of(const sl_fused_transformer_layer_args *a) {
    LAYER(a, l);
    l.fc1_b = take(&a->extra, &next, a->attrs.bias);
    l.fc2_b = take(&a->extra, &next, a->attrs.bias);
    return l;
}

SPLIT(fused_attention_block) {
    const sl_fused_attention_block_args *a = args;
    const layer l = block_of(a);
    carver k = {NULL, block_bytes(&l)};
    const size_t each = real_bytes(&a->x.type);
    (void)carve(&k, l.tokens * (dim(&a->x.type, 2) + dim(&a->out_w.type, 1)) + 32, each);
    return (sl_split){dim(&a->x.type, 0), 1, k.bytes};
}
RUN(fused_attention_block) {
    const sl_fused_attention_block_args *a = args;
    const layer l = block_of(a);
    for (int64_t batch = begin; batch < end; batch++)
        if (in_doubles(&a->x.type))
            run_block_f64(&l, batch, &a->out, worker->scratch);
        else
            run_block_f32(&l, batch, &a->out, worker->scratch);
    return SL_OK;
}

SPLIT(fused_transformer_layer) {
    const sl_fused_transformer_layer_args *a = args;
    const layer l = layer_of(a);
    carver k = {NULL, block_bytes(&l)};
    const size_t each = real_bytes(&a->x.type);
    (void)carve(&k, l.tokens * (2 * dim(&a->x.type, 2) + dim(&a->fc1_w.type, 1)) + 48, each);
    (void)carve(&k, converted(&a->fc1_w) + converted(l.fc1_b), each);
    (void)carve(&k, converted(&a->fc2_w) + converted(l.fc2_b), each);
    (void)carve(&k, 2 * converted(&a->gain1), each);
    return (sl_split){dim(&a->x.type, 0), 1, k.bytes};
}
RUN(fused_transformer_layer) {
    const sl_fused_transformer_layer_args *a = args;
    const layer l = layer_of(a);
    for (int64_t batch = begin; batch < end; batch++)
        if (in_doubles(&a->x.type))
            run_layer_f64(a, &l, batch, worker->scratch);
        else
            run_layer_f32(a, &l, batch, worker->scratch);
    return SL_OK;
}
