/* compiled_memory.c - The memory of a compiled graph's values (sluice/graph.h, sluice/executor.h).
 */
#include "api/compiled.h"
#include "api/needs.h"
#include <string.h>

enum { NONE = UINT32_MAX };

/* NULL if it is no declared value. */
static sl_slot *find_slot(const sl_compiled *c, const char *name) {
    const sl_value id = sl_graph_find(c->graph, name);
    return c->slot_of[id.v] ? &c->slots[c->slot_of[id.v] - 1] : NULL;
}

/* Weights and states are also those of other graphs; an input is only its own. */
static void enter(const sl_compiled *c, const sl_slot *slot) {
    if (slot->tensor->kind != SL_VALUE_INPUT) sl_queue_enter(c->executor->queue);
}
static void leave(const sl_compiled *c, const sl_slot *slot) {
    if (slot->tensor->kind != SL_VALUE_INPUT) sl_queue_leave(c->executor->queue);
}

/* ---- setting ---- */

static sl_status check_bytes(const char *name, const sl_type *type, size_t bytes, sl_error *err) {
    char text[SL_TYPE_TEXT];
    if (bytes == sl_type_bytes(type)) return SL_OK;
    return sl_fail(err, SL_INVALID, "'%s' is %s of %llu bytes, but %zu bytes were given", name,
                   sl_type_format(type, text, sizeof text), (unsigned long long)sl_type_bytes(type),
                   bytes);
}

static sl_status find_to_set(const sl_compiled *c, const char *name, sl_slot **out, sl_error *err) {
    *out = find_slot(c, name);
    if (!*out)
        return sl_fail(err, SL_INVALID, "the graph has no input, weight or state '%s'", name);
    return sl_compiled_check_idle(c, err);
}

static sl_status write_range(const sl_compiled *c, const sl_slot *slot,
                             const sl_tensor_range *range, sl_error *err) {
    enter(c, slot);
    const sl_status status = sl_tensor_write(slot->tensor, c->executor, range, err);
    leave(c, slot);
    return status;
}

sl_status sl_compiled_set(sl_compiled *c, const char *name, const void *data, size_t bytes,
                          sl_error *err) {
    SL_NEED(c && name && (data || !bytes));
    sl_slot *slot;
    SL_TRY(find_to_set(c, name, &slot, err));
    SL_TRY(check_bytes(name, &slot->tensor->type, bytes, err));
    const sl_tensor_range range = {.bytes = bytes, .from = data};
    return write_range(c, slot, &range, err);
}

sl_status sl_compiled_set_at(sl_compiled *c, const char *name, size_t offset, const void *data,
                             size_t bytes, sl_error *err) {
    SL_NEED(c && name && (data || !bytes));
    sl_slot *slot;
    SL_TRY(find_to_set(c, name, &slot, err));
    const sl_tensor_range range = {.offset = offset, .bytes = bytes, .from = data};
    return write_range(c, slot, &range, err);
}

/* ---- getting ---- */

static const void *result_of(const sl_compiled *c, uint32_t o) {
    if (c->results[o].given) return c->results[o].given;
    const sl_device *device = c->executor->device;
    return device ? device->ops->output(c->executable, o) : c->blocks[o].data;
}

static const sl_type *type_of(const sl_compiled *c, uint32_t o) {
    return &sl_graph_value(c->graph, c->graph->outputs[o].value)->type;
}

const void *sl_compiled_get(const sl_compiled *c, const char *name, size_t *out_bytes) {
    SL_NEED_OR(NULL, c && name);
    uint32_t o;
    if (!sl_names_find(&c->outputs, name, &o)) return NULL;
    if (out_bytes) *out_bytes = sl_type_bytes(type_of(c, o));
    return result_of(c, o);
}

sl_status sl_compiled_get_at(sl_compiled *c, const char *name, size_t offset, void *out,
                             size_t bytes, sl_error *err) {
    SL_NEED(c && name && (out || !bytes));
    const sl_slot *slot = find_slot(c, name);
    const sl_tensor_range range = {.offset = offset, .bytes = bytes, .to = out};
    uint32_t o = 0;
    if (!slot && !sl_names_find(&c->outputs, name, &o))
        return sl_fail(err, SL_INVALID, "the graph has no input, weight, state or output '%s'",
                       name);
    SL_TRY(sl_compiled_check_idle(c, err));
    if (slot) {
        enter(c, slot);
        const sl_status status = sl_tensor_read(slot->tensor, c->executor, &range, err);
        leave(c, slot);
        return status;
    }
    SL_TRY(sl_tensor_check(name, type_of(c, o), &range, err));
    if (bytes) memcpy(out, (const char *)result_of(c, o) + offset, bytes);
    return SL_OK;
}

/* ---- binding ---- */

static sl_status check_memory(const char *name, const sl_type *type, const void *data, size_t bytes,
                              sl_error *err) {
    if (!data && !bytes) return SL_OK;
    SL_TRY(check_bytes(name, type, bytes, err));
    if ((uintptr_t)data % SL_BIND_ALIGNMENT == 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "'%s': memory at %p, wanted a multiple of %d", name, data,
                   SL_BIND_ALIGNMENT);
}

/* Whether states of the device are in memory that the host can give. */
static sl_status check_state(const sl_compiled *c, const char *name, sl_error *err) {
    const sl_device *device = c->executor->device;
    if (!device)
        return sl_fail(err, SL_UNSUPPORTED,
                       "state '%s': the device 'ref' keeps states as doubles, not in memory of the "
                       "caller",
                       name);
    if (sl_device_describe(device).own_memory)
        return sl_fail(err, SL_UNSUPPORTED,
                       "state '%s': the device '%s' keeps states in its own memory", name,
                       device->ops->name);
    return SL_OK;
}

static sl_status bind_slot(const sl_compiled *c, const sl_slot *slot, void *data, sl_error *err) {
    if (data && slot->tensor->kind == SL_VALUE_STATE)
        SL_TRY(check_state(c, slot->tensor->name, err));
    enter(c, slot);
    const sl_status status = sl_tensor_give(slot->tensor, c->executor, data, err);
    leave(c, slot);
    return status;
}

/* Memory of the library goes when the caller's comes, and comes back without it. */
static sl_status bind_block(sl_compiled *c, uint32_t b, void *data, sl_error *err) {
    const sl_device *device = c->executor->device;
    if (!data) return c->blocks[b].data ? SL_OK : sl_compiled_own_block(c, b, err);
    if (device) SL_TRY(device->ops->bind(c->executable, (sl_buffer_id){b}, data, err));
    sl_compiled_release_block(c, b);
    return SL_OK;
}

static sl_status bind_result(sl_compiled *c, uint32_t o, void *data, sl_error *err) {
    const uint32_t b = c->results[o].buffer;
    if (b != NONE) SL_TRY(bind_block(c, b, data, err));
    c->results[o].given = data;
    return SL_OK;
}

sl_status sl_compiled_bind(sl_compiled *c, const char *name, void *data, size_t bytes,
                           sl_error *err) {
    SL_NEED(c && name && (data || !bytes));
    const sl_slot *slot = find_slot(c, name);
    uint32_t o = 0;
    if (!slot && !sl_names_find(&c->outputs, name, &o))
        return sl_fail(err, SL_INVALID, "the graph has no input, weight, state or output '%s'",
                       name);
    SL_TRY(check_memory(name, slot ? &slot->tensor->type : type_of(c, o), data, bytes, err));
    SL_TRY(sl_compiled_check_idle(c, err));
    return slot ? bind_slot(c, slot, data, err) : bind_result(c, o, data, err);
}
