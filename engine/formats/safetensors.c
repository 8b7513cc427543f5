/* safetensors.c - The file: u64 little-endian header length, that many bytes of JSON, then the
 * tensors.  The JSON maps each name to {"dtype": "BF16", "shape": [..], "data_offsets": [begin,
 * end]}, with offsets from the end of the header; "__metadata__" is free text. */
#include "engine/formats/safetensors.h"
#include "base/sizes.h"
#include "engine/formats/file.h"
#include "engine/formats/json.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, MAX_HEADER_BYTES = 100000000, HEADER_ALIGN = 8 };

static const struct {
    const char *name;
    sl_dtype dtype;
} dtypes[] = {
    {"F32", SL_DTYPE_f32}, {"F16", SL_DTYPE_f16}, {"BF16", SL_DTYPE_bf16},
    {"I32", SL_DTYPE_i32}, {"U8", SL_DTYPE_u8},   {"BOOL", SL_DTYPE_bool},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

typedef struct {
    const char *what;
    sl_arena *arena;
    uint64_t data_start, file_bytes;
    sl_error *err;
} parser;

/* A tensor of the header; why is NULL unless it is skipped. */
typedef struct {
    sl_safetensor tensor;
    const char *why, *dtype;
} item;

static sl_status read_length(const char *what, const void *start, size_t start_bytes,
                             uint64_t file_bytes, uint64_t *out, sl_error *err) {
    if (file_bytes < LENGTH_BYTES || start_bytes < LENGTH_BYTES)
        return sl_fail(err, SL_FORMAT, "%s: truncated: the file has %llu bytes, at least %d wanted",
                       what, (unsigned long long)file_bytes, LENGTH_BYTES);
    uint64_t length;
    memcpy(&length, start, sizeof length);
    length = le64toh(length);
    if (length < 2 || length > MAX_HEADER_BYTES)
        return sl_fail(err, SL_FORMAT,
                       "%s: not a safetensors file: header of %llu bytes, 2 to %d wanted", what,
                       (unsigned long long)length, MAX_HEADER_BYTES);
    if (length > file_bytes - LENGTH_BYTES)
        return sl_fail(err, SL_FORMAT,
                       "%s: truncated: the header ends at byte %llu, the file has %llu", what,
                       (unsigned long long)(length + LENGTH_BYTES), (unsigned long long)file_bytes);
    if (length > start_bytes - LENGTH_BYTES)
        return sl_fail(err, SL_INVALID, "%s: %zu bytes given, the header needs %llu", what,
                       start_bytes, (unsigned long long)(length + LENGTH_BYTES));
    *out = length;
    return SL_OK;
}

static sl_status place(const parser *p, json_int_t begin, json_int_t end, sl_safetensor *tensor) {
    if (begin < 0 || end < begin)
        return sl_fail(p->err, SL_FORMAT, "%s: tensor '%s' has data_offsets [%lld, %lld]", p->what,
                       tensor->name, (long long)begin, (long long)end);
    if ((uint64_t)end > p->file_bytes - p->data_start)
        return sl_fail(p->err, SL_FORMAT,
                       "%s: truncated: tensor '%s' ends at byte %llu, the file has %llu", p->what,
                       tensor->name, (unsigned long long)(p->data_start + (uint64_t)end),
                       (unsigned long long)p->file_bytes);
    tensor->offset = p->data_start + (uint64_t)begin;
    tensor->bytes = (uint64_t)(end - begin);
    return SL_OK;
}

static bool has_zero_dim(const sl_dims *dims) {
    for (uint32_t i = 0; i < dims->rank; i++)
        if (dims->dims[i] == 0) return true;
    return false;
}

/* Finds the type; *out_why gets the reason if it is not supported. */
static sl_status read_type(const parser *p, const char *dtype, const json_t *shape, sl_type *out,
                           const char **out_why) {
    int found = 0;
    while (found < DTYPE_COUNT && strcmp(dtypes[found].name, dtype) != 0) found++;
    if (found == DTYPE_COUNT) {
        *out_why = sl_arena_format(p->arena,
                                   "dtype %.32s is not supported, wanted F32, F16 or BF16", dtype);
        if (!*out_why) return sl_no_memory(p->err, p->what, strlen(dtype));
        if (json_array_size(shape) > SL_MAX_RANK) return SL_OK;
        SL_TRY(sl_json_dims("shape", shape, &out->shape, p->err));
        out->dtype = SL_DTYPE_u8; /* any one-byte type, for the check */
        return has_zero_dim(&out->shape) ? SL_OK : sl_type_check(out, "shape", p->err);
    }
    out->dtype = dtypes[found].dtype;
    if (json_array_size(shape) > SL_MAX_RANK) {
        *out_why = "it has too many dims";
        return SL_OK;
    }
    SL_TRY(sl_json_dims("shape", shape, &out->shape, p->err));
    if (has_zero_dim(&out->shape)) {
        *out_why = "it has no elements";
        return SL_OK;
    }
    return sl_type_check(out, "shape", p->err);
}

static sl_status read_item(const parser *p, const char *name, json_t *value, item *out) {
    if (!sl_json_name_fits(name))
        return sl_fail(p->err, SL_FORMAT, "%s: a tensor name is empty or has control characters",
                       p->what);
    sl_safetensor *tensor = &out->tensor;
    tensor->name = sl_arena_copy_text(p->arena, name, strlen(name));
    if (!tensor->name) return sl_no_memory(p->err, p->what, strlen(name));
    const char *dtype;
    const json_t *shape;
    json_int_t begin, end;
    json_error_t problem;
    if (json_unpack_ex(value, &problem, 0, "{s:s, s:o, s:[I, I!]}", "dtype", &dtype, "shape",
                       &shape, "data_offsets", &begin, &end) != 0)
        return sl_fail(p->err, SL_FORMAT, "%s: tensor '%s': %s", p->what, name, problem.text);
    if (!sl_json_name_fits(dtype))
        return sl_fail(p->err, SL_FORMAT,
                       "%s: tensor '%s': the dtype is empty or has control characters", p->what,
                       name);
    out->dtype = sl_arena_copy_text(p->arena, dtype, strlen(dtype));
    if (!out->dtype) return sl_no_memory(p->err, p->what, strlen(dtype));
    const sl_status status = read_type(p, dtype, shape, &tensor->type, &out->why);
    if (status != SL_OK)
        return sl_fail_in(p->err, status == SL_NO_MEMORY ? status : SL_FORMAT, "%s: tensor '%s'",
                          p->what, name);
    SL_TRY(place(p, begin, end, tensor));
    if (!out->why && sl_type_bytes(&tensor->type) != tensor->bytes) {
        char text[SL_TYPE_TEXT];
        return sl_fail(p->err, SL_FORMAT, "%s: tensor '%s' has %llu bytes, %s needs %llu", p->what,
                       name, (unsigned long long)tensor->bytes,
                       sl_type_format(&tensor->type, text, sizeof text),
                       (unsigned long long)sl_type_bytes(&tensor->type));
    }
    return SL_OK;
}

static int by_offset(const void *left, const void *right) {
    const sl_safetensor *a = &((const item *)left)->tensor, *b = &((const item *)right)->tensor;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static sl_status check_overlap(const parser *p, const item *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        const sl_safetensor *a = &items[i - 1].tensor, *b = &items[i].tensor;
        if (a->offset + a->bytes > b->offset)
            return sl_fail(p->err, SL_FORMAT,
                           "%s: tensors '%s' and '%s' overlap: one ends at byte %llu, the other "
                           "starts at %llu",
                           p->what, a->name, b->name, (unsigned long long)(a->offset + a->bytes),
                           (unsigned long long)b->offset);
    }
    return SL_OK;
}

static sl_status separate(const parser *p, const item *items, size_t count,
                          sl_safetensors_header *out) {
    uint32_t skipped = 0;
    for (size_t i = 0; i < count; i++) skipped += items[i].why != NULL;
    out->tensors = SL_ARENA_NEW_ARRAY(p->arena, sl_safetensor, count - skipped);
    out->skipped = SL_ARENA_NEW_ARRAY(p->arena, sl_safetensors_skipped, skipped);
    if (!out->tensors || !out->skipped)
        return sl_no_memory(p->err, p->what, count * sizeof(sl_safetensor));
    out->count = out->skipped_count = 0;
    for (size_t i = 0; i < count; i++) {
        const sl_safetensor *t = &items[i].tensor;
        if (items[i].why)
            out->skipped[out->skipped_count++] = (sl_safetensors_skipped){
                t->name, items[i].why, items[i].dtype, t->type.shape, t->offset, t->bytes};
        else
            out->tensors[out->count++] = *t;
    }
    return SL_OK;
}

static sl_status read_items(const parser *p, json_t *root, sl_arena *scratch,
                            sl_safetensors_header *out) {
    item *items = SL_ARENA_NEW_ARRAY(scratch, item, json_object_size(root));
    if (!items) return sl_no_memory(p->err, p->what, json_object_size(root) * sizeof *items);
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) {
        if (strcmp(name, "__metadata__") != 0) SL_TRY(read_item(p, name, value, &items[count++]));
    }
    qsort(items, count, sizeof *items, by_offset);
    SL_TRY(check_overlap(p, items, count));
    return separate(p, items, count, out);
}

