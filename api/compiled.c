/* compiled.c - Compiling and running graphs (sluice/graph.h, sluice/executor.h). */
#include "api/compiled.h"
#include "api/experts.h"
#include "api/needs.h"
#include "base/clock.h"
#include "base/structs.h"
#include "core/codec.h"
#include "engine/session/compile_options.h"
#include <string.h>

enum { NONE = UINT32_MAX };

/* ---- places ---- */

static bool has_launch_words(const char *words, sl_device_options *out) {
    *out = (sl_device_options){0};
    sl_launch_options_parse(words, out);
    return out->eager || out->chained || out->apart;
}

static sl_status check_options(const sl_executor *executor, const sl_compile_options *options,
                               sl_error *err) {
    sl_device_options launch;
    if (options->share && options->share->executor != executor)
        return sl_fail(err, SL_INVALID, "the graph that is shared belongs to another executor");
    if (options->device && strcmp(options->device, executor->row->name) != 0)
        return sl_fail(err, SL_INVALID, "device '%s' was given, but the executor runs on '%s'",
                       options->device, executor->row->name);
    if (options->isa || options->threads || has_launch_words(options->compile, &launch))
        return sl_fail(err, SL_INVALID,
                       "isa, threads and ways to launch are options of the executor");
    return SL_OK;
}

static sl_status open_executor(const sl_compile_options *options, sl_executor **out,
                               sl_error *err) {
    sl_device_options launch;
    sl_executor *given = options->executor;
    if (!given && options->share) given = options->share->executor;
    if (given) {
        SL_TRY(check_options(given, options, err));
        *out = sl_executor_take(given);
        return SL_OK;
    }
    (void)has_launch_words(options->compile, &launch);
    const sl_executor_options own = {
        .device = options->device, .isa = options->isa, .threads = options->threads};
    return sl_executor_open(&own, &launch, out, err);
}

sl_status sl_place_open(const sl_compile_options *options, sl_place *out, sl_error *err) {
    *out = (sl_place){.experts = options->experts};
    SL_TRY(open_executor(options, &out->executor, err));
    sl_status status = SL_OK;
    if (options->share)
        out->storage = sl_storage_take(options->share->storage);
    else
        status = sl_storage_create(out->executor, &out->storage, err);
    if (status != SL_OK) sl_executor_destroy(out->executor);
    return status;
}

void sl_place_close(const sl_place *place) {
    sl_storage_release(place->storage);
    sl_executor_destroy(place->executor);
}

/* ---- compiling ---- */

static bool has_memory(const sl_value_info *value) {
    return value->kind == SL_VALUE_INPUT || value->kind == SL_VALUE_WEIGHT ||
           value->kind == SL_VALUE_STATE;
}

static sl_status add_slot(sl_compiled *c, uint32_t v, sl_tensor *shared, sl_error *err) {
    const sl_value_info *value = &c->graph->values[v];
    sl_slot *slot = &c->slots[c->slot_count++];
    slot->tensor = shared;
    if (!shared) {
        slot->tensor = SL_ARENA_NEW(&c->arena, sl_tensor);
        if (!slot->tensor) return sl_no_memory(err, value->name, sizeof *slot->tensor);
        sl_tensor_init(slot->tensor, value);
    }
    slot->value = v;
    slot->buffer = NONE;
    slot->is_needed = sl_value_declared_kind(value) != SL_VALUE_STATE && value->use_count > 0 &&
                      sl_type_bytes(&value->type) > 0;
    c->slot_of[v] = c->slot_count;
    return SL_OK;
}

