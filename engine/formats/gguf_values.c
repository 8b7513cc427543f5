/* gguf_values.c - Lookup of metadata by key, in the kind that the caller expects. */
#include "engine/formats/gguf.h"
#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const sl_gguf_value *sl_gguf_find(const sl_gguf *gguf, const char *key) {
    uint32_t low = 0, high = gguf->value_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(gguf->values[middle].key, key);
        if (order == 0) return &gguf->values[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const sl_gguf_tensor *sl_gguf_tensor_find(const sl_gguf *gguf, const char *name) {
    for (uint32_t i = 0; i < gguf->tensor_count; i++)
        if (strcmp(gguf->tensors[i].name, name) == 0) return &gguf->tensors[i];
    return NULL;
}

sl_status sl_gguf_missing(const sl_gguf *gguf, const char *key, sl_error *err) {
    return sl_fail(err, SL_FORMAT, "%s: key '%s' is missing", gguf->what, key);
}

static sl_status wrong_kind(const sl_gguf *gguf, const sl_gguf_value *value, const char *wanted,
                            sl_error *err) {
    static const char *const names[SL_GGUF_KINDS] = {
        "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "array", "u64", "i64", "f64",
    };
    return sl_fail(err, SL_FORMAT, "%s: key '%s' is %s%s, %s wanted", gguf->what, value->key,
                   value->is_array ? "an array of " : "", names[value->kind], wanted);
}

/* Little-endian bytes, sign-extended if signed. */
static int64_t integer_of(const uint8_t *data, uint32_t bytes, bool is_signed) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < bytes; i++) bits |= (uint64_t)data[i] << (8 * i);
    if (is_signed && bytes < 8 && bits >> (8 * bytes - 1)) bits |= ~UINT64_C(0) << (8 * bytes);
    return (int64_t)bits;
}

/* Size of an integer or flag; 0 for other kinds. */
static uint32_t integer_bytes(sl_gguf_kind kind, bool *is_signed) {
    *is_signed =
        kind == SL_GGUF_I8 || kind == SL_GGUF_I16 || kind == SL_GGUF_I32 || kind == SL_GGUF_I64;
    switch (kind) {
    case SL_GGUF_U8:
    case SL_GGUF_I8:
    case SL_GGUF_BOOL:
        return 1;
    case SL_GGUF_U16:
    case SL_GGUF_I16:
        return 2;
    case SL_GGUF_U32:
    case SL_GGUF_I32:
        return 4;
    case SL_GGUF_U64:
    case SL_GGUF_I64:
        return 8;
    default:
        return 0;
    }
}

int64_t sl_gguf_integer_at(const sl_gguf_value *value, uint64_t index) {
    bool is_signed;
    const uint32_t bytes = integer_bytes(value->kind, &is_signed);
    return integer_of(value->data + index * bytes, bytes, is_signed);
}

sl_status sl_gguf_get_count(const sl_gguf *gguf, const char *key, uint64_t *out, sl_error *err) {
    const sl_gguf_value *value = sl_gguf_find(gguf, key);
    bool is_signed;
    if (!value) return SL_OK;
    if (value->is_array || value->kind == SL_GGUF_BOOL || !integer_bytes(value->kind, &is_signed))
        return wrong_kind(gguf, value, "an integer", err);
    const int64_t number = sl_gguf_integer_at(value, 0);
    if (number < 0)
        return sl_fail(err, SL_FORMAT, "%s: key '%s' is %lld, a count wanted", gguf->what, key,
                       (long long)number);
    *out = (uint64_t)number;
    return SL_OK;
}

sl_status sl_gguf_get_flag(const sl_gguf *gguf, const char *key, bool *out, sl_error *err) {
    const sl_gguf_value *value = sl_gguf_find(gguf, key);
    if (!value) return SL_OK;
    if (value->is_array || value->kind != SL_GGUF_BOOL)
        return wrong_kind(gguf, value, "a flag", err);
    *out = value->data[0] != 0;
    return SL_OK;
}

float sl_gguf_real_at(const sl_gguf_value *value, uint64_t index) {
    const uint32_t bits = (uint32_t)integer_of(value->data + index * 4, 4, false);
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

sl_status sl_gguf_get_real(const sl_gguf *gguf, const char *key, double *out, sl_error *err) {
    const sl_gguf_value *value = sl_gguf_find(gguf, key);
    if (!value) return SL_OK;
    if (value->is_array || (value->kind != SL_GGUF_F32 && value->kind != SL_GGUF_F64))
        return wrong_kind(gguf, value, "a real number", err);
    double number;
    if (value->kind == SL_GGUF_F32) {
        number = (double)sl_gguf_real_at(value, 0);
    } else {
        const int64_t bits = integer_of(value->data, 8, false);
        memcpy(&number, &bits, sizeof number);
    }
    if (!isfinite(number))
        return sl_fail(err, SL_FORMAT, "%s: key '%s' is not a finite number", gguf->what, key);
    *out = number;
    return SL_OK;
}

sl_gguf_text sl_gguf_next_text(const uint8_t **at) {
    const uint64_t bytes = (uint64_t)integer_of(*at, 8, false);
    const sl_gguf_text text = {(const char *)*at + 8, bytes};
    *at += 8 + bytes;
    return text;
}

sl_status sl_gguf_get_text(const sl_gguf *gguf, const char *key, sl_gguf_text *out, sl_error *err) {
    const sl_gguf_value *value = sl_gguf_find(gguf, key);
    if (!value) return SL_OK;
    if (value->is_array || value->kind != SL_GGUF_TEXT)
        return wrong_kind(gguf, value, "a text", err);
    const uint8_t *at = value->data;
    *out = sl_gguf_next_text(&at);
    return SL_OK;
}

sl_status sl_gguf_get_array(const sl_gguf *gguf, const char *key, sl_gguf_kind kind,
                            const sl_gguf_value **out, sl_error *err) {
    const sl_gguf_value *value = *out = sl_gguf_find(gguf, key);
    if (!value) return SL_OK;
    bool is_signed, fits = value->is_array && value->kind == kind;
    const char *wanted = "an array of integers";
    if (kind == SL_GGUF_TEXT)
        wanted = "an array of texts";
    else if (kind == SL_GGUF_F32)
        wanted = "an array of f32";
    else
        fits = value->is_array && integer_bytes(value->kind, &is_signed) != 0;
    return fits ? SL_OK : wrong_kind(gguf, value, wanted, err);
}

const char *sl_gguf_own_key(const sl_gguf *gguf, const char *key, char text[SL_GGUF_KEY_BYTES]) {
    (void)snprintf(text, SL_GGUF_KEY_BYTES, "%s.%s", gguf->architecture, key);
    return text;
}

size_t sl_gguf_list(char *text, size_t capacity, size_t length, const char *name) {
    if (length < capacity)
        length +=
            (size_t)snprintf(text + length, capacity - length, "%s%s", length ? ", " : "", name);
    return length;
}

bool sl_gguf_text_is(sl_gguf_text text, const char *other) {
    return text.bytes == strlen(other) && memcmp(text.data, other, text.bytes) == 0;
}
