/* pack_read.c - Nothing in a pack is trusted.  Opening it checks the header, the checksum and
 * structure of the manifest, that every extent is aligned, inside the file and disjoint from all
 * others, and the checksums of texts.  Tensors are verified when they are loaded, expert blocks
 * when they are read. */
#include "base/sizes.h"
#include "engine/formats/gguf.h"
#include "engine/formats/json.h"
#include "engine/formats/pack.h"
#include "engine/formats/source_internal.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MAX_MANIFEST_BYTES = 1 << 30 };

typedef struct {
    uint64_t offset, bytes;
    const char *name;
} span;

typedef struct {
    sl_source *source;
    const char *what;
    const sl_file *file;
    sl_pack_header header;
    json_t *manifest, *texts, *tensors, *experts; /* the last three borrowed */
    sl_arena scratch;
    span *spans; /* all extents of the file */
    size_t span_count;
    sl_error *err;
} reader;

static sl_status read_header(reader *r) {
    const uint64_t file_bytes = r->file->bytes;
    sl_pack_header *header = &r->header;
    uint8_t start[SL_PACK_HEADER_BYTES] = {0};
    SL_TRY(sl_file_read(r->file, 0, start, file_bytes < sizeof start ? file_bytes : sizeof start,
                        r->err));
    if (memcmp(start, SL_PACK_MAGIC, sizeof SL_PACK_MAGIC - 1) != 0)
        return sl_fail(r->err, SL_FORMAT,
                       "%s: not a sluice pack: it starts neither with '" SL_PACK_MAGIC
                       "' nor, as a GGUF file does, with '" SL_GGUF_MAGIC "'",
                       r->file->path);
    if (file_bytes < SL_PACK_HEADER_BYTES)
        return sl_fail(r->err, SL_FORMAT, "%s: truncated: the header has %d bytes, the file %llu",
                       r->what, SL_PACK_HEADER_BYTES, (unsigned long long)file_bytes);
    memcpy(header, start, sizeof *header);
    header->version = le32toh(header->version);
    header->manifest_offset = le64toh(header->manifest_offset);
    header->manifest_bytes = le64toh(header->manifest_bytes);
    header->manifest_checksum = le64toh(header->manifest_checksum);
    if (header->version != SL_PACK_VERSION)
        return sl_fail(r->err, SL_UNSUPPORTED, "%s: pack version %u, only %d is supported", r->what,
                       header->version, SL_PACK_VERSION);
    bool clear = header->zero == 0;
    for (size_t i = sizeof *header; i < SL_PACK_HEADER_BYTES; i++) clear &= start[i] == 0;
    if (!clear)
        return sl_fail(r->err, SL_FORMAT, "%s: the header is damaged: its padding is not zero",
                       r->what);
    return SL_OK;
}

static sl_status load_manifest(reader *r) {
    const uint64_t offset = r->header.manifest_offset, bytes = r->header.manifest_bytes;
    if (offset < SL_PACK_HEADER_BYTES || bytes > MAX_MANIFEST_BYTES)
        return sl_fail(r->err, SL_FORMAT,
                       "%s: the header is damaged: manifest of %llu bytes at byte %llu", r->what,
                       (unsigned long long)bytes, (unsigned long long)offset);
    if (offset > r->file->bytes || bytes > r->file->bytes - offset)
        return sl_fail(r->err, SL_FORMAT,
                       "%s: truncated: the manifest of %llu bytes starts at byte %llu, the file "
                       "has %llu",
                       r->what, (unsigned long long)bytes, (unsigned long long)offset,
                       (unsigned long long)r->file->bytes);
    char *text = sl_arena_alloc(&r->scratch, bytes, 1);
    if (!text) return sl_no_memory(r->err, r->what, bytes);
    SL_TRY(sl_file_read(r->file, offset, text, bytes, r->err));
    const uint64_t found = XXH3_64bits(text, bytes);
    if (found != r->header.manifest_checksum)
        return sl_fail(r->err, SL_FORMAT,
                       "%s: the manifest is damaged: checksum %016llx found, %016llx wanted",
                       r->what, (unsigned long long)found,
                       (unsigned long long)r->header.manifest_checksum);
    SL_TRY(sl_json_load(r->what, text, bytes, &r->manifest, r->err));
    r->texts = json_object_get(r->manifest, "texts");
    r->tensors = json_object_get(r->manifest, "tensors");
    r->experts = json_object_get(r->manifest, "experts");
    if (!json_is_object(r->texts) || !json_is_object(r->tensors) || !json_is_array(r->experts))
        return sl_fail(
            r->err, SL_FORMAT,
            "%s: the manifest must have objects 'texts' and 'tensors' and an array 'experts'",
            r->what);
    return SL_OK;
}

