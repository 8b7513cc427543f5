#include "engine/session/steps.h"
#include "base/clock.h"
#include "core/choose.h"
#include "core/codec.h"
#include "core/kv.h"
#include "engine/quant/noise.h"
#include "runtime/devices.h"
#include <string.h>

typedef struct {
    uint32_t rows, wanted;
    bool chooses;
    uint64_t last_use;
    sl_graph *graph;
    sl_program *program;
    sl_executable *executable;
    sl_evaluator *evaluator;
} compiled_step;

typedef struct {
    const char *name;
    void *data;
    uint64_t bytes, bytes_each; /* of all slots, of one */
    sl_state_kind kind;
    sl_type type; /* as declared; the reference evaluator keeps doubles */
} state;

struct sl_steps {
    sl_steps_options options;
    sl_device_info device_info;
    sl_arena arena;
    state *states;
    uint32_t state_count;
    int32_t tokens[SL_MAX_STEP_ROWS], slots[SL_MAX_STEP_ROWS], positions[SL_MAX_STEP_ROWS],
        wanted[SL_MAX_STEP_ROWS];
    double how[SL_MAX_STEP_ROWS * SL_CHOOSE_COLUMNS];
    compiled_step kept[SL_KEPT_STEPS];
    compiled_step *started; /* the one under way, or finished last; NULL: none */
    uint64_t clock;
    float *results; /* of the evaluator, as floats */
    size_t results_bytes;
    sl_steps_stats stats;
};

enum { STATE_ALIGN = 64 };

/* Memory for states: the device's own. */
static void *allocate_state(const sl_steps *steps, uint64_t bytes) {
    sl_device *device = steps->options.device;
    return device ? device->ops->allocate(device, bytes)
                  : sl_resize(steps->options.allocator, NULL, 0, bytes, STATE_ALIGN);
}
static void release_state(const sl_steps *steps, void *data, uint64_t bytes) {
    sl_device *device = steps->options.device;
    if (device && data)
        device->ops->release(device, data, bytes);
    else
        sl_release(steps->options.allocator, data, bytes, STATE_ALIGN);
}

static bool has_start(const sl_steps *steps) {
    return steps->options.device && steps->options.device->ops->start;
}

static void discard(sl_steps *steps, compiled_step *step) {
    if (step->executable) steps->options.device->ops->unload(step->executable);
    sl_evaluator_destroy(step->evaluator);
    sl_program_destroy(step->program);
    sl_graph_destroy(step->graph);
    *step = (compiled_step){0};
}

static void *memory_of_input(sl_steps *steps, sl_step_input input) {
    void *const memory[SL_STEP_INPUT_COUNT] = {[SL_STEP_INPUT_TOKENS] = steps->tokens,
                                               [SL_STEP_INPUT_SLOTS] = steps->slots,
                                               [SL_STEP_INPUT_POSITIONS] = steps->positions,
                                               [SL_STEP_INPUT_WANTED] = steps->wanted,
                                               [SL_STEP_INPUT_SAMPLING] = steps->how};
    return memory[input];
}

static void *state_named(const sl_steps *steps, const char *name) {
    for (uint32_t i = 0; i < steps->state_count; i++)
        if (strcmp(steps->states[i].name, name) == 0) return steps->states[i].data;
    return NULL;
}

/* What a declared value is bound to. */
static void *memory_of(sl_steps *steps, const sl_value_info *value) {
    switch (value->kind) {
    case SL_VALUE_INPUT:
        return memory_of_input(steps, (sl_step_input)value->tag);
    case SL_VALUE_STATE:
        return state_named(steps, value->name);
    case SL_VALUE_WEIGHT: {
        const sl_weight *weight = sl_weights_find(steps->options.shape.weights, value->name);
        return weight ? (void *)(uintptr_t)weight->data : NULL; /* devices never write weights */
    }
    default:
        return NULL;
    }
}

/* States start undefined: every state op resets its slot at position 0, attention uses nothing
 * beyond what it wrote, and what was chosen is asked for only after a choice. */
static sl_status make_state(sl_steps *steps, const sl_value_info *value, sl_error *err) {
    state *s = &steps->states[steps->state_count];
    s->bytes = steps->options.device ? sl_type_bytes(&value->type)
                                     : (uint64_t)sl_type_elements(&value->type) * sizeof(double);
    s->bytes_each = s->bytes / (uint64_t)value->type.shape.dims[0];
    s->kind = (sl_state_kind)value->tag;
    s->type = value->type;
    s->name = sl_arena_copy_text(&steps->arena, value->name, strlen(value->name));
    s->data = s->name ? allocate_state(steps, s->bytes) : NULL;
    if (!s->data) return sl_no_memory(err, "the state of sequences", s->bytes);
    steps->state_count++;
    steps->stats.state_bytes += s->bytes;
    return SL_OK;
}

