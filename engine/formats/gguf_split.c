/* gguf_split.c - A GGUF model in one file or split into parts "x-00001-of-00003.gguf" and so on.
 *
 * The first part has the metadata of the model.  Every part has its own tensors and three keys
 * about the split: split.no (from 0), split.count, and split.tensors.count (of all parts
 * together). */
#include "engine/formats/gguf.h"
#include "engine/formats/source_internal.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_READ_AHEAD_BYTES = 1 << 24, DIGITS = 5 };

/* The number of five digits at text, or -1. */
static int64_t number_at(const char *text) {
    for (int i = 0; i < DIGITS; i++)
        if (!isdigit((unsigned char)text[i])) return -1;
    return strtol(text, NULL, 10);
}

size_t sl_gguf_part_name(const char *path, uint32_t *out_part, uint32_t *out_count) {
    static const char middle[] = "-of-", end[] = ".gguf";
    const size_t bytes = strlen(path), tail = 1 + DIGITS + 4 + DIGITS + 5;
    if (bytes <= tail) return 0;
    const char *part = path + bytes - tail + 1, *count = part + DIGITS + 4;
    if (part[-1] != '-' || strncmp(part + DIGITS, middle, 4) != 0 ||
        strcmp(count + DIGITS, end) != 0 || number_at(part) < 0 || number_at(count) < 0)
        return 0;
    *out_part = (uint32_t)number_at(part);
    *out_count = (uint32_t)number_at(count);
    return bytes - tail;
}

static sl_status parse_file(sl_source *source, uint32_t file, const char *path, sl_gguf *out,
                            sl_error *err) {
    SL_TRY(sl_source_map_file(source, file, path, err));
    const sl_file_map *map = &source->files[file].map;
    sl_file_read_ahead(map->data,
                       map->bytes < HEADER_READ_AHEAD_BYTES ? map->bytes : HEADER_READ_AHEAD_BYTES);
    SL_TRY(sl_gguf_parse(sl_file_name(source->files[file].path), map->data, map->bytes,
                         &source->arena, out, err));
    for (uint32_t i = 0; i < out->tensor_count; i++) out->tensors[i].file = file;
    return SL_OK;
}

/* The number of parts; 1 for a model in one file. */
static sl_status part_count(const sl_gguf *gguf, uint64_t *out, sl_error *err) {
    *out = 1;
    SL_TRY(sl_gguf_get_count(gguf, "split.count", out, err));
    if (*out <= 1) *out = 1;
    if (*out <= 65535) return SL_OK;
    return sl_fail(err, SL_FORMAT, "%s: key 'split.count' is %llu, at most 65535 wanted",
                   gguf->what, (unsigned long long)*out);
}

/* Checks that a file's metadata say that it is part `index` of `count`. */
static sl_status check_part(const sl_gguf *part, uint64_t index, uint64_t count, sl_error *err) {
    uint64_t found = UINT64_MAX, of = 1;
    SL_TRY(part_count(part, &of, err));
    SL_TRY(sl_gguf_get_count(part, "split.no", &found, err));
    if (found == UINT64_MAX) return sl_gguf_missing(part, "split.no", err);
    if (of != count)
        return sl_fail(err, SL_FORMAT,
                       "%s: key 'split.count' is %llu, the other parts have %llu of it", part->what,
                       (unsigned long long)of, (unsigned long long)count);
    if (found != index)
        return sl_fail(err, SL_FORMAT,
                       "%s: key 'split.no' is %llu, %llu wanted of the part of this name",
                       part->what, (unsigned long long)found, (unsigned long long)index);
    return SL_OK;
}

static sl_status open_part(sl_source *source, const char *stem, uint32_t index, sl_gguf *out,
                           sl_error *err) {
    const char *path = sl_arena_format(&source->arena, "%s-%05u-of-%05u.gguf", stem, index + 1,
                                       source->file_count);
    if (!path) return sl_no_memory(err, stem, strlen(stem));
    if (!sl_file_exists(path))
        return sl_fail(err, SL_IO, "%s: missing: part %u of %u of the model", path, index + 1,
                       source->file_count);
    SL_TRY(parse_file(source, index, path, out, err));
    return check_part(out, index, source->file_count, err);
}

/* Combines the metadata of the first part with the tensors of all. */
static sl_status join(sl_source *source, const sl_gguf *parts, sl_gguf *out, sl_error *err) {
    uint64_t tensors = 0, wanted = UINT64_MAX;
    for (uint32_t i = 0; i < source->file_count; i++) tensors += parts[i].tensor_count;
    *out = parts[0];
    SL_TRY(sl_gguf_get_count(out, "split.tensors.count", &wanted, err));
    if (wanted != UINT64_MAX && wanted != tensors)
        return sl_fail(
            err, SL_FORMAT, "%s: key 'split.tensors.count' is %llu, its %u parts have %llu tensors",
            out->what, (unsigned long long)wanted, source->file_count, (unsigned long long)tensors);
    out->tensors = SL_ARENA_NEW_ARRAY(&source->arena, sl_gguf_tensor, tensors);
    if (!out->tensors || tensors > UINT32_MAX)
        return sl_no_memory(err, out->what, tensors * sizeof *out->tensors);
    out->tensor_count = 0;
    for (uint32_t i = 0; i < source->file_count; i++)
        for (uint32_t t = 0; t < parts[i].tensor_count; t++)
            out->tensors[out->tensor_count++] = parts[i].tensors[t];
    return SL_OK;
}

/* Opens all `count` parts, given the path of any; the source has no files yet. */
static sl_status open_parts(sl_source *source, const char *path, uint32_t count, sl_gguf *out,
                            sl_error *err) {
    uint32_t part = 0, named = 0;
    const size_t bytes = sl_gguf_part_name(path, &part, &named);
    if (!bytes || named != count)
        return sl_fail(err, SL_FORMAT,
                       "%s: one of %u parts, which are looked for under names that end in "
                       "-00001-of-%05u.gguf; this one does not",
                       sl_file_name(path), count, count);
    const char *stem = sl_arena_copy_text(&source->arena, path, bytes);
    sl_gguf *parts = SL_ARENA_NEW_ARRAY(&source->arena, sl_gguf, count);
    if (!stem || !parts) return sl_no_memory(err, path, count * sizeof *parts);
    SL_TRY(sl_source_set_files(source, count, err));
    for (uint32_t i = 0; i < count; i++) SL_TRY(open_part(source, stem, i, &parts[i], err));
    return join(source, parts, out, err);
}

sl_status sl_gguf_open_parts(sl_source *source, const char *path, sl_gguf *out, sl_error *err) {
    uint64_t count = 1;
    SL_TRY(sl_source_set_files(source, 1, err));
    SL_TRY(parse_file(source, 0, path, out, err));
    SL_TRY(part_count(out, &count, err));
    if (count == 1) return SL_OK;
    sl_file_map_close(&source->files[0].map);
    source->file_count = 0;
    return open_parts(source, path, (uint32_t)count, out, err);
}
