/* fused_row.h - Rows of fused transformer blocks; included once per REAL (reals.h). */
#include "runtime/cpu/kernels/attention_tile.h"

/* out = norm(sum). */
static void NAMED(norm_row)(const norm *n, const REAL *gain, const REAL *shift, const REAL *sum,
                            REAL *out) {
    const sl_dtype dtype = sizeof(REAL) == sizeof(float) ? SL_DTYPE_f32 : SL_DTYPE_f64;
    SL_KERNEL(sl_normalise_row)
    (&(norm_row){dtype, n->width, n->eps, sum, gain, shift, out});
}

/* sum = x + residual (+ bias); out = norm(sum).  Elements that are REAL are written in place. */
static void NAMED(residual_rows)(const sl_fused_residual_ln_args *a, const norm *n, int64_t begin,
                                 int64_t end, void *scratch) {
    const sl_dtype dtype = a->x.type.dtype;
    const bool as_it_is = sizeof(REAL) == sl_dtype_infos[dtype].bytes;
    const int64_t width = n->width;
    REAL *rooms[6];
    for (int i = 0; i < 6; i++) rooms[i] = (REAL *)scratch + i * width;
    const REAL *gain = NAMED(load)(dtype, a->gain.data, 0, width, rooms[0]);
    const REAL *shift = NAMED(load)(dtype, a->shift.data, 0, width, rooms[1]);
    const REAL *bias = NULL;
    if (SL_LIST_COUNT(a->bias))
        bias = NAMED(load)(dtype, a->bias.items[0].data, 0, width, rooms[2]);
    for (int64_t row = begin; row < end; row++) {
        const REAL *x = NAMED(load)(dtype, a->x.data, row * width, width, rooms[3]);
        const REAL *y = NAMED(load)(dtype, a->residual.data, row * width, width, rooms[4]);
        REAL *sum = as_it_is ? (REAL *)a->sum.data + row * width : rooms[5];
        REAL *out = as_it_is ? (REAL *)a->out.data + row * width : rooms[3];
        for (int64_t i = 0; i < width; i++) sum[i] = x[i] + y[i];
        for (int64_t i = 0; i < width && bias; i++) sum[i] += bias[i];
        NAMED(norm_row)(n, gain, shift, sum, out);
        if (as_it_is) continue;
        NAMED(store)(dtype, a->sum.data, row * width, width, sum);
        NAMED(store)(dtype, a->out.data, row * width, width, out);
    }
}

/* out = act(a b + bias). */
static void NAMED(product)(const NAMED(gemm) * g, const REAL *bias, uint32_t act) {
    NAMED(multiply)(g);
    for (int64_t r = 0; r < g->rows; r++) {
        REAL *row = g->c + r * g->c_row;
        for (int64_t c = 0; c < g->cols && bias; c++) row[c] += bias[c];
        NAMED(activate)(row, g->cols, act);
    }
}

/* ---- fused_matmul_bias_act ---- */

/* One block of an output matrix. */
static void NAMED(matmul_block)(const sl_fused_matmul_bias_act_args *a, const tile *t,
                                void *scratch) {
    const sl_dtype dtype = a->a.type.dtype;
    carver k = {scratch, 0};
    REAL *out = carve(&k, ITEM_ROWS * ITEM_COLS, sizeof(REAL));
    REAL *bias_room = carve(&k, ITEM_COLS, sizeof(REAL));
    REAL *left = carve(&k, ITEM_ROWS * t->inner, sizeof(REAL));
    REAL *right = carve(&k, t->inner * ITEM_COLS, sizeof(REAL));
    const bool as_it_is = sizeof(REAL) == sl_dtype_infos[dtype].bytes;
    for (int64_t i = 0; i < t->inner && !as_it_is; i++)
        NAMED(copy)(dtype, a->b.data, t->b_at + i * t->all_cols, t->cols, right + i * t->cols);
    const REAL *x = NAMED(load)(dtype, a->a.data, t->a_at, t->rows * t->inner, left);
    const REAL *bias = NAMED(load)(dtype, a->bias.data, t->col, t->cols, bias_room);
    NAMED(product)
    (&(NAMED(gemm)){.a = x,
                    .a_row = t->inner,
                    .a_col = 1,
                    .b = as_it_is ? (const REAL *)a->b.data + t->b_at : right,
                    .b_row = as_it_is ? t->all_cols : t->cols,
                    .c = out,
                    .c_row = t->cols,
                    .rows = t->rows,
                    .cols = t->cols,
                    .inner = t->inner},
     bias, a->attrs.act);
    for (int64_t r = 0; r < t->rows; r++)
        NAMED(store)(dtype, a->out.data, t->out_at + r * t->all_cols, t->cols, out + r * t->cols);
}