static sl_status make_slots(sl_compiled *c, sl_error *err) {
    const sl_graph *g = c->graph;
    sl_tensor **shared = SL_ARENA_NEW_ARRAY(&c->arena, sl_tensor *, (size_t)g->value_count + 1);
    c->slots = SL_ARENA_NEW_ARRAY(&c->arena, sl_slot, (size_t)g->value_count + 1);
    c->slot_of = SL_ARENA_NEW_ARRAY(&c->arena, uint32_t, (size_t)g->value_count + 1);
    c->results = SL_ARENA_NEW_ARRAY(&c->arena, sl_result, (size_t)g->output_count + 1);
    if (!shared || !c->slots || !c->slot_of || !c->results ||
        !sl_names_init(&c->outputs, g->output_count, &c->arena))
        return sl_no_memory(err, "a compiled graph", g->value_count);
    for (uint32_t o = 0; o < g->output_count; o++) {
        (void)sl_names_add(&c->outputs, g->outputs[o].name, o); /* the first of a name counts */
        c->results[o].buffer = NONE;
    }
    SL_TRY(sl_storage_join(c->storage, g, shared, err));
    for (uint32_t v = 1; v <= g->value_count; v++)
        if (has_memory(&g->values[v])) SL_TRY(add_slot(c, v, shared[v], err));
    return SL_OK;
}

static sl_status make_blocks(sl_compiled *c, uint32_t count, sl_error *err) {
    c->blocks = SL_ARENA_NEW_ARRAY(&c->arena, sl_block, (size_t)count + 1);
    if (!c->blocks) return sl_no_memory(err, "results", count);
    c->block_count = count;
    return SL_OK;
}

sl_status sl_compiled_own_block(sl_compiled *c, uint32_t b, sl_error *err) {
    sl_block *block = &c->blocks[b];
    const sl_device *device = c->executor->device;
    const uint64_t bytes =
        device ? c->program->buffers[b].bytes
               : sl_type_bytes(&sl_graph_value(c->graph, c->graph->outputs[b].value)->type);
    block->bytes = bytes ? bytes : 1;
    block->data = sl_allocate(c->executor->allocator, block->bytes, SL_BIND_ALIGNMENT);
    if (!block->data) return sl_no_memory(err, "results", block->bytes);
    return device ? device->ops->bind(c->executable, (sl_buffer_id){b}, block->data, err) : SL_OK;
}

void sl_compiled_release_block(sl_compiled *c, uint32_t b) {
    sl_release(c->executor->allocator, c->blocks[b].data, c->blocks[b].bytes, SL_BIND_ALIGNMENT);
    c->blocks[b] = (sl_block){0};
}

/* Results are not in the arena, which all graphs of the executor use. */
static sl_status place_results(sl_compiled *c, sl_error *err) {
    const sl_program *p = c->program;
    if (sl_device_describe(c->executor->device).own_outputs) return SL_OK;
    SL_TRY(make_blocks(c, p->buffer_count, err));
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].kind == SL_BUFFER_OUTPUT) SL_TRY(sl_compiled_own_block(c, b, err));
    for (uint32_t o = 0; o < p->output_count; o++) {
        const sl_operand *operand = &p->outputs[o].operand;
        const sl_buffer *buffer = &p->buffers[operand->buffer.v];
        if (buffer->kind == SL_BUFFER_OUTPUT && !operand->offset_bytes &&
            buffer->bytes == sl_type_bytes(&operand->type))
            c->results[o].buffer = operand->buffer.v;
    }
    return SL_OK;
}

static sl_status load_in_turn(sl_compiled *c, sl_error *err) {
    sl_device *device = c->executor->device;
    SL_TRY(device->ops->load(device, c->program, &c->executable, err));
    for (uint32_t b = 0; b < c->program->buffer_count; b++) {
        const sl_buffer *buffer = &c->program->buffers[b];
        if (buffer->kind == SL_BUFFER_EXPERTS)
            SL_TRY(device->ops->bind_experts(c->executable, (sl_buffer_id){b}, c->experts->source,
                                             err));
        const bool is_declared = buffer->kind == SL_BUFFER_INPUT ||
                                 buffer->kind == SL_BUFFER_WEIGHT ||
                                 buffer->kind == SL_BUFFER_STATE;
        const sl_value id =
            is_declared && buffer->name ? sl_graph_find(c->graph, buffer->name) : (sl_value){0};
        if (c->slot_of[id.v]) c->slots[c->slot_of[id.v] - 1].buffer = b;
    }
    return place_results(c, err);
}

