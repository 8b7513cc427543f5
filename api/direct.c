/* direct.c - Direct mode (sluice/direct.h): the values of a graph, and when its nodes run. */
#include "api/direct.h"
#include "api/experts.h"
#include "api/needs.h"
#include "api/values.h"
#include "base/structs.h"
#include "core/codec.h"
#include "engine/session/compile_options.h"
#include <string.h>

/* ---- memory ---- */

static bool make_values(sl_direct *d) {
    const uint32_t count = d->graph->value_count + 1;
    if (count <= d->value_count) return true;
    const size_t each = sizeof *d->values, old = d->value_count * each;
    uint32_t room = d->value_count;
    while (room < count) room = room ? room * 2 : 64;
    sl_direct_value *values =
        sl_resize(NULL, d->values, old, room * each, SL_DIRECT_VALUE_ALIGNMENT);
    if (!values) return false;
    memset((char *)values + old, 0, room * each - old);
    d->values = values;
    d->value_count = room;
    return true;
}

static size_t slot_bytes(const sl_type *type) {
    return ((size_t)sl_type_slots(type) + 1) * sizeof(double);
}

/* Memory in the value's own type, and for the evaluator as slots, of which it encodes plain types
 * alone. */
static sl_status make_room(const sl_direct *d, const sl_value_info *info, sl_direct_value *own,
                           sl_error *err) {
    const uint64_t bytes = sl_direct_bytes(&info->type);
    const bool encoded = d->device || sl_dtype_infos[info->type.dtype].bytes > 0;
    if (!own->data && encoded) own->data = sl_allocate(NULL, bytes, SL_DIRECT_VALUE_ALIGNMENT);
    if (!own->slots && !d->device)
        own->slots = sl_allocate(NULL, slot_bytes(&info->type), SL_DIRECT_VALUE_ALIGNMENT);
    return (own->data || !encoded) && (own->slots || d->device)
               ? SL_OK
               : sl_no_memory(err, "a value", bytes);
}

sl_status sl_direct_room(sl_direct *d, sl_value value, sl_error *err) {
    return make_room(d, &d->graph->values[value.v], &d->values[value.v], err);
}

static void release_value(const sl_direct *d, const sl_type *type, sl_direct_value *own) {
    const uint64_t bytes = sl_direct_bytes(type);
    if (own->data) sl_release(NULL, own->data, bytes, SL_DIRECT_VALUE_ALIGNMENT);
    if (own->slots) sl_release(NULL, own->slots, slot_bytes(type), SL_DIRECT_VALUE_ALIGNMENT);
    if (own->state) d->device->ops->release(d->device, own->state, bytes);
}

/* ---- what was set ---- */

static sl_direct_given *find_given(const sl_direct *d, const char *name) {
    for (sl_direct_given *given = d->given; given; given = given->next)
        if (strcmp(given->name, name) == 0) return given;
    return NULL;
}

static sl_status check_size(const sl_value_info *info, size_t bytes, sl_error *err) {
    char text[SL_TYPE_TEXT];
    if (bytes == sl_type_bytes(&info->type)) return SL_OK;
    return sl_fail(err, SL_INVALID, "'%s' is %s of %llu bytes, but %zu bytes were given",
                   info->name, sl_type_format(&info->type, text, sizeof text),
                   (unsigned long long)sl_type_bytes(&info->type), bytes);
}

static sl_status write_state(const sl_direct *d, const sl_value_info *info,
                             const sl_direct_value *own, const void *data, sl_error *err) {
    if (d->device)
        return d->device->ops->copy_in(d->device, own->state, data, sl_type_bytes(&info->type),
                                       err);
    sl_decode_tensor(&info->type, data, own->slots);
    return SL_OK;
}

/* A declared state at its first use: what was set, or zeros. */
static sl_status start_state(sl_direct *d, uint32_t v, sl_error *err) {
    const sl_value_info *info = &d->graph->values[v];
    sl_direct_value *own = &d->values[v];
    const sl_direct_given *given = find_given(d, info->name);
    if (own->started) return SL_OK;
    if (!given && info->was_weight)
        return sl_fail(err, SL_INVALID, "weight '%s' was never set", info->name);
    SL_TRY(make_room(d, info, own, err)); /* zeros */
    if (given) SL_TRY(check_size(info, given->bytes, err));
    if (d->device && !own->state)
        own->state = d->device->ops->allocate(d->device, sl_direct_bytes(&info->type));
    if (d->device && !own->state)
        return sl_no_memory(err, info->name, sl_direct_bytes(&info->type));
    const void *start = given ? given->data : own->data;
    if (start) SL_TRY(write_state(d, info, own, start, err));
    own->current = v;
    own->started = own->ready = true;
    return SL_OK;
}

