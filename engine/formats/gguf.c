#include "engine/formats/gguf.h"
#include "base/sizes.h"
#include "engine/formats/json.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8, /* enough for the elements of every type */
    MAX_ALIGNMENT = 1 << 20,
    MAX_ENTRIES = 1 << 20,
    MAX_KEY_BYTES = 65535,
    MAX_NAME_BYTES = 63,
    MAX_RANK = 4,
    /* The smallest sizes of entries. */
    VALUE_BYTES = 8 + 1 + 4 + 1,
    TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
};

static const uint8_t kind_bytes[SL_GGUF_KINDS] = {
    [SL_GGUF_U8] = 1,  [SL_GGUF_I8] = 1,  [SL_GGUF_U16] = 2, [SL_GGUF_I16] = 2,
    [SL_GGUF_U32] = 4, [SL_GGUF_I32] = 4, [SL_GGUF_F32] = 4, [SL_GGUF_BOOL] = 1,
    [SL_GGUF_U64] = 8, [SL_GGUF_I64] = 8, [SL_GGUF_F64] = 8,
};

/* A read position in the file; reading past the end is an error. */
typedef struct {
    const char *what;
    const uint8_t *start, *at;
    uint64_t left;
    sl_arena *arena;
    sl_error *err;
} cursor;

static sl_status take(cursor *c, const char *part, uint64_t bytes, const uint8_t **out) {
    if (bytes > c->left)
        return sl_fail(c->err, SL_FORMAT,
                       "%s: truncated: %s at byte %llu has %llu bytes, the file %llu more", c->what,
                       part, (unsigned long long)(c->at - c->start), (unsigned long long)bytes,
                       (unsigned long long)c->left);
    *out = c->at;
    c->at += bytes;
    c->left -= bytes;
    return SL_OK;
}

static sl_status take_u32(cursor *c, const char *part, uint32_t *out) {
    const uint8_t *at = NULL;
    SL_TRY(take(c, part, sizeof *out, &at));
    memcpy(out, at, sizeof *out);
    *out = le32toh(*out);
    return SL_OK;
}

static sl_status take_u64(cursor *c, const char *part, uint64_t *out) {
    const uint8_t *at = NULL;
    SL_TRY(take(c, part, sizeof *out, &at));
    memcpy(out, at, sizeof *out);
    *out = le64toh(*out);
    return SL_OK;
}

/* A name or key, as a printable copy. */
static sl_status take_name(cursor *c, const char *part, uint64_t max_bytes, const char **out) {
    uint64_t bytes = 0;
    const uint8_t *at = NULL;
    SL_TRY(take_u64(c, part, &bytes));
    if (bytes == 0 || bytes > max_bytes)
        return sl_fail(c->err, SL_FORMAT, "%s: %s has %llu bytes, 1 to %llu wanted", c->what, part,
                       (unsigned long long)bytes, (unsigned long long)max_bytes);
    SL_TRY(take(c, part, bytes, &at));
    *out = sl_arena_copy_text(c->arena, (const char *)at, bytes);
    if (!*out) return sl_no_memory(c->err, c->what, bytes);
    if (strlen(*out) != bytes || !sl_json_name_fits(*out))
        return sl_fail(c->err, SL_FORMAT, "%s: %s has control characters", c->what, part);
    return SL_OK;
}

static sl_status check_count(const cursor *c, const char *part, uint64_t count, uint64_t least) {
    if (count <= MAX_ENTRIES && count <= c->left / least) return SL_OK;
    return sl_fail(c->err, SL_FORMAT, "%s: %llu %s do not fit the %llu bytes that follow", c->what,
                   (unsigned long long)count, part, (unsigned long long)c->left);
}

/* ---- metadata ---- */

static sl_status skip_texts(cursor *c, const char *key, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        const uint8_t *at = NULL;
        SL_TRY(take_u64(c, key, &bytes));
        SL_TRY(take(c, key, bytes, &at));
    }
    return SL_OK;
}

static sl_status take_kind(cursor *c, const char *key, sl_gguf_kind *out) {
    uint32_t kind = 0;
    SL_TRY(take_u32(c, key, &kind));
    if (kind >= SL_GGUF_KINDS)
        return sl_fail(c->err, SL_FORMAT, "%s: key '%s' has the unknown kind %u", c->what, key,
                       kind);
    *out = (sl_gguf_kind)kind;
    return SL_OK;
}

