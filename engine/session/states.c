#include "engine/session/states.h"
#include <string.h>

enum { ALIGN = 64 };

static void *allocate(const sl_states *states, uint64_t bytes) {
    sl_device *device = states->device;
    return device ? device->ops->allocate(device, bytes)
                  : sl_resize(states->allocator, NULL, 0, bytes, ALIGN);
}

static void release(const sl_states *states, void *data, uint64_t bytes) {
    sl_device *device = states->device;
    if (device && data)
        device->ops->release(device, data, bytes);
    else
        sl_release(states->allocator, data, bytes, ALIGN);
}

static sl_status copy(const sl_states *states, void *to, const void *from, uint64_t bytes,
                      sl_error *err) {
    sl_device *device = states->device;
    if (device) return device->ops->copy_within(device, to, from, bytes, err);
    memcpy(to, from, bytes);
    return SL_OK;
}

uint64_t sl_states_bytes(const sl_device *device, const sl_type *type) {
    return device ? sl_type_bytes(type) : (uint64_t)sl_type_elements(type) * sizeof(double);
}

/* Of all slots or pages. */
static uint64_t whole(const sl_forward_state *state) {
    return state->bytes_each * (uint64_t)state->type->shape.dims[0];
}

sl_status sl_states_add(sl_states *states, const sl_value_info *value, sl_arena *arena,
                        sl_error *err) {
    sl_forward_state *s = &states->items[states->count];
    sl_type *type = SL_ARENA_NEW(arena, sl_type);
    s->name = sl_arena_copy_text(arena, value->name, strlen(value->name));
    if (!type || !s->name) return sl_no_memory(err, "the name of a state", strlen(value->name));
    *type = value->type;
    s->type = type;
    s->kind = (sl_state_kind)value->tag;
    s->bytes_each = sl_states_bytes(states->device, type) / (uint64_t)type->shape.dims[0];
    states->count++;
    states->bytes += whole(s);
    return SL_OK;
}

sl_status sl_states_find(sl_states *states, const sl_graph *graph, sl_arena *arena, sl_error *err) {
    states->items = SL_ARENA_NEW_ARRAY(arena, sl_forward_state, graph->value_count + 1);
    if (!states->items) return sl_no_memory(err, "the state table", graph->value_count);
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind == SL_VALUE_STATE)
            SL_TRY(sl_states_add(states, &graph->values[v], arena, err));
    return SL_OK;
}

sl_status sl_states_allocate(sl_states *states, sl_error *err) {
    for (uint32_t i = 0; i < states->count; i++) {
        sl_forward_state *s = &states->items[i];
        s->data = allocate(states, whole(s));
        if (!s->data) return sl_no_memory(err, "the state of sequences", whole(s));
    }
    return SL_OK;
}

void sl_states_release(sl_states *states) {
    for (uint32_t i = 0; i < states->count; i++)
        release(states, states->items[i].data, whole(&states->items[i]));
}

void *sl_states_named(const sl_states *states, const char *name) {
    for (uint32_t i = 0; i < states->count; i++)
        if (strcmp(states->items[i].name, name) == 0) return states->items[i].data;
    return NULL;
}

uint64_t sl_states_bytes_each(const sl_states *states, sl_state_kind kind) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < states->count; i++)
        if (states->items[i].kind == kind) bytes += states->items[i].bytes_each;
    return bytes;
}

sl_status sl_states_copy_page(const sl_states *states, int32_t from, int32_t to, sl_error *err) {
    for (uint32_t i = 0; i < states->count; i++) {
        const sl_forward_state *s = &states->items[i];
        if (s->kind != SL_STATE_KV) continue;
        SL_TRY(copy(states, s->data + (uint64_t)to * s->bytes_each,
                    s->data + (uint64_t)from * s->bytes_each, s->bytes_each, err));
    }
    return SL_OK;
}

void *sl_states_checkpoint(const sl_states *states) {
    return allocate(states, sl_states_bytes_each(states, SL_STATE_RECURRENT));
}

void sl_states_release_checkpoint(const sl_states *states, void *checkpoint) {
    if (checkpoint) release(states, checkpoint, sl_states_bytes_each(states, SL_STATE_RECURRENT));
}

sl_status sl_states_copy_recurrent(const sl_states *states, uint32_t slot, char *checkpoint,
                                   bool save, sl_error *err) {
    for (uint32_t i = 0; i < states->count; i++) {
        const sl_forward_state *s = &states->items[i];
        if (s->kind != SL_STATE_RECURRENT) continue;
        char *here = s->data + slot * s->bytes_each;
        char *to = save ? checkpoint : here, *from = save ? here : checkpoint;
        SL_TRY(copy(states, to, from, s->bytes_each, err));
        checkpoint += s->bytes_each;
    }
    return SL_OK;
}
