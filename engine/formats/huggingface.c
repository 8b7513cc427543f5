/* huggingface.c - A Hugging Face folder: config.json, text files, and the weights in
 * model.safetensors or in the shards listed by model.safetensors.index.json ({"weight_map":
 * {tensor: shard}}). */
#include "engine/formats/hf.h"
#include <stdlib.h>
#include <string.h>

enum { HEADER_READ_AHEAD_BYTES = 1 << 20 };
static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

typedef struct {
    sl_source *source;
    const char *folder;
    json_t *index;      /* NULL if there is only one file */
    json_t *weight_map; /* borrowed from index */
    json_t *shards;     /* maps shard names to file numbers */
    sl_safetensors_header *headers;
    sl_error *err;
} reader;

static sl_status path_of(const reader *r, const char *name, const char **out) {
    *out = sl_arena_format(&r->source->arena, "%s/%s", r->folder, name);
    return *out ? SL_OK : sl_no_memory(r->err, name, strlen(name));
}

static sl_status read_texts(const reader *r) {
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "chat_template.jinja"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path, *text;
        size_t bytes;
        SL_TRY(path_of(r, names[i], &path));
        if (!sl_file_exists(path)) continue;
        SL_TRY(
            sl_file_read_text(path, SL_MAX_TEXT_BYTES, &r->source->arena, &text, &bytes, r->err));
        SL_TRY(sl_source_add_text(r->source, names[i], text, bytes, r->err));
    }
    return SL_OK;
}

/* A shard must be a file in the folder, not a path that leaves it. */
static sl_status add_shard(reader *r, const char *tensor, const json_t *shard) {
    const char *name = json_string_value(shard);
    if (!name || !sl_json_name_fits(name) || strchr(name, '/') || strcmp(name, "..") == 0)
        return sl_fail(r->err, SL_FORMAT, "%s: tensor '%s' has an invalid file name", index_name,
                       tensor);
    if (json_object_get(r->shards, name)) return SL_OK;
    const json_int_t number = (json_int_t)json_object_size(r->shards);
    if (json_object_set_new(r->shards, name, json_integer(number)) != 0)
        return sl_no_memory(r->err, index_name, 0);
    return SL_OK;
}

static sl_status read_index(reader *r, const char *path) {
    const char *text, *tensor;
    size_t bytes;
    json_t *shard;
    SL_TRY(sl_file_read_text(path, SL_MAX_TEXT_BYTES, &r->source->arena, &text, &bytes, r->err));
    SL_TRY(sl_json_load(index_name, text, bytes, &r->index, r->err));
    r->weight_map = json_object_get(r->index, "weight_map");
    if (!json_is_object(r->weight_map) || json_object_size(r->weight_map) == 0)
        return sl_fail(r->err, SL_FORMAT, "%s: has no weight_map", index_name);
    json_object_foreach(r->weight_map, tensor, shard) SL_TRY(add_shard(r, tensor, shard));
    return SL_OK;
}

static sl_status list_shards(reader *r) {
    const char *single, *index;
    SL_TRY(path_of(r, single_name, &single));
    SL_TRY(path_of(r, index_name, &index));
    r->shards = json_object();
    if (!r->shards) return sl_no_memory(r->err, "a list of shards", 0);
    if (sl_file_exists(single)) {
        if (json_object_set_new(r->shards, single_name, json_integer(0)) != 0)
            return sl_no_memory(r->err, single_name, 0);
        return SL_OK;
    }
    if (sl_file_exists(index)) return read_index(r, index);
    return sl_fail(r->err, SL_FORMAT, "%s: has config.json but no weights: neither %s nor %s",
                   r->folder, single_name, index_name);
}

static sl_status open_shard(reader *r, const char *name, uint32_t file) {
    const char *path;
    SL_TRY(path_of(r, name, &path));
    if (!sl_file_exists(path))
        return sl_fail(r->err, SL_IO, "%s: missing: %s names it, but %s does not have it", name,
                       index_name, r->folder);
    SL_TRY(sl_source_map_file(r->source, file, path, r->err));
    const sl_file_map *map = &r->source->files[file].map;
    sl_file_read_ahead(map->data,
                       map->bytes < HEADER_READ_AHEAD_BYTES ? map->bytes : HEADER_READ_AHEAD_BYTES);
    return sl_safetensors_parse(name, map->data, map->bytes, map->bytes, &r->source->arena,
                                &r->headers[file], r->err);
}