static sl_status find_declared(sl_direct *d, uint32_t v, sl_error *err) {
    const sl_value_info *info = &d->graph->values[v];
    sl_direct_value *own = &d->values[v];
    if (info->kind == SL_VALUE_CONSTANT) {
        own->shared = info->data;
        own->known = own->ready = true;
        return SL_OK;
    }
    if (info->kind == SL_VALUE_EXPERTS) {
        own->ready = true;
        return sl_experts_check_graph(d->experts, d->graph, err);
    }
    const char *kind = info->kind == SL_VALUE_INPUT ? "input" : "weight";
    const sl_direct_given *given = find_given(d, info->name);
    if (!given) return sl_fail(err, SL_INVALID, "%s '%s' was never set", kind, info->name);
    SL_TRY(check_size(info, given->bytes, err));
    own->shared = given->data;
    own->ready = true;
    return SL_OK;
}

sl_status sl_direct_operand(sl_direct *d, sl_value value, sl_error *err) {
    const sl_value_info *info = &d->graph->values[value.v];
    if (info->root.v) {
        SL_TRY(start_state(d, info->root.v, err));
        if (d->values[info->root.v].current == value.v) return SL_OK;
        return sl_fail(err, SL_INVALID, "uses a version of state '%s' that is not its latest",
                       d->graph->values[info->root.v].name);
    }
    if (d->values[value.v].ready) return SL_OK;
    if (info->kind != SL_VALUE_RESULT) return find_declared(d, value.v, err);
    return sl_fail(err, SL_INVALID, "its operand %%%u, the result of '%s', was not computed",
                   value.v, d->graph->nodes[info->node].label);
}

/* ---- running ---- */

/* "label: message", unless the message begins with the label already. */
static sl_status name_node(const sl_node *node, sl_status status, sl_error *err) {
    const size_t bytes = strlen(node->label);
    if (!err || (strncmp(err->message, node->label, bytes) == 0 && err->message[bytes] == ':'))
        return status;
    return sl_fail_in(err, status, "%s", node->label);
}

static sl_status run_node(sl_direct *d, uint32_t n, sl_error *err) {
    const sl_node *node = &d->graph->nodes[n];
    sl_status status = sl_graph_check_sizes(d->graph, err);
    if (!make_values(d)) return sl_no_memory(err, "direct mode", d->graph->value_count);
    for (uint32_t i = 0; i < node->input_count && status == SL_OK; i++)
        status = sl_direct_operand(d, node->inputs[i], err);
    if (status == SL_OK) status = sl_direct_node(d, n, err);
    return status == SL_OK ? SL_OK : name_node(node, status, err);
}

static sl_status node_added(void *ctx, uint32_t node, sl_error *err) {
    return run_node(ctx, node, err);
}

sl_status sl_direct_run(sl_direct *d, sl_error *err) {
    SL_NEED(d);
    SL_TRY(sl_graph_check(d->graph, err));
    if (!make_values(d)) return sl_no_memory(err, "direct mode", d->graph->value_count);
    for (uint32_t v = 1; v <= d->graph->value_count; v++) {
        d->values[v].current = v;
        if (d->graph->values[v].kind == SL_VALUE_RESULT) d->values[v].ready = false;
    }
    for (uint32_t n = 0; n < d->graph->node_count; n++) SL_TRY(run_node(d, n, err));
    return SL_OK;
}

/* ---- public functions ---- */

static sl_status open_device(sl_direct *d, const sl_compile_options *options, sl_error *err) {
    sl_device_options given = {.threads = options->threads, .isa = options->isa};
    SL_TRY(sl_device_find(options->device, &d->row, err));
    if (d->row->checks_only)
        return sl_fail(err, SL_UNSUPPORTED, "the device '%s' computes nothing", d->row->name);
    d->experts = options->experts;
    d->compile = sl_compiler_options_for(d->row->target);
    SL_TRY(sl_compiler_options_parse(options->compile, &d->compile, err));
    sl_launch_options_parse(options->compile, &given);
    return d->row->create ? d->row->create(&given, NULL, &d->device, err) : SL_OK;
}

sl_status sl_direct_create(sl_graph *graph, const sl_compile_options *given, sl_direct **out,
                           sl_error *err) {
    SL_NEED(graph && out);
    sl_compile_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_compile_options, &options, given, err));
    SL_TRY(sl_graph_check(graph, err));
    if (graph->added)
        return sl_fail(err, SL_INVALID, "graph '%s' is in direct mode already", graph->name);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_direct *d = SL_ARENA_NEW(&arena, sl_direct);
    if (!d) return sl_no_memory(err, "direct mode", sizeof *d);
    d->arena = arena;
    d->graph = graph;
    const sl_status status = open_device(d, &options, err);
    if (status != SL_OK) {
        sl_direct_destroy(d);
        return status;
    }
    graph->added = node_added;
    graph->added_ctx = d;
    *out = d;
    return SL_OK;
}

