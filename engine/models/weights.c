#include "engine/models/weights.h"
#include "core/codec.h"
#include "engine/formats/names.h"
#include "engine/models/gather.h"
#include <stdlib.h>
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

static sl_status grow(sl_weights *weights, sl_error *err) {
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
    return SL_OK;
}

static sl_status append(sl_weights *weights, sl_weight item, const sl_weight **out, sl_error *err) {
    if (weights->count == weights->capacity) SL_TRY(grow(weights, err));
    item.name = sl_arena_copy_text(&weights->arena, item.name, strlen(item.name));
    if (!item.name) return sl_no_memory(err, "a weight's name", 0);
    (void)sl_names_add(&weights->names, item.name, weights->count);
    weights->items[weights->count] = item;
    *out = &weights->items[weights->count++];
    return SL_OK;
}

/* A copy of the gathering that lives as long as the weights; NULL: no memory. */
static sl_weight_gather *keep_gather(sl_weights *weights, const sl_weight_gather *gather) {
    sl_weight_gather *copy = SL_ARENA_NEW(&weights->arena, sl_weight_gather);
    if (copy) *copy = *gather;
    return copy;
}

sl_status sl_weights_get(sl_weights *weights, const sl_weight_request *request,
                         const sl_weight **out, sl_error *err) {
    *out = sl_weights_find(weights, request->name);
    if (*out) return SL_OK;
    const bool matrix = request->kind == SL_WEIGHT_MATRIX;
    sl_weight weight = {.name = request->name,
                        .kind = request->kind,
                        .type = {matrix ? SL_DTYPE_q4 : SL_DTYPE_f32, request->shape}};
    if (weights->imagined) return append(weights, weight, out, err);
    const sl_weight_gather *otherwise = request->otherwise;
    weight.entry = sl_model_tensor(weights->source, request->name);
    if (weight.entry) {
        SL_TRY(check(weight.entry, request->kind, &request->shape, err));
        if (matrix) weight.type.dtype = weight.entry->type.dtype;
        return append(weights, weight, out, err);
    }
    /* Files may have several weights as one tensor. */
    if (otherwise) weight.entry = sl_model_tensor(weights->source, otherwise->from);
    if (!weight.entry) return sl_model_tensor_missing(weights->source, request->name, err);
    weight.gather = keep_gather(weights, otherwise);
    if (!weight.gather) return sl_no_memory(err, request->name, sizeof *otherwise);
    SL_TRY(sl_weight_gather_type(weights, &weight, err));
    return append(weights, weight, out, err);
}

/* ---- reading ---- */

/* The f32 form of a vector, whose stored bytes are not needed any more. */
static sl_status read_vector(sl_weights *weights, sl_weight *weight, sl_error *err) {
    const sl_tensor_entry *entry = weight->entry;
    const int64_t count = sl_type_elements(&entry->type);
    const size_t each = sl_dtype_infos[entry->type.dtype].bytes;
    const void *bytes;
    float *values = sl_arena_array(&weights->arena, (size_t)count, sizeof *values, 64);
    if (!values) return sl_no_memory(err, entry->name, (uint64_t)count * sizeof *values);
    SL_TRY(sl_source_load(weights->source, entry, &bytes, err));
    for (int64_t i = 0; i < count; i++) {
        double value;
        sl_decode_f64(entry->type.dtype, (const char *)bytes + (size_t)i * each, 1, &value);
        values[i] = (float)value;
    }
    sl_source_unload(weights->source, entry);
    weight->data = values;
    return SL_OK;
}

static void drop_gathered(sl_weights *weights) {
    if (weights->gathered) sl_source_unload(weights->source, weights->gathered);
    weights->gathered = NULL;
}

/* Weights that are parts of one tensor follow each other, so it is loaded once. */
static sl_status read_gathered(sl_weights *weights, sl_weight *weight, sl_error *err) {
    const void *from;
    if (weights->gathered != weight->entry) drop_gathered(weights);
    SL_TRY(sl_source_load(weights->source, weight->entry, &from, err));
    weights->gathered = weight->entry;
    return sl_weight_gather_rows(weights, weight, from, err);
}

static sl_status read_weight(sl_weights *weights, sl_weight *weight, sl_error *err) {
    if (weight->data) return SL_OK;
    if (weight->gather) return read_gathered(weights, weight, err);
    if (weight->kind == SL_WEIGHT_VECTOR) return read_vector(weights, weight, err);
    if (weights->load.reader && !weight->entry->form)
        return sl_load_tensor(&weights->load, weight->entry, &weight->data, err);
    return sl_source_load(weights->source, weight->entry, &weight->data, err);
}

/* What reading a weight takes beside its own memory. */
static uint64_t beside(const sl_weight *weight) {
    const uint64_t stored = sl_type_bytes(&weight->entry->type);
    const uint64_t bytes = sl_source_loading_bytes(weight->entry);
    if (weight->gather) return bytes + stored + sl_weight_gather_bytes(weight);
    return weight->kind == SL_WEIGHT_VECTOR ? bytes + stored : bytes;
}

static int by_memory(const void *a, const void *b) {
    const sl_weight *x = *(const sl_weight *const *)a, *y = *(const sl_weight *const *)b;
    const uint64_t left = beside(x), right = beside(y);
    if (left != right) return left < right ? 1 : -1;
    return (x > y) - (x < y);
}

/* Weights whose conversion takes most memory are read first, while others have none yet; of those
 * that take none, in the order of the model.  NULL: no memory. */
static sl_weight **reading_order(sl_weights *weights) {
    sl_weight **order = SL_ARENA_NEW_ARRAY(&weights->arena, sl_weight *, weights->count + 1);
    for (uint32_t i = 0; order && i < weights->count; i++) order[i] = &weights->items[i];
    if (order) qsort(order, weights->count, sizeof(sl_weight *), by_memory);
    return order;
}

sl_status sl_weights_read(sl_weights *weights, sl_error *err) {
    sl_status status = SL_OK;
    sl_weight **order = reading_order(weights);
    if (!order) return sl_no_memory(err, "the weight table", weights->count);
    for (uint32_t i = 0; i < weights->count && status == SL_OK; i++)
        status = read_weight(weights, order[i], err);
    drop_gathered(weights);
    return status;
}

uint64_t sl_weights_bytes(const sl_weights *weights) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < weights->count; i++) bytes += sl_type_bytes(&weights->items[i].type);
    return bytes;
}

uint64_t sl_weights_loading_bytes(sl_weights *weights) {
    const uint64_t all = sl_weights_bytes(weights);
    uint64_t loaded = 0, most = 0;
    sl_weight **order = weights->imagined ? NULL : reading_order(weights);
    for (uint32_t i = 0; order && i < weights->count; i++) {
        loaded += sl_type_bytes(&order[i]->type);
        const uint64_t bytes = loaded + beside(order[i]);
        if (bytes > most) most = bytes;
    }
    return most > all ? most - all : 0;
}