static sl_status open_shards(reader *r) {
    const uint32_t count = (uint32_t)json_object_size(r->shards);
    const char *name;
    json_t *number;
    SL_TRY(sl_source_set_files(r->source, count, r->err));
    r->headers = SL_ARENA_NEW_ARRAY(&r->source->arena, sl_safetensors_header, count);
    if (!r->headers) return sl_no_memory(r->err, "a list of shards", count);
    json_object_foreach(r->shards, name, number)
        SL_TRY(open_shard(r, name, (uint32_t)json_integer_value(number)));
    return SL_OK;
}

static sl_hf_tensor tensor_of(const sl_safetensor *from, uint32_t file) {
    return (sl_hf_tensor){.name = from->name,
                          .element = sl_safetensors_name(from->type.dtype),
                          .type = from->type,
                          .at = {file, from->offset, from->bytes}};
}

static sl_hf_tensor tensor_of_skipped(const sl_safetensors_skipped *from, uint32_t file) {
    return (sl_hf_tensor){.name = from->name,
                          .element = from->dtype,
                          .why = from->why,
                          .type = {SL_DTYPE_u8, from->shape},
                          .at = {file, from->offset, from->bytes}};
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const sl_hf_tensor *)left)->name, ((const sl_hf_tensor *)right)->name);
}

static sl_status list_tensors(const reader *r, sl_hf_folder *out) {
    uint64_t count = 0;
    for (uint32_t f = 0; f < r->source->file_count; f++)
        count += (uint64_t)r->headers[f].count + r->headers[f].skipped_count;
    if (count >= UINT32_MAX / SL_HF_MOST_VIEWS)
        return sl_fail(r->err, SL_FORMAT, "%s: more than 2^31 tensors", r->folder);
    out->tensors = SL_ARENA_NEW_ARRAY(&r->source->arena, sl_hf_tensor, count);
    if (!out->tensors) return sl_no_memory(r->err, "a list of tensors", count);
    for (uint32_t f = 0; f < r->source->file_count; f++) {
        const sl_safetensors_header *header = &r->headers[f];
        for (uint32_t i = 0; i < header->count; i++)
            out->tensors[out->tensor_count++] = tensor_of(&header->tensors[i], f);
        for (uint32_t i = 0; i < header->skipped_count; i++)
            out->tensors[out->tensor_count++] = tensor_of_skipped(&header->skipped[i], f);
    }
    qsort(out->tensors, out->tensor_count, sizeof *out->tensors, by_name);
    for (uint32_t i = 1; i < out->tensor_count; i++)
        if (by_name(&out->tensors[i - 1], &out->tensors[i]) == 0)
            return sl_fail(r->err, SL_FORMAT, "%s: tensor '%s' is defined twice", r->folder,
                           out->tensors[i].name);
    return SL_OK;
}

/* Every tensor of the index must be in the shard that the index names. */
static sl_status check_weight_map(const reader *r, const sl_hf_folder *tensors) {
    const char *name;
    json_t *shard;
    json_object_foreach(r->weight_map, name, shard) {
        const char *shard_name = json_string_value(shard);
        const json_int_t file = json_integer_value(json_object_get(r->shards, shard_name));
        const sl_hf_tensor *found = sl_hf_find(tensors, name);
        if (!found || found->at.file != file)
            return sl_fail(r->err, SL_FORMAT, "%s: has no tensor '%s', which %s places in it",
                           shard_name, name, index_name);
    }
    return SL_OK;
}

static sl_status read_config(const reader *r, json_t **out) {
    size_t bytes = 0;
    const char *text = sl_source_text(r->source, "config.json", &bytes);
    return sl_json_load("config.json", text, bytes, out, r->err);
}

sl_status sl_source_open_huggingface(sl_source *source, const char *folder, sl_error *err) {
    reader r = {.source = source, .folder = folder, .err = err};
    sl_hf_folder tensors = {.source = source, .err = err};
    json_t *config = NULL;
    sl_status status = SL_OK;
    source->format = "safetensors";
    SL_TRY_ELSE(done, read_texts(&r));
    SL_TRY_ELSE(done, list_shards(&r));
    SL_TRY_ELSE(done, open_shards(&r));
    SL_TRY_ELSE(done, list_tensors(&r, &tensors));
    SL_TRY_ELSE(done, check_weight_map(&r, &tensors));
    SL_TRY_ELSE(done, read_config(&r, &config));
    tensors.config = config;
    SL_TRY_ELSE(done, sl_hf_read_config(&tensors));
    SL_TRY_ELSE(done, sl_hf_add_tensors(&tensors));
done:
    if (status == SL_FORMAT && source->tensors) status = sl_fail_in(err, status, "%s", folder);
    json_decref(config);
    json_decref(r.shards);
    json_decref(r.index);
    return status;
}
