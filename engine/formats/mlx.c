/* mlx.c - Quantised tensors of MLX: `path.weight` U32 of codes, `path.scales`, and in affine mode
 * `path.biases`.
 *
 * config.json has "quantization": {"group_size", "bits", "mode"} as the default, and for some
 * modules "path": the same or false.  Shapes must agree with it: a row has in*bits/32 words and
 * in/group_size scales.  u8 scales belong to a float mode, each of which has a fixed width and
 * group size. */
#include "engine/formats/hf.h"
#include <string.h>

static const struct {
    const char *name;
    sl_hf_coding coding;
    uint32_t bits, group; /* 0: any */
} modes[] = {
    {"affine", SL_HF_AFFINE, 0, 0},
    {"mxfp4", SL_HF_MXFP4, 4, 32},
    {"mxfp8", SL_HF_MXFP8, 8, 32},
    {"nvfp4", SL_HF_NVFP4, 4, 16},
};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

/* The settings of config.json for a module; 0 and NULL if absent. */
typedef struct {
    json_int_t bits, group;
    const char *mode;
    bool own;   /* set for this path, not by the default */
    bool plain; /* not quantised */
} setting;

static sl_status read_number(const sl_hf_folder *folder, const json_t *object, const char *path,
                             const char *key, json_int_t *out) {
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return SL_OK;
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= 1 && *out <= 1024) return SL_OK;
    return sl_fail(folder->err, SL_FORMAT,
                   "config.json: quantization%s%s: '%s' is not a number from 1 to 1024",
                   *path ? " of " : "", path, key);
}

static sl_status read_mode(const sl_hf_folder *folder, const json_t *object, const char *path,
                           const char **out) {
    const json_t *value = json_object_get(object, "mode");
    if (!value || json_is_null(value)) return SL_OK;
    const char *mode = json_string_value(value);
    for (int i = 0; mode && i < MODE_COUNT; i++) {
        if (strcmp(modes[i].name, mode) != 0) continue;
        *out = modes[i].name;
        return SL_OK;
    }
    return sl_fail(folder->err, SL_UNSUPPORTED,
                   "config.json: quantization%s%s: mode '%.32s' is not supported; supported: "
                   "affine, mxfp4, mxfp8, nvfp4",
                   *path ? " of " : "", path, mode && sl_json_name_fits(mode) ? mode : "?");
}

static sl_status read_setting(const sl_hf_folder *folder, const char *path, setting *out) {
    const json_t *object = folder->quantization, *own = json_object_get(object, path);
    *out = (setting){.own = own != NULL};
    if (json_is_false(own)) out->plain = true;
    if (own && !json_is_object(own) && !json_is_boolean(own))
        return sl_fail(folder->err, SL_FORMAT,
                       "config.json: quantization of %s is neither an object nor false", path);
    if (json_is_object(own)) object = own;
    const char *shown = object == own ? path : "";
    SL_TRY(read_number(folder, object, shown, "bits", &out->bits));
    SL_TRY(read_number(folder, object, shown, "group_size", &out->group));
    return read_mode(folder, object, shown, &out->mode);
}

/* A weight with its scales and biases, while it is being checked. */
typedef struct {
    sl_hf_folder *folder;
    const char *path;
    const sl_hf_tensor *weight, *scales, *biases, *matrix_scale;
    setting says;
    int64_t words, per_row; /* words and scales per row */
} triple;

static bool same_but_last(const sl_dims *a, const sl_dims *b) {
    if (a->rank != b->rank || a->rank < 2) return false;
    return memcmp(a->dims, b->dims, (a->rank - 1) * sizeof a->dims[0]) == 0;
}

static sl_status check_shapes(const triple *t) {
    const sl_dims *w = &t->weight->type.shape, *s = &t->scales->type.shape;
    if (!same_but_last(w, s) || t->words < 1 || t->per_row < 1)
        return sl_fail(t->folder->err, SL_FORMAT, "tensor '%s' is %s, its scales are %s",
                       t->weight->name, sl_hf_text(t->weight), sl_hf_text(t->scales));
    if (t->biases && (strcmp(t->biases->element, t->scales->element) != 0 ||
                      !sl_dims_equal(&t->biases->type.shape, s)))
        return sl_fail(t->folder->err, SL_FORMAT, "tensor '%s' has scales %s and biases %s",
                       t->weight->name, sl_hf_text(t->scales), sl_hf_text(t->biases));
    return sl_hf_check_bytes(t->folder, t->weight, 4);
}

static sl_status contradiction(const triple *t, const char *found) {
    return sl_fail(t->folder->err, SL_FORMAT,
                   "tensor '%s': %lld words and %lld scales per row are %s, config.json says "
                   "%lld bits in groups of %lld%s%s",
                   t->weight->name, (long long)t->words, (long long)t->per_row, found,
                   (long long)t->says.bits, (long long)t->says.group, t->says.mode ? ", mode " : "",
                   t->says.mode ? t->says.mode : "");
}

/* With u8 scales the mode follows from the ratio of words to scales. */
static sl_status find_float_mode(const triple *t, sl_hf_code *out) {
    for (int i = 1; i < MODE_COUNT; i++) {
        const int64_t ratio = modes[i].bits * modes[i].group / 32;
        if (t->words != t->per_row * ratio) continue;
        if (t->says.own && (!t->says.mode || strcmp(t->says.mode, modes[i].name) != 0))
            return contradiction(t, modes[i].name);
        *out = (sl_hf_code){.coding = modes[i].coding,
                            .dtype = SL_DTYPE_u8,
                            .bits = modes[i].bits,
                            .group = modes[i].group,
                            .has_matrix_scale = t->matrix_scale != NULL};
        return SL_OK;
    }
    return contradiction(t, "not a float mode");
}