/* The first graph that is made names them all. */
static sl_status make_states(sl_steps *steps, const sl_graph *graph, sl_error *err) {
    steps->states = SL_ARENA_NEW_ARRAY(&steps->arena, state, graph->value_count + 1);
    if (!steps->states) return sl_no_memory(err, "the state table", graph->value_count);
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind == SL_VALUE_STATE)
            SL_TRY(make_state(steps, &graph->values[v], err));
    return SL_OK;
}

/* What steps that choose a token have besides; there is room in the table. */
static sl_status make_chosen(sl_steps *steps, sl_error *err) {
    const int64_t slots = steps->options.shape.slots;
    const sl_value_info chosen = {.name = SL_STEP_CHOSEN,
                                  .type = sl_type_make(SL_DTYPE_i32, 1, slots),
                                  .tag = SL_STATE_RECURRENT};
    return make_state(steps, &chosen, err);
}

static void describe_program(sl_steps_stats *stats, const sl_program *program) {
    const sl_program_report *report = &program->report;
    stats->step_count = program->step_count;
    stats->level_count = program->level_count;
    stats->arena_bytes = program->arena_bytes;
    stats->unshared_bytes = report->unshared_bytes;
    stats->fuse_seconds += report->fuse_seconds;
    stats->lower_seconds += report->lower_seconds;
    stats->schedule_seconds += report->schedule_seconds;
    stats->plan_seconds += report->plan_seconds;
}

static sl_compile_how how_to_compile(const sl_steps *steps, const compiled_step *step) {
    sl_compile_how how = steps->options.how;
    if (steps->device_info.unshared_single_row && step->rows == 1) how.no_sharing = true;
    return how;
}

static sl_status bind_device(sl_steps *steps, compiled_step *step, sl_error *err) {
    const sl_device_ops *ops = steps->options.device->ops;
    const sl_compile_how how = how_to_compile(steps, step);
    SL_TRY(sl_compile_graph(step->graph, &how, steps->options.allocator, &step->program, err));
    const double begin = sl_clock_seconds();
    SL_TRY(ops->load(steps->options.device, step->program, &step->executable, err));
    steps->stats.load_seconds += sl_clock_seconds() - begin;
    for (uint32_t v = 1; v <= step->graph->value_count; v++) {
        const sl_value_info *value = &step->graph->values[v];
        sl_buffer_id buffer;
        if (!value->name || !sl_program_find(step->program, value->name, &buffer)) continue;
        if (value->kind == SL_VALUE_EXPERTS)
            SL_TRY(ops->bind_experts(step->executable, buffer, steps->options.experts_source, err));
        else if (value->kind != SL_VALUE_CONSTANT)
            SL_TRY(ops->bind(step->executable, buffer, memory_of(steps, value), err));
    }
    describe_program(&steps->stats, step->program);
    return SL_OK;
}

static sl_status bind_evaluator(sl_steps *steps, compiled_step *step, sl_error *err) {
    SL_TRY(sl_evaluator_create(step->graph, steps->options.allocator, &step->evaluator, err));
    for (uint32_t v = 1; v <= step->graph->value_count; v++) {
        const sl_value_info *value = &step->graph->values[v];
        const sl_value id = {v};
        if (value->kind == SL_VALUE_EXPERTS)
            SL_TRY(
                sl_evaluator_bind_experts(step->evaluator, id, steps->options.experts_source, err));
        else if (value->kind == SL_VALUE_STATE)
            SL_TRY(sl_evaluator_bind_state(step->evaluator, id, memory_of(steps, value), err));
        else if (value->kind == SL_VALUE_INPUT || value->kind == SL_VALUE_WEIGHT)
            SL_TRY(sl_evaluator_bind(step->evaluator, id, memory_of(steps, value), err));
    }
    return SL_OK;
}

