#include "engine/models/weights.h"
#include "core/codec.h"
#include "engine/formats/names.h"
#include "engine/models/gather.h"
#include <string.h>

void sl_weights_init(sl_weights *weights, sl_source *source, const sl_allocator *allocator) {
    *weights = (sl_weights){.source = source};
    sl_arena_init(&weights->arena, allocator);
}

void sl_weights_fake(sl_weights *weights, const sl_allocator *allocator) {
    sl_weights_init(weights, NULL, allocator);
    weights->imagined = true;
}

void sl_weights_deinit(sl_weights *weights) {
    sl_load_deinit(&weights->load);
    sl_arena_deinit(&weights->arena);
}

const sl_weight *sl_weights_find(const sl_weights *weights, const char *name) {
    uint32_t found;
    return sl_names_find(&weights->names, name, &found) ? &weights->items[found] : NULL;
}

static sl_dims without_ones(const sl_dims *dims) {
    sl_dims out = {0};
    for (uint32_t i = 0; i < dims->rank; i++)
        if (dims->dims[i] != 1) out.dims[out.rank++] = dims->dims[i];
    return out;
}

static sl_status check(const sl_tensor_entry *entry, sl_weight_kind kind, const sl_dims *shape,
                       sl_error *err) {
    char found[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
    const sl_dtype_info *info = &sl_dtype_infos[entry->type.dtype];
    const bool usable =
        info->kind == SL_KIND_FLOAT || (info->kind == SL_KIND_PANEL && kind == SL_WEIGHT_MATRIX);
    const sl_dims a =
        kind == SL_WEIGHT_VECTOR ? without_ones(&entry->type.shape) : entry->type.shape;
    const sl_dims b = kind == SL_WEIGHT_VECTOR ? without_ones(shape) : *shape;
    if (usable && sl_dims_equal(&a, &b)) return SL_OK;
    const sl_type want = {SL_DTYPE_f32, *shape};
    return sl_fail(err, SL_FORMAT, "tensor '%s' is %s, wanted %s in %s", entry->name,
                   sl_type_format(&entry->type, found, sizeof found),
                   strchr(sl_type_format(&want, wanted, sizeof wanted), '['),
                   kind == SL_WEIGHT_MATRIX ? "a float or quantised type" : "a float type");
}

static sl_status convert(sl_weights *weights, const sl_tensor_entry *entry, const void *bytes,
                         const void **out, sl_error *err) {
    const int64_t count = sl_type_elements(&entry->type);
    float *values = sl_arena_array(&weights->arena, (size_t)count, sizeof *values, 64);
    if (!values) return sl_no_memory(err, entry->name, (uint64_t)count * sizeof *values);
    const size_t each = sl_dtype_infos[entry->type.dtype].bytes;
    for (int64_t i = 0; i < count; i++) {
        double value;
        sl_decode_f64(entry->type.dtype, (const char *)bytes + (size_t)i * each, 1, &value);
        values[i] = (float)value;
    }
    weights->converted_bytes += (uint64_t)count * sizeof *values;
    *out = values;
    return SL_OK;
}

static sl_status append(sl_weights *weights, sl_weight item, const sl_weight **out, sl_error *err) {
    if (weights->count == weights->capacity) {
        const uint32_t capacity = weights->capacity ? weights->capacity * 2 : 64;
        sl_weight *items = SL_ARENA_NEW_ARRAY(&weights->arena, sl_weight, capacity);
        if (!items || !sl_names_init(&weights->names, capacity, &weights->arena))
            return sl_no_memory(err, "the weight table", capacity * sizeof *items);
        for (uint32_t i = 0; i < weights->count; i++) {
            items[i] = weights->items[i];
            (void)sl_names_add(&weights->names, items[i].name, i);
        }
        weights->items = items;
        weights->capacity = capacity;
    }
    item.name = sl_arena_copy_text(&weights->arena, item.name, strlen(item.name));
    if (!item.name) return sl_no_memory(err, "a weight's name", 0);
    (void)sl_names_add(&weights->names, item.name, weights->count);
    weights->items[weights->count] = item;
    *out = &weights->items[weights->count++];
    return SL_OK;
}

static sl_status find(sl_weights *weights, const sl_weight_request *request,
                      const sl_tensor_entry *entry, sl_weight *weight, sl_error *err) {
    SL_TRY(check(entry, request->kind, &request->shape, err));
    weight->type = (sl_type){entry->type.dtype, request->shape};
    if (request->kind == SL_WEIGHT_VECTOR) weight->type.dtype = SL_DTYPE_f32;
    if (weights->unread) return SL_OK;
    if (request->kind == SL_WEIGHT_MATRIX && weights->load.reader && !entry->form)
        SL_TRY(sl_load_tensor(&weights->load, entry, &weight->data, err));
    if (!weight->data) SL_TRY(sl_source_map(weights->source, entry, &weight->data, err));
    if (request->kind == SL_WEIGHT_VECTOR)
        return convert(weights, entry, weight->data, &weight->data, err);
    if (entry->form)
        weights->converted_bytes += sl_type_bytes(&entry->type);
    else
        weights->matrix_bytes += entry->at.bytes;
    return SL_OK;
}

sl_status sl_weights_get(sl_weights *weights, const sl_weight_request *request,
                         const sl_weight **out, sl_error *err) {
    *out = sl_weights_find(weights, request->name);
    if (*out) return SL_OK;
    sl_weight weight = {.name = request->name};
    if (weights->imagined) {
        const bool matrix = request->kind == SL_WEIGHT_MATRIX;
        weight.type = (sl_type){matrix ? SL_DTYPE_q4 : SL_DTYPE_f32, request->shape};
        return append(weights, weight, out, err);
    }
    const sl_tensor_entry *entry = sl_model_tensor(weights->source, request->name);
    const sl_tensor_entry *other = NULL; /* which some files have besides */
    if (request->otherwise) other = sl_model_tensor(weights->source, request->otherwise->from);
    if (entry)
        SL_TRY(find(weights, request, entry, &weight, err));
    else if (other)
        SL_TRY(sl_weight_gather_rows(weights, request, other, &weight, err));
    else
        return sl_model_tensor_missing(weights->source, request->name, err);
    return append(weights, weight, out, err);
}