/* ---- attention block ---- */

/* A whole tensor, converted to REAL. */
static const REAL *NAMED(whole)(const sl_cview *view, carver *k) {
    const int64_t count = sl_type_elements(&view->type);
    return NAMED(load)(view->type.dtype, view->data, 0, count,
                       sizeof(REAL) == sl_dtype_infos[view->type.dtype].bytes
                           ? NULL
                           : carve(k, count, sizeof(REAL)));
}

/* out = act(x w + bias), x [rows, inner], w [inner, cols]; bias may be NULL. */
static void NAMED(dense)(const REAL *x, int64_t rows, const dense *d, carver k, REAL *out) {
    const int64_t inner = dim(&d->w->type, 0), cols = dim(&d->w->type, 1);
    const REAL *weights = NAMED(whole)(d->w, &k);
    const REAL *shift = d->bias ? NAMED(whole)(d->bias, &k) : NULL;
    NAMED(product)
    (&(NAMED(gemm)){.a = x,
                    .a_row = inner,
                    .a_col = 1,
                    .b = weights,
                    .b_row = cols,
                    .c = out,
                    .c_row = cols,
                    .rows = rows,
                    .cols = cols,
                    .inner = inner},
     shift, d->act);
}

/* Applies RoPE to the query and key heads. */
static void NAMED(turn_heads)(const layer *l, REAL *qkv, carver k) {
    const REAL *cosines = NAMED(whole)(l->cos, &k), *sines = NAMED(whole)(l->sin, &k);
    const int64_t pairs = dim(&l->cos->type, 1);
    const int64_t step = l->interleaved ? 1 : pairs, apart = l->interleaved ? 2 : 1;
    for (int64_t i = 0; i < l->tokens * 2 * l->heads; i++) {
        const int64_t token = i / (2 * l->heads), head = i % (2 * l->heads);
        REAL *x = qkv + token * 3 * l->width + head * l->dim;
        for (int64_t j = 0; j < pairs; j++) {
            const REAL cosine = cosines[token * pairs + j], sine = sines[token * pairs + j];
            const REAL one = x[j * apart], other = x[j * apart + step];
            x[j * apart] = one * cosine - other * sine;
            x[j * apart + step] = other * cosine + one * sine;
        }
    }
}

/* Attention of all heads.  Rows of qkv hold q, k and v side by side; rows of out hold all heads. */
static void NAMED(attend_all)(const layer *l, int64_t batch, const REAL *qkv, carver k, REAL *out) {
    NAMED(room) m = NAMED(room_of)(&k, l->dim, l->dim);
    for (int64_t head = 0; head < l->heads; head++) {
        heads h = {.form = &l->form,
                   .dtype = sizeof(REAL) == sizeof(float) ? SL_DTYPE_f32 : SL_DTYPE_f64,
                   .q = qkv,
                   .k = qkv,
                   .v = qkv,
                   .q_at = head * l->dim,
                   .k_at = l->width + head * l->dim,
                   .v_at = 2 * l->width + head * l->dim,
                   .q_row = 3 * l->width,
                   .k_row = 3 * l->width,
                   .v_row = 3 * l->width,
                   .queries = l->tokens,
                   .group = 1,
                   .keys = l->tokens,
                   .key_dim = l->dim,
                   .value_dim = l->dim};
        if (l->mask) {
            h.mask = l->mask->data, h.mask_dtype = l->mask->type.dtype;
            h.mask_by = sl_strides_of(&l->mask->type.shape);
            h.mask_at = batch * h.mask_by.by[0] + head * h.mask_by.by[1];
        }
        for (int64_t row = 0; row < l->tokens; row += TILE) {
            const int64_t rows = least(TILE, l->tokens - row);
            NAMED(attend)(&h, row, rows, &m);
            for (int64_t r = 0; r < rows; r++)
                memcpy(out + (row + r) * l->width + head * l->dim, m.mix + r * l->dim,
                       (size_t)l->dim * sizeof *out);
        }
    }
}