static sl_status compile_step(sl_steps *steps, compiled_step *step, sl_error *err) {
    sl_step_shape shape = steps->options.shape;
    shape.rows = step->rows;
    shape.wanted = step->wanted;
    shape.chooses = step->chooses;
    SL_TRY(sl_graph_create("step", steps->options.allocator, &step->graph, err));
    const double begin = sl_clock_seconds();
    SL_TRY(sl_architecture_build(steps->options.architecture, &shape, step->graph, err));
    steps->stats.build_seconds += sl_clock_seconds() - begin;
    if (!steps->states) SL_TRY(make_states(steps, step->graph, err));
    return steps->options.device ? bind_device(steps, step, err) : bind_evaluator(steps, step, err);
}

/* The step for a shape: kept, or compiled in place of the least recently used. */
static sl_status find_step(sl_steps *steps, uint32_t rows, uint32_t wanted, bool chooses,
                           compiled_step **out, sl_error *err) {
    compiled_step *oldest = &steps->kept[0];
    for (uint32_t i = 0; i < SL_KEPT_STEPS; i++) {
        compiled_step *step = &steps->kept[i];
        if (step->graph && step->rows == rows && step->wanted == wanted &&
            step->chooses == chooses) {
            *out = step;
            return SL_OK;
        }
        if (step->last_use < oldest->last_use) oldest = step;
    }
    discard(steps, oldest);
    if (steps->started == oldest) steps->started = NULL;
    const double start = sl_clock_seconds();
    *oldest = (compiled_step){.rows = rows, .wanted = wanted, .chooses = chooses};
    const sl_status status = compile_step(steps, oldest, err);
    if (status != SL_OK) {
        discard(steps, oldest);
        return status;
    }
    oldest->last_use = ++steps->clock;
    steps->stats.compiled++;
    steps->stats.compile_seconds += sl_clock_seconds() - start;
    *out = oldest;
    return SL_OK;
}

sl_status sl_steps_create(const sl_steps_options *options, sl_steps **out, sl_error *err) {
    sl_steps *steps = sl_allocate(options->allocator, sizeof *steps, _Alignof(sl_steps));
    if (!steps) return sl_no_memory(err, "a model's steps", sizeof *steps);
    steps->options = *options;
    steps->device_info = sl_device_describe(options->device);
    sl_arena_init(&steps->arena, options->allocator);
    compiled_step *first;
    sl_status status = find_step(steps, 1, 1, false, &first, err);
    if (status == SL_OK && has_start(steps)) status = make_chosen(steps, err);
    if (status == SL_OK)
        *out = steps;
    else
        sl_steps_destroy(steps);
    return status;
}

void sl_steps_destroy(sl_steps *steps) {
    if (!steps) return;
    const sl_allocator *allocator = steps->options.allocator;
    for (uint32_t i = 0; i < SL_KEPT_STEPS; i++) discard(steps, &steps->kept[i]);
    for (uint32_t i = 0; i < steps->state_count; i++)
        release_state(steps, steps->states[i].data, steps->states[i].bytes);
    sl_release(allocator, steps->results, steps->results_bytes, STATE_ALIGN);
    sl_arena_deinit(&steps->arena);
    sl_release(allocator, steps, sizeof *steps, _Alignof(sl_steps));
}

/* The evaluator's doubles as floats: logits, then hidden. */
static sl_status evaluator_result(sl_steps *steps, const compiled_step *step, sl_step_result *out,
                                  sl_error *err) {
    const size_t logits = (size_t)step->wanted * steps->options.shape.config->vocab;
    const size_t hidden = (size_t)step->wanted * steps->options.shape.config->hidden;
    const size_t bytes = (logits + hidden) * sizeof(float);
    if (bytes > steps->results_bytes) {
        float *fresh = sl_resize(steps->options.allocator, steps->results, steps->results_bytes,
                                 bytes, STATE_ALIGN);
        if (!fresh) return sl_no_memory(err, "logits", bytes);
        steps->results = fresh;
        steps->results_bytes = bytes;
    }
    const double *from =
        sl_evaluator_result(step->evaluator, step->graph->outputs[SL_STEP_LOGITS].value);
    for (size_t i = 0; i < logits; i++) steps->results[i] = (float)from[i];
    from = sl_evaluator_result(step->evaluator, step->graph->outputs[SL_STEP_HIDDEN].value);
    for (size_t i = 0; i < hidden; i++) steps->results[logits + i] = (float)from[i];
    *out = (sl_step_result){steps->results, steps->results + logits};
    return SL_OK;
}