static sl_status take_value(cursor *c, sl_gguf_value *out) {
    SL_TRY(take_name(c, "a key", MAX_KEY_BYTES, &out->key));
    SL_TRY(take_kind(c, out->key, &out->kind));
    out->is_array = out->kind == SL_GGUF_ARRAY;
    out->count = 1;
    if (out->is_array) {
        SL_TRY(take_kind(c, out->key, &out->kind));
        SL_TRY(take_u64(c, out->key, &out->count));
    }
    if (out->kind == SL_GGUF_ARRAY)
        return sl_fail(c->err, SL_FORMAT, "%s: key '%s' is an array of arrays", c->what, out->key);
    out->data = c->at;
    if (out->kind == SL_GGUF_TEXT) return skip_texts(c, out->key, out->count);
    uint64_t bytes = 0;
    const uint8_t *at = NULL;
    if (!sl_multiply(out->count, kind_bytes[out->kind], &bytes)) bytes = UINT64_MAX;
    return take(c, out->key, bytes, &at);
}

static int by_key(const void *left, const void *right) {
    return strcmp(((const sl_gguf_value *)left)->key, ((const sl_gguf_value *)right)->key);
}

static sl_status take_values(cursor *c, sl_gguf *gguf) {
    for (uint32_t i = 0; i < gguf->value_count; i++) SL_TRY(take_value(c, &gguf->values[i]));
    if (gguf->value_count > 1) qsort(gguf->values, gguf->value_count, sizeof *gguf->values, by_key);
    for (uint32_t i = 1; i < gguf->value_count; i++)
        if (by_key(&gguf->values[i - 1], &gguf->values[i]) == 0)
            return sl_fail(c->err, SL_FORMAT, "%s: key '%s' is defined twice", c->what,
                           gguf->values[i].key);
    uint64_t alignment = DEFAULT_ALIGNMENT;
    SL_TRY(sl_gguf_get_count(gguf, "general.alignment", &alignment, c->err));
    if (alignment < MIN_ALIGNMENT || alignment > MAX_ALIGNMENT || alignment & (alignment - 1))
        return sl_fail(c->err, SL_FORMAT,
                       "%s: 'general.alignment' is %llu, a power of two from %d to %d wanted",
                       c->what, (unsigned long long)alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
    gguf->alignment = (uint32_t)alignment;
    return SL_OK;
}

/* ---- tensors ---- */

static sl_status take_shape(cursor *c, const char *name, sl_dims *out) {
    SL_TRY(take_u32(c, name, &out->rank));
    if (out->rank < 1 || out->rank > MAX_RANK)
        return sl_fail(c->err, SL_FORMAT, "%s: tensor '%s' has %u dims, 1 to %d wanted", c->what,
                       name, out->rank, MAX_RANK);
    for (uint32_t i = out->rank; i > 0; i--) {
        uint64_t size = 0;
        SL_TRY(take_u64(c, name, &size));
        out->dims[i - 1] = size > INT64_MAX ? -1 : (int64_t)size;
    }
    return SL_OK;
}

/* Computes the size; rows must be whole blocks, and the product must not overflow. */
static sl_status measure(const cursor *c, sl_gguf_tensor *tensor) {
    const sl_type as_bytes = {SL_DTYPE_u8, tensor->shape};
    const sl_gguf_type *type = tensor->type;
    if (sl_type_check(&as_bytes, tensor->name, c->err) != SL_OK)
        return sl_fail_in(c->err, SL_FORMAT, "%s", c->what);
    const int64_t cols = tensor->shape.dims[tensor->shape.rank - 1];
    if (cols % type->elements)
        return sl_fail(c->err, SL_FORMAT,
                       "%s: tensor '%s' has rows of %lld, %s wants a multiple of %u", c->what,
                       tensor->name, (long long)cols, type->name, type->elements);
    tensor->bytes = (uint64_t)sl_type_elements(&as_bytes) / type->elements * type->bytes;
    return SL_OK;
}

static sl_status take_tensor(cursor *c, sl_gguf_tensor *out) {
    uint32_t type = 0;
    SL_TRY(take_name(c, "a tensor's name", MAX_NAME_BYTES, &out->name));
    SL_TRY(take_shape(c, out->name, &out->shape));
    SL_TRY(take_u32(c, out->name, &type));
    SL_TRY(take_u64(c, out->name, &out->offset));
    out->type = sl_gguf_type_find(type);
    if (!out->type)
        return sl_fail(c->err, SL_UNSUPPORTED, "%s: tensor '%s' has the unknown type %u", c->what,
                       out->name, type);
    return measure(c, out);
}

/* Offsets must be those of consecutive tensors, so none overlap. */
static sl_status place_tensors(const cursor *c, uint64_t file_bytes, sl_gguf *gguf) {
    const uint64_t start = sl_round_up((uint64_t)(c->at - c->start), gguf->alignment);
    uint64_t next = 0;
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        sl_gguf_tensor *t = &gguf->tensors[i];
        if (t->offset != next)
            return sl_fail(c->err, SL_FORMAT,
                           "%s: tensor '%s' starts at byte %llu of the data, %llu wanted: after "
                           "the one before it, a multiple of %u",
                           c->what, t->name, (unsigned long long)t->offset,
                           (unsigned long long)next, gguf->alignment);
        t->offset += start;
        if (t->offset > file_bytes || t->bytes > file_bytes - t->offset)
            return sl_fail(c->err, SL_FORMAT,
                           "%s: truncated: tensor '%s' of %llu bytes starts at byte %llu, the file "
                           "has %llu",
                           c->what, t->name, (unsigned long long)t->bytes,
                           (unsigned long long)t->offset, (unsigned long long)file_bytes);
        next = sl_round_up(next + t->bytes, gguf->alignment);
    }
    return SL_OK;
}

