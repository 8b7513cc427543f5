/* tensors.c - Safetensors files (sluice/tensors.h): one file, read as a whole. */
#include "sluice/tensors.h"
#include "api/needs.h"
#include "engine/formats/file.h"
#include "engine/formats/safetensors.h"
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((sl_tensor_item *)0)->dims) == sizeof(((sl_dims *)0)->dims),
               "public and internal shapes have the same rank");

struct sl_tensors {
    sl_arena arena;
    const char *name; /* of the file, for messages */
    sl_tensor_item *items;
    uint32_t count;
};

static sl_status fill_item(sl_tensors *tensors, const sl_file *file, const sl_safetensor *from,
                           sl_tensor_item *to, sl_error *err) {
    void *data = sl_arena_alloc(&tensors->arena, from->bytes, 64);
    if (!data) return sl_no_memory(err, from->name, from->bytes);
    SL_TRY(sl_file_read(file, from->offset, data, from->bytes, err));
    *to = (sl_tensor_item){.name = from->name,
                           .dtype = sl_dtype_infos[from->type.dtype].name,
                           .rank = from->type.shape.rank,
                           .data = data,
                           .bytes = from->bytes};
    memcpy(to->dims, from->type.shape.dims, sizeof to->dims);
    return SL_OK;
}

static sl_status read_items(sl_tensors *tensors, const sl_file *file, sl_error *err) {
    sl_safetensors_header header;
    SL_TRY(sl_safetensors_read(file, &tensors->arena, &header, err));
    tensors->items = SL_ARENA_NEW_ARRAY(&tensors->arena, sl_tensor_item, header.count);
    if (!tensors->items)
        return sl_no_memory(err, file->path, header.count * sizeof *tensors->items);
    for (uint32_t i = 0; i < header.count; i++)
        SL_TRY(fill_item(tensors, file, &header.tensors[i], &tensors->items[i], err));
    tensors->count = header.count;
    return SL_OK;
}

static sl_status read_file(sl_tensors *tensors, const char *path, sl_error *err) {
    const char *name = sl_file_name(path);
    tensors->name = sl_arena_copy_text(&tensors->arena, name, strlen(name));
    if (!tensors->name) return sl_no_memory(err, path, strlen(name));
    sl_file file;
    SL_TRY(sl_file_open(path, &file, err));
    const sl_status status = read_items(tensors, &file, err);
    sl_file_close(&file);
    return status;
}

sl_status sl_tensors_open(const char *path, sl_tensors **out, sl_error *err) {
    SL_NEED(path && out);
    sl_tensors *tensors = sl_allocate(NULL, sizeof *tensors, _Alignof(sl_tensors));
    if (!tensors) return sl_no_memory(err, path, sizeof *tensors);
    sl_arena_init(&tensors->arena, NULL);
    const sl_status status = read_file(tensors, path, err);
    if (status != SL_OK) {
        sl_tensors_close(tensors);
        return status;
    }
    *out = tensors;
    return SL_OK;
}

void sl_tensors_close(sl_tensors *tensors) {
    if (!tensors) return;
    sl_arena_deinit(&tensors->arena);
    sl_release(NULL, tensors, sizeof *tensors, _Alignof(sl_tensors));
}

uint32_t sl_tensors_count(const sl_tensors *tensors) {
    SL_NEED_OR(0, tensors);
    return tensors->count;
}

sl_status sl_tensors_at(const sl_tensors *tensors, uint32_t index, sl_tensor_item *out,
                        sl_error *err) {
    SL_NEED(tensors && out);
    if (index >= tensors->count)
        return sl_fail(err, SL_INVALID, "%s has %u tensors, asked for tensor %u", tensors->name,
                       tensors->count, index);
    *out = tensors->items[index];
    return SL_OK;
}

/* As many names as fit, then "..." if there are more. */
static void list_names(const sl_tensors *tensors, char *text, size_t capacity) {
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < tensors->count; i++) {
        const size_t left = capacity - at;
        const char *name = tensors->items[i].name;
        if (strlen(name) + sizeof ", ..." > left) {
            (void)snprintf(text + at, left, "...");
            return;
        }
        const char *comma = i + 1 < tensors->count ? ", " : "";
        at += (size_t)snprintf(text + at, left, "%s%s", name, comma);
    }
}

sl_status sl_tensors_find(const sl_tensors *tensors, const char *name, sl_tensor_item *out,
                          sl_error *err) {
    SL_NEED(tensors && name && out);
    for (uint32_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0) {
            *out = tensors->items[i];
            return SL_OK;
        }
    char names[300];
    list_names(tensors, names, sizeof names);
    return sl_fail(err, SL_INVALID, "%s: no tensor '%.80s'; it has: %s", tensors->name, name,
                   tensors->count ? names : "none");
}

static sl_status convert(const sl_tensor_item *from, sl_safetensors_item *to, sl_error *err) {
    sl_type type = {.shape.rank = from->rank};
    if (!sl_dtype_find(from->dtype, strlen(from->dtype), &type.dtype))
        return sl_fail(err, SL_INVALID, "tensor '%s': unknown dtype '%s'", from->name, from->dtype);
    memcpy(type.shape.dims, from->dims, sizeof type.shape.dims);
    SL_TRY(sl_type_check(&type, from->name, err));
    if (from->bytes != sl_type_bytes(&type)) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "tensor '%s' has %zu bytes, %s needs %llu", from->name,
                       from->bytes, sl_type_format(&type, text, sizeof text),
                       (unsigned long long)sl_type_bytes(&type));
    }
    *to = (sl_safetensors_item){from->name, type, from->data};
    return SL_OK;
}

sl_status sl_tensors_write(const char *path, const sl_tensor_item *items, uint32_t count,
                           sl_error *err) {
    SL_NEED(path && (items || !count));
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_status status = SL_OK;
    sl_safetensors_item *converted = SL_ARENA_NEW_ARRAY(&arena, sl_safetensors_item, count);
    if (!converted) {
        status = sl_no_memory(err, path, count * sizeof *converted);
        goto done;
    }
    for (uint32_t i = 0; i < count; i++) SL_TRY_ELSE(done, convert(&items[i], &converted[i], err));
    status = sl_safetensors_write(path, converted, count, err);
done:
    sl_arena_deinit(&arena);
    return status;
}