sl_status sl_steps_set_rows(sl_steps *steps, const sl_step_rows *rows, sl_error *err) {
    if (rows->count == 0 || rows->count > SL_MAX_STEP_ROWS)
        return sl_fail(err, SL_INVALID, "a forward pass of %u rows, wanted 1 to %d", rows->count,
                       SL_MAX_STEP_ROWS);
    memcpy(steps->tokens, rows->tokens, rows->count * sizeof *rows->tokens);
    memcpy(steps->slots, rows->slots, rows->count * sizeof *rows->slots);
    memcpy(steps->positions, rows->positions, rows->count * sizeof *rows->positions);
    if (rows->how)
        memcpy(steps->how, rows->how, (size_t)rows->count * SL_CHOOSE_COLUMNS * sizeof *rows->how);
    if (rows->wanted_rows)
        memcpy(steps->wanted, rows->wanted_rows, rows->wanted * sizeof *rows->wanted_rows);
    return SL_OK;
}

static sl_step_result result_of(const sl_device_ops *ops, const sl_executable *executable) {
    return (sl_step_result){ops->output(executable, SL_STEP_LOGITS),
                            ops->output(executable, SL_STEP_HIDDEN)};
}

sl_status sl_steps_run(sl_steps *steps, const sl_step_rows *rows, sl_step_result *out,
                       sl_error *err) {
    compiled_step *step;
    SL_TRY(sl_steps_set_rows(steps, rows, err));
    SL_TRY(find_step(steps, rows->count, rows->wanted, false, &step, err));
    step->last_use = ++steps->clock;
    *out = (sl_step_result){0};
    if (step->evaluator) {
        SL_TRY(sl_evaluator_run(step->evaluator, err));
        return rows->wanted ? evaluator_result(steps, step, out, err) : SL_OK;
    }
    const sl_device_ops *ops = steps->options.device->ops;
    SL_TRY(ops->run(step->executable, err));
    if (rows->wanted) *out = result_of(ops, step->executable);
    return SL_OK;
}

bool sl_steps_can_choose(const sl_steps *steps) {
    sl_device *device = steps->options.device;
    return has_start(steps) && device->ops->can_start(device);
}

sl_status sl_steps_start(sl_steps *steps, const sl_step_rows *rows, sl_error *err) {
    compiled_step *step;
    SL_TRY(sl_steps_set_rows(steps, rows, err));
    SL_TRY(find_step(steps, rows->count, rows->count, true, &step, err));
    step->last_use = ++steps->clock;
    steps->started = step;
    return steps->options.device->ops->start(step->executable, err);
}

sl_status sl_steps_finish(sl_steps *steps, const int32_t **out_tokens, sl_error *err) {
    const sl_device_ops *ops = steps->options.device->ops;
    SL_TRY(ops->finish(steps->started->executable, err));
    *out_tokens = ops->output(steps->started->executable, SL_STEP_TOKEN);
    return SL_OK;
}

sl_status sl_steps_fetch(sl_steps *steps, sl_step_result *out, sl_error *err) {
    const sl_device_ops *ops = steps->options.device->ops;
    sl_executable *executable = steps->started->executable;
    SL_TRY(ops->fetch(executable, SL_STEP_LOGITS, err));
    SL_TRY(ops->fetch(executable, SL_STEP_HIDDEN, err));
    *out = result_of(ops, executable);
    return SL_OK;
}

sl_steps_stats sl_steps_describe(const sl_steps *steps) {
    return steps->stats;
}

const sl_steps_options *sl_steps_given(const sl_steps *steps) {
    return &steps->options;
}

sl_status sl_steps_prepare(sl_steps *steps, uint32_t rows, uint32_t wanted, sl_prepared_step *out,
                           sl_error *err) {
    compiled_step *step;
    SL_TRY(find_step(steps, rows, wanted, false, &step, err));
    *out = (sl_prepared_step){step->program, step->executable};
    return SL_OK;
}

uint64_t sl_steps_recurrent_bytes(const sl_steps *steps) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < steps->state_count; i++)
        if (steps->states[i].kind == SL_STATE_RECURRENT) bytes += steps->states[i].bytes_each;
    return bytes;
}

/* Never nothing, so that NULL means no memory. */
static uint64_t checkpoint_bytes(const sl_steps *steps) {
    const uint64_t bytes = sl_steps_recurrent_bytes(steps);
    return bytes ? bytes : STATE_ALIGN;
}

void *sl_steps_checkpoint_create(sl_steps *steps) {
    return allocate_state(steps, checkpoint_bytes(steps));
}