static void add_span(reader *r, uint64_t offset, uint64_t bytes, const char *name) {
    if (bytes) r->spans[r->span_count++] = (span){offset, bytes, name};
}

static sl_status read_checksum(const reader *r, const char *name, const char *text, uint64_t *out) {
    const size_t digits = strspn(text, "0123456789abcdef");
    if (digits != 16 || text[16])
        return sl_fail(r->err, SL_FORMAT, "%s: %s: the checksum is not 16 hexadecimal digits",
                       r->what, name);
    *out = strtoull(text, NULL, 16);
    return SL_OK;
}

/* Checks an extent and records it. */
static sl_status read_extent(reader *r, const char *name, json_int_t offset, uint64_t bytes,
                             uint64_t align) {
    if (offset < SL_PACK_HEADER_BYTES || (uint64_t)offset % align)
        return sl_fail(r->err, SL_FORMAT, "%s: %s starts at byte %lld, a multiple of %llu wanted",
                       r->what, name, (long long)offset, (unsigned long long)align);
    if ((uint64_t)offset > r->file->bytes || bytes > r->file->bytes - (uint64_t)offset)
        return sl_fail(r->err, SL_FORMAT,
                       "%s: truncated: %s of %llu bytes starts at byte %lld, the file has %llu",
                       r->what, name, (unsigned long long)bytes, (long long)offset,
                       (unsigned long long)r->file->bytes);
    add_span(r, (uint64_t)offset, bytes, name);
    return SL_OK;
}

static sl_status read_type(const reader *r, const char *name, json_t *value, sl_type *out) {
    const char *dtype;
    const json_t *shape;
    json_error_t problem;
    if (json_unpack_ex(value, &problem, 0, "{s:s, s:o}", "dtype", &dtype, "shape", &shape) != 0)
        return sl_fail(r->err, SL_FORMAT, "%s: %s: %s", r->what, name, problem.text);
    if (!sl_dtype_find(dtype, strlen(dtype), &out->dtype))
        return sl_fail(r->err, SL_UNSUPPORTED, "%s: %s has the unknown dtype '%.16s'", r->what,
                       name, sl_json_name_fits(dtype) ? dtype : "?");
    if (sl_json_dims(name, shape, &out->shape, r->err) != SL_OK ||
        sl_type_check(out, name, r->err) != SL_OK)
        return sl_fail_in(r->err, SL_FORMAT, "%s", r->what);
    return SL_OK;
}

/* The common part of texts and tensors. */
typedef struct {
    const char *name; /* for messages: "tensor 'x'" */
    json_int_t offset;
    uint64_t bytes, checksum;
} entry;

static sl_status read_entry(reader *r, const char *kind, const char *key, json_t *value,
                            entry *out) {
    if (!sl_json_name_fits(key))
        return sl_fail(r->err, SL_FORMAT, "%s: the name of a %s is empty or has control characters",
                       r->what, kind);
    out->name = sl_arena_format(&r->scratch, "%s '%s'", kind, key);
    if (!out->name) return sl_no_memory(r->err, r->what, strlen(key));
    const char *checksum;
    json_int_t bytes;
    json_error_t problem;
    if (json_unpack_ex(value, &problem, 0, "{s:I, s:I, s:s}", "offset", &out->offset, "bytes",
                       &bytes, "checksum", &checksum) != 0)
        return sl_fail(r->err, SL_FORMAT, "%s: %s: %s", r->what, out->name, problem.text);
    if (bytes < 0)
        return sl_fail(r->err, SL_FORMAT, "%s: %s has %lld bytes", r->what, out->name,
                       (long long)bytes);
    out->bytes = (uint64_t)bytes;
    return read_checksum(r, out->name, checksum, &out->checksum);
}

