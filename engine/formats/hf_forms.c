/* hf_forms.c - From the bytes of Hugging Face and MLX folders to what kernels take: panels where a
 * panel type holds the very weights of the file, else floats. */
#include "core/codec.h"
#include "engine/formats/hf.h"
#include "engine/formats/repack.h"
#include <math.h>
#include <string.h>

const sl_hf_view sl_hf_as_stored = {.row_step = 1, .col_step = 1};

typedef struct {
    sl_tensor_form form;
    sl_hf_code code;
    sl_hf_view view;
    int64_t rows, cols; /* of a stored matrix */
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

/* 1 sign, 4 exponent and 3 mantissa bits; all ones are NaN, there is no infinity. */
static float from_e4m3(uint8_t bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value =
        exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if ((bits & 127) == 127) value = NAN;
    return bits & 128 ? -value : value;
}

static float from_e2m1(unsigned nibble) {
    static const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return nibble & 8 ? -values[nibble & 7] : values[nibble & 7];
}

static float from_e8m0(uint8_t bits) {
    return bits == 255 ? NAN : ldexpf(1.0f, bits - 127);
}

/* ---- rows as floats ---- */

static int64_t row_bytes_of(const hf_form *f) {
    return f->cols * f->code.bits / 8;
}

static unsigned bits_at(const uint8_t *row, int64_t i, unsigned bits) {
    const int64_t at = i * bits;
    const unsigned shift = (unsigned)(at % 8);
    unsigned word = row[at / 8];
    if (shift + bits > 8) word |= (unsigned)row[at / 8 + 1] << 8;
    return word >> shift & ((1u << bits) - 1);
}

static void affine_row(const hf_form *f, const uint8_t *const *parts, int64_t row, float *out) {
    const int64_t groups = f->cols / f->code.group, each = sl_dtype_infos[f->code.dtype].bytes;
    const uint8_t *codes = parts[0] + row * row_bytes_of(f);
    for (int64_t g = 0; g < groups; g++) {
        const float scale = load_float(f->code.dtype, parts[1] + (row * groups + g) * each);
        const float bias = load_float(f->code.dtype, parts[2] + (row * groups + g) * each);
        for (int64_t c = g * f->code.group; c < (g + 1) * f->code.group; c++)
            out[c] = scale * (float)bits_at(codes, c, f->code.bits) + bias;
    }
}

static void float_row(const hf_form *f, const uint8_t *const *parts, int64_t row, float *out) {
    const int64_t group = f->code.group;
    const uint8_t *codes = parts[0] + row * row_bytes_of(f);
    const uint8_t *scales = parts[1] + row * (f->cols / group);
    const bool nvidia = f->code.coding == SL_HF_NVFP4;
    const float whole =
        f->code.has_matrix_scale ? load_float(SL_DTYPE_f32, parts[2]) / (6 * 448) : 1;
    for (int64_t c = 0; c < f->cols; c++) {
        const uint8_t s = scales[c / group];
        const float scale = nvidia ? from_e4m3(s) * whole : from_e8m0(s);
        out[c] =
            scale * (f->code.bits == 4 ? from_e2m1(bits_at(codes, c, 4)) : from_e4m3(codes[c]));
    }
}

static void fp8_row(const hf_form *f, const uint8_t *const *parts, int64_t row, float *out) {
    const int64_t group = f->code.group, across = (f->cols + group - 1) / group;
    const int64_t each = sl_dtype_infos[f->code.dtype].bytes;
    const uint8_t *scales = parts[1] + row / f->code.block_rows * across * each;
    for (int64_t c = 0; c < f->cols; c++)
        out[c] = load_float(f->code.dtype, scales + c / group * each) *
                 from_e4m3(parts[0][row * f->cols + c]);
}

/* ---- matrices ---- */

static void take_floats(const sl_raw_matrix *raw, void *out) {
    const hf_form *f = (const hf_form *)raw->form;
    for (int64_t r = 0; r < raw->rows; r++) {
        const int64_t row = f->view.first_row + r * f->view.row_step;
        float *to = (float *)out + r * raw->cols;
        if (f->code.coding == SL_HF_AFFINE)
            affine_row(f, raw->parts, row, to);
        else if (f->code.coding == SL_HF_FP8)
            fp8_row(f, raw->parts, row, to);
        else
            float_row(f, raw->parts, row, to);
    }
}

static void take_panels(const sl_raw_matrix *raw, void *out) {
    const hf_form *f = (const hf_form *)raw->form;
    const size_t row_bytes = (size_t)row_bytes_of(f);
    const size_t scale_bytes =
        (size_t)(f->cols / f->code.group) * sl_dtype_infos[f->code.dtype].bytes;
    const size_t first = (size_t)f->view.first_row, step = (size_t)f->view.row_step;
    const sl_repack_source source = {.dtype = f->to,
                                     .rows = raw->rows,
                                     .cols = raw->cols,
                                     .data = raw->parts[0] + first * row_bytes,
                                     .row_bytes = step * row_bytes,
                                     .scales = raw->parts[1] + first * scale_bytes,
                                     .biases = raw->parts[2] + first * scale_bytes,
                                     .scale_row_bytes = step * scale_bytes};
    sl_repack_panels(&source, 0, sl_panel_layout_of(f->to, raw->rows, raw->cols).panels, out);
}

/* Where element (r, c) of the view lies in the stored matrix. */
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

/* In tiles, so that neither side jumps through memory for long. */
static void take_elements(const sl_raw_matrix *raw, void *out) {
    enum { TILE = 32 };
    const hf_form *f = (const hf_form *)raw->form;
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

sl_dtype sl_hf_target(const sl_hf_code *code, int64_t cols) {
    const bool mlx_4 = code->coding == SL_HF_AFFINE && code->bits == 4 && code->group == 64 &&
                       code->dtype == SL_DTYPE_bf16;
    return mlx_4 && cols % 64 == 0 ? SL_DTYPE_q4_m : SL_DTYPE_f32;
}

static bool is_as_stored(const sl_hf_view *view) {
    return memcmp(view, &sl_hf_as_stored, sizeof *view) == 0;
}

/* Equal forms are the same one, so that tensors can be compared by it. */
static const sl_tensor_form *keep_form(sl_hf_folder *folder, const hf_form *wanted) {
    sl_source *source = folder->source;
    for (const sl_source_form *known = source->forms; known; known = known->next)
        if (memcmp(known->form, wanted, sizeof *wanted) == 0) return known->form;
    sl_source_form *link = SL_ARENA_NEW(&source->arena, sl_source_form);
    hf_form *form = SL_ARENA_NEW(&source->arena, hf_form);
    if (!link || !form) return NULL;
    memcpy(form, wanted, sizeof *form);
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
    if (!coded && is_as_stored(view)) return SL_OK;
    const sl_dims *shape = &stored->shape;
    hf_form form;
    memset(&form, 0, sizeof form);
    form.code = stored->code;
    form.view = *view;
    form.cols = shape->dims[shape->rank - 1];
    form.rows = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    out->type.shape = viewed(shape, view);
    form.to = stored->code.dtype;
    if (coded) form.to = sl_hf_target(&stored->code, form.cols);
    if (view->less_one) form.to = SL_DTYPE_f32;
    const bool panels = sl_dtype_infos[form.to].kind == SL_KIND_PANEL;
    form.form.convert = !coded ? take_elements : panels ? take_panels : take_floats;
    form.form.name = !coded ? "view" : panels ? "panels" : "floats";
    out->type.dtype = form.to;
    out->form = keep_form(folder, &form);
    return out->form ? SL_OK : sl_no_memory(folder->err, stored->name, sizeof form);
}
