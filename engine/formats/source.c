#include "engine/formats/source.h"
#include "base/sizes.h"
#include "engine/formats/gguf.h"
#include "engine/formats/source_internal.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { DATA_ALIGNMENT = 64 };

static bool has_suffix(const char *name, const char *suffix) {
    const size_t length = strlen(name), bytes = strlen(suffix);
    return length > bytes && strcmp(name + length - bytes, suffix) == 0;
}

/* Packs and GGUF files; mmproj*.gguf files are vision projectors, not models. */
static int is_model(const struct dirent *entry) {
    return has_suffix(entry->d_name, ".sluice") ||
           (has_suffix(entry->d_name, ".gguf") && strncmp(entry->d_name, "mmproj", 6) != 0);
}

/* Whether two files are parts of the same model. */
static bool same_model(const char *left, const char *right) {
    uint32_t part, left_count = 0, right_count = 0;
    const size_t bytes = sl_gguf_part_name(left, &part, &left_count);
    return bytes && bytes == sl_gguf_part_name(right, &part, &right_count) &&
           left_count == right_count && memcmp(left, right, bytes) == 0;
}

/* Counts the models in a folder that are packs or GGUF files; *out is the path of the last. */
static sl_status find_files(const char *folder, sl_arena *arena, uint32_t *out_count,
                            const char **out, sl_error *err) {
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_model, alphasort);
    if (count < 0)
        return sl_fail(err, SL_IO, "%s: cannot list the folder: %s", folder, strerror(errno));
    *out_count = 0;
    for (int i = 0; i < count; i++)
        if (i == 0 || !same_model(entries[i - 1]->d_name, entries[i]->d_name)) ++*out_count;
    if (count > 0) *out = sl_arena_format(arena, "%s/%s", folder, entries[count - 1]->d_name);
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    return count > 0 && !*out ? sl_no_memory(err, folder, strlen(folder)) : SL_OK;
}

/* A pack or a GGUF file, according to its first bytes. */
static sl_status open_file(sl_source *source, const char *path, sl_error *err) {
    bool is_gguf;
    SL_TRY(sl_file_begins_with(path, SL_GGUF_MAGIC, &is_gguf, err));
    if (has_suffix(path, ".json") || has_suffix(path, ".safetensors"))
        return sl_fail(err, SL_FORMAT,
                       "%s: one file of a model that consists of several: give the folder", path);
    return is_gguf ? sl_source_open_gguf(source, path, err)
                   : sl_source_open_pack(source, path, err);
}

static sl_status open_folder(sl_source *source, const char *folder, sl_error *err) {
    const char *config = sl_arena_format(&source->arena, "%s/config.json", folder);
    if (!config) return sl_no_memory(err, folder, strlen(folder));
    if (sl_file_exists(config)) return sl_source_open_huggingface(source, folder, err);
    uint32_t count = 0;
    const char *file = NULL;
    SL_TRY(find_files(folder, &source->arena, &count, &file, err));
    if (count == 1) return open_file(source, file, err);
    if (count > 1)
        return sl_fail(err, SL_FORMAT, "%s: holds %u packs or GGUF files, name one of them: %s",
                       folder, count, file);
    return sl_fail(err, SL_FORMAT,
                   "%s: no model here: looked for config.json with model.safetensors or "
                   "model.safetensors.index.json, for one *.sluice pack and for one *.gguf",
                   folder);
}