/* Compiling fuses; the graph with the caller's names stays as it is. */
static sl_status load_on_device(sl_compiled *c, sl_error *err) {
    sl_graph *copy;
    SL_TRY(sl_graph_copy(c->graph, c->executor->allocator, &copy, err));
    sl_status status =
        sl_compile_graph(copy, &c->compile, c->executor->allocator, &c->program, err);
    sl_graph_destroy(copy);
    if (status == SL_OK) status = sl_experts_check_program(c->program, err);
    if (status != SL_OK) return status;
    sl_queue_enter(c->executor->queue);
    status = load_in_turn(c, err);
    sl_queue_leave(c->executor->queue);
    return status;
}

static sl_status load_evaluator(sl_compiled *c, sl_error *err) {
    SL_TRY(sl_graph_verify(c->graph, err));
    SL_TRY(sl_evaluator_create(c->graph, c->executor->allocator, &c->evaluator, err));
    for (uint32_t v = 1; v <= c->graph->value_count; v++)
        if (c->graph->values[v].kind == SL_VALUE_EXPERTS)
            SL_TRY(sl_evaluator_bind_experts(c->evaluator, (sl_value){v}, c->experts->source, err));
    SL_TRY(make_blocks(c, c->graph->output_count, err));
    for (uint32_t o = 0; o < c->graph->output_count; o++) {
        SL_TRY(sl_compiled_own_block(c, o, err));
        c->results[o].buffer = o;
    }
    return SL_OK;
}

static sl_status fill_compiled(sl_compiled *c, const sl_graph *graph, const char *words,
                               sl_error *err) {
    c->compile = sl_compiler_options_for(c->executor->row->target);
    SL_TRY(sl_compiler_options_parse(words, &c->compile, err));
    SL_TRY(sl_experts_check_graph(c->experts, graph, err));
    SL_TRY(sl_graph_copy(graph, c->executor->allocator, &c->graph, err));
    SL_TRY(make_slots(c, err));
    return c->executor->device ? load_on_device(c, err) : load_evaluator(c, err);
}

sl_status sl_compile_for(const sl_graph *graph, const sl_place *place, const char *words,
                         sl_compiled **out, sl_error *err) {
    sl_arena arena;
    sl_arena_init(&arena, place->executor->allocator);
    sl_compiled *c = SL_ARENA_NEW(&arena, sl_compiled);
    if (!c) return sl_no_memory(err, "a compiled graph", sizeof *c);
    c->arena = arena;
    c->executor = sl_executor_take(place->executor);
    c->storage = sl_storage_take(place->storage);
    c->experts = place->experts;
    const sl_status status = fill_compiled(c, graph, words, err);
    if (status == SL_OK)
        *out = c;
    else
        sl_compiled_destroy(c);
    return status;
}

sl_status sl_compile(const sl_graph *graph, const sl_compile_options *given, sl_compiled **out,
                     sl_error *err) {
    SL_NEED(graph && out);
    sl_compile_options options = {0};
    sl_place place;
    SL_TRY(SL_STRUCT_TAKE(sl_compile_options, &options, given, err));
    SL_TRY(sl_graph_check(graph, err));
    SL_TRY(sl_graph_check_sizes(graph, err));
    SL_TRY(sl_place_open(&options, &place, err));
    const sl_status status = sl_compile_for(graph, &place, options.compile, out, err);
    sl_place_close(&place);
    return status;
}

static void unload(sl_compiled *c) {
    sl_queue_enter(c->executor->queue);
    sl_window_close(c);
    if (c->executable) c->executor->device->ops->unload(c->executable);
    for (uint32_t s = 0; s < c->slot_count; s++)
        if (c->slots[s].tensor && c->slots[s].tensor->kind == SL_VALUE_INPUT)
            sl_tensor_release(c->slots[s].tensor, c->executor);
    sl_queue_leave(c->executor->queue);
}

void sl_compiled_destroy(sl_compiled *c) {
    if (!c) return;
    if (c->flight != SL_FLIGHT_NONE && sl_compiled_finish(c, NULL) != SL_OK)
        c->flight = SL_FLIGHT_NONE; /* nobody asks for its error any more */
    unload(c);
    sl_evaluator_destroy(c->evaluator);
    for (uint32_t b = 0; b < c->block_count; b++) sl_compiled_release_block(c, b);
    sl_program_destroy(c->program);
    sl_graph_destroy(c->graph);
    const sl_place place = {c->executor, c->storage, NULL};
    sl_arena arena = c->arena;
    sl_arena_deinit(&arena);
    sl_place_close(&place);
}

