/* compiled.c - Compiling and running graphs (sluice/graph.h). */
#include "api/compiled.h"
#include "api/needs.h"
#include "base/names.h"
#include "base/structs.h"
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "core/codec.h"
#include "engine/session/compile_options.h"
#include "runtime/devices.h"
#include "runtime/profile.h"
#include "sluice/graph.h"
#include <stdio.h>
#include <string.h>

enum { VALUE_ALIGNMENT = 64 };

struct sl_compiled {
    sl_arena arena;
    sl_graph *graph; /* a copy, which nobody adds to */
    bool *missing;   /* [value]: an input or weight that is used and was never set */
    void **memory;   /* [value] of inputs, weights and states; NULL for others */
    sl_device *device;
    const sl_device_row *row;
    sl_compiler_options compile;
    sl_program *program;
    sl_executable *executable;
    sl_evaluator *evaluator;
    void **results;   /* [output]: the evaluator's, rounded to their type */
    sl_names outputs; /* their names */
};

static bool has_memory(const sl_value_info *value) {
    return value->kind == SL_VALUE_INPUT || value->kind == SL_VALUE_WEIGHT ||
           value->kind == SL_VALUE_STATE;
}

static bool is_device_state(const sl_compiled *c, const sl_value_info *value) {
    return c->device && value->kind == SL_VALUE_STATE;
}

/* The evaluator's states are doubles.  Empty tensors have an address too. */
static uint64_t host_bytes(const sl_compiled *c, const sl_value_info *value) {
    const bool wide = value->kind == SL_VALUE_STATE && !c->device;
    const uint64_t bytes =
        wide ? (uint64_t)sl_type_slots(&value->type) * sizeof(double) : sl_type_bytes(&value->type);
    return bytes ? bytes : 1;
}

/* Zero, as memory of the host is. */
static sl_status allocate_state(sl_compiled *c, uint32_t v, sl_error *err) {
    const sl_value_info *value = &c->graph->values[v];
    const uint64_t bytes = sl_type_bytes(&value->type);
    c->memory[v] = c->device->ops->allocate(c->device, bytes);
    void *zeros = sl_allocate(NULL, bytes, VALUE_ALIGNMENT);
    sl_status status = c->memory[v] && zeros ? SL_OK : sl_no_memory(err, value->name, bytes);
    if (status == SL_OK)
        status = c->device->ops->copy_in(c->device, c->memory[v], zeros, bytes, err);
    sl_release(NULL, zeros, bytes, VALUE_ALIGNMENT);
    return status;
}

static sl_status allocate_values(sl_compiled *c, sl_error *err) {
    const sl_graph *g = c->graph;
    c->memory = SL_ARENA_NEW_ARRAY(&c->arena, void *, g->value_count + 1);
    c->results = SL_ARENA_NEW_ARRAY(&c->arena, void *, g->output_count + 1);
    c->missing = SL_ARENA_NEW_ARRAY(&c->arena, bool, g->value_count + 1);
    if (!c->memory || !c->results || !c->missing ||
        !sl_names_init(&c->outputs, g->output_count, &c->arena))
        return sl_no_memory(err, "a compiled graph", g->value_count);
    for (uint32_t o = 0; o < g->output_count; o++)
        (void)sl_names_add(&c->outputs, g->outputs[o].name, o); /* the first of a name counts */
    for (uint32_t v = 1; v <= g->value_count; v++) {
        const sl_value_info *value = &g->values[v];
        if (value->kind == SL_VALUE_EXPERTS)
            return sl_fail(err, SL_UNSUPPORTED, "'%s': a graph without a model cannot have experts",
                           value->name);
        if (!has_memory(value)) continue;
        c->missing[v] = value->kind != SL_VALUE_STATE && value->use_count > 0 &&
                        sl_type_bytes(&value->type) > 0;
        if (is_device_state(c, value)) {
            SL_TRY(allocate_state(c, v, err));
            continue;
        }
        c->memory[v] = sl_allocate(NULL, host_bytes(c, value), VALUE_ALIGNMENT);
        if (!c->memory[v]) return sl_no_memory(err, value->name, host_bytes(c, value));
    }
    return SL_OK;
}

/* Compiling fuses; the graph with the caller's names stays as it is. */
static sl_status compile_copy(sl_compiled *c, sl_error *err) {
    sl_graph *copy;
    SL_TRY(sl_graph_copy(c->graph, NULL, &copy, err));
    const sl_status status = sl_compile_graph(copy, &c->compile, NULL, &c->program, err);
    sl_graph_destroy(copy);
    return status;
}

