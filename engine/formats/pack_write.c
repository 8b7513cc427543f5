#include "base/sizes.h"
#include "engine/formats/file.h"
#include "engine/formats/json.h"
#include "engine/formats/pack.h"
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The layer being written. */
typedef struct {
    json_t *checksums; /* borrowed from the manifest */
    uint32_t layer, count, written;
    uint64_t offsets[3], bytes[3]; /* of the matrices in a block */
    uint64_t block_bytes;
} open_layer;

/* The text or tensor being written. */
typedef struct {
    json_t *entry; /* borrowed from the manifest; NULL: none */
    XXH3_state_t *hash;
    uint64_t left_bytes;
} open_entry;

struct sl_pack_writer {
    sl_allocator allocator;
    sl_file_writer file;
    json_t *manifest, *texts, *tensors, *experts; /* the last three borrowed */
    open_entry entry;
    open_layer layer;
    uint8_t *block; /* gaps between matrices stay zero */
    uint64_t block_capacity;
    bool layers_seen[SL_PACK_MAX_LAYERS];
};

/* The manifest may now be incomplete, so the file must never be finished. */
static sl_status no_manifest_memory(sl_pack_writer *writer, sl_error *err) {
    writer->file.failed = true;
    return sl_no_memory(err, writer->file.path, 0);
}

static json_t *json_of_checksum(uint64_t checksum) {
    char text[17];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)checksum);
    return json_string(text);
}

static sl_status start(sl_pack_writer *writer, const char *path, sl_error *err) {
    static const uint8_t blank[SL_PACK_HEADER_BYTES];
    SL_TRY(sl_file_writer_open(&writer->file, path, &writer->allocator, err));
    writer->entry.hash = XXH3_createState();
    if (!writer->entry.hash) return sl_no_memory(err, "a checksum", 0);
    writer->texts = json_object();
    writer->tensors = json_object();
    writer->experts = json_array();
    writer->manifest = json_pack("{s:o, s:o, s:o}", "texts", writer->texts, "tensors",
                                 writer->tensors, "experts", writer->experts);
    if (!writer->manifest) return no_manifest_memory(writer, err);
    return sl_file_writer_append(&writer->file, blank, sizeof blank, err);
}

sl_status sl_pack_writer_create(const char *path, const sl_allocator *allocator,
                                sl_pack_writer **out, sl_error *err) {
    sl_pack_writer *writer = sl_allocate(allocator, sizeof *writer, _Alignof(sl_pack_writer));
    if (!writer) return sl_no_memory(err, "a pack writer", sizeof *writer);
    writer->allocator = *sl_allocator_or_default(allocator);
    const sl_status status = start(writer, path, err);
    if (status != SL_OK) {
        sl_pack_writer_destroy(writer);
        return status;
    }
    *out = writer;
    return SL_OK;
}

/* Starts an entry of one of the manifest's objects. */
static sl_status begin_entry(sl_pack_writer *writer, json_t *object, const char *name,
                             uint64_t bytes, sl_error *err) {
    if (!sl_json_name_fits(name) || json_object_get(object, name))
        return sl_fail(err, SL_INVALID, "%s: '%s' is an invalid or duplicate name",
                       writer->file.path, name);
    if (json_array_size(writer->experts))
        return sl_fail(err, SL_INVALID, "%s: '%s' must come before the first experts",
                       writer->file.path, name);
    if (writer->entry.entry)
        return sl_fail(err, SL_INVALID, "%s: '%s' begins before the last tensor has ended",
                       writer->file.path, name);
    SL_TRY(sl_file_writer_align(&writer->file, SL_PACK_ALIGN, err));
    json_t *entry = json_pack("{s:I, s:I, s:s}", "offset", (json_int_t)writer->file.position,
                              "bytes", (json_int_t)bytes, "checksum", "");
    if (json_object_set_new(object, name, entry) != 0) return no_manifest_memory(writer, err);
    (void)XXH3_64bits_reset(writer->entry.hash);
    writer->entry.entry = entry;
    writer->entry.left_bytes = bytes;
    return SL_OK;
}

