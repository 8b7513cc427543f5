#include "api/storage.h"
#include "base/names.h"
#include "core/codec.h"
#include <string.h>

enum { ALIGNMENT = SL_BIND_ALIGNMENT };

/* ---- memory ---- */

void sl_tensor_init(sl_tensor *tensor, const sl_value_info *value) {
    *tensor = (sl_tensor){.name = value->name, .type = value->type, .kind = value->kind};
}

static bool is_on_device(const sl_tensor *tensor, const sl_executor *executor) {
    return tensor->kind == SL_VALUE_STATE && executor->device;
}
static bool is_in_doubles(const sl_tensor *tensor, const sl_executor *executor) {
    return tensor->kind == SL_VALUE_STATE && !executor->device;
}

/* Empty tensors have an address too. */
static uint64_t memory_bytes(const sl_tensor *tensor, const sl_executor *executor) {
    const uint64_t bytes = is_in_doubles(tensor, executor)
                               ? (uint64_t)sl_type_slots(&tensor->type) * sizeof(double)
                               : sl_type_bytes(&tensor->type);
    return bytes ? bytes : 1;
}

/* Zeros, piece by piece. */
static sl_status clear_state(const sl_tensor *tensor, const sl_executor *executor, sl_error *err) {
    enum { PIECE = 1 << 20 };
    const uint64_t bytes = memory_bytes(tensor, executor);
    const uint64_t most = bytes < PIECE ? bytes : PIECE;
    sl_status status = SL_OK;
    void *zeros = sl_allocate(executor->allocator, most, ALIGNMENT);
    if (!zeros) return sl_no_memory(err, tensor->name, most);
    for (uint64_t at = 0; at < bytes && status == SL_OK; at += most) {
        const uint64_t left = bytes - at;
        status = executor->device->ops->copy_in(executor->device, (char *)tensor->data + at, zeros,
                                                left < most ? left : most, err);
    }
    sl_release(executor->allocator, zeros, most, ALIGNMENT);
    return status;
}

sl_status sl_tensor_ready(sl_tensor *tensor, const sl_executor *executor, sl_error *err) {
    const uint64_t bytes = memory_bytes(tensor, executor);
    sl_device *device = executor->device;
    if (tensor->data) return SL_OK;
    if (is_on_device(tensor, executor))
        tensor->data = device->ops->allocate(device, bytes);
    else
        tensor->data = sl_allocate(executor->allocator, bytes, ALIGNMENT);
    if (!tensor->data) return sl_no_memory(err, tensor->name, bytes);
    tensor->version++;
    const sl_status status =
        is_on_device(tensor, executor) ? clear_state(tensor, executor, err) : SL_OK;
    if (status != SL_OK) sl_tensor_release(tensor, executor);
    return status;
}

void sl_tensor_hold(sl_tensor *tensor, const sl_executor *executor) {
    const sl_device_ops *ops = executor->device->ops;
    if (tensor->held || tensor->kind != SL_VALUE_WEIGHT || !ops->hold_weight) return;
    ops->hold_weight(executor->device, tensor->data, sl_type_bytes(&tensor->type), true);
    tensor->held = true;
}

void sl_tensor_release(sl_tensor *tensor, const sl_executor *executor) {
    sl_device *device = executor->device;
    if (tensor->held)
        device->ops->hold_weight(device, tensor->data, sl_type_bytes(&tensor->type), false);
    if (tensor->data && !tensor->given) {
        const uint64_t bytes = memory_bytes(tensor, executor);
        if (is_on_device(tensor, executor))
            device->ops->release(device, tensor->data, bytes);
        else
            sl_release(executor->allocator, tensor->data, bytes, ALIGNMENT);
    }
    tensor->data = NULL;
    tensor->given = tensor->held = false;
    tensor->version++;
}

