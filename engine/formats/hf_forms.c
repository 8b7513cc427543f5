/* hf_forms.c - Converters for Hugging Face and MLX folders: to panels if a panel type represents
 * the weights exactly, else to floats. */
#include "core/codec.h"
#include "engine/formats/hf.h"
#include "engine/formats/mlx_blocks.h"
#include "engine/formats/repack.h"
#include <string.h>

const sl_hf_view sl_hf_as_stored = {.row_step = 1, .col_step = 1};

typedef struct {
    sl_tensor_form form;
    sl_hf_code code;
    sl_hf_view view;
    int64_t rows, cols; /* of the stored matrix */
    sl_dtype to;
} hf_form;

/* ---- elements ---- */

static float load_float(sl_dtype dtype, const uint8_t *at) {
    uint16_t half;
    float value;
    if (dtype == SL_DTYPE_f32) {
        memcpy(&value, at, sizeof value);
        return value;
    }
    memcpy(&half, at, sizeof half);
    return dtype == SL_DTYPE_bf16 ? sl_f32_from_bf16(half) : sl_f32_from_f16(half);
}

/* ---- encoded matrices ---- */

static const hf_form *form_of(const sl_raw_matrix *raw) {
    return (const hf_form *)raw->form;
}

static sl_mlx_format mlx_format(const sl_hf_code *code) {
    static const sl_mlx_mode modes[] = {[SL_HF_AFFINE] = SL_MLX_AFFINE,
                                        [SL_HF_MXFP4] = SL_MLX_MXFP4,
                                        [SL_HF_MXFP8] = SL_MLX_MXFP8,
                                        [SL_HF_NVFP4] = SL_MLX_NVFP4};
    return (sl_mlx_format){modes[code->coding], code->bits, code->group, code->dtype};
}

static void take_mlx(const sl_raw_matrix *raw, void *out) {
    const hf_form *f = form_of(raw);
    sl_mlx_matrix matrix = {.format = mlx_format(&f->code),
                            .rows = raw->rows,
                            .cols = raw->cols,
                            .taken = {f->view.first_row, f->view.row_step},
                            .codes = raw->parts[0],
                            .scales = raw->parts[1]};
    if (f->code.coding == SL_HF_AFFINE) matrix.biases = raw->parts[2];
    /* The matrix scale is stored as the largest weight, which corresponds to the largest codes of
     * both floats. */
    if (f->code.has_matrix_scale)
        matrix.whole_scale = load_float(SL_DTYPE_f32, raw->parts[2]) / (6 * 448);
    sl_mlx_repack(&matrix, out);
}

/* The most common encoding has a faster converter. */
static bool is_4_in_64(const sl_hf_code *code) {
    return code->coding == SL_HF_AFFINE && code->bits == 4 && code->group == 64 &&
           code->dtype == SL_DTYPE_bf16;
}

static void take_4_in_64(const sl_raw_matrix *raw, void *out) {
    const hf_form *f = form_of(raw);
    const size_t row_bytes = (size_t)raw->cols / 2, scale_bytes = (size_t)raw->cols / 64 * 2;
    const size_t first = (size_t)f->view.first_row, step = (size_t)f->view.row_step;
    const sl_repack_source source = {.dtype = SL_DTYPE_q4_m,
                                     .rows = raw->rows,
                                     .cols = raw->cols,
                                     .data = raw->parts[0] + first * row_bytes,
                                     .row_bytes = step * row_bytes,
                                     .scales = raw->parts[1] + first * scale_bytes,
                                     .biases = raw->parts[2] + first * scale_bytes,
                                     .scale_row_bytes = step * scale_bytes};
    sl_repack_panels(&source, 0, sl_panel_layout_of(f->to, raw->rows, raw->cols).panels, out);
}

static sl_fp8_matrix fp8_of(const sl_hf_code *code, int64_t rows, int64_t cols) {
    return (sl_fp8_matrix){.rows = rows,
                           .cols = cols,
                           .block_rows = code->block_rows,
                           .block_cols = code->group,
                           .scale_type = code->dtype};
}

static void take_fp8(const sl_raw_matrix *raw, void *out) {
    const hf_form *f = form_of(raw);
    sl_fp8_matrix matrix = fp8_of(&f->code, raw->rows, raw->cols);
    matrix.taken = (sl_taken_rows){f->view.first_row, f->view.row_step};
    matrix.codes = raw->parts[0];
    matrix.scales = raw->parts[1];
    sl_fp8_repack(&matrix, out);
}

/* Blocks whose scales no panel type can represent become floats. */
static void take_fp8_floats(const sl_raw_matrix *raw, void *out) {
    const hf_form *f = form_of(raw);
    const int64_t group = f->code.group, across = (f->cols + group - 1) / group;
    const int64_t each = sl_dtype_infos[f->code.dtype].bytes;
    for (int64_t r = 0; r < raw->rows; r++) {
        const int64_t row = f->view.first_row + r * f->view.row_step;
        const uint8_t *scales = raw->parts[1] + row / f->code.block_rows * across * each;
        float *to = (float *)out + r * raw->cols;
        for (int64_t c = 0; c < raw->cols; c++)
            to[c] = load_float(f->code.dtype, scales + c / group * each) *
                    sl_f32_from_e4m3(raw->parts[0][row * f->cols + c]);
    }
}

/* ---- plain tensors ---- */

/* Offset of element (r, c) of the view in the stored matrix. */
static inline int64_t place_of(const hf_form *f, int64_t r, int64_t c) {
    const sl_hf_view *v = &f->view;
    const int64_t row = v->first_row + (v->transposed ? c : r) * v->row_step;
    const int64_t col = v->first_col + (v->transposed ? r : c) * v->col_step;
    return row * f->cols + col;
}