sl_status sl_pack_writer_piece(sl_pack_writer *writer, const void *data, uint64_t bytes,
                               sl_error *err) {
    open_entry *open = &writer->entry;
    if (!open->entry || bytes > open->left_bytes)
        return sl_fail(err, SL_INVALID, "%s: %llu bytes where %llu are left of a tensor",
                       writer->file.path, (unsigned long long)bytes,
                       (unsigned long long)(open->entry ? open->left_bytes : 0));
    open->left_bytes -= bytes;
    (void)XXH3_64bits_update(open->hash, data, bytes);
    return sl_file_writer_append(&writer->file, data, bytes, err);
}

sl_status sl_pack_writer_end(sl_pack_writer *writer, sl_error *err) {
    open_entry *open = &writer->entry;
    if (!open->entry || open->left_bytes)
        return sl_fail(err, SL_INVALID, "%s: a tensor ends with %llu bytes missing",
                       writer->file.path, (unsigned long long)open->left_bytes);
    json_t *checksum = json_of_checksum(XXH3_64bits_digest(open->hash));
    if (json_object_set_new(open->entry, "checksum", checksum) != 0)
        return no_manifest_memory(writer, err);
    open->entry = NULL;
    return SL_OK;
}

static sl_status add_bytes(sl_pack_writer *writer, const void *data, uint64_t bytes,
                           sl_error *err) {
    SL_TRY(sl_pack_writer_piece(writer, data, bytes, err));
    return sl_pack_writer_end(writer, err);
}

sl_status sl_pack_writer_text(sl_pack_writer *writer, const char *name, const char *text,
                              uint64_t bytes, sl_error *err) {
    SL_TRY(begin_entry(writer, writer->texts, name, bytes, err));
    return add_bytes(writer, text, bytes, err);
}

/* Sets "dtype" and "shape"; false if out of memory. */
static bool describe_type(json_t *entry, const sl_type *type) {
    const char *dtype = sl_dtype_infos[type->dtype].name;
    return json_object_set_new(entry, "dtype", json_string(dtype)) == 0 &&
           json_object_set_new(entry, "shape", sl_json_of_dims(&type->shape)) == 0;
}

sl_status sl_pack_writer_begin(sl_pack_writer *writer, const char *name, sl_type type,
                               sl_error *err) {
    SL_TRY(sl_type_check(&type, name, err));
    SL_TRY(begin_entry(writer, writer->tensors, name, sl_type_bytes(&type), err));
    return describe_type(writer->entry.entry, &type) ? SL_OK : no_manifest_memory(writer, err);
}

static sl_status check_complete(const sl_pack_writer *writer, sl_error *err) {
    const open_layer *layer = &writer->layer;
    if (writer->entry.entry)
        return sl_fail(err, SL_INVALID, "%s: a tensor has not ended", writer->file.path);
    if (layer->written == layer->count) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: layer %u has %u of %u experts", writer->file.path,
                   layer->layer, layer->written, layer->count);
}

static sl_status check_layer(const sl_pack_writer *writer, uint32_t layer, uint32_t count,
                             const sl_type matrices[3], sl_error *err) {
    SL_TRY(check_complete(writer, err));
    if (layer >= SL_PACK_MAX_LAYERS || writer->layers_seen[layer] || count == 0)
        return sl_fail(err, SL_INVALID,
                       "%s: layer %u with %u experts: layers are below %d, each once, with experts",
                       writer->file.path, layer, count, SL_PACK_MAX_LAYERS);
    for (int i = 0; i < 3; i++) {
        SL_TRY(sl_type_check(&matrices[i], "an expert's matrix", err));
        if (matrices[i].shape.rank != 2)
            return sl_fail(err, SL_INVALID, "%s: an expert's matrix has %u dims, 2 wanted",
                           writer->file.path, matrices[i].shape.rank);
    }
    return SL_OK;
}

static sl_status prepare_block(sl_pack_writer *writer, uint64_t bytes, sl_error *err) {
    if (bytes > writer->block_capacity) {
        uint8_t *block = sl_resize(&writer->allocator, writer->block, writer->block_capacity, bytes,
                                   SL_PACK_BLOCK_ALIGN);
        if (!block) return sl_no_memory(err, "an expert block", bytes);
        writer->block = block;
        writer->block_capacity = bytes;
    }
    memset(writer->block, 0, bytes);
    return SL_OK;
}

