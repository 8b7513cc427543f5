/* hf_tensors.c - From the tensors of a folder's shards to the entries of a source: schemes define
 * how each is stored, views map it to the names of models.  No tensor bytes are read here. */
#include "engine/formats/hf.h"
#include "engine/formats/names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sl_hf_scheme *const schemes[] = {sl_hf_mlx, sl_hf_fp8, sl_hf_mxfp4};
enum { SCHEME_COUNT = sizeof schemes / sizeof schemes[0], NAME_BYTES = 512 };

bool sl_hf_ends_with(const char *name, const char *ending) {
    const size_t length = strlen(name), bytes = strlen(ending);
    return length >= bytes && strcmp(name + length - bytes, ending) == 0;
}

bool sl_hf_is(const sl_hf_tensor *tensor, const char *element) {
    return tensor->element && strcmp(tensor->element, element) == 0;
}

static int compare(const void *key, const void *item) {
    return strcmp(key, ((const sl_hf_tensor *)item)->name);
}

const sl_hf_tensor *sl_hf_find(const sl_hf_folder *folder, const char *name) {
    return bsearch(name, folder->tensors, folder->tensor_count, sizeof *folder->tensors, compare);
}

const sl_hf_tensor *sl_hf_beside(const sl_hf_folder *folder, const char *name, const char *ending,
                                 const char *other) {
    char text[NAME_BYTES];
    if (!sl_hf_ends_with(name, ending)) return NULL;
    const int kept = (int)(strlen(name) - strlen(ending));
    const int length = snprintf(text, sizeof text, "%.*s%s", kept, name, other);
    return length > 0 && length < NAME_BYTES ? sl_hf_find(folder, text) : NULL;
}

const char *sl_hf_text(const sl_hf_tensor *tensor) {
    static _Thread_local char texts[4][SL_TYPE_TEXT];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4], dims[SL_TYPE_TEXT];
    const sl_type shown = {SL_DTYPE_f32, tensor->type.shape};
    sl_type_format(&shown, dims, sizeof dims);
    (void)snprintf(text, SL_TYPE_TEXT, "%.16s%.100s", tensor->element ? tensor->element : "?",
                   strchr(dims, '['));
    return text;
}

sl_status sl_hf_check_bytes(const sl_hf_folder *folder, const sl_hf_tensor *tensor,
                            uint32_t element_bytes) {
    const uint64_t wanted = (uint64_t)sl_type_elements(&tensor->type) * element_bytes;
    if (tensor->at.bytes == wanted) return SL_OK;
    return sl_fail(folder->err, SL_FORMAT, "tensor '%s' has %llu bytes, %s needs %llu",
                   tensor->name, (unsigned long long)tensor->at.bytes, sl_hf_text(tensor),
                   (unsigned long long)wanted);
}

/* Vision, audio and multi-token prediction (also as additional layers): never used, so invalid ones
 * are ignored. */
static bool is_foreign(const sl_hf_folder *folder, const char *name) {
    const char *suffix = sl_tensor_suffix(name);
    unsigned long layer = 0;
    if (!suffix) return true;
    if (!folder->layers || strncmp(suffix, "layers.", 7) != 0) return false;
    layer = strtoul(suffix + 7, NULL, 10);
    return layer >= folder->layers;
}

/* A convolution's weights are [C, 1, W] in checkpoints and [C, W, 1] in models that mlx-lm has
 * sanitised. */
static bool is_sanitised(const sl_hf_folder *folder) {
    if (strncmp(folder->model_type, "qwen3_next", 10) != 0 &&
        strncmp(folder->model_type, "qwen3_5", 7) != 0)
        return false;
    for (uint32_t i = 0; i < folder->tensor_count; i++) {
        const sl_dims *shape = &folder->tensors[i].type.shape;
        if (sl_hf_ends_with(folder->tensors[i].name, ".conv1d.weight") && shape->rank == 3)
            return shape->dims[2] == 1 && shape->dims[1] > 1;
    }
    return false;
}

static sl_status skip(sl_hf_folder *folder, const sl_hf_tensor *tensor) {
    const char *why = tensor->why;
    if (sl_hf_is(tensor, "U32") && sl_hf_ends_with(tensor->name, ".weight"))
        why = "it is U32, but has no MLX scales";
    if (sl_hf_is(tensor, "F8_E4M3")) why = "it is F8_E4M3, but has no weight_scale_inv";
    folder->source->skipped[folder->source->skipped_count++] =
        (sl_safetensors_skipped){.name = tensor->name, .why = why};
    return SL_OK;
}

static sl_status add_tensor(sl_hf_folder *folder, const sl_hf_tensor *tensor) {
    const bool ignored = is_foreign(folder, tensor->name) || sl_type_elements(&tensor->type) == 0;
    sl_hf_claim claim = SL_HF_NOT_MINE;
    sl_hf_stored stored = {.name = tensor->name,
                           .code = {.dtype = tensor->type.dtype},
                           .shape = tensor->type.shape,
                           .parts = {tensor->at}};
    for (int i = 0; i < SCHEME_COUNT && claim == SL_HF_NOT_MINE && !ignored; i++)
        SL_TRY(schemes[i](folder, tensor, &claim, &stored));
    if (claim == SL_HF_PART) return SL_OK;
    if (claim == SL_HF_NOT_MINE && tensor->why) return skip(folder, tensor);
    if (stored.shape.rank == 0) stored.shape = (sl_dims){1, {1}};
    uint32_t count = 0;
    SL_TRY(sl_hf_views(folder, &stored, folder->source->tensors + folder->source->tensor_count,
                       &count));
    folder->source->tensor_count += count;
    return SL_OK;
}

/* An upper bound of the number of entries. */
static uint32_t most_entries(const sl_hf_folder *folder) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < folder->tensor_count; i++)
        count += strstr(folder->tensors[i].name, "gate_up_proj") ? SL_HF_MOST_VIEWS : 1;
    return count;
}

sl_status sl_hf_add_tensors(sl_hf_folder *folder) {
    sl_source *source = folder->source;
    const uint32_t count = folder->tensor_count;
    SL_TRY(sl_source_set_tensors(source, most_entries(folder), count, folder->err));
    source->tensor_count = source->skipped_count = 0;
    folder->sanitised = is_sanitised(folder);
    for (uint32_t i = 0; i < count; i++) {
        const sl_hf_tensor *tensor = &folder->tensors[i];
        SL_TRY(add_tensor(folder, tensor));
    }
    return sl_source_index_names(source, folder->err);
}