sl_status sl_safetensors_parse(const char *what, const void *start, size_t start_bytes,
                               uint64_t file_bytes, sl_arena *arena, sl_safetensors_header *out,
                               sl_error *err) {
    uint64_t length = 0;
    json_t *root = NULL;
    SL_TRY(read_length(what, start, start_bytes, file_bytes, &length, err));
    SL_TRY(sl_json_load(what, (const char *)start + LENGTH_BYTES, (size_t)length, &root, err));
    const parser p = {what, arena, LENGTH_BYTES + length, file_bytes, err};
    sl_arena scratch;
    sl_arena_init(&scratch, arena->allocator);
    const sl_status status = read_items(&p, root, &scratch, out);
    sl_arena_deinit(&scratch);
    json_decref(root);
    return status;
}

const char *sl_safetensors_name(sl_dtype dtype) {
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return NULL;
}

static sl_status check_item(const sl_safetensors_item *from, sl_error *err) {
    if (!sl_json_name_fits(from->name) || strcmp(from->name, "__metadata__") == 0)
        return sl_fail(err, SL_INVALID, "'%s' cannot be the name of a tensor", from->name);
    SL_TRY(sl_type_check(&from->type, from->name, err));
    if (!sl_safetensors_name(from->type.dtype))
        return sl_fail(err, SL_UNSUPPORTED, "tensor '%s': safetensors cannot hold %s", from->name,
                       sl_dtype_infos[from->type.dtype].name);
    return SL_OK;
}

