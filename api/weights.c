/* weights.c - Packing weights (sluice/weights.h): formats by their readers in engine/formats. */
#include "sluice/weights.h"
#include "api/needs.h"
#include "base/memory.h"
#include "base/sizes.h"
#include "base/structs.h"
#include "engine/formats/gguf.h"
#include "engine/formats/gguf_blocks.h"
#include "engine/formats/mlx_blocks.h"
#include "engine/quant/quantise.h"
#include <strings.h>

enum { MOST_SIDE = 1 << 28, PACKED_ALIGNMENT = 64 };

/* A source that was looked at. */
typedef struct {
    sl_weight_source given;
    sl_type type;                            /* of one packed matrix */
    uint64_t bytes, data_bytes, scale_bytes; /* of one matrix: packed, and as given */
    sl_dtype numbers;                        /* of a matrix of numbers */
    const sl_gguf_type *gguf;                /* NULL: not GGUF */
    bool mlx;
    sl_mlx_matrix matrix; /* without pointers */
} weight;

static sl_status look_at_numbers(weight *w, sl_error *err) {
    const char *name = w->given.dtype;
    if (!name || !sl_dtype_find(name, strlen(name), &w->type.dtype) ||
        (w->type.dtype != SL_DTYPE_q4 && w->type.dtype != SL_DTYPE_q8 &&
         w->type.dtype != SL_DTYPE_q6_k))
        return sl_fail(err, SL_INVALID, "weights: numbers become '%s', must be q4, q6_k or q8",
                       name ? name : "");
    w->data_bytes =
        (uint64_t)w->given.rows * (uint64_t)w->given.cols * sl_dtype_infos[w->numbers].bytes;
    return SL_OK;
}

/* A type of GGUF by its name in lower case; NULL if there is none. */
static const sl_gguf_type *find_gguf(const char *name) {
    enum { LAST_ID = 64 };
    for (uint32_t id = 0; id < LAST_ID; id++) {
        const sl_gguf_type *type = sl_gguf_type_find(id);
        if (type && strcasecmp(type->name, name) == 0) return type;
    }
    return NULL;
}

static sl_status look_at_gguf(weight *w, sl_error *err) {
    const int64_t cols = w->given.cols, block = w->gguf->elements;
    if (!w->gguf->known || !w->gguf->form)
        return sl_fail(err, SL_UNSUPPORTED, "weights: %s is not packed", w->given.format);
    w->type.dtype = w->gguf->dtype;
    if (cols % block)
        return sl_fail(err, SL_INVALID, "weights: %lld columns, %s has blocks of %lld",
                       (long long)cols, w->given.format, (long long)block);
    w->data_bytes = (uint64_t)w->given.rows * (uint64_t)(cols / block) * w->gguf->bytes;
    return SL_OK;
}

static sl_status look_at_mlx(weight *w, sl_mlx_mode mode, sl_error *err) {
    static const struct {
        uint32_t bits, group;
    } fixed[] = {[SL_MLX_MXFP4] = {4, 32}, [SL_MLX_NVFP4] = {4, 16}, [SL_MLX_MXFP8] = {8, 32}};
    const sl_weight_source *g = &w->given;
    sl_mlx_format *f = &w->matrix.format;
    *f = (sl_mlx_format){.mode = mode, .bits = g->bits, .group = g->group, .scales = SL_DTYPE_u8};
    if (mode != SL_MLX_AFFINE) {
        if ((g->bits && g->bits != fixed[mode].bits) || (g->group && g->group != fixed[mode].group))
            return sl_fail(err, SL_INVALID, "weights: %s has %u bits in groups of %u", g->format,
                           fixed[mode].bits, fixed[mode].group);
        f->bits = fixed[mode].bits;
        f->group = fixed[mode].group;
    } else if (!g->scale_dtype ||
               !sl_dtype_find(g->scale_dtype, strlen(g->scale_dtype), &f->scales)) {
        return sl_fail(err, SL_INVALID, "weights: scale_dtype is '%s', must be f32, f16 or bf16",
                       g->scale_dtype ? g->scale_dtype : "");
    }
    w->mlx = true;
    w->matrix.rows = g->rows;
    w->matrix.cols = g->cols;
    w->matrix.whole_scale = g->scale;
    SL_TRY(sl_mlx_check(&w->matrix, "weights", &w->type.dtype, err));
    w->data_bytes = (uint64_t)g->rows * sl_mlx_code_bytes(f, g->cols);
    w->scale_bytes = (uint64_t)g->rows * sl_mlx_scale_bytes(f, g->cols);
    return SL_OK;
}

static sl_status look_at_format(weight *w, sl_error *err) {
    const char *format = w->given.format;
    sl_mlx_mode mode;
    if (sl_dtype_find(format, strlen(format), &w->numbers) &&
        (w->numbers == SL_DTYPE_f32 || w->numbers == SL_DTYPE_f16 || w->numbers == SL_DTYPE_bf16))
        return look_at_numbers(w, err);
    if (w->given.dtype)
        return sl_fail(err, SL_INVALID, "weights: dtype '%s' is for numbers alone, not for %s",
                       w->given.dtype, format);
    /* mxfp4 and nvfp4 are names of both: MLX has scales apart. */
    if (sl_mlx_mode_find(format, &mode) && (w->given.scales || mode == SL_MLX_AFFINE))
        return look_at_mlx(w, mode, err);
    w->gguf = find_gguf(format);
    if (w->gguf) return look_at_gguf(w, err);
    return sl_fail(err, SL_INVALID,
                   "weights: format '%s', must be f32, f16, bf16, affine, mxfp4, nvfp4, mxfp8 or a "
                   "GGUF type",
                   format);
}