static json_t *json_of_layer(const open_layer *layer, const sl_type matrices[3], uint64_t offset) {
    static const char *const names[3] = {"gate", "up", "down"};
    json_t *entry =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "layer", (json_int_t)layer->layer, "count",
                  (json_int_t)layer->count, "up_offset", (json_int_t)layer->offsets[1],
                  "down_offset", (json_int_t)layer->offsets[2], "offset", (json_int_t)offset,
                  "block_bytes", (json_int_t)layer->block_bytes, "checksums", layer->checksums);
    for (int i = 0; i < 3; i++) {
        json_t *type = json_object();
        if (!describe_type(type, &matrices[i]) || json_object_set(entry, names[i], type) != 0) {
            json_decref(entry);
            entry = NULL;
        }
        json_decref(type);
    }
    return entry;
}

sl_status sl_pack_writer_layer(sl_pack_writer *writer, uint32_t layer, uint32_t count,
                               const sl_type matrices[3], sl_error *err) {
    SL_TRY(check_layer(writer, layer, count, matrices, err));
    open_layer fresh = {.layer = layer, .count = count};
    for (int i = 0; i < 3; i++) {
        fresh.offsets[i] = sl_round_up(fresh.block_bytes, SL_PACK_ALIGN);
        fresh.bytes[i] = sl_type_bytes(&matrices[i]);
        fresh.block_bytes = fresh.offsets[i] + fresh.bytes[i];
    }
    fresh.block_bytes = sl_round_up(fresh.block_bytes, SL_PACK_BLOCK_ALIGN);
    SL_TRY(prepare_block(writer, fresh.block_bytes, err));
    SL_TRY(sl_file_writer_align(&writer->file, SL_PACK_BLOCK_ALIGN, err));
    fresh.checksums = json_array();
    json_t *entry = json_of_layer(&fresh, matrices, writer->file.position);
    json_decref(fresh.checksums); /* the entry holds a reference */
    if (json_array_append_new(writer->experts, entry) != 0) return no_manifest_memory(writer, err);
    writer->layer = fresh;
    writer->layers_seen[layer] = true;
    return SL_OK;
}

sl_status sl_pack_writer_expert(sl_pack_writer *writer, const void *const matrices[3],
                                sl_error *err) {
    open_layer *layer = &writer->layer;
    if (layer->written == layer->count)
        return sl_fail(err, SL_INVALID, "%s: more than %u experts written", writer->file.path,
                       layer->written);
    for (int i = 0; i < 3; i++)
        memcpy(writer->block + layer->offsets[i], matrices[i], layer->bytes[i]);
    json_t *checksum = json_of_checksum(XXH3_64bits(writer->block, layer->block_bytes));
    if (json_array_append_new(layer->checksums, checksum) != 0)
        return no_manifest_memory(writer, err);
    layer->written++;
    return sl_file_writer_append(&writer->file, writer->block, layer->block_bytes, err);
}

static sl_status write_manifest(sl_pack_writer *writer, const char *manifest, sl_error *err) {
    SL_TRY(sl_file_writer_align(&writer->file, SL_PACK_ALIGN, err));
    const size_t bytes = strlen(manifest);
    const sl_pack_header header = {
        .magic = {'S', 'L', 'U', 'I', 'C', 'E', 'P', 'K'},
        .version = htole32(SL_PACK_VERSION),
        .manifest_offset = htole64(writer->file.position),
        .manifest_bytes = htole64(bytes),
        .manifest_checksum = htole64(XXH3_64bits(manifest, bytes)),
    };
    SL_TRY(sl_file_writer_append(&writer->file, manifest, bytes, err));
    return sl_file_writer_patch(&writer->file, &header, sizeof header, err);
}

sl_status sl_pack_writer_finish(sl_pack_writer *writer, sl_error *err) {
    SL_TRY(check_complete(writer, err));
    char *manifest = json_dumps(writer->manifest, JSON_COMPACT);
    if (!manifest) return no_manifest_memory(writer, err);
    const sl_status status = write_manifest(writer, manifest, err);
    free(manifest);
    return status == SL_OK ? sl_file_writer_commit(&writer->file, err) : status;
}

void sl_pack_writer_destroy(sl_pack_writer *writer) {
    if (!writer) return;
    sl_file_writer_close(&writer->file);
    json_decref(writer->manifest);
    (void)XXH3_freeState(writer->entry.hash);
    const sl_allocator allocator = writer->allocator;
    sl_release(&allocator, writer->block, writer->block_capacity, SL_PACK_BLOCK_ALIGN);
    sl_release(&allocator, writer, sizeof *writer, _Alignof(sl_pack_writer));
}