static sl_status describe_item(const sl_safetensors_item *from, uint64_t *position, json_t *header,
                               sl_error *err) {
    if (json_object_get(header, from->name))
        return sl_fail(err, SL_INVALID, "two tensors are named '%s'", from->name);
    const uint64_t end = *position + sl_type_bytes(&from->type);
    json_t *value = json_pack(
        "{s:s, s:o, s:[I, I]}", "dtype", sl_safetensors_name(from->type.dtype), "shape",
        sl_json_of_dims(&from->type.shape), "data_offsets", (json_int_t)*position, (json_int_t)end);
    if (!value) return sl_no_memory(err, "a safetensors header", 0);
    if (json_object_set_new(header, from->name, value) != 0)
        return sl_fail(err, SL_INVALID, "the name of tensor '%.64s' is not UTF-8", from->name);
    *position = end;
    return SL_OK;
}

/* Visits items in file order: larger elements first. */
#define FOR_EACH_ITEM(i, items, count)                                                             \
    for (uint32_t width = 4; width; width /= 2)                                                    \
        for (uint32_t i = 0; i < (count); i++)                                                     \
            if (sl_dtype_infos[(items)[i].type.dtype].bytes == width)

static sl_status make_header(const sl_safetensors_item *items, uint32_t count, char **out,
                             sl_error *err) {
    json_t *header = json_object();
    uint64_t position = 0;
    sl_status status = SL_OK;
    for (uint32_t i = 0; i < count; i++) SL_TRY_ELSE(done, check_item(&items[i], err));
    FOR_EACH_ITEM(i, items, count) {
        SL_TRY_ELSE(done, describe_item(&items[i], &position, header, err));
    }
    *out = json_dumps(header, JSON_COMPACT);
    if (!*out) status = sl_no_memory(err, "a safetensors header", 0);
done:
    json_decref(header);
    return status;
}

static sl_status write_header(sl_file_writer *writer, const char *header, sl_error *err) {
    const size_t bytes = strlen(header), padded = sl_round_up(bytes, HEADER_ALIGN);
    const uint64_t length = htole64(padded);
    SL_TRY(sl_file_writer_append(writer, &length, sizeof length, err));
    SL_TRY(sl_file_writer_append(writer, header, bytes, err));
    return sl_file_writer_append(writer, "       ", padded - bytes, err);
}

sl_status sl_safetensors_write(const char *path, const sl_safetensors_item *items, uint32_t count,
                               sl_error *err) {
    char *header = NULL;
    sl_file_writer writer = {.fd = -1};
    sl_status status = make_header(items, count, &header, err);
    if (status != SL_OK) return sl_fail_in(err, status, "%s", path);
    SL_TRY_ELSE(done, sl_file_writer_open(&writer, path, NULL, err));
    SL_TRY_ELSE(done, write_header(&writer, header, err));
    FOR_EACH_ITEM(i, items, count) {
        SL_TRY_ELSE(done, sl_file_writer_append(&writer, items[i].data,
                                                sl_type_bytes(&items[i].type), err));
    }
    SL_TRY_ELSE(done, sl_file_writer_commit(&writer, err));
done:
    sl_file_writer_close(&writer);
    free(header);
    return status;
}