static sl_status load_on_device(sl_compiled *c, sl_error *err) {
    SL_TRY(compile_copy(c, err));
    SL_TRY(c->device->ops->load(c->device, c->program, &c->executable, err));
    for (uint32_t b = 0; b < c->program->buffer_count; b++) {
        const char *name = c->program->buffers[b].name;
        const sl_value id = name ? sl_graph_find(c->graph, name) : (sl_value){0};
        const sl_value_info *value = sl_graph_value(c->graph, id);
        if (value && has_memory(value))
            SL_TRY(c->device->ops->bind(c->executable, (sl_buffer_id){b}, c->memory[id.v], err));
    }
    return SL_OK;
}

static sl_status load_evaluator(sl_compiled *c, sl_error *err) {
    SL_TRY(sl_graph_verify(c->graph, err));
    SL_TRY(sl_evaluator_create(c->graph, NULL, &c->evaluator, err));
    for (uint32_t v = 1; v <= c->graph->value_count; v++) {
        const sl_value_info *value = &c->graph->values[v];
        if (value->kind == SL_VALUE_STATE)
            SL_TRY(sl_evaluator_bind_state(c->evaluator, (sl_value){v}, c->memory[v], err));
        else if (has_memory(value))
            SL_TRY(sl_evaluator_bind(c->evaluator, (sl_value){v}, c->memory[v], err));
    }
    for (uint32_t o = 0; o < c->graph->output_count; o++) {
        const sl_value_info *value = sl_graph_value(c->graph, c->graph->outputs[o].value);
        c->results[o] = sl_arena_alloc(&c->arena, sl_type_bytes(&value->type), 64);
        if (!c->results[o])
            return sl_no_memory(err, c->graph->outputs[o].name, sl_type_bytes(&value->type));
    }
    return SL_OK;
}

static sl_status make_device(sl_compiled *c, const sl_compile_options *options, sl_error *err) {
    sl_device_options given = {.threads = options->threads, .isa = options->isa};
    SL_TRY(sl_device_find(options->device, &c->row, err));
    c->compile = sl_compiler_options_for(c->row->target);
    SL_TRY(sl_compiler_options_parse(options->compile, &c->compile, err));
    sl_launch_options_parse(options->compile, &given);
    return c->row->create ? c->row->create(&given, NULL, &c->device, err) : SL_OK;
}

sl_status sl_compile(const sl_graph *graph, const sl_compile_options *given, sl_compiled **out,
                     sl_error *err) {
    SL_NEED(graph && out);
    sl_compile_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_compile_options, &options, given, err));
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_check_sizes(graph, err));
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_compiled *c = SL_ARENA_NEW(&arena, sl_compiled);
    if (!c) return sl_no_memory(err, "a compiled graph", sizeof *c);
    c->arena = arena;
    sl_status status = sl_graph_copy(graph, NULL, &c->graph, err);
    if (status == SL_OK) status = make_device(c, &options, err);
    if (status == SL_OK) status = allocate_values(c, err);
    if (status == SL_OK) status = c->device ? load_on_device(c, err) : load_evaluator(c, err);
    if (status == SL_OK)
        *out = c;
    else
        sl_compiled_destroy(c);
    return status;
}

/* States in the memory of the device, or everything in the memory of the host. */
static void release_values(sl_compiled *c, bool of_device) {
    for (uint32_t v = 1; c->memory && v <= c->graph->value_count; v++) {
        const sl_value_info *value = &c->graph->values[v];
        if (!c->memory[v] || is_device_state(c, value) != of_device) continue;
        if (of_device)
            c->device->ops->release(c->device, c->memory[v], sl_type_bytes(&value->type));
        else
            sl_release(NULL, c->memory[v], host_bytes(c, value), VALUE_ALIGNMENT);
    }
}

void sl_compiled_destroy(sl_compiled *c) {
    if (!c) return;
    if (c->device) {
        if (c->executable) c->device->ops->unload(c->executable);
        release_values(c, true);
        c->device->ops->destroy(c->device);
    }
    sl_evaluator_destroy(c->evaluator);
    release_values(c, false); /* the device may use it until it is destroyed */
    sl_program_destroy(c->program);
    sl_graph_destroy(c->graph);
    sl_arena arena = c->arena;
    sl_arena_deinit(&arena);
}