static void take_less_one(const hf_form *f, const sl_raw_matrix *raw, float *out) {
    const int64_t each = sl_dtype_infos[f->code.dtype].bytes;
    for (int64_t i = 0; i < raw->rows * raw->cols; i++)
        out[i] = load_float(f->code.dtype, raw->parts[0] + i * each) - 1.0f;
}

/* In tiles, so that neither reads nor writes are strided for long. */
static void take_elements(const sl_raw_matrix *raw, void *out) {
    enum { TILE = 32 };
    const hf_form *f = form_of(raw);
    const int64_t rows = raw->rows, cols = raw->cols;
    const size_t each = sl_dtype_infos[f->code.dtype].bytes;
    if (f->view.less_one) {
        take_less_one(f, raw, out);
        return;
    }
    for (int64_t tile = 0; tile < rows; tile += TILE)
        for (int64_t c = 0; c < cols; c++)
            for (int64_t r = tile; r < rows && r < tile + TILE; r++) {
                const uint8_t *from = raw->parts[0] + (size_t)place_of(f, r, c) * each;
                uint8_t *to = (uint8_t *)out + (size_t)(r * cols + c) * each;
                if (each == 2)
                    memcpy(to, from, 2);
                else
                    memcpy(to, from, 4);
            }
}

/* ---- entries ---- */

/* Chooses the type and the converter of an encoded matrix. */
static sl_status choose(const sl_hf_folder *folder, const char *name, hf_form *form) {
    const sl_hf_code *code = &form->code;
    form->form.name = "panels";
    form->form.convert = take_mlx;
    if (code->coding == SL_HF_FP8) {
        const sl_fp8_matrix matrix = fp8_of(code, form->rows, form->cols);
        const bool fits = sl_fp8_check(&matrix, name, NULL) == SL_OK;
        form->form.convert = fits ? take_fp8 : take_fp8_floats;
        form->to = fits ? SL_DTYPE_f8 : SL_DTYPE_f32;
        return SL_OK;
    }
    const sl_mlx_matrix matrix = {
        .format = mlx_format(code), .rows = form->rows, .cols = form->cols};
    if (is_4_in_64(code)) form->form.convert = take_4_in_64;
    return sl_mlx_check(&matrix, name, &form->to, folder->err);
}

static bool same_view(const sl_hf_view *a, const sl_hf_view *b) {
    return a->first_row == b->first_row && a->row_step == b->row_step &&
           a->first_col == b->first_col && a->col_step == b->col_step &&
           a->row_count == b->row_count && a->transposed == b->transposed &&
           a->less_one == b->less_one;
}

static bool same_form(const hf_form *a, const hf_form *b) {
    const sl_hf_code *c = &a->code, *d = &b->code;
    return a->form.convert == b->form.convert && a->to == b->to && a->rows == b->rows &&
           a->cols == b->cols && c->coding == d->coding && c->dtype == d->dtype &&
           c->bits == d->bits && c->group == d->group && c->block_rows == d->block_rows &&
           c->has_matrix_scale == d->has_matrix_scale && same_view(&a->view, &b->view);
}

/* Equal converters are shared, so that tensors can be compared by pointer. */
static const sl_tensor_form *keep_form(sl_hf_folder *folder, const hf_form *wanted) {
    sl_source *source = folder->source;
    for (const sl_source_form *known = source->forms; known; known = known->next)
        if (same_form((const hf_form *)known->form, wanted)) return known->form;
    sl_source_form *link = SL_ARENA_NEW(&source->arena, sl_source_form);
    hf_form *form = SL_ARENA_NEW(&source->arena, hf_form);
    if (!link || !form) return NULL;
    *form = *wanted;
    *link = (sl_source_form){source->forms, &form->form};
    source->forms = link;
    return &form->form;
}

static sl_dims viewed(const sl_dims *shape, const sl_hf_view *view) {
    sl_dims out = *shape;
    if (view->less_one) return out;
    int64_t *cols = &out.dims[out.rank - 1], *rows = out.rank > 1 ? cols - 1 : NULL;
    if (rows && view->row_count) *rows = view->first_row + view->row_count;
    if (rows) *rows = (*rows - view->first_row + view->row_step - 1) / view->row_step;
    *cols = (*cols - view->first_col + view->col_step - 1) / view->col_step;
    if (!view->transposed || !rows) return out;
    const int64_t swap = *rows;
    *rows = *cols;
    *cols = swap;
    return out;
}

sl_status sl_hf_entry(sl_hf_folder *folder, const sl_hf_stored *stored, const sl_hf_view *view,
                      sl_tensor_entry *out) {
    *out = (sl_tensor_entry){
        .name = stored->name, .type = {stored->code.dtype, stored->shape}, .at = stored->parts[0]};
    memcpy(out->more, stored->parts + 1, sizeof out->more);
    const bool coded = stored->code.coding != SL_HF_PLAIN;
    if (!coded && same_view(view, &sl_hf_as_stored)) return SL_OK;
    const sl_dims *shape = &stored->shape;
    hf_form form = {.code = stored->code, .view = *view};
    form.cols = shape->dims[shape->rank - 1];
    form.rows = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    out->type.shape = viewed(shape, view);
    form.form.name = "view";
    form.form.convert = take_elements;
    form.to = view->less_one ? SL_DTYPE_f32 : stored->code.dtype;
    if (coded) SL_TRY(choose(folder, stored->name, &form));
    out->type.dtype = form.to;
    SL_TRY(sl_type_check(&out->type, stored->name, folder->err));
    out->form = keep_form(folder, &form);
    return out->form ? SL_OK : sl_no_memory(folder->err, stored->name, sizeof form);
}