static sl_status open_path(sl_source *source, const char *path, sl_error *err) {
    struct stat info;
    if (stat(path, &info) != 0) return sl_fail(err, SL_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return open_folder(source, path, err);
    return open_file(source, path, err);
}

sl_status sl_source_open(const char *path, const sl_allocator *allocator, sl_source **out,
                         sl_error *err) {
    sl_source *source = sl_allocate(allocator, sizeof *source, _Alignof(sl_source));
    if (!source) return sl_no_memory(err, "a model source", sizeof *source);
    source->allocator = *sl_allocator_or_default(allocator);
    sl_arena_init(&source->arena, &source->allocator);
    sl_arena_init(&source->tokenizer, &source->allocator);
    const sl_status status = open_path(source, path, err);
    if (status != SL_OK) {
        sl_source_close(source);
        return status;
    }
    *out = source;
    return SL_OK;
}

void sl_source_unload(sl_source *source, const sl_tensor_entry *entry) {
    void **loaded = &source->loaded[entry - source->tensors];
    sl_release(&source->allocator, *loaded, sl_type_bytes(&entry->type), DATA_ALIGNMENT);
    *loaded = NULL;
}

void sl_source_close(sl_source *source) {
    if (!source) return;
    for (uint32_t i = 0; i < source->tensor_count; i++)
        if (source->loaded[i]) sl_source_unload(source, &source->tensors[i]);
    for (uint32_t i = 0; i < source->file_count; i++) sl_file_close(&source->files[i]);
    sl_arena_deinit(&source->tokenizer);
    sl_arena_deinit(&source->arena);
    const sl_allocator allocator = source->allocator;
    sl_release(&allocator, source, sizeof *source, _Alignof(sl_source));
}

sl_status sl_source_set_files(sl_source *source, uint32_t count, sl_error *err) {
    source->files = SL_ARENA_NEW_ARRAY(&source->arena, sl_file, count);
    if (!source->files) return sl_no_memory(err, "a list of files", count);
    source->file_count = count;
    return SL_OK;
}

/* A clone without git-lfs has a few lines of text in the place of each large file. */
static sl_status check_contents(const sl_file *file, sl_error *err) {
    static const char pointer[] = "version https://git-lfs";
    char start[sizeof pointer - 1];
    if (file->bytes < sizeof start) return SL_OK;
    SL_TRY(sl_file_read(file, 0, start, sizeof start, err));
    if (memcmp(start, pointer, sizeof start) != 0) return SL_OK;
    return sl_fail(err, SL_FORMAT,
                   "%s: a git-lfs pointer, not the file itself: run `git lfs pull` in its folder",
                   file->path);
}

sl_status sl_source_open_file(sl_source *source, uint32_t file, const char *path, sl_error *err) {
    const char *copy = sl_arena_copy_text(&source->arena, path, strlen(path));
    if (!copy) return sl_no_memory(err, path, strlen(path));
    SL_TRY(sl_file_open(copy, &source->files[file], err));
    return check_contents(&source->files[file], err);
}

sl_status sl_source_set_tensors(sl_source *source, uint32_t count, uint32_t skipped_count,
                                sl_error *err) {
    source->tensors = SL_ARENA_NEW_ARRAY(&source->arena, sl_tensor_entry, count);
    source->loaded = SL_ARENA_NEW_ARRAY(&source->arena, void *, count);
    source->asked = SL_ARENA_NEW_ARRAY(&source->arena, bool, count);
    source->skipped = SL_ARENA_NEW_ARRAY(&source->arena, sl_safetensors_skipped, skipped_count);
    if (!source->tensors || !source->loaded || !source->asked || !source->skipped)
        return sl_no_memory(err, "a list of tensors", count * sizeof *source->tensors);
    source->tensor_count = count;
    source->skipped_count = skipped_count;
    return SL_OK;
}

static const char *name_of(const sl_source *source, uint32_t id) {
    return id < source->tensor_count ? source->tensors[id].name
                                     : source->skipped[id - source->tensor_count].name;
}

/* The slot that holds the name, or the empty slot where it belongs. */
static uint32_t *find_slot(const sl_source *source, const char *name) {
    uint64_t at = XXH3_64bits(name, strlen(name)) & source->slot_mask;
    while (source->slots[at] && strcmp(name_of(source, source->slots[at] - 1), name) != 0)
        at = (at + 1) & source->slot_mask;
    return &source->slots[at];
}

sl_status sl_source_index_names(sl_source *source, sl_error *err) {
    const uint64_t count = (uint64_t)source->tensor_count + source->skipped_count;
    if (count >= UINT32_MAX) return sl_fail(err, SL_FORMAT, "more than 2^32 tensors");
    uint64_t capacity = 16;
    while (capacity < 2 * count) capacity *= 2;
    source->slots = SL_ARENA_NEW_ARRAY(&source->arena, uint32_t, capacity);
    if (!source->slots) return sl_no_memory(err, "a table of names", capacity * sizeof(uint32_t));
    source->slot_mask = capacity - 1;
    for (uint32_t id = 0; id < count; id++) {
        uint32_t *slot = find_slot(source, name_of(source, id));
        if (*slot)
            return sl_fail(err, SL_FORMAT, "tensor '%s' is defined twice", name_of(source, id));
        *slot = id + 1;
    }
    return SL_OK;
}

static const char tokenizer_name[] = "tokenizer.json";

sl_arena *sl_source_text_arena(sl_source *source, const char *name) {
    return strcmp(name, tokenizer_name) == 0 ? &source->tokenizer : &source->arena;
}

sl_status sl_source_add_text(sl_source *source, const char *name, const char *text, size_t bytes,
                             sl_error *err) {
    sl_source_text_entry *entry = SL_ARENA_NEW(&source->arena, sl_source_text_entry);
    if (!entry) return sl_no_memory(err, name, sizeof *entry);
    *entry = (sl_source_text_entry){source->texts, name, text, bytes};
    source->texts = entry;
    return SL_OK;
}

const char *sl_source_format(const sl_source *source) {
    return source->format;
}
uint32_t sl_source_file_count(const sl_source *source) {
    return source->file_count;
}
uint32_t sl_source_tensor_count(const sl_source *source) {
    return source->tensor_count;
}

const char *sl_source_file_path(const sl_source *source, uint32_t file) {
    return file < source->file_count ? source->files[file].path : NULL;
}

uint64_t sl_source_file_bytes(const sl_source *source, uint32_t file) {
    return file < source->file_count ? source->files[file].bytes : 0;
}

const sl_tensor_entry *sl_source_tensor(const sl_source *source, uint32_t index) {
    return index < source->tensor_count ? &source->tensors[index] : NULL;
}

const sl_tensor_entry *sl_source_find(const sl_source *source, const char *name) {
    const uint32_t slot = *find_slot(source, name);
    return slot ? sl_source_tensor(source, slot - 1) : NULL;
}

void sl_source_mark_used(const sl_source *source, const sl_tensor_entry *entry) {
    source->asked[entry - source->tensors] = true;
}

bool sl_source_is_used(const sl_source *source, uint32_t index) {
    return index < source->tensor_count && source->asked[index];
}

const char *sl_source_skipped(const sl_source *source, const char *name) {
    const uint32_t slot = *find_slot(source, name);
    return slot > source->tensor_count ? source->skipped[slot - 1 - source->tensor_count].why
                                       : NULL;
}

sl_status sl_source_check(const sl_source *source, const sl_tensor_entry *entry, const void *bytes,
                          sl_error *err) {
    if (entry->checksum == 0) return SL_OK;
    const uint64_t found = XXH3_64bits(bytes, entry->at.bytes);
    if (found == entry->checksum) return SL_OK;
    return sl_fail(err, SL_FORMAT,
                   "%s: tensor '%s' is damaged: checksum %016llx found, %016llx wanted",
                   sl_file_name(source->files[entry->at.file].path), entry->name,
                   (unsigned long long)found, (unsigned long long)entry->checksum);
}

/* ---- reading tensors ---- */

static sl_status read_extent(const sl_source *source, const sl_extent *at, void *out,
                             sl_error *err) {
    return sl_file_read(&source->files[at->file], at->offset, out, at->bytes, err);
}

/* The bytes of share `index` of `count` of all parts, each rounded up so that the next is aligned.
 */
static uint64_t raw_bytes(const sl_tensor_entry *entry, uint64_t count) {
    uint64_t bytes = 0;
    const sl_extent *part;
    for (uint32_t p = 0; (part = sl_tensor_part(entry, p)); p++)
        bytes += sl_round_up(part->bytes / count, DATA_ALIGNMENT);
    return bytes;
}

/* raw: room for raw_bytes of the entry. */
static sl_status convert_share(const sl_source *source, const sl_tensor_entry *entry,
                               const sl_tensor_share *share, uint8_t *raw, void *out,
                               sl_error *err) {
    sl_raw_matrix matrix = {.form = entry->form, .rows = share->rows, .cols = share->cols};
    const sl_extent *part;
    for (uint32_t p = 0; (part = sl_tensor_part(entry, p)); p++) {
        const sl_extent at = sl_extent_share(part, share->index, share->count);
        SL_TRY(read_extent(source, &at, raw, err));
        matrix.parts[p] = raw;
        raw += sl_round_up(at.bytes, DATA_ALIGNMENT);
    }
    entry->form->convert(&matrix, out);
    return SL_OK;
}

sl_status sl_source_matrix(const sl_source *source, const sl_tensor_entry *entry,
                           const sl_tensor_share *share, void *out, sl_error *err) {
    if (!entry->form) {
        const sl_extent at = sl_extent_share(&entry->at, share->index, share->count);
        return read_extent(source, &at, out, err);
    }
    const uint64_t bytes = raw_bytes(entry, share->count);
    uint8_t *raw = sl_resize(&source->allocator, NULL, 0, bytes, DATA_ALIGNMENT);
    if (!raw) return sl_no_memory(err, entry->name, bytes);
    const sl_status status = convert_share(source, entry, share, raw, out, err);
    sl_release(&source->allocator, raw, bytes, DATA_ALIGNMENT);
    return status;
}

/* Reads the rows of a matrix in the order that the entry gives, adjacent ones together. */
static sl_status read_ordered(const sl_source *source, const sl_tensor_entry *entry, uint8_t *out,
                              sl_error *err) {
    const uint64_t each = entry->at.bytes / entry->order->count;
    const uint32_t *from = entry->order->from;
    const uint64_t rows = (uint64_t)entry->type.shape.dims[0];
    for (uint64_t i = 0, count; i < rows; i += count) {
        for (count = 1; i + count < rows && from[i + count] == from[i] + count;) count++;
        const sl_extent at = {entry->at.file, entry->at.offset + from[i] * each, count * each};
        SL_TRY(read_extent(source, &at, out + i * each, err));
    }
    return SL_OK;
}

static sl_status convert_ordered(const sl_source *source, const sl_tensor_entry *entry,
                                 const sl_tensor_share *share, void *out, sl_error *err) {
    const uint64_t bytes =
        (uint64_t)entry->type.shape.dims[0] * (entry->at.bytes / entry->order->count);
    uint8_t *raw = sl_resize(&source->allocator, NULL, 0, bytes, DATA_ALIGNMENT);
    if (!raw) return sl_no_memory(err, entry->name, bytes);
    const sl_status status = read_ordered(source, entry, raw, err);
    const sl_raw_matrix matrix = {entry->form, {raw}, share->rows, share->cols};
    if (status == SL_OK) entry->form->convert(&matrix, out);
    sl_release(&source->allocator, raw, bytes, DATA_ALIGNMENT);
    return status;
}

/* The first matrix of a tensor. */
static sl_tensor_share first_share(const sl_tensor_entry *entry) {
    const sl_dims *shape = &entry->type.shape;
    sl_tensor_share share = {.count = 1, .rows = 1, .cols = shape->dims[shape->rank - 1]};
    if (shape->rank > 1) share.rows = shape->dims[shape->rank - 2];
    share.count = (uint64_t)(sl_type_elements(&entry->type) / (share.rows * share.cols));
    return share;
}

uint64_t sl_source_loading_bytes(const sl_tensor_entry *entry) {
    if (!entry->form) return 0;
    return raw_bytes(entry, entry->order ? 1 : first_share(entry).count);
}

/* Reads and converts all matrices of a tensor. */
static sl_status read_tensor(const sl_source *source, const sl_tensor_entry *entry, uint8_t *out,
                             sl_error *err) {
    if (!entry->form) {
        SL_TRY(read_extent(source, &entry->at, out, err));
        return sl_source_check(source, entry, out, err);
    }
    sl_tensor_share share = first_share(entry);
    if (entry->order) return convert_ordered(source, entry, &share, out, err);
    const uint64_t each = sl_type_bytes(&entry->type) / share.count;
    for (; share.index < share.count; share.index++)
        SL_TRY(sl_source_matrix(source, entry, &share, out + share.index * each, err));
    return SL_OK;
}

sl_status sl_source_load(sl_source *source, const sl_tensor_entry *entry, const void **out,
                         sl_error *err) {
    const sl_tensor_entry *own = sl_source_find(source, entry->name);
    if (!own) return sl_fail(err, SL_INVALID, "the source has no tensor '%s'", entry->name);
    void **loaded = &source->loaded[own - source->tensors];
    if (!*loaded) {
        const uint64_t bytes = sl_type_bytes(&own->type);
        assert(own->form || own->at.bytes == bytes); /* checked by every format */
        uint8_t *data = sl_resize(&source->allocator, NULL, 0, bytes, DATA_ALIGNMENT);
        if (!data) return sl_no_memory(err, own->name, bytes);
        const sl_status status = read_tensor(source, own, data, err);
        if (status != SL_OK) {
            sl_release(&source->allocator, data, bytes, DATA_ALIGNMENT);
            return status;
        }
        *loaded = data;
    }
    *out = *loaded;
    return SL_OK;
}

const sl_expert_blocks *sl_source_expert_blocks(const sl_source *source, uint32_t layer) {
    return layer < source->layer_count ? source->layers[layer] : NULL;
}

const char *sl_source_text(const sl_source *source, const char *name, size_t *out_bytes) {
    for (const sl_source_text_entry *entry = source->texts; entry; entry = entry->next) {
        if (strcmp(entry->name, name) != 0) continue;
        if (out_bytes) *out_bytes = entry->bytes;
        return entry->text;
    }
    return NULL;
}

void sl_source_release_tokenizer(sl_source *source) {
    sl_source_text_entry **link = &source->texts;
    while (*link && strcmp((*link)->name, tokenizer_name) != 0) link = &(*link)->next;
    if (*link) *link = (*link)->next;
    sl_arena_deinit(&source->tokenizer);
}