void sl_direct_destroy(sl_direct *d) {
    if (!d) return;
    if (d->graph->added_ctx == d) d->graph->added = NULL;
    sl_direct_programs_destroy(d);
    for (uint32_t v = 1; v <= d->graph->value_count && v < d->value_count; v++)
        release_value(d, &d->graph->values[v].type, &d->values[v]);
    if (d->device) d->device->ops->destroy(d->device);
    for (sl_direct_given *given = d->given; given; given = given->next)
        sl_release(NULL, given->data, given->bytes + 1, SL_DIRECT_VALUE_ALIGNMENT);
    sl_release(NULL, d->values, d->value_count * sizeof *d->values, SL_DIRECT_VALUE_ALIGNMENT);
    sl_arena arena = d->arena;
    sl_arena_deinit(&arena);
}

static sl_status keep_given(sl_direct *d, const char *name, size_t bytes, sl_direct_given **out,
                            sl_error *err) {
    sl_direct_given *given = SL_ARENA_NEW(&d->arena, sl_direct_given);
    if (!given) return sl_no_memory(err, name, sizeof *given);
    given->name = sl_arena_copy_text(&d->arena, name, strlen(name));
    given->data = sl_allocate(NULL, bytes + 1, SL_DIRECT_VALUE_ALIGNMENT);
    if (!given->name || !given->data) {
        sl_release(NULL, given->data, bytes + 1, SL_DIRECT_VALUE_ALIGNMENT);
        return sl_no_memory(err, name, bytes);
    }
    given->bytes = bytes;
    given->next = d->given;
    *out = d->given = given;
    return SL_OK;
}

sl_status sl_direct_set(sl_direct *d, const char *name, const void *data, size_t bytes,
                        sl_error *err) {
    SL_NEED(d && name && (data || !bytes));
    const sl_value id = sl_graph_find(d->graph, name);
    const sl_value_info *info = sl_graph_value(d->graph, id);
    sl_direct_given *given = find_given(d, name);
    if (info && info->kind != SL_VALUE_INPUT && info->kind != SL_VALUE_WEIGHT &&
        info->kind != SL_VALUE_STATE)
        return sl_fail(err, SL_INVALID, "'%s' is not an input, weight or state", name);
    if (info) SL_TRY(check_size(info, bytes, err));
    if (given && given->bytes != bytes)
        return sl_fail(err, SL_INVALID, "'%s' was set to %zu bytes before, now to %zu", name,
                       given->bytes, bytes);
    if (!given) SL_TRY(keep_given(d, name, bytes, &given, err));
    if (bytes) memcpy(given->data, data, bytes);
    if (!info || id.v >= d->value_count || !d->values[id.v].ready) return SL_OK;
    if (d->values[id.v].started) return write_state(d, info, &d->values[id.v], data, err);
    return d->device && info->kind == SL_VALUE_WEIGHT
               ? d->device->ops->weight_changed(d->device, given->data, 0, bytes, err)
               : SL_OK;
}

static sl_status read_state(sl_direct *d, sl_value root, const void **out, sl_error *err) {
    const sl_type *type = &d->graph->values[root.v].type;
    const sl_direct_value *own = &d->values[root.v];
    *out = own->data;
    if (d->device)
        return d->device->ops->copy_out(d->device, own->data, own->state, sl_type_bytes(type), err);
    sl_encode_f64(type->dtype, own->slots, sl_type_elements(type), own->data);
    return SL_OK;
}

sl_status sl_direct_get(sl_direct *d, sl_value sealed, const void **out, size_t *out_bytes,
                        sl_error *err) {
    SL_NEED(d && out);
    sl_value value;
    const bool own_graph = sl_value_open(d->graph, sealed, &value);
    const sl_value_info *info = sl_graph_value(d->graph, value);
    if (!info || !own_graph)
        return sl_fail(err, SL_INVALID, "no value of graph '%s'", d->graph->name);
    if (!make_values(d)) return sl_no_memory(err, "direct mode", d->graph->value_count);
    SL_TRY(sl_direct_operand(d, value, err));
    const sl_direct_value *own = &d->values[value.v];
    if (info->kind == SL_VALUE_EXPERTS)
        return sl_fail(err, SL_INVALID, "experts '%s' are no value in memory", info->name);
    if (!own->shared && !d->values[info->root.v ? info->root.v : value.v].data)
        return sl_fail(err, SL_UNSUPPORTED, "a value of type %s is not kept in bytes on '%s'",
                       sl_dtype_infos[info->type.dtype].name, d->row->name);
    if (out_bytes) *out_bytes = sl_type_bytes(&info->type);
    if (info->root.v) return read_state(d, info->root, out, err);
    *out = own->shared ? own->shared : own->data;
    return SL_OK;
}