/* The block's output for one batch entry; x has its input rows. */
static void NAMED(attention_block)(const layer *l, int64_t batch, const REAL *x, carver k,
                                   REAL *out) {
    REAL *qkv = carve(&k, l->tokens * 3 * l->width, sizeof(REAL));
    REAL *mixed = carve(&k, l->tokens * l->width, sizeof(REAL));
    NAMED(dense)(x, l->tokens, &(dense){l->qkv_w, l->qkv_b, 0}, k, qkv);
    if (l->cos) NAMED(turn_heads)(l, qkv, k);
    NAMED(attend_all)(l, batch, qkv, k, mixed);
    NAMED(dense)(mixed, l->tokens, &(dense){l->out_w, l->out_b, 0}, k, out);
}

/* x = norm(x + y), for each row. */
static void NAMED(add_norm)(const norm *n, const sl_cview *gain, const sl_cview *shift,
                            int64_t rows, carver k, REAL *const xy[2]) {
    const REAL *gains = NAMED(whole)(gain, &k), *shifts = NAMED(whole)(shift, &k);
    for (int64_t i = 0; i < rows * n->width; i++) xy[1][i] += xy[0][i];
    for (int64_t r = 0; r < rows; r++)
        NAMED(norm_row)(n, gains, shifts, xy[1] + r * n->width, xy[0] + r * n->width);
}

static void NAMED(run_block)(const layer *l, int64_t batch, const sl_view *out, void *scratch) {
    const sl_type *x = &l->x->type;
    const int64_t size = l->tokens * dim(x, 2), made = l->tokens * last_dim(&out->type);
    carver k = {scratch, 0};
    REAL *rows = carve(&k, size, sizeof(REAL)), *result = carve(&k, made, sizeof(REAL));
    NAMED(copy)(x->dtype, l->x->data, batch * size, size, rows);
    NAMED(attention_block)(l, batch, rows, k, result);
    NAMED(store)(x->dtype, out->data, batch * made, made, result);
}

static void NAMED(run_layer)(const sl_fused_transformer_layer_args *a, const layer *l,
                             int64_t batch, void *scratch) {
    const int64_t width = dim(&a->x.type, 2), size = l->tokens * width;
    const int64_t inner = dim(&a->fc1_w.type, 1);
    carver k = {scratch, 0};
    REAL *x = carve(&k, size, sizeof(REAL)), *y = carve(&k, size, sizeof(REAL));
    REAL *hidden = carve(&k, l->tokens * inner, sizeof(REAL));
    const norm first = {width, (double)a->attrs.eps1};
    const norm second = {width, (double)a->attrs.eps2};
    NAMED(copy)(a->x.type.dtype, a->x.data, batch * size, size, x);
    NAMED(attention_block)(l, batch, x, k, y);
    NAMED(add_norm)(&first, &a->gain1, &a->shift1, l->tokens, k, (REAL *const[]){x, y});
    NAMED(dense)(x, l->tokens, &(dense){&a->fc1_w, l->fc1_b, a->attrs.act}, k, hidden);
    NAMED(dense)(hidden, l->tokens, &(dense){&a->fc2_w, l->fc2_b, 0}, k, y);
    NAMED(add_norm)(&second, &a->gain2, &a->shift2, l->tokens, k, (REAL *const[]){x, y});
    NAMED(store)(a->x.type.dtype, a->out.data, batch * size, size, x);
}