sl_status sl_compiled_set(sl_compiled *c, const char *name, const void *data, size_t bytes,
                          sl_error *err) {
    SL_NEED(c && name && (data || !bytes));
    const sl_value id = sl_graph_find(c->graph, name);
    const sl_value_info *value = sl_graph_value(c->graph, id);
    if (!value || !has_memory(value))
        return sl_fail(err, SL_INVALID, "the graph has no input, weight or state '%s'", name);
    if (bytes != sl_type_bytes(&value->type)) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "'%s' is %s of %llu bytes, but %zu bytes were given", name,
                       sl_type_format(&value->type, text, sizeof text),
                       (unsigned long long)sl_type_bytes(&value->type), bytes);
    }
    c->missing[id.v] = false;
    if (is_device_state(c, value))
        return c->device->ops->copy_in(c->device, c->memory[id.v], data, bytes, err);
    if (value->kind == SL_VALUE_STATE) {
        sl_decode_f64(value->type.dtype, data, sl_type_elements(&value->type), c->memory[id.v]);
        return SL_OK;
    }
    if (bytes) memcpy(c->memory[id.v], data, bytes);
    return c->device && value->kind == SL_VALUE_WEIGHT
               ? c->device->ops->weight_changed(c->device, c->memory[id.v], 0, bytes, err)
               : SL_OK;
}

static sl_status check_inputs(const sl_compiled *c, sl_error *err) {
    for (uint32_t v = 1; v <= c->graph->value_count; v++)
        if (c->missing[v])
            return sl_fail(err, SL_INVALID, "%s '%s' was never set",
                           c->graph->values[v].kind == SL_VALUE_INPUT ? "input" : "weight",
                           c->graph->values[v].name);
    return SL_OK;
}

sl_status sl_compiled_run(sl_compiled *c, sl_error *err) {
    SL_NEED(c);
    SL_TRY(check_inputs(c, err));
    if (c->device) return c->device->ops->run(c->executable, err);
    SL_TRY(sl_evaluator_run(c->evaluator, err));
    for (uint32_t o = 0; o < c->graph->output_count; o++) {
        const sl_value id = c->graph->outputs[o].value;
        const sl_type *type = &sl_graph_value(c->graph, id)->type;
        sl_encode_f64(type->dtype, sl_evaluator_result(c->evaluator, id), sl_type_elements(type),
                      c->results[o]);
    }
    return SL_OK;
}

const void *sl_compiled_get(const sl_compiled *c, const char *name, size_t *out_bytes) {
    SL_NEED_OR(NULL, c && name);
    uint32_t o;
    if (!sl_names_find(&c->outputs, name, &o)) return NULL;
    if (out_bytes)
        *out_bytes = sl_type_bytes(&sl_graph_value(c->graph, c->graph->outputs[o].value)->type);
    return c->device ? c->device->ops->output(c->executable, o) : c->results[o];
}

sl_compiled_parts sl_compiled_parts_of(const sl_compiled *c) {
    return (sl_compiled_parts){c->graph, &c->compile, c->row, c->device, c->program, c->executable};
}

/* ---- profiles ---- */

static sl_status record(sl_compiled *c, uint32_t runs, sl_trace *trace, sl_error *err) {
    sl_status status = SL_OK;
    c->device->ops->attach(c->executable, trace);
    for (uint32_t run = 0; run < runs && status == SL_OK; run++) status = sl_compiled_run(c, err);
    c->device->ops->attach(c->executable, NULL);
    return status;
}

static sl_status profile(sl_compiled *c, uint32_t runs, sl_arena *arena, sl_profile *out,
                         sl_error *err) {
    sl_trace trace;
    SL_TRY(sl_trace_create(c->program, runs, arena, &trace, err));
    SL_TRY(record(c, runs, &trace, err));
    return sl_profile_build(c->program, &trace, arena, out, err);
}

sl_status sl_compiled_profile(sl_compiled *c, uint32_t runs, sl_op_time *rows, uint32_t room,
                              uint32_t *out_count, sl_error *err) {
    SL_NEED(c && (rows || !room) && out_count);
    if (!c->device)
        return sl_fail(err, SL_UNSUPPORTED, "the device '%s' does not support profiling",
                       c->row->name);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_profile found;
    const sl_status status = profile(c, runs, &arena, &found, err);
    *out_count = status != SL_OK ? 0 : found.op_count < room ? found.op_count : room;
    for (uint32_t i = 0; i < *out_count; i++) {
        const sl_profile_row *row = &found.ops[i];
        rows[i] = (sl_op_time){.calls = row->calls, .seconds = row->seconds, .share = row->share};
        (void)snprintf(rows[i].op, sizeof rows[i].op, "%s", row->name);
    }
    sl_arena_deinit(&arena);
    return status;
}
