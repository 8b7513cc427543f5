/* gguf_source.c - A GGUF file as a source: its tensors under the names that the models use, and its
 * metadata as the text files of a Hugging Face model. */
#include "engine/formats/gguf.h"
#include "engine/formats/source_internal.h"
#include <string.h>

typedef struct {
    sl_source *source;
    const sl_gguf *gguf;
    const sl_gguf_architecture *architecture;
    uint32_t layers; /* later layers are not run */
    sl_error *err;
} opening;

static sl_status no_memory(const opening *o, const char *name) {
    return sl_no_memory(o->err, name, 0);
}

/* The reason why a tensor cannot be used, or NULL. */
static sl_status refuse(const opening *o, const sl_gguf_tensor *tensor, const sl_gguf_name *row,
                        const char **out_why) {
    char known[SL_GGUF_LIST_BYTES];
    sl_arena *arena = &o->source->arena;
    const bool is_vector = tensor->shape.rank == 1 && !(row && row->is_row);
    *out_why = NULL;
    if (!tensor->type->known)
        *out_why = sl_arena_format(arena, "'%s' has type %s, wanted one of %s", tensor->name,
                                   tensor->type->name, sl_gguf_types_known(known, sizeof known));
    else if (is_vector && tensor->type->form)
        *out_why = sl_arena_format(arena, "'%s' is a vector of type %s, wanted F32, F16 or BF16",
                                   tensor->name, tensor->type->name);
    else if (row && row->form && (tensor->type->form || tensor->type->dtype != SL_DTYPE_f32))
        *out_why = sl_arena_format(arena, "'%s' has type %s, wanted F32", tensor->name,
                                   tensor->type->name);
    else
        return SL_OK;
    return *out_why ? SL_OK : no_memory(o, tensor->name);
}

/* Sets the row order of an entry.  *out_why: set if the number of rows is invalid. */
static sl_status set_order(const opening *o, const sl_gguf_tensor *tensor, sl_gguf_rows rows,
                           sl_tensor_entry *entry, const char **out_why) {
    int64_t count = 0;
    SL_TRY(sl_gguf_order_rows(o->gguf, tensor, rows, &o->source->arena, &entry->order, &count,
                              o->err));
    if (!entry->order) {
        *out_why = sl_arena_format(&o->source->arena,
                                   "'%s' has %lld rows, which do not divide into the heads that "
                                   "the metadata gives",
                                   tensor->name, (long long)tensor->shape.dims[0]);
        return *out_why ? SL_OK : no_memory(o, tensor->name);
    }
    entry->type.shape.dims[0] = count;
    if (!entry->form) entry->form = sl_gguf_plain_form(entry->type.dtype);
    return SL_OK;
}

/* Adds one tensor under one of its names. */
static sl_status add_tensor(const opening *o, const sl_gguf_tensor *tensor, const sl_gguf_name *row,
                            const char *name) {
    sl_source *source = o->source;
    const char *why = NULL;
    sl_tensor_entry entry = {.name = name,
                             .type = {tensor->type->dtype, tensor->shape},
                             .at = {tensor->file, tensor->offset, tensor->bytes},
                             .form = tensor->type->form};
    if (!name) return no_memory(o, tensor->name);
    SL_TRY(refuse(o, tensor, row, &why));
    if (!why && row && row->form) entry.form = row->form;
    if (!why && row && row->rows) SL_TRY(set_order(o, tensor, row->rows, &entry, &why));
    if (row && row->is_row && tensor->shape.rank == 1)
        entry.type.shape = (sl_dims){2, {1, tensor->shape.dims[0]}};
    if (why)
        source->skipped[source->skipped_count++] =
            (sl_safetensors_skipped){.name = name, .why = why};
    else
        source->tensors[source->tensor_count++] = entry;
    return SL_OK;
}

/* Adds a tensor under all its names.  Without a row it keeps its own name; tensors of layers that
 * are not run are named as parts of the multi-token prediction head. */
static sl_status add_names(const opening *o, const sl_gguf_tensor *tensor) {
    sl_arena *arena = &o->source->arena;
    uint32_t layer = 0;
    const char *suffix = sl_gguf_layer_suffix(tensor->name, &layer);
    const char *rest = suffix ? suffix : tensor->name;
    const sl_gguf_name *row = NULL;
    bool found = false;
    if (suffix && layer >= o->layers)
        return add_tensor(o, tensor, NULL, sl_arena_format(arena, "mtp.%s", tensor->name));
    while ((row = sl_gguf_name_next(o->architecture, rest, suffix != NULL, row)) != NULL) {
        const char *name =
            suffix ? sl_arena_format(arena, "model.layers.%u.%s", layer, row->name) : row->name;
        SL_TRY(add_tensor(o, tensor, row, name));
        found = true;
    }
    return found ? SL_OK : add_tensor(o, tensor, NULL, tensor->name);
}

static sl_status add_tensors(const opening *o) {
    enum { MOST_NAMES = 2 }; /* names of one tensor */
    sl_source *source = o->source;
    const uint32_t most = o->gguf->tensor_count * MOST_NAMES;
    SL_TRY(sl_source_set_tensors(source, most, most, o->err));
    source->tensor_count = source->skipped_count = 0;
    for (uint32_t i = 0; i < o->gguf->tensor_count; i++) SL_TRY(add_names(o, &o->gguf->tensors[i]));
    const sl_status status = sl_source_index_names(source, o->err);
    return status == SL_OK ? SL_OK : sl_fail_in(o->err, status, "%s", o->gguf->what);
}

static sl_status fill(opening *o, sl_gguf *gguf) {
    sl_source *source = o->source;
    sl_gguf_text config = {0};
    SL_TRY(sl_gguf_architecture_find(gguf, &o->architecture, o->err));
    gguf->architecture = o->architecture->name;
    SL_TRY(sl_gguf_config(gguf, o->architecture, &source->arena, &config, &o->layers, o->err));
    SL_TRY(sl_source_add_text(source, "config.json", config.data, config.bytes, o->err));
    SL_TRY(sl_gguf_add_texts(gguf, source, o->err));
    return add_tensors(o);
}

sl_status sl_source_open_gguf(sl_source *source, const char *path, sl_error *err) {
    sl_gguf gguf;
    opening o = {.source = source, .gguf = &gguf, .err = err};
    source->format = "gguf";
    SL_TRY(sl_gguf_open_parts(source, path, &gguf, err));
    const sl_status status = fill(&o, &gguf);
    sl_gguf_release(&gguf, &source->allocator);
    return status;
}