/* A copy on the device that another tensor holds may be older than what is in the memory now. */
sl_status sl_tensor_give(sl_tensor *tensor, const sl_executor *executor, void *data,
                         sl_error *err) {
    sl_tensor_release(tensor, executor);
    tensor->data = data;
    tensor->given = data != NULL;
    atomic_store_explicit(&tensor->is_set, data != NULL, memory_order_release);
    if (!data || !executor->device || tensor->kind != SL_VALUE_WEIGHT) return SL_OK;
    return executor->device->ops->weight_changed(executor->device, data, 0,
                                                 sl_type_bytes(&tensor->type), err);
}

/* ---- reading and writing ---- */

sl_status sl_tensor_check(const char *name, const sl_type *type, const sl_tensor_range *range,
                          sl_error *err) {
    const uint64_t room = sl_type_bytes(type);
    char text[SL_TYPE_TEXT];
    if (range->offset <= room && range->bytes <= room - range->offset) return SL_OK;
    return sl_fail(err, SL_INVALID, "'%s' is %s of %llu bytes, which has no %llu bytes at %llu",
                   name, sl_type_format(type, text, sizeof text), (unsigned long long)room,
                   (unsigned long long)range->bytes, (unsigned long long)range->offset);
}

/* Of a state in doubles: its elements are converted one by one. */
static sl_status copy_doubles(const sl_tensor *tensor, const sl_tensor_range *range,
                              sl_error *err) {
    const sl_type *type = &tensor->type;
    const uint64_t each = sl_dtype_infos[type->dtype].bytes;
    int64_t first = 0, count = sl_type_elements(type);
    if (range->offset || range->bytes != sl_type_bytes(type)) {
        if (!each || range->offset % each || range->bytes % each)
            return sl_fail(err, SL_INVALID,
                           "'%s': %llu bytes at %llu are not whole elements of %s, as the device "
                           "'ref' needs them",
                           tensor->name, (unsigned long long)range->bytes,
                           (unsigned long long)range->offset, sl_dtype_infos[type->dtype].name);
        first = (int64_t)(range->offset / each);
        count = (int64_t)(range->bytes / each);
    }
    if (!count) return SL_OK;
    double *slots = (double *)tensor->data + first * (sl_type_slots(type) / sl_type_elements(type));
    if (range->from)
        sl_decode_f64(type->dtype, range->from, count, slots);
    else
        sl_encode_f64(type->dtype, slots, count, range->to);
    return SL_OK;
}

sl_status sl_tensor_write(sl_tensor *tensor, const sl_executor *executor,
                          const sl_tensor_range *range, sl_error *err) {
    sl_device *device = executor->device;
    SL_TRY(sl_tensor_check(tensor->name, &tensor->type, range, err));
    SL_TRY(sl_tensor_ready(tensor, executor, err));
    char *to = (char *)tensor->data + range->offset;
    if (is_in_doubles(tensor, executor))
        SL_TRY(copy_doubles(tensor, range, err));
    else if (is_on_device(tensor, executor) && range->bytes)
        SL_TRY(device->ops->copy_in(device, to, range->from, range->bytes, err));
    else if (range->bytes)
        memcpy(to, range->from, range->bytes);
    atomic_store_explicit(&tensor->is_set, true, memory_order_release);
    if (!device || tensor->kind != SL_VALUE_WEIGHT || !range->bytes) return SL_OK;
    return device->ops->weight_changed(device, tensor->data, range->offset, range->bytes, err);
}

sl_status sl_tensor_read(sl_tensor *tensor, const sl_executor *executor,
                         const sl_tensor_range *range, sl_error *err) {
    sl_device *device = executor->device;
    SL_TRY(sl_tensor_check(tensor->name, &tensor->type, range, err));
    SL_TRY(sl_tensor_ready(tensor, executor, err));
    const char *from = (const char *)tensor->data + range->offset;
    if (is_in_doubles(tensor, executor)) return copy_doubles(tensor, range, err);
    if (!range->bytes) return SL_OK;
    if (is_on_device(tensor, executor))
        return device->ops->copy_out(device, range->to, from, range->bytes, err);
    memcpy(range->to, from, range->bytes);
    return SL_OK;
}

/* ---- sets ---- */

struct sl_storage {
    sl_executor *executor;
    sl_arena arena;
    sl_tensor *first;
    uint32_t count;
    atomic_uint holders;
};