static sl_status read_text(reader *r, const char *key, json_t *value) {
    sl_arena *arena = sl_source_text_arena(r->source, key);
    entry e = {0};
    SL_TRY(read_entry(r, "text", key, value, &e));
    if (e.bytes > SL_MAX_TEXT_BYTES)
        return sl_fail(r->err, SL_FORMAT, "%s: %s has %llu bytes, at most %d are supported",
                       r->what, e.name, (unsigned long long)e.bytes, SL_MAX_TEXT_BYTES);
    SL_TRY(read_extent(r, e.name, e.offset, e.bytes, SL_PACK_ALIGN));
    const char *own_name = sl_arena_copy_text(arena, key, strlen(key));
    char *own_text = sl_arena_alloc(arena, e.bytes + 1, 1);
    if (!own_name || !own_text) return sl_no_memory(r->err, e.name, e.bytes);
    SL_TRY(sl_file_read(r->file, (uint64_t)e.offset, own_text, e.bytes, r->err));
    const uint64_t found = XXH3_64bits(own_text, e.bytes);
    if (found != e.checksum)
        return sl_fail(r->err, SL_FORMAT,
                       "%s: %s is damaged: checksum %016llx found, %016llx wanted", r->what, e.name,
                       (unsigned long long)found, (unsigned long long)e.checksum);
    return sl_source_add_text(r->source, own_name, own_text, e.bytes, r->err);
}

static sl_status read_tensor(reader *r, const char *key, json_t *value, sl_tensor_entry *out) {
    entry e = {0};
    SL_TRY(read_entry(r, "tensor", key, value, &e));
    SL_TRY(read_type(r, e.name, value, &out->type));
    if (e.bytes != sl_type_bytes(&out->type)) {
        char text[SL_TYPE_TEXT];
        return sl_fail(r->err, SL_FORMAT, "%s: %s has %llu bytes, %s needs %llu", r->what, e.name,
                       (unsigned long long)e.bytes, sl_type_format(&out->type, text, sizeof text),
                       (unsigned long long)sl_type_bytes(&out->type));
    }
    SL_TRY(read_extent(r, e.name, e.offset, e.bytes, SL_PACK_ALIGN));
    out->name = sl_arena_copy_text(&r->source->arena, key, strlen(key));
    out->at = (sl_extent){0, (uint64_t)e.offset, e.bytes};
    out->checksum = e.checksum;
    return out->name ? SL_OK : sl_no_memory(r->err, e.name, strlen(key));
}

static sl_status read_block_layout(reader *r, const char *name, json_t *value,
                                   sl_expert_blocks *out) {
    json_int_t count, offset, up, down, block;
    json_t *types[3];
    json_error_t problem;
    if (json_unpack_ex(value, &problem, 0, "{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "count",
                       &count, "offset", &offset, "up_offset", &up, "down_offset", &down,
                       "block_bytes", &block, "gate", &types[0], "up", &types[1], "down",
                       &types[2]) != 0)
        return sl_fail(r->err, SL_FORMAT, "%s: %s: %s", r->what, name, problem.text);
    SL_TRY(read_type(r, name, types[0], &out->gate));
    SL_TRY(read_type(r, name, types[1], &out->up));
    SL_TRY(read_type(r, name, types[2], &out->down));
    if (out->gate.shape.rank != 2 || out->up.shape.rank != 2 || out->down.shape.rank != 2)
        return sl_fail(r->err, SL_FORMAT, "%s: %s: a matrix does not have two dims", r->what, name);
    uint64_t bytes;
    if (up < 0 || up % SL_PACK_ALIGN || (uint64_t)up < sl_type_bytes(&out->gate) ||
        down % SL_PACK_ALIGN || down < up || (uint64_t)(down - up) < sl_type_bytes(&out->up) ||
        block % SL_PACK_BLOCK_ALIGN || block < down ||
        (uint64_t)(block - down) < sl_type_bytes(&out->down) || count < 1 || count > UINT32_MAX ||
        !sl_multiply((uint64_t)count, (uint64_t)block, &bytes))
        return sl_fail(r->err, SL_FORMAT,
                       "%s: %s: %lld blocks of %lld bytes, up at %lld, down at %lld do not fit "
                       "their matrices",
                       r->what, name, (long long)count, (long long)block, (long long)up,
                       (long long)down);
    SL_TRY(read_extent(r, name, offset, bytes, SL_PACK_BLOCK_ALIGN));
    out->count = (uint32_t)count;
    out->up_offset = (uint64_t)up;
    out->down_offset = (uint64_t)down;
    out->offset = (uint64_t)offset;
    out->block_bytes = (uint64_t)block;
    return SL_OK;
}