static sl_status look_at(const sl_weight_source *given, weight *w, sl_error *err) {
    *w = (weight){0};
    SL_TRY(SL_STRUCT_TAKE(sl_weight_source, &w->given, given, err));
    sl_weight_source *g = &w->given;
    if (!g->count) g->count = 1;
    if (!g->format) return sl_fail(err, SL_INVALID, "weights: there is no format");
    if (g->rows < 1 || g->rows > MOST_SIDE || g->cols < 1 || g->cols > MOST_SIDE)
        return sl_fail(err, SL_INVALID, "weights: %lld x %lld, each must be in [1, %d]",
                       (long long)g->rows, (long long)g->cols, MOST_SIDE);
    SL_TRY(look_at_format(w, err));
    w->type = sl_type_make(w->type.dtype, 2, g->rows, g->cols);
    SL_TRY(sl_type_check(&w->type, "weights", err));
    w->bytes = sl_type_bytes(&w->type);
    uint64_t all;
    if (!sl_multiply(w->bytes, g->count, &all) || all > SIZE_MAX / 2)
        return sl_fail(err, SL_INVALID, "weights: %u matrices are too many", g->count);
    return SL_OK;
}

sl_status sl_weight_describe(const sl_weight_source *from, const char **out_dtype,
                             size_t *out_bytes, sl_error *err) {
    SL_NEED(from && out_dtype && out_bytes);
    weight w;
    SL_TRY(look_at(from, &w, err));
    *out_dtype = sl_dtype_infos[w.type.dtype].name;
    *out_bytes = (size_t)w.bytes * w.given.count;
    return SL_OK;
}

static sl_status check_given(const char *name, const void *data, uint64_t found, uint64_t wanted,
                             sl_error *err) {
    if (data && found == wanted) return SL_OK;
    return sl_fail(err, SL_INVALID, "weights: %s has %llu bytes%s, must have %llu", name,
                   (unsigned long long)found, data ? "" : " at NULL", (unsigned long long)wanted);
}

static sl_status check_arrays(const weight *w, sl_error *err) {
    const sl_weight_source *g = &w->given;
    SL_TRY(check_given("data", g->data, g->data_bytes, w->data_bytes * g->count, err));
    if (!w->mlx) return SL_OK;
    SL_TRY(check_given("scales", g->scales, g->scale_bytes, w->scale_bytes * g->count, err));
    if (w->matrix.format.mode != SL_MLX_AFFINE) return SL_OK;
    return check_given("biases", g->biases, g->scale_bytes, w->scale_bytes * g->count, err);
}

static sl_status pack_numbers(const weight *w, const void *data, void *out, sl_error *err) {
    const int64_t rows = w->given.rows, cols = w->given.cols;
    if (w->numbers == SL_DTYPE_f32) return sl_quantise(w->type.dtype, data, rows, cols, out, err);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    float *floats = SL_ARENA_NEW_ARRAY(&arena, float, rows *cols);
    sl_status status = floats ? SL_OK : sl_no_memory(err, "weights", w->data_bytes);
    for (int64_t row = 0; row < rows && status == SL_OK; row++)
        sl_decode_row(w->numbers, data, rows, cols, row, floats + row * cols);
    if (status == SL_OK) status = sl_quantise(w->type.dtype, floats, rows, cols, out, err);
    sl_arena_deinit(&arena);
    return status;
}

static sl_status pack_matrix(const weight *w, uint32_t index, void *out, sl_error *err) {
    const sl_weight_source *g = &w->given;
    const char *data = (const char *)g->data + index * w->data_bytes;
    if (w->gguf && w->type.dtype == SL_DTYPE_nvfp4) {
        const sl_gguf_matrix matrix = {SL_GGUF_NVFP4, g->rows, g->cols, data,
                                       g->scale != 0 ? g->scale : 1};
        sl_gguf_repack(&matrix, out);
        return SL_OK;
    }
    if (w->gguf) {
        const sl_raw_matrix raw = {
            .parts = {(const uint8_t *)data}, .rows = g->rows, .cols = g->cols};
        w->gguf->form->convert(&raw, out);
        return SL_OK;
    }
    if (!w->mlx) return pack_numbers(w, data, out, err);
    sl_mlx_matrix matrix = w->matrix;
    matrix.codes = data;
    matrix.scales = (const char *)g->scales + index * w->scale_bytes;
    if (g->biases) matrix.biases = (const char *)g->biases + index * w->scale_bytes;
    sl_mlx_repack(&matrix, out);
    return SL_OK;
}

sl_status sl_weight_pack(const sl_weight_source *from, void *out, size_t bytes, sl_error *err) {
    SL_NEED(from && out);
    weight w;
    SL_TRY(look_at(from, &w, err));
    SL_TRY(check_arrays(&w, err));
    if (bytes != w.bytes * w.given.count)
        return sl_fail(err, SL_INVALID, "weights: room for %zu bytes, they take %llu", bytes,
                       (unsigned long long)(w.bytes * w.given.count));
    if ((uintptr_t)out % PACKED_ALIGNMENT)
        return sl_fail(err, SL_INVALID, "weights: out is at %p, must be at a multiple of %d", out,
                       PACKED_ALIGNMENT);
    for (uint32_t i = 0; i < w.given.count; i++)
        SL_TRY(pack_matrix(&w, i, (char *)out + i * w.bytes, err));
    return SL_OK;
}