static sl_status take_header(cursor *c, sl_gguf *gguf) {
    const uint8_t *magic = NULL;
    uint64_t tensors = 0, values = 0;
    if (c->left < 4 || memcmp(c->at, SL_GGUF_MAGIC, 4) != 0)
        return sl_fail(c->err, SL_FORMAT, "%s: not a GGUF file: it does not start with '%s'",
                       c->what, SL_GGUF_MAGIC);
    SL_TRY(take(c, "the header", 4, &magic));
    SL_TRY(take_u32(c, "the header", &gguf->version));
    if (gguf->version && (gguf->version & 0xffff) == 0)
        return sl_fail(c->err, SL_UNSUPPORTED,
                       "%s: a big-endian file; only little-endian is supported", c->what);
    if (gguf->version < 2 || gguf->version > 3)
        return sl_fail(c->err, SL_UNSUPPORTED, "%s: GGUF version %u, only 2 and 3 are supported",
                       c->what, gguf->version);
    SL_TRY(take_u64(c, "the header", &tensors));
    SL_TRY(take_u64(c, "the header", &values));
    SL_TRY(check_count(c, "tensors", tensors, TENSOR_BYTES));
    SL_TRY(check_count(c, "metadata entries", values, VALUE_BYTES));
    gguf->values = SL_ARENA_NEW_ARRAY(c->arena, sl_gguf_value, values);
    gguf->tensors = SL_ARENA_NEW_ARRAY(c->arena, sl_gguf_tensor, tensors);
    if (!gguf->values || !gguf->tensors)
        return sl_no_memory(c->err, c->what, tensors * sizeof *gguf->tensors);
    gguf->value_count = (uint32_t)values;
    gguf->tensor_count = (uint32_t)tensors;
    return SL_OK;
}

sl_status sl_gguf_parse(const char *what, const void *data, uint64_t bytes, sl_arena *arena,
                        sl_gguf *out, sl_error *err) {
    cursor c = {what, data, data, bytes, arena, err};
    *out = (sl_gguf){.what = what, .architecture = ""};
    SL_TRY(take_header(&c, out));
    SL_TRY(take_values(&c, out));
    for (uint32_t i = 0; i < out->tensor_count; i++) SL_TRY(take_tensor(&c, &out->tensors[i]));
    return place_tensors(&c, bytes, out);
}