static sl_status read_block_checksums(reader *r, const char *name, const json_t *list,
                                      sl_expert_blocks *out) {
    if (json_array_size(list) != out->count)
        return sl_fail(r->err, SL_FORMAT, "%s: %s: %zu checksums for %u blocks", r->what, name,
                       json_array_size(list), out->count);
    uint64_t *checksums = SL_ARENA_NEW_ARRAY(&r->source->arena, uint64_t, out->count);
    if (!checksums) return sl_no_memory(r->err, name, out->count * sizeof *checksums);
    for (uint32_t i = 0; i < out->count; i++) {
        const char *hex = json_string_value(json_array_get(list, i));
        SL_TRY(read_checksum(r, name, hex ? hex : "", &checksums[i]));
    }
    out->checksums = checksums;
    return SL_OK;
}

static sl_status read_layer(reader *r, json_t *value) {
    sl_source *source = r->source;
    const json_t *number = json_object_get(value, "layer");
    const json_int_t layer = json_is_integer(number) ? json_integer_value(number) : -1;
    if (layer < 0 || layer >= SL_MAX_LAYERS)
        return sl_fail(r->err, SL_FORMAT, "%s: an experts entry has no layer from 0 to %d", r->what,
                       SL_MAX_LAYERS - 1);
    if (source->layers[layer])
        return sl_fail(r->err, SL_FORMAT, "%s: layer %lld has experts twice", r->what,
                       (long long)layer);
    const char *name = sl_arena_format(&r->scratch, "experts of layer %lld", (long long)layer);
    sl_expert_blocks *blocks = SL_ARENA_NEW(&source->arena, sl_expert_blocks);
    if (!name || !blocks) return sl_no_memory(r->err, r->what, sizeof *blocks);
    blocks->layer = (uint32_t)layer;
    SL_TRY(read_block_layout(r, name, value, blocks));
    SL_TRY(read_block_checksums(r, name, json_object_get(value, "checksums"), blocks));
    source->layers[layer] = blocks;
    return SL_OK;
}

static sl_status read_entries(reader *r) {
    sl_source *source = r->source;
    const size_t layers = json_array_size(r->experts);
    const size_t count = json_object_size(r->tensors);
    const size_t spans = 1 + json_object_size(r->texts) + count + layers;
    r->spans = SL_ARENA_NEW_ARRAY(&r->scratch, span, spans);
    source->layers =
        SL_ARENA_NEW_ARRAY(&source->arena, const sl_expert_blocks *, layers ? SL_MAX_LAYERS : 0);
    if (!r->spans || !source->layers) return sl_no_memory(r->err, r->what, spans * sizeof(span));
    source->layer_count = layers ? SL_MAX_LAYERS : 0;
    add_span(r, r->header.manifest_offset, r->header.manifest_bytes, "the manifest");
    SL_TRY(sl_source_set_tensors(source, (uint32_t)count, 0, r->err));
    const char *key;
    json_t *value;
    json_object_foreach(r->texts, key, value) SL_TRY(read_text(r, key, value));
    uint32_t next = 0;
    json_object_foreach(r->tensors, key, value)
        SL_TRY(read_tensor(r, key, value, &source->tensors[next++]));
    for (size_t i = 0; i < layers; i++) SL_TRY(read_layer(r, json_array_get(r->experts, i)));
    return sl_source_index_names(source, r->err);
}

static int by_offset(const void *left, const void *right) {
    const span *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static sl_status check_overlap(const reader *r) {
    qsort(r->spans, r->span_count, sizeof *r->spans, by_offset);
    for (size_t i = 1; i < r->span_count; i++) {
        const span *a = &r->spans[i - 1], *b = &r->spans[i];
        if (a->offset + a->bytes > b->offset)
            return sl_fail(r->err, SL_FORMAT, "%s: %s and %s overlap at byte %llu", r->what,
                           a->name, b->name, (unsigned long long)b->offset);
    }
    return SL_OK;
}

sl_status sl_source_open_pack(sl_source *source, const char *path, sl_error *err) {
    reader r = {.source = source, .what = sl_file_name(path), .err = err};
    sl_status status = SL_OK;
    source->format = "pack";
    SL_TRY(sl_source_set_files(source, 1, err));
    SL_TRY(sl_source_open_file(source, 0, path, err));
    r.file = &source->files[0];
    sl_arena_init(&r.scratch, source->arena.allocator);
    SL_TRY_ELSE(done, read_header(&r));
    SL_TRY_ELSE(done, load_manifest(&r));
    SL_TRY_ELSE(done, read_entries(&r));
    SL_TRY_ELSE(done, check_overlap(&r));
done:
    json_decref(r.manifest);
    sl_arena_deinit(&r.scratch);
    return status;
}