/* ---- running ---- */

static sl_status bind_slot(const sl_compiled *c, const sl_slot *slot, sl_error *err) {
    const sl_value id = {slot->value};
    void *data = slot->tensor->data;
    const sl_device *device = c->executor->device;
    if (!device && slot->tensor->kind == SL_VALUE_STATE)
        return sl_evaluator_bind_state(c->evaluator, id, data, err);
    if (!device) return sl_evaluator_bind(c->evaluator, id, data, err);
    if (slot->buffer == NONE) return SL_OK;
    SL_TRY(device->ops->bind(c->executable, (sl_buffer_id){slot->buffer}, data, err));
    sl_tensor_hold(slot->tensor, c->executor);
    return SL_OK;
}

sl_status sl_compiled_bind_all(sl_compiled *c, sl_error *err) {
    for (uint32_t s = 0; s < c->slot_count; s++) {
        sl_slot *slot = &c->slots[s];
        if (!slot->tensor->data) SL_TRY(sl_tensor_ready(slot->tensor, c->executor, err));
        if (slot->version == slot->tensor->version) continue;
        SL_TRY(bind_slot(c, slot, err));
        slot->version = slot->tensor->version;
    }
    return SL_OK;
}

static sl_status check_inputs(const sl_compiled *c, sl_error *err) {
    for (uint32_t s = 0; s < c->slot_count; s++) {
        const sl_slot *slot = &c->slots[s];
        if (slot->is_needed && !atomic_load(&slot->tensor->is_set))
            return sl_fail(err, SL_INVALID, "%s '%s' was never set",
                           slot->tensor->kind == SL_VALUE_INPUT ? "input" : "weight",
                           slot->tensor->name);
    }
    return SL_OK;
}

sl_status sl_compiled_check_idle(const sl_compiled *c, sl_error *err) {
    if (c->flight == SL_FLIGHT_NONE) return SL_OK;
    return sl_fail(err, SL_INVALID, "graph '%s': a run is in flight", c->graph->name);
}

static sl_status evaluate(const sl_compiled *c, sl_error *err) {
    SL_TRY(sl_evaluator_run(c->evaluator, err));
    for (uint32_t o = 0; o < c->graph->output_count; o++) {
        const sl_value id = c->graph->outputs[o].value;
        const sl_type *type = &sl_graph_value(c->graph, id)->type;
        const sl_result *result = &c->results[o];
        sl_encode_f64(type->dtype, sl_evaluator_result(c->evaluator, id), sl_type_elements(type),
                      result->given ? result->given : c->blocks[o].data);
    }
    return SL_OK;
}

/* To the caller's memory, where the device has not written it there. */
static void copy_results(const sl_compiled *c) {
    const sl_device *device = c->executor->device;
    for (uint32_t o = 0; device && o < c->program->output_count; o++) {
        const void *from = c->results[o].given ? device->ops->output(c->executable, o) : NULL;
        const size_t bytes = sl_type_bytes(&c->program->outputs[o].operand.type);
        if (from && from != c->results[o].given && bytes) memmove(c->results[o].given, from, bytes);
    }
}

/* Clocks are read only where there is something to measure: a run may take less than a reading. */
static sl_status bind_stale(sl_compiled *c, double *since, sl_error *err) {
    bool is_stale = false;
    for (uint32_t s = 0; s < c->slot_count && !is_stale; s++)
        is_stale = !c->slots[s].tensor->data || c->slots[s].version != c->slots[s].tensor->version;
    if (!is_stale) return SL_OK;
    SL_TRY(sl_compiled_bind_all(c, err));
    c->timing.encode_seconds += sl_clock_lap(since);
    return SL_OK;
}

static sl_status begin(sl_compiled *c, double *since, sl_error *err) {
    SL_TRY(bind_stale(c, since, err));
    return c->executor->device->ops->begin(c->executable, err);
}

