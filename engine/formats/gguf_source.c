/* gguf_source.c - A GGUF file as a source: its tensors under the names that the models ask for, its
 * metadata as the texts that come with a Hugging Face model. */
#include "engine/formats/gguf.h"
#include "engine/formats/json.h"
#include "engine/formats/source_internal.h"
#include <stdlib.h>
#include <string.h>

enum { HEADER_READ_AHEAD_BYTES = 1 << 24 };

static const sl_gguf_architecture *const architectures[] = {&sl_gguf_qwen35moe};
enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

/* ARCHITECTURE_COUNT when there is none of that name. */
static int find_architecture(sl_gguf_text name) {
    int i = 0;
    while (i < ARCHITECTURE_COUNT && !sl_gguf_text_is(name, architectures[i]->name)) i++;
    return i;
}

static sl_status unknown_architecture(const sl_gguf *gguf, sl_gguf_text name, sl_error *err) {
    char found[65] = "", known[SL_GGUF_LIST_BYTES] = "";
    size_t length = 0;
    for (int i = 0; i < ARCHITECTURE_COUNT; i++)
        length = sl_gguf_list(known, sizeof known, length, architectures[i]->name);
    memcpy(found, name.data, name.bytes < 64 ? name.bytes : 64);
    return sl_fail(err, SL_UNSUPPORTED, "%s: architecture '%s' is not supported; supported: %s",
                   gguf->what, sl_json_name_fits(found) ? found : "?", known);
}

static sl_status check_whole(const sl_gguf *gguf, sl_error *err) {
    uint64_t parts = 1;
    SL_TRY(sl_gguf_get_count(gguf, "split.count", &parts, err));
    if (parts <= 1) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED,
                   "%s: one of %llu files; only models in a single file are read", gguf->what,
                   (unsigned long long)parts);
}

/* "blk.12.attn_q.weight" -> 12 and "attn_q.weight"; NULL when it is no layer's. */
static const char *layer_suffix(const char *name, unsigned *layer) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return NULL;
    char *end;
    const unsigned long number = strtoul(name + 4, &end, 10);
    if (*end != '.' || number > 65535) return NULL;
    *layer = (unsigned)number;
    return end + 1;
}

static const sl_gguf_name *find_name(const sl_gguf_name *names, const char *suffix) {
    for (; names->suffix; names++)
        if (strcmp(names->suffix, suffix) == 0) return names;
    return NULL;
}

/* The row of a tensor and the name that models know it by; one without a row keeps its own. */
static sl_status translate(const sl_gguf_architecture *architecture, const char *name,
                           sl_arena *arena, const sl_gguf_name **row, const char **out,
                           sl_error *err) {
    unsigned layer = 0;
    const char *suffix = layer_suffix(name, &layer);
    *row = suffix ? find_name(architecture->layered, suffix) : find_name(architecture->whole, name);
    *out = name;
    if (*row && suffix)
        *out = sl_arena_format(arena, "model.layers.%u.%s", layer, (*row)->name);
    else if (*row)
        *out = (*row)->name;
    return *out ? SL_OK : sl_no_memory(err, name, strlen(name));
}

/* Why a tensor cannot be used, or NULL. */
static sl_status refuse(const sl_gguf_tensor *tensor, const sl_gguf_name *row, sl_arena *arena,
                        const char **out_why, sl_error *err) {
    char known[SL_GGUF_LIST_BYTES];
    const bool is_vector = tensor->shape.rank == 1 && !(row && row->is_row);
    *out_why = NULL;
    if (!tensor->type->known)
        *out_why = sl_arena_format(arena, "'%s' has type %s, wanted one of %s", tensor->name,
                                   tensor->type->name, sl_gguf_types_known(known, sizeof known));
    else if (is_vector && tensor->type->form)
        *out_why = sl_arena_format(arena, "'%s' is a vector of type %s, wanted F32, F16 or BF16",
                                   tensor->name, tensor->type->name);
    else if (row && row->form && tensor->type->dtype != SL_DTYPE_f32)
        *out_why = sl_arena_format(arena, "'%s' has type %s, wanted F32", tensor->name,
                                   tensor->type->name);
    else
        return SL_OK;
    return *out_why ? SL_OK : sl_no_memory(err, tensor->name, 0);
}

static sl_tensor_entry entry_of(const sl_gguf_tensor *tensor, const sl_gguf_name *row,
                                const char *name) {
    sl_tensor_entry entry = {.name = name,
                             .type = {tensor->type->dtype, tensor->shape},
                             .at = {0, tensor->offset, tensor->bytes},
                             .form = tensor->type->form};
    if (row && row->form) entry.form = row->form;
    if (row && row->is_row && tensor->shape.rank == 1)
        entry.type.shape = (sl_dims){2, {1, tensor->shape.dims[0]}};
    return entry;
}

static sl_status add_tensors(sl_source *source, const sl_gguf *gguf,
                             const sl_gguf_architecture *architecture, sl_error *err) {
    SL_TRY(sl_source_set_tensors(source, gguf->tensor_count, gguf->tensor_count, err));
    uint32_t count = 0, skipped = 0;
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        const sl_gguf_tensor *tensor = &gguf->tensors[i];
        const sl_gguf_name *row = NULL;
        const char *name = NULL, *why = NULL;
        SL_TRY(translate(architecture, tensor->name, &source->arena, &row, &name, err));
        SL_TRY(refuse(tensor, row, &source->arena, &why, err));
        if (why)
            source->skipped[skipped++] = (sl_safetensors_skipped){.name = name, .why = why};
        else
            source->tensors[count++] = entry_of(tensor, row, name);
    }
    source->tensor_count = count;
    source->skipped_count = skipped;
    const sl_status status = sl_source_index_names(source, err);
    return status == SL_OK ? SL_OK : sl_fail_in(err, status, "%s", gguf->what);
}

static sl_status add_config(sl_source *source, const sl_gguf *gguf,
                            const sl_gguf_architecture *architecture, sl_error *err) {
    const char *text = NULL;
    size_t bytes = 0;
    SL_TRY(architecture->config(gguf, &source->arena, &text, &bytes, err));
    return sl_source_add_text(source, "config.json", text, bytes, err);
}

sl_status sl_source_open_gguf(sl_source *source, const char *path, sl_error *err) {
    static const char key[] = "general.architecture";
    sl_gguf gguf;
    sl_gguf_text name = {0};
    source->format = "gguf";
    SL_TRY(sl_source_set_files(source, 1, err));
    SL_TRY(sl_source_map_file(source, 0, path, err));
    const sl_file_map *map = &source->files[0].map;
    sl_file_read_ahead(map->data,
                       map->bytes < HEADER_READ_AHEAD_BYTES ? map->bytes : HEADER_READ_AHEAD_BYTES);
    SL_TRY(sl_gguf_parse(sl_file_name(source->files[0].path), map->data, map->bytes, &source->arena,
                         &gguf, err));
    SL_TRY(check_whole(&gguf, err));
    SL_TRY(sl_gguf_get_text(&gguf, key, &name, err));
    if (!name.data) return sl_gguf_missing(&gguf, key, err);
    const int found = find_architecture(name);
    if (found == ARCHITECTURE_COUNT) return unknown_architecture(&gguf, name, err);
    const sl_gguf_architecture *architecture = architectures[found];
    SL_TRY(add_config(source, &gguf, architecture, err));
    SL_TRY(sl_gguf_add_texts(&gguf, source, err));
    return add_tensors(source, &gguf, architecture, err);
}