void sl_steps_checkpoint_destroy(sl_steps *steps, void *checkpoint) {
    if (checkpoint) release_state(steps, checkpoint, checkpoint_bytes(steps));
}

/* Walks the recurrent states of a slot, in either direction. */
static sl_status copy_recurrent(sl_steps *steps, uint32_t slot, char *checkpoint, bool save,
                                sl_error *err) {
    sl_device *device = steps->options.device;
    for (uint32_t i = 0; i < steps->state_count; i++) {
        const state *s = &steps->states[i];
        if (s->kind != SL_STATE_RECURRENT) continue;
        char *here = (char *)s->data + slot * s->bytes_each;
        char *to = save ? checkpoint : here, *from = save ? here : checkpoint;
        if (device)
            SL_TRY(device->ops->copy_within(device, to, from, s->bytes_each, err));
        else
            memcpy(to, from, s->bytes_each);
        checkpoint += s->bytes_each;
    }
    return SL_OK;
}

sl_status sl_steps_save_recurrent(sl_steps *steps, uint32_t slot, void *checkpoint, sl_error *err) {
    return copy_recurrent(steps, slot, checkpoint, true, err);
}

sl_status sl_steps_load_recurrent(sl_steps *steps, uint32_t slot, void *checkpoint, sl_error *err) {
    return copy_recurrent(steps, slot, checkpoint, false, err);
}

uint64_t sl_steps_kv_bytes(const sl_steps *steps) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < steps->state_count; i++)
        if (steps->states[i].kind == SL_STATE_KV) bytes += steps->states[i].bytes_each;
    return bytes;
}

static void fill_with_codes(const sl_type *type, void *into, uint64_t seed, float *row) {
    const int64_t rows = sl_kv_rows(type), width = sl_type_elements(type) / rows;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t d = 0; d < width; d++)
            row[d] = sl_noise_normal(seed, (uint64_t)(i * width + d));
        sl_kv_store_row(type, into, i, row);
    }
}

static sl_status fill_with_noise(sl_steps *steps, const state *s, void *into, uint64_t seed,
                                 sl_error *err) {
    const uint64_t f32s = s->bytes_each / sizeof(float), f16s = s->bytes_each / sizeof(uint16_t);
    sl_type one = s->type;
    one.shape.dims[0] = 1;
    if (s->type.dtype == SL_DTYPE_f32)
        for (uint64_t i = 0; i < f32s; i++) ((float *)into)[i] = sl_noise_normal(seed, i);
    else if (s->type.dtype == SL_DTYPE_f16)
        for (uint64_t i = 0; i < f16s; i++)
            ((uint16_t *)into)[i] = sl_f16_from_f32(sl_noise_normal(seed, i));
    else if (sl_dtype_infos[s->type.dtype].kind == SL_KIND_CACHE) {
        const size_t bytes = (size_t)(sl_type_elements(&one) / sl_kv_rows(&one)) * sizeof(float);
        float *row = sl_resize(steps->options.allocator, NULL, 0, bytes, sizeof *row);
        if (!row) return sl_no_memory(err, "a row of the cache", bytes);
        fill_with_codes(&one, into, seed, row);
        sl_release(steps->options.allocator, row, bytes, sizeof *row);
    } else
        return sl_fail(err, SL_UNSUPPORTED, "state '%s' is %s, which cannot be simulated", s->name,
                       sl_dtype_infos[s->type.dtype].name);
    return SL_OK;
}

sl_status sl_steps_imagine_kv(sl_steps *steps, uint32_t slot, sl_error *err) {
    sl_device *device = steps->options.device;
    if (!device) return sl_fail(err, SL_UNSUPPORTED, "a context can only be simulated on a device");
    for (uint32_t i = 0; i < steps->state_count; i++) {
        const state *s = &steps->states[i];
        if (s->kind != SL_STATE_KV) continue;
        void *noise = sl_resize(steps->options.allocator, NULL, 0, s->bytes_each, STATE_ALIGN);
        if (!noise) return sl_no_memory(err, "a simulated context", s->bytes_each);
        sl_status status = fill_with_noise(steps, s, noise, i, err);
        if (status == SL_OK)
            status = device->ops->copy_in(device, (char *)s->data + slot * s->bytes_each, noise,
                                          s->bytes_each, err);
        sl_release(steps->options.allocator, noise, s->bytes_each, STATE_ALIGN);
        SL_TRY(status);
    }
    return SL_OK;
}