static sl_status end(sl_compiled *c, sl_error *err) {
    sl_run_seconds seconds = {0};
    const sl_status status = c->executor->device->ops->end(c->executable, &seconds, err);
    c->timing.encode_seconds += seconds.encode;
    c->timing.wait_seconds += seconds.wait;
    c->timing.run_seconds = seconds.run;
    sl_window_count(c);
    if (status == SL_OK) copy_results(c);
    return status;
}

static sl_status run_whole(sl_compiled *c, double *since, sl_error *err) {
    sl_device *device = c->executor->device;
    SL_TRY(bind_stale(c, since, err));
    const sl_status status = device ? device->ops->run(c->executable, err) : evaluate(c, err);
    c->timing.run_seconds = sl_clock_lap(since);
    sl_window_count(c);
    if (status == SL_OK) copy_results(c);
    return status;
}

static bool has_halves(const sl_compiled *c) {
    return c->executor->device && c->executor->device->ops->begin;
}

static sl_status account(sl_compiled *c, sl_status status) {
    sl_run_timing *total = &c->timings.total;
    if (status != SL_OK) return status;
    c->timings.runs++;
    c->timings.last = c->timing;
    total->encode_seconds += c->timing.encode_seconds;
    total->wait_seconds += c->timing.wait_seconds;
    total->run_seconds += c->timing.run_seconds;
    return SL_OK;
}

sl_status sl_compiled_run(sl_compiled *c, sl_error *err) {
    SL_NEED(c);
    SL_TRY(sl_compiled_check_idle(c, err));
    SL_TRY(check_inputs(c, err));
    double since = sl_clock_seconds();
    c->timing = (sl_run_timing){0};
    if (sl_queue_enter(c->executor->queue)) c->timing.wait_seconds = sl_clock_lap(&since);
    sl_status status;
    if (has_halves(c)) {
        status = begin(c, &since, err);
        if (status == SL_OK) status = end(c, err);
    } else {
        status = run_whole(c, &since, err);
        c->timing.wait_seconds += c->timing.run_seconds;
    }
    sl_queue_leave(c->executor->queue);
    return account(c, status);
}

static void run_job(void *ctx) {
    sl_compiled *c = ctx;
    double since = sl_clock_seconds();
    c->status = run_whole(c, &since, &c->error);
}

/* What goes wrong is told by finish, as it is when a worker runs it. */
static void begin_in_turn(sl_compiled *c) {
    double since = sl_clock_seconds();
    if (sl_queue_enter(c->executor->queue)) c->timing.wait_seconds = sl_clock_lap(&since);
    c->status = begin(c, &since, &c->error);
    sl_queue_leave(c->executor->queue);
    c->flight = c->status == SL_OK ? SL_FLIGHT_ON_DEVICE : SL_FLIGHT_FAILED;
}

sl_status sl_compiled_start(sl_compiled *c, sl_error *err) {
    SL_NEED(c);
    SL_TRY(sl_compiled_check_idle(c, err));
    SL_TRY(check_inputs(c, err));
    c->timing = (sl_run_timing){0};
    if (has_halves(c)) {
        begin_in_turn(c);
        return SL_OK;
    }
    c->job = (sl_queue_job){.run = run_job, .ctx = c};
    SL_TRY(sl_queue_start(c->executor->queue, &c->job, err));
    c->flight = SL_FLIGHT_QUEUED;
    return SL_OK;
}

static void land(sl_compiled *c) {
    double since = sl_clock_seconds();
    if (c->flight == SL_FLIGHT_QUEUED) {
        sl_queue_wait(c->executor->queue, &c->job);
        c->timing.wait_seconds += sl_clock_lap(&since);
    } else if (c->flight == SL_FLIGHT_ON_DEVICE) {
        sl_queue_enter(c->executor->queue);
        c->timing.wait_seconds += sl_clock_lap(&since);
        c->status = end(c, &c->error);
        sl_queue_leave(c->executor->queue);
    }
    c->flight = SL_FLIGHT_NONE;
}

sl_status sl_compiled_finish(sl_compiled *c, sl_error *err) {
    SL_NEED(c);
    if (c->flight == SL_FLIGHT_NONE)
        return sl_fail(err, SL_INVALID, "graph '%s': no run is in flight", c->graph->name);
    land(c);
    if (c->status != SL_OK && err) *err = c->error;
    return account(c, c->status);
}