static sl_status find_affine(const triple *t, sl_hf_code *out) {
    const json_int_t group = t->says.group ? t->says.group : 64;
    const int64_t cols = t->per_row * group;
    const int64_t bits = t->words * 32 / cols;
    if (t->words * 32 != bits * cols || bits < 2 || bits > 8 || bits == 7 ||
        (group != 32 && group != 64 && group != 128))
        return contradiction(
            t, "not a supported number of bits (2, 3, 4, 5, 6, 8; groups of 32, 64, 128)");
    const bool other_mode = t->says.mode && strcmp(t->says.mode, "affine") != 0;
    if (t->says.own && (other_mode || (t->says.bits && t->says.bits != bits))) {
        char found[64];
        (void)snprintf(found, sizeof found, "affine, %lld bits", (long long)bits);
        return contradiction(t, found);
    }
    *out = (sl_hf_code){.coding = SL_HF_AFFINE,
                        .dtype = t->scales->type.dtype,
                        .bits = (uint32_t)bits,
                        .group = (uint32_t)group};
    return SL_OK;
}

static sl_status find_code(const triple *t, sl_hf_code *out) {
    const sl_hf_tensor *scales = t->scales;
    if (t->says.plain)
        return sl_fail(t->folder->err, SL_FORMAT,
                       "tensor '%s' has scales, but config.json says it is not quantised",
                       t->weight->name);
    if (sl_hf_is(scales, "U8")) return find_float_mode(t, out);
    if (scales->why || sl_dtype_infos[scales->type.dtype].kind != SL_KIND_FLOAT)
        return sl_fail(t->folder->err, SL_FORMAT, "tensor '%s' is %s, wanted F32, F16, BF16 or U8",
                       scales->name, sl_hf_text(scales));
    if (!t->biases)
        return sl_fail(t->folder->err, SL_FORMAT, "tensor '%s.biases' is missing beside '%s'",
                       t->path, scales->name);
    return find_affine(t, out);
}

static sl_status read_triple(const triple *t, sl_hf_stored *out) {
    SL_TRY(check_shapes(t));
    SL_TRY(find_code(t, &out->code));
    out->name = t->weight->name;
    out->shape = t->weight->type.shape;
    out->shape.dims[out->shape.rank - 1] = t->per_row * out->code.group;
    out->parts[0] = t->weight->at;
    out->parts[1] = t->scales->at;
    if (out->code.coding == SL_HF_AFFINE) out->parts[2] = t->biases->at;
    if (!t->matrix_scale) return SL_OK;
    const int64_t matrices =
        sl_type_elements(&t->weight->type) / (t->words * out->shape.dims[out->shape.rank - 2]);
    if (out->code.coding != SL_HF_NVFP4 || !sl_hf_is(t->matrix_scale, "F32") ||
        sl_type_elements(&t->matrix_scale->type) != matrices)
        return sl_fail(t->folder->err, SL_FORMAT,
                       "tensor '%s' is %s, wanted F32, one for each matrix of nvfp4",
                       t->matrix_scale->name, sl_hf_text(t->matrix_scale));
    out->parts[2] = t->matrix_scale->at;
    return SL_OK;
}

sl_status sl_hf_mlx(sl_hf_folder *folder, const sl_hf_tensor *tensor, sl_hf_claim *claim,
                    sl_hf_stored *out) {
    static const char *const parts[] = {".scales", ".biases", ".global_scale"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const sl_hf_tensor *whole = sl_hf_beside(folder, tensor->name, parts[i], ".weight");
        if (!whole || !sl_hf_is(whole, "U32")) continue;
        *claim = SL_HF_PART;
        return SL_OK;
    }
    if (!sl_hf_ends_with(tensor->name, ".weight")) return SL_OK;
    triple t = {.folder = folder, .weight = tensor};
    t.scales = sl_hf_beside(folder, tensor->name, ".weight", ".scales");
    t.biases = sl_hf_beside(folder, tensor->name, ".weight", ".biases");
    t.matrix_scale = sl_hf_beside(folder, tensor->name, ".weight", ".global_scale");
    const size_t length = strlen(tensor->name) - strlen(".weight");
    t.path = sl_arena_copy_text(&folder->source->arena, tensor->name, length);
    if (!t.path) return sl_no_memory(folder->err, tensor->name, length);
    SL_TRY(read_setting(folder, t.path, &t.says));
    if (!sl_hf_is(tensor, "U32")) {
        if (folder->quantization && t.says.own && !t.says.plain && t.says.bits)
            return sl_fail(folder->err, SL_FORMAT,
                           "tensor '%s' is %s, but config.json says that it has %lld bits",
                           tensor->name, sl_hf_text(tensor), (long long)t.says.bits);
        return SL_OK;
    }
    if (!t.scales || t.weight->type.shape.rank < 2 || t.scales->type.shape.rank < 2)
        return SL_OK; /* skipped, with the reason */
    t.words = tensor->type.shape.dims[tensor->type.shape.rank - 1];
    t.per_row = t.scales->type.shape.dims[t.scales->type.shape.rank - 1];
    *claim = SL_HF_STORED;
    return read_triple(&t, out);
}
