/* A Hugging Face folder: config.json, texts beside it, and the weights in model.safetensors or in
 * the shards that model.safetensors.index.json names ({"weight_map": {tensor: shard}}). */
#include "engine/formats/json.h"
#include "engine/formats/source_internal.h"
#include <string.h>

enum { HEADER_READ_AHEAD_BYTES = 1 << 20 };
static const char single_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";

typedef struct {
    sl_source *source;
    const char *folder;
    json_t *index;      /* NULL when there is one file */
    json_t *weight_map; /* borrowed from index */
    json_t *shards;     /* shard name: its file number */
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

/* A shard is a file of the folder, never a path that leads out of it. */
static sl_status add_shard(reader *r, const char *tensor, const json_t *shard) {
    const char *name = json_string_value(shard);
    if (!name || !sl_json_name_fits(name) || strchr(name, '/') || strcmp(name, "..") == 0)
        return sl_fail(r->err, SL_FORMAT, "%s: tensor '%s' has no proper file name", index_name,
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

static sl_status collect_tensors(const reader *r) {
    sl_source *source = r->source;
    uint32_t count = 0, skipped = 0;
    for (uint32_t f = 0; f < source->file_count; f++) {
        count += r->headers[f].count;
        skipped += r->headers[f].skipped_count;
    }
    SL_TRY(sl_source_set_tensors(source, count, skipped, r->err));
    count = skipped = 0;
    for (uint32_t f = 0; f < source->file_count; f++) {
        const sl_safetensors_header *header = &r->headers[f];
        for (uint32_t i = 0; i < header->count; i++) {
            const sl_safetensor *t = &header->tensors[i];
            source->tensors[count++] =
                (sl_tensor_entry){.name = t->name, .type = t->type, .at = {f, t->offset, t->bytes}};
        }
        for (uint32_t i = 0; i < header->skipped_count; i++)
            source->skipped[skipped++] = header->skipped[i];
    }
    const sl_status status = sl_source_index_names(source, r->err);
    return status == SL_OK ? SL_OK : sl_fail_in(r->err, status, "%s", r->folder);
}

/* Every tensor that the index promises must be in the shard that it names. */
static sl_status check_weight_map(const reader *r) {
    const char *name;
    json_t *shard;
    json_object_foreach(r->weight_map, name, shard) {
        const char *shard_name = json_string_value(shard);
        const json_int_t file = json_integer_value(json_object_get(r->shards, shard_name));
        const sl_tensor_entry *entry = sl_source_find(r->source, name);
        if (entry ? entry->at.file != file : !sl_source_skipped(r->source, name))
            return sl_fail(r->err, SL_FORMAT, "%s: has no tensor '%s', which %s places in it",
                           shard_name, name, index_name);
    }
    return SL_OK;
}

sl_status sl_source_open_huggingface(sl_source *source, const char *folder, sl_error *err) {
    reader r = {.source = source, .folder = folder, .err = err};
    sl_status status = SL_OK;
    source->format = "safetensors";
    SL_TRY_ELSE(done, read_texts(&r));
    SL_TRY_ELSE(done, list_shards(&r));
    SL_TRY_ELSE(done, open_shards(&r));
    SL_TRY_ELSE(done, collect_tensors(&r));
    SL_TRY_ELSE(done, check_weight_map(&r));
done:
    json_decref(r.shards);
    json_decref(r.index);
    return status;
}