sl_status sl_storage_create(sl_executor *executor, sl_storage **out, sl_error *err) {
    sl_storage *storage = sl_allocate(executor->allocator, sizeof *storage, _Alignof(sl_storage));
    if (!storage) return sl_no_memory(err, "weights and states", sizeof *storage);
    storage->executor = sl_executor_take(executor);
    sl_arena_init(&storage->arena, executor->allocator);
    atomic_init(&storage->holders, 1);
    *out = storage;
    return SL_OK;
}

sl_storage *sl_storage_take(sl_storage *storage) {
    atomic_fetch_add(&storage->holders, 1);
    return storage;
}

sl_executor *sl_storage_executor(const sl_storage *storage) {
    return storage->executor;
}

void sl_storage_release(sl_storage *storage) {
    if (!storage || atomic_fetch_sub(&storage->holders, 1) > 1) return;
    sl_executor *executor = storage->executor;
    sl_queue_enter(executor->queue);
    for (sl_tensor *t = storage->first; t; t = t->next) sl_tensor_release(t, executor);
    sl_queue_leave(executor->queue);
    sl_arena_deinit(&storage->arena);
    sl_release(executor->allocator, storage, sizeof *storage, _Alignof(sl_storage));
    sl_executor_destroy(executor);
}

static bool is_shared(const sl_value_info *value) {
    return value->kind == SL_VALUE_WEIGHT || value->kind == SL_VALUE_STATE;
}

static sl_status check_same(const sl_tensor *tensor, const sl_value_info *value, sl_error *err) {
    static const char *const kinds[] = {[SL_VALUE_WEIGHT] = "weight", [SL_VALUE_STATE] = "state"};
    char found[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
    if (tensor->kind == value->kind && sl_type_equal(&tensor->type, &value->type)) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s '%s' is %s, but the shared %s of this name is %s",
                   kinds[value->kind], value->name,
                   sl_type_format(&value->type, found, sizeof found), kinds[tensor->kind],
                   sl_type_format(&tensor->type, wanted, sizeof wanted));
}

static sl_status add_tensor(sl_storage *storage, const sl_value_info *value, sl_tensor **out,
                            sl_error *err) {
    sl_tensor *tensor = SL_ARENA_NEW(&storage->arena, sl_tensor);
    const char *name = sl_arena_copy_text(&storage->arena, value->name, strlen(value->name));
    if (!tensor || !name) return sl_no_memory(err, value->name, sizeof *tensor);
    sl_tensor_init(tensor, value);
    tensor->name = name;
    tensor->next = storage->first;
    storage->first = tensor;
    storage->count++;
    *out = tensor;
    return SL_OK;
}

/* scratch: of a table of the tensors that are there. */
static sl_status join(sl_storage *storage, const sl_graph *graph, sl_tensor **tensors,
                      sl_arena *scratch, sl_error *err) {
    const uint32_t count = storage->count;
    sl_tensor **known = SL_ARENA_NEW_ARRAY(scratch, sl_tensor *, (size_t)count + 1);
    sl_names names;
    uint32_t at = 0;
    if (!known || !sl_names_init(&names, count, scratch))
        return sl_no_memory(err, "a table of weights and states", count);
    for (sl_tensor *t = storage->first; t; t = t->next) {
        known[at] = t;
        (void)sl_names_add(&names, t->name, at++);
    }
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        if (!is_shared(value)) continue;
        if (sl_names_find(&names, value->name, &at)) {
            SL_TRY(check_same(known[at], value, err));
            tensors[v] = known[at];
        } else {
            SL_TRY(add_tensor(storage, value, &tensors[v], err));
        }
    }
    return SL_OK;
}

sl_status sl_storage_join(sl_storage *storage, const sl_graph *graph, sl_tensor **tensors,
                          sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, storage->executor->allocator);
    sl_queue_enter(storage->executor->queue);
    const sl_status status = join(storage, graph, tensors, &scratch, err);
    sl_queue_leave(storage->executor->queue);
    sl_arena_deinit(&scratch);
    return status;
}
