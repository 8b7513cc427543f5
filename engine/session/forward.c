#include "engine/session/forward.h"
#include "base/clock.h"
#include "core/choose.h"
#include "core/kv.h"
#include "engine/session/forward_states.h"
#include "engine/session/rounding.h"
#include "runtime/devices.h"
#include <assert.h>
#include <string.h>

/* The parameters that a forward pass is compiled for. */
typedef struct {
    uint32_t rows, wanted;
    bool chooses, reveals, keeps, replays;
    bool sized;   /* for up to so many rows and wanted ones */
    bool gathers; /* the wanted rows are an input, although they are as many as the rows */
} pass_shape;

/* A sized pass of few rows divides attention by positions, as other passes of few rows do. */
enum { FEW_ROWS = 8, LEAST_SIZED = 3 };

typedef struct {
    pass_shape shape;
    uint64_t last_use;
    sl_graph *graph;
    sl_program *program;
    sl_executable *executable;
    sl_evaluator *evaluator;
    sl_arena arena;   /* of sizing */
    sl_sizing sizing; /* of a sized pass */
} compiled_forward;

typedef struct {
    const char *name;
    void *data;
    uint64_t bytes, bytes_each; /* of all slots, of one */
    sl_state_kind kind;
    sl_type type; /* as declared; the reference evaluator keeps doubles */
} state;

struct sl_forward {
    sl_forward_options options;
    sl_device_info device_info;
    sl_arena arena;
    state *states;
    uint32_t state_count;
    int32_t tokens[SL_MAX_FORWARD_ROWS], slots[SL_MAX_FORWARD_ROWS], positions[SL_MAX_FORWARD_ROWS],
        wanted[SL_MAX_FORWARD_ROWS];
    double sampling[SL_MAX_FORWARD_ROWS * SL_CHOOSE_COLUMNS];
    int32_t *pages;        /* [SL_MAX_FORWARD_ROWS][pages of a sequence]; NULL until it is bound */
    sl_kv_pages *kv_pages; /* likewise */
    compiled_forward kept[SL_KEPT_SIZES];
    uint32_t most_kept, spare_slot; /* spare_slot: of rows that are added to a pass; 0: none */
    compiled_forward *started;      /* the one under way, or finished last; NULL: none */
    compiled_forward *ran;          /* the one that sl_forward_run ran last; NULL: none */
    uint64_t clock;
    float **kept_rows; /* the inputs of a pass that replays, [kept_count], for draft_rows rows */
    uint32_t kept_count;
    bool sizes_drafts; /* passes that keep and replay are sized */
    bool bound;
    float *results; /* of the evaluator, as floats */
    size_t results_bytes;
    sl_forward_stats stats;
};

static bool has_start(const sl_forward *forward) {
    return forward->options.device && forward->options.device->ops->start;
}

static void discard(sl_forward *forward, compiled_forward *pass) {
    if (pass->executable) forward->options.device->ops->unload(pass->executable);
    sl_evaluator_destroy(pass->evaluator);
    sl_program_destroy(pass->program);
    sl_graph_destroy(pass->graph);
    sl_arena_deinit(&pass->arena);
    *pass = (compiled_forward){0};
}

static void *memory_of_input(sl_forward *forward, uint64_t input) {
    if (input >= SL_FORWARD_INPUT_COUNT) return forward->kept_rows[input - SL_FORWARD_INPUT_COUNT];
    void *const memory[SL_FORWARD_INPUT_COUNT] = {[SL_FORWARD_INPUT_TOKENS] = forward->tokens,
                                                  [SL_FORWARD_INPUT_SLOTS] = forward->slots,
                                                  [SL_FORWARD_INPUT_POSITIONS] = forward->positions,
                                                  [SL_FORWARD_INPUT_PAGES] = forward->pages,
                                                  [SL_FORWARD_INPUT_WANTED] = forward->wanted,
                                                  [SL_FORWARD_INPUT_SAMPLING] = forward->sampling};
    return memory[input];
}

static void *state_named(const sl_forward *forward, const char *name) {
    for (uint32_t i = 0; i < forward->state_count; i++)
        if (strcmp(forward->states[i].name, name) == 0) return forward->states[i].data;
    return NULL;
}

/* What a declared value is bound to. */
static void *memory_of(sl_forward *forward, const sl_value_info *value) {
    switch (value->kind) {
    case SL_VALUE_INPUT:
        return memory_of_input(forward, value->tag);
    case SL_VALUE_STATE:
        return state_named(forward, value->name);
    case SL_VALUE_WEIGHT: {
        const sl_weight *weight = sl_weights_find(forward->options.shape.weights, value->name);
        return weight ? (void *)(uintptr_t)weight->data : NULL; /* devices never write weights */
    }
    default:
        return NULL;
    }
}

uint64_t sl_forward_state_bytes(const sl_forward_options *options, const sl_type *type) {
    return options->device ? sl_type_bytes(type)
                           : (uint64_t)sl_type_elements(type) * sizeof(double);
}

static sl_status make_state(sl_forward *forward, const sl_value_info *value, sl_error *err) {
    state *s = &forward->states[forward->state_count];
    s->bytes = sl_forward_state_bytes(&forward->options, &value->type);
    s->bytes_each = s->bytes / (uint64_t)value->type.shape.dims[0];
    s->kind = (sl_state_kind)value->tag;
    s->type = value->type;
    s->name = sl_arena_copy_text(&forward->arena, value->name, strlen(value->name));
    if (!s->name) return sl_no_memory(err, "the name of a state", strlen(value->name));
    forward->state_count++;
    forward->stats.state_bytes += s->bytes;
    return SL_OK;
}

/* The first graph that is made names them all. */
static sl_status make_states(sl_forward *forward, const sl_graph *graph, sl_error *err) {
    forward->states = SL_ARENA_NEW_ARRAY(&forward->arena, state, graph->value_count + 1);
    if (!forward->states) return sl_no_memory(err, "the state table", graph->value_count);
    for (uint32_t v = 1; v <= graph->value_count; v++)
        if (graph->values[v].kind == SL_VALUE_STATE)
            SL_TRY(make_state(forward, &graph->values[v], err));
    return SL_OK;
}

/* The state that a forward pass that samples has besides; there is room in the table. */
static sl_status make_chosen(sl_forward *forward, sl_error *err) {
    const int64_t slots = forward->options.shape.slots;
    const sl_value_info chosen = {.name = SL_FORWARD_CHOSEN,
                                  .type = sl_type_make(SL_DTYPE_i32, 1, slots),
                                  .tag = SL_STATE_SAMPLED};
    return make_state(forward, &chosen, err);
}

/* States start undefined: every state op resets its slot at position 0, attention uses nothing
 * beyond what it wrote, and what was chosen is asked for only after a choice. */
static sl_status allocate_states(sl_forward *forward, sl_error *err) {
    for (uint32_t i = 0; i < forward->state_count; i++) {
        state *s = &forward->states[i];
        s->data = sl_state_allocate(&forward->options, s->bytes);
        if (!s->data) return sl_no_memory(err, "the state of sequences", s->bytes);
    }
    return SL_OK;
}

static void describe_program(sl_forward_stats *stats, const sl_program *program) {
    const sl_program_report *report = &program->report;
    stats->step_count = program->step_count;
    stats->level_count = program->level_count;
    stats->arena_bytes = program->arena_bytes;
    stats->unshared_bytes = report->unshared_bytes;
    stats->fuse_seconds += sl_program_pass_seconds(report);
    stats->lower_seconds += report->lower_seconds;
    stats->schedule_seconds += report->schedule_seconds;
    stats->plan_seconds += report->plan_seconds;
}

static sl_compiler_options options_of(const sl_forward *forward, const compiled_forward *pass) {
    sl_compiler_options options = forward->options.compile;
    if (forward->device_info.unshared_single_row && pass->shape.rows == 1)
        options.no_sharing = true;
    return options;
}

static sl_status load_program(sl_forward *forward, compiled_forward *pass, sl_error *err) {
    sl_device *device = forward->options.device;
    const sl_compiler_options options = options_of(forward, pass);
    SL_TRY(
        sl_compile_graph(pass->graph, &options, forward->options.allocator, &pass->program, err));
    const double begin = sl_clock_seconds();
    SL_TRY(device->ops->load(device, pass->program, &pass->executable, err));
    forward->stats.load_seconds += sl_clock_seconds() - begin;
    describe_program(&forward->stats, pass->program);
    return SL_OK;
}

static sl_status bind_device(sl_forward *forward, compiled_forward *pass, sl_error *err) {
    const sl_device_ops *ops = forward->options.device->ops;
    for (uint32_t b = 0; b < pass->program->buffer_count; b++) {
        const char *name = pass->program->buffers[b].name;
        const sl_value id = name ? sl_graph_find(pass->graph, name) : (sl_value){0};
        const sl_value_info *value = sl_graph_value(pass->graph, id);
        const sl_buffer_id buffer = {b};
        if (!value) continue;
        if (value->kind == SL_VALUE_EXPERTS)
            SL_TRY(
                ops->bind_experts(pass->executable, buffer, forward->options.experts_source, err));
        else if (value->kind != SL_VALUE_CONSTANT)
            SL_TRY(ops->bind(pass->executable, buffer, memory_of(forward, value), err));
    }
    return SL_OK;
}

static sl_status bind_evaluator(sl_forward *forward, compiled_forward *pass, sl_error *err) {
    SL_TRY(sl_evaluator_create(pass->graph, forward->options.allocator, &pass->evaluator, err));
    for (uint32_t v = 1; v <= pass->graph->value_count; v++) {
        const sl_value_info *value = &pass->graph->values[v];
        const sl_value id = {v};
        if (value->kind == SL_VALUE_EXPERTS)
            SL_TRY(sl_evaluator_bind_experts(pass->evaluator, id, forward->options.experts_source,
                                             err));
        else if (value->kind == SL_VALUE_STATE)
            SL_TRY(sl_evaluator_bind_state(pass->evaluator, id, memory_of(forward, value), err));
        else if (value->kind == SL_VALUE_INPUT || value->kind == SL_VALUE_WEIGHT)
            SL_TRY(sl_evaluator_bind(pass->evaluator, id, memory_of(forward, value), err));
    }
    return SL_OK;
}

static sl_status bind_pass(sl_forward *forward, compiled_forward *pass, sl_error *err) {
    return forward->options.device ? bind_device(forward, pass, err)
                                   : bind_evaluator(forward, pass, err);
}

static sl_status build_graph(sl_forward *forward, const pass_shape *pass, sl_graph **out,
                             sl_error *err) {
    sl_forward_shape shape = forward->options.shape;
    shape.rows = pass->rows;
    shape.wanted = pass->wanted;
    shape.gathers = pass->sized || pass->gathers;
    shape.chooses = pass->chooses;
    shape.reveals = pass->reveals;
    shape.keeps = pass->keeps;
    shape.replays = pass->replays;
    SL_TRY(sl_graph_create("step", forward->options.allocator, out, err));
    const double begin = sl_clock_seconds();
    SL_TRY(sl_architecture_build(forward->options.architecture, &shape, *out, err));
    forward->stats.build_seconds += sl_clock_seconds() - begin;
    return SL_OK;
}

/* Compares the pass with one of other sizes, which is compiled for this. */
static sl_status find_sizing(sl_forward *forward, compiled_forward *pass, sl_error *err) {
    const pass_shape *shape = &pass->shape;
    compiled_forward probe = {.shape = *shape};
    probe.shape.rows -= 1;
    probe.shape.wanted += 2;
    const sl_compiler_options options = options_of(forward, &probe);
    const sl_allocator *allocator = forward->options.allocator;
    sl_arena_init(&pass->arena, allocator);
    pass->sizing = (sl_sizing){.most = {shape->rows, shape->wanted}};
    sl_status status = build_graph(forward, &probe.shape, &probe.graph, err);
    if (status == SL_OK)
        status = sl_compile_graph(probe.graph, &options, allocator, &probe.program, err);
    if (status == SL_OK)
        status = sl_sizing_find(pass->program, probe.program, &pass->arena, &pass->sizing, err);
    discard(forward, &probe);
    return status;
}

static sl_status compile_forward(sl_forward *forward, compiled_forward *pass, sl_error *err) {
    SL_TRY(build_graph(forward, &pass->shape, &pass->graph, err));
    if (!forward->states) SL_TRY(make_states(forward, pass->graph, err));
    if (forward->options.device) SL_TRY(load_program(forward, pass, err));
    if (pass->shape.sized) SL_TRY(find_sizing(forward, pass, err));
    return forward->bound ? bind_pass(forward, pass, err) : SL_OK;
}

/* The step for a shape: kept, or compiled in place of the least recently used. */
static bool is_same(const pass_shape *a, const pass_shape *b) {
    return a->rows == b->rows && a->wanted == b->wanted && a->chooses == b->chooses &&
           a->reveals == b->reveals && a->keeps == b->keeps && a->replays == b->replays &&
           a->sized == b->sized && a->gathers == b->gathers;
}

static sl_status find_forward(sl_forward *forward, pass_shape shape, compiled_forward **out,
                              sl_error *err) {
    compiled_forward *oldest = NULL;
    for (uint32_t i = 0; i < forward->most_kept; i++) {
        compiled_forward *pass = &forward->kept[i];
        if (pass->graph && is_same(&pass->shape, &shape)) {
            *out = pass;
            return SL_OK;
        }
        if (pass->shape.sized) continue; /* these stay */
        if (!oldest || pass->last_use < oldest->last_use) oldest = pass;
    }
    assert(oldest); /* those that stay leave room */
    discard(forward, oldest);
    if (forward->started == oldest) forward->started = NULL;
    if (forward->ran == oldest) forward->ran = NULL;
    const double start = sl_clock_seconds();
    *oldest = (compiled_forward){.shape = shape};
    const sl_status status = compile_forward(forward, oldest, err);
    if (status != SL_OK) {
        discard(forward, oldest);
        return status;
    }
    oldest->last_use = ++forward->clock;
    forward->stats.compiled++;
    forward->stats.compile_seconds += sl_clock_seconds() - start;
    *out = oldest;
    return SL_OK;
}

/* The sized passes: few rows, the most, and the most with many of them wanted. */
typedef enum { SIZED_FEW, SIZED_MOST, SIZED_SCORED, SIZED_KINDS } sized_kind;

static pass_shape sized_shape(const sl_forward *forward, sized_kind kind) {
    const uint32_t most = forward->options.chunk_rows;
    const uint32_t wanted =
        forward->options.most_wanted + (kind == SIZED_SCORED ? SL_SCORED_ROWS : 0);
    const uint32_t rows = kind == SIZED_FEW && most > FEW_ROWS ? FEW_ROWS : most;
    return (pass_shape){.rows = rows, .wanted = wanted < rows ? wanted : rows, .sized = true};
}

static bool can_resize(const sl_forward *forward) {
    return forward->options.device && forward->options.device->ops->resize;
}

bool sl_forward_is_sized(const sl_forward *forward) {
    return can_resize(forward) && forward->options.most_wanted > 0 &&
           forward->options.chunk_rows >= LEAST_SIZED;
}

/* Where sizes decide more than dims, each size has its program. */
static sl_status compile_sized(sl_forward *forward, sl_error *err) {
    compiled_forward *pass;
    if (!sl_forward_is_sized(forward)) return SL_OK;
    sl_status status = find_forward(forward, sized_shape(forward, SIZED_FEW), &pass, err);
    if (status == SL_OK)
        status = find_forward(forward, sized_shape(forward, SIZED_MOST), &pass, err);
    if (status != SL_UNSUPPORTED) return status;
    for (uint32_t i = 0; i < forward->most_kept; i++)
        if (forward->kept[i].shape.sized) discard(forward, &forward->kept[i]);
    forward->options.most_wanted = 0;
    return SL_OK;
}

/* The passes of a draft: one that keeps, one that replays. */
static pass_shape draft_shape(const sl_forward *forward, uint32_t rows, bool replays) {
    if (forward->sizes_drafts) rows = forward->options.draft_rows;
    return (pass_shape){.rows = rows,
                        .wanted = replays ? 0 : rows,
                        .keeps = !replays,
                        .replays = replays,
                        .sized = forward->sizes_drafts};
}

static sl_status make_kept_rows(sl_forward *forward, const sl_graph *graph, sl_error *err) {
    forward->kept_rows = SL_ARENA_NEW_ARRAY(&forward->arena, float *, graph->value_count + 1);
    if (!forward->kept_rows) return sl_no_memory(err, "the rows of a draft", graph->value_count);
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *value = &graph->values[v];
        if (value->kind != SL_VALUE_INPUT || value->tag < SL_FORWARD_INPUT_COUNT) continue;
        const size_t count = (size_t)sl_type_elements(&value->type);
        float *rows = SL_ARENA_NEW_ARRAY(&forward->arena, float, count);
        if (!rows) return sl_no_memory(err, "the rows of a draft", count);
        forward->kept_rows[value->tag - SL_FORWARD_INPUT_COUNT] = rows;
        forward->kept_count++;
    }
    return SL_OK;
}

static sl_status compile_draft_passes(sl_forward *forward, sl_error *err) {
    compiled_forward *pass;
    const uint32_t rows = forward->options.draft_rows;
    SL_TRY(find_forward(forward, draft_shape(forward, rows, false), &pass, err));
    if (sl_forward_recurrent_bytes(forward) == 0) return SL_OK;
    SL_TRY(find_forward(forward, draft_shape(forward, rows, true), &pass, err));
    return make_kept_rows(forward, pass->graph, err);
}

static sl_status compile_drafts(sl_forward *forward, sl_error *err) {
    const uint32_t rows = forward->options.draft_rows;
    if (rows == 0) return SL_OK;
    forward->sizes_drafts = rows >= LEAST_SIZED && can_resize(forward);
    const sl_status status = compile_draft_passes(forward, err);
    if (status != SL_UNSUPPORTED || !forward->sizes_drafts) return status;
    for (uint32_t i = 0; i < forward->most_kept; i++)
        if (forward->kept[i].shape.keeps || forward->kept[i].shape.replays)
            discard(forward, &forward->kept[i]);
    forward->sizes_drafts = false;
    return compile_draft_passes(forward, err);
}

/* The shape of the pass that computes these rows. */
static pass_shape shape_of(const sl_forward *forward, const sl_forward_rows *rows) {
    if (rows->keeps) return draft_shape(forward, rows->count, false);
    const pass_shape exact = {
        .rows = rows->count, .wanted = rows->wanted, .reveals = rows->reveals};
    if ((rows->count == 1 && rows->wanted == 1) || rows->reveals || rows->exact || rows->watch)
        return exact;
    if (forward->spare_slot) {
        const sl_rounded_pass size = sl_rounding_pass(&forward->options, rows);
        return (pass_shape){.rows = size.rows, .wanted = size.wanted, .gathers = size.gathers};
    }
    if (!sl_forward_is_sized(forward)) return exact;
    for (int kind = 0; kind < SIZED_KINDS; kind++) {
        const pass_shape sized = sized_shape(forward, (sized_kind)kind);
        if (rows->count <= sized.rows && rows->wanted <= sized.wanted) return sized;
    }
    return exact;
}

/* The last chunk of a prompt wants the logits of its last row. */
static sl_status compile_usual(sl_forward *forward, sl_error *err) {
    compiled_forward *pass;
    SL_TRY(find_forward(forward, (pass_shape){.rows = 1, .wanted = 1}, &pass, err));
    if (forward->options.chunk_rows > 1 && forward->options.device)
        SL_TRY(find_forward(forward, (pass_shape){.rows = forward->options.chunk_rows, .wanted = 1},
                            &pass, err));
    SL_TRY(compile_sized(forward, err));
    SL_TRY(compile_drafts(forward, err));
    return has_start(forward) ? make_chosen(forward, err) : SL_OK;
}

/* ---- pages of the KV cache ---- */

static uint32_t pages_each(const sl_forward *forward) {
    return (uint32_t)sl_kv_page_count(forward->options.shape.capacity);
}

/* Positions that rows which are added to a pass may have (rounding.h). */
static uint32_t spare_positions(const sl_forward *forward) {
    const uint32_t capacity = forward->options.shape.capacity, most = SL_MAX_FORWARD_ROWS / 4;
    return capacity < most ? capacity : most;
}

/* The tables of a pass: those of more rows than usual are not touched. */
static uint64_t table_bytes(const sl_forward *forward, uint32_t rows) {
    return (uint64_t)rows * pages_each(forward) * sizeof *forward->pages;
}

uint64_t sl_forward_table_bytes(const sl_forward *forward) {
    const sl_forward_options *o = &forward->options;
    const uint64_t tables = (uint64_t)o->shape.slots * pages_each(forward) * sizeof(int32_t);
    return table_bytes(forward, o->chunk_rows ? o->chunk_rows : 1) + tables +
           (uint64_t)sl_forward_pages(&o->shape) * 2 * sizeof(int32_t);
}

uint32_t sl_forward_most_kept(const sl_forward *forward) {
    return forward->most_kept;
}

sl_status sl_forward_create(const sl_forward_options *options, sl_forward **out, sl_error *err) {
    sl_forward *forward = sl_allocate(options->allocator, sizeof *forward, _Alignof(sl_forward));
    if (!forward) return sl_no_memory(err, "the forward pass of a model", sizeof *forward);
    forward->options = *options;
    forward->device_info = sl_device_describe(options->device);
    forward->most_kept = sl_rounding_is_due(options) ? SL_KEPT_SIZES : SL_KEPT_FORWARDS;
    if (sl_rounding_is_due(options)) {
        forward->spare_slot = forward->options.shape.slots++;
        if (options->shape.pages)
            forward->options.shape.pages += (uint32_t)sl_kv_page_count(spare_positions(forward));
    }
    sl_arena_init(&forward->arena, options->allocator);
    const sl_status status = compile_usual(forward, err);
    if (status == SL_OK)
        *out = forward;
    else
        sl_forward_destroy(forward);
    return status;
}

static sl_status make_pages(sl_forward *forward, sl_error *err) {
    const sl_forward_shape *shape = &forward->options.shape;
    const sl_kv_pages_options options = {.count = (uint32_t)sl_forward_pages(shape),
                                         .slots = shape->slots,
                                         .most = pages_each(forward),
                                         .copy = sl_forward_copy_page,
                                         .ctx = forward,
                                         .allocator = forward->options.allocator};
    const uint64_t bytes = table_bytes(forward, SL_MAX_FORWARD_ROWS);
    forward->pages = sl_resize(forward->options.allocator, NULL, 0, bytes, SL_STATE_ALIGN);
    if (!forward->pages) return sl_no_memory(err, "the pages of a forward pass", bytes);
    SL_TRY(sl_kv_pages_create(&options, &forward->kv_pages, err));
    if (!forward->spare_slot) return SL_OK;
    return sl_kv_pages_write(forward->kv_pages, forward->spare_slot, 0, spare_positions(forward),
                             err);
}

sl_kv_pages *sl_forward_kv_pages(const sl_forward *forward) {
    return forward->kv_pages;
}

/* The pages of rows [first, end), which are of one slot. */
static void copy_tables(sl_forward *forward, uint32_t slot, uint32_t first, uint32_t end) {
    uint32_t used;
    const int32_t *table = sl_kv_pages_of(forward->kv_pages, slot, &used);
    for (uint32_t t = first; t < end; t++)
        memcpy(forward->pages + (size_t)t * pages_each(forward), table, used * sizeof *table);
}

/* The pages of each row, after those that the rows of a sequence are written to were made so. */
static sl_status set_pages(sl_forward *forward, const sl_forward_rows *rows, sl_error *err) {
    for (uint32_t i = 0, end; i < rows->count; i = end) {
        const uint32_t slot = (uint32_t)rows->slots[i];
        for (end = i + 1; end < rows->count && rows->slots[end] == rows->slots[i];) end++;
        SL_TRY(sl_kv_pages_write(forward->kv_pages, slot, (uint32_t)rows->positions[i],
                                 (uint64_t)(uint32_t)rows->positions[end - 1] + 1, err));
        copy_tables(forward, slot, i, end);
    }
    return SL_OK;
}

sl_status sl_forward_bind(sl_forward *forward, sl_expert_source *experts, sl_error *err) {
    forward->options.experts_source = experts;
    SL_TRY(allocate_states(forward, err));
    SL_TRY(make_pages(forward, err));
    for (uint32_t i = 0; i < forward->most_kept; i++)
        if (forward->kept[i].graph) SL_TRY(bind_pass(forward, &forward->kept[i], err));
    forward->bound = true;
    return SL_OK;
}

void sl_forward_destroy(sl_forward *forward) {
    if (!forward) return;
    const sl_allocator *allocator = forward->options.allocator;
    for (uint32_t i = 0; i < forward->most_kept; i++) discard(forward, &forward->kept[i]);
    for (uint32_t i = 0; i < forward->state_count; i++)
        sl_state_release(&forward->options, forward->states[i].data, forward->states[i].bytes);
    sl_kv_pages_destroy(forward->kv_pages);
    sl_release(allocator, forward->pages, table_bytes(forward, SL_MAX_FORWARD_ROWS),
               SL_STATE_ALIGN);
    sl_release(allocator, forward->results, forward->results_bytes, SL_STATE_ALIGN);
    sl_arena_deinit(&forward->arena);
    sl_release(allocator, forward, sizeof *forward, _Alignof(sl_forward));
}

static sl_status make_results(sl_forward *forward, size_t bytes, sl_error *err) {
    if (bytes <= forward->results_bytes) return SL_OK;
    float *fresh = sl_resize(forward->options.allocator, forward->results, forward->results_bytes,
                             bytes, SL_STATE_ALIGN);
    if (!fresh) return sl_no_memory(err, "logits", bytes);
    forward->results = fresh;
    forward->results_bytes = bytes;
    return SL_OK;
}

/* The evaluator's doubles as floats: logits, then hidden. */
static sl_status evaluator_result(sl_forward *forward, const compiled_forward *pass,
                                  sl_forward_result *out, sl_error *err) {
    const size_t logits = (size_t)pass->shape.wanted * forward->options.shape.config->vocab;
    const size_t hidden = (size_t)pass->shape.wanted * forward->options.shape.config->hidden;
    const size_t bytes = (logits + hidden) * sizeof(float);
    SL_TRY(make_results(forward, bytes, err));
    const double *from =
        sl_evaluator_result(pass->evaluator, pass->graph->outputs[SL_FORWARD_LOGITS].value);
    for (size_t i = 0; i < logits; i++) forward->results[i] = (float)from[i];
    from = sl_evaluator_result(pass->evaluator, pass->graph->outputs[SL_FORWARD_HIDDEN].value);
    for (size_t i = 0; i < hidden; i++) forward->results[logits + i] = (float)from[i];
    *out = (sl_forward_result){forward->results, forward->results + logits};
    return SL_OK;
}

static sl_status set_inputs(sl_forward *forward, const sl_forward_rows *rows, sl_error *err) {
    if (rows->count == 0 || rows->count > SL_MAX_FORWARD_ROWS)
        return sl_fail(err, SL_INVALID, "a forward pass of %u rows, wanted 1 to %d", rows->count,
                       SL_MAX_FORWARD_ROWS);
    memcpy(forward->tokens, rows->tokens, rows->count * sizeof *rows->tokens);
    memcpy(forward->slots, rows->slots, rows->count * sizeof *rows->slots);
    memcpy(forward->positions, rows->positions, rows->count * sizeof *rows->positions);
    if (rows->sampling)
        memcpy(forward->sampling, rows->sampling,
               (size_t)rows->count * SL_CHOOSE_COLUMNS * sizeof *rows->sampling);
    if (rows->wanted_rows)
        memcpy(forward->wanted, rows->wanted_rows, rows->wanted * sizeof *rows->wanted_rows);
    else /* used by sized passes */
        for (uint32_t i = 0; i < rows->wanted; i++) forward->wanted[i] = (int32_t)i;
    return SL_OK;
}

sl_status sl_forward_set_rows(sl_forward *forward, const sl_forward_rows *rows, sl_error *err) {
    SL_TRY(set_inputs(forward, rows, err));
    return set_pages(forward, rows, err);
}

/* Rows that make a pass as large as its program: the first tokens of a sequence in a slot of their
 * own; wanted rows are repeated. */
static void add_rows(sl_forward *forward, const sl_forward_rows *rows, const pass_shape *shape) {
    for (uint32_t i = rows->count; i < shape->rows; i++) {
        forward->tokens[i] = rows->tokens[0];
        forward->slots[i] = (int32_t)forward->spare_slot;
        forward->positions[i] = (int32_t)(i - rows->count);
    }
    for (uint32_t i = rows->wanted; i < shape->wanted; i++) forward->wanted[i] = 0;
    copy_tables(forward, forward->spare_slot, rows->count, shape->rows);
}

static sl_forward_result result_of(const sl_device_ops *ops, const sl_executable *executable) {
    return (sl_forward_result){ops->output(executable, SL_FORWARD_LOGITS),
                               ops->output(executable, SL_FORWARD_HIDDEN)};
}

static sl_status run_watched(const sl_forward *forward, const compiled_forward *pass,
                             const sl_forward_watch *watch, double compile_seconds, sl_error *err) {
    const sl_watched_forward watched = {.program = pass->program,
                                        .executable = pass->executable,
                                        .device = forward->options.device,
                                        .rows = pass->shape.rows,
                                        .compile_seconds = compile_seconds};
    watch->begin(watch->ctx, &watched);
    const sl_status status = forward->options.device->ops->run(pass->executable, err);
    watch->end(watch->ctx, &watched);
    return status;
}

/* The pass of this shape, ready to run so many rows. */
static sl_status take_pass(sl_forward *forward, pass_shape shape, const sl_forward_rows *rows,
                           compiled_forward **out, sl_error *err) {
    SL_TRY(find_forward(forward, shape, out, err));
    compiled_forward *pass = *out;
    if (forward->spare_slot) add_rows(forward, rows, &pass->shape);
    if (pass->shape.sized)
        SL_TRY(forward->options.device->ops->resize(
            pass->executable, &pass->sizing, (const int64_t[]){rows->count, rows->wanted}, err));
    pass->last_use = ++forward->clock;
    forward->ran = pass;
    return SL_OK;
}

sl_status sl_forward_run(sl_forward *forward, const sl_forward_rows *rows, sl_forward_result *out,
                         sl_error *err) {
    compiled_forward *pass;
    const double compiled_before = forward->stats.compile_seconds;
    SL_TRY(sl_forward_set_rows(forward, rows, err));
    SL_TRY(take_pass(forward, shape_of(forward, rows), rows, &pass, err));
    *out = (sl_forward_result){0};
    if (pass->evaluator) {
        SL_TRY(sl_evaluator_run(pass->evaluator, err));
        return rows->wanted ? evaluator_result(forward, pass, out, err) : SL_OK;
    }
    const sl_device_ops *ops = forward->options.device->ops;
    if (rows->watch)
        SL_TRY(run_watched(forward, pass, rows->watch,
                           forward->stats.compile_seconds - compiled_before, err));
    else
        SL_TRY(ops->run(pass->executable, err));
    if (rows->wanted) *out = result_of(ops, pass->executable);
    return SL_OK;
}

/* The evaluator's doubles in their own type. */
static sl_status evaluator_revealed(sl_forward *forward, const double *from, sl_revealed *out,
                                    sl_error *err) {
    const size_t count = (size_t)sl_type_elements(&out->type);
    SL_TRY(make_results(forward, count * sizeof(float), err));
    for (size_t i = 0; i < count; i++) {
        if (out->type.dtype == SL_DTYPE_i32)
            ((int32_t *)forward->results)[i] = (int32_t)from[i];
        else
            forward->results[i] = (float)from[i];
    }
    out->data = forward->results;
    return SL_OK;
}

sl_status sl_forward_revealed(sl_forward *forward, uint32_t index, sl_revealed *out,
                              bool *out_found, sl_error *err) {
    const compiled_forward *pass = forward->ran;
    uint32_t first = 0;
    *out_found = false;
    if (!pass || !(pass->shape.reveals || pass->shape.keeps)) return SL_OK;
    const sl_graph *graph = pass->graph;
    while (first < graph->output_count &&
           strncmp(graph->outputs[first].name, SL_LAYER_PREFIX, strlen(SL_LAYER_PREFIX)) != 0)
        first++;
    if (index >= graph->output_count - first) return SL_OK;
    const uint32_t output = first + index;
    const sl_value value = graph->outputs[output].value;
    *out_found = true;
    *out = (sl_revealed){.name = graph->outputs[output].name,
                         .type = sl_graph_value(graph, value)->type};
    if (pass->evaluator)
        return evaluator_revealed(forward, sl_evaluator_result(pass->evaluator, value), out, err);
    out->data = forward->options.device->ops->output(pass->executable, output);
    return SL_OK;
}

sl_status sl_forward_keep(sl_forward *forward, sl_error *err) {
    for (uint32_t i = 0; i < forward->kept_count; i++) {
        sl_revealed kept;
        bool found;
        SL_TRY(sl_forward_revealed(forward, i, &kept, &found, err));
        if (found)
            memcpy(forward->kept_rows[i], kept.data,
                   (size_t)sl_type_elements(&kept.type) * sizeof(float));
    }
    return SL_OK;
}

sl_status sl_forward_replay(sl_forward *forward, const sl_forward_rows *rows, sl_error *err) {
    compiled_forward *pass;
    SL_TRY(set_inputs(forward, rows, err)); /* what is cached stays */
    SL_TRY(take_pass(forward, draft_shape(forward, rows->count, true), rows, &pass, err));
    if (pass->evaluator) return sl_evaluator_run(pass->evaluator, err);
    return forward->options.device->ops->run(pass->executable, err);
}

bool sl_forward_can_choose(const sl_forward *forward) {
    sl_device *device = forward->options.device;
    return has_start(forward) && device->ops->can_start(device);
}

sl_status sl_forward_start(sl_forward *forward, const sl_forward_rows *rows, sl_error *err) {
    compiled_forward *pass;
    SL_TRY(sl_forward_set_rows(forward, rows, err));
    SL_TRY(find_forward(forward,
                        (pass_shape){.rows = rows->count, .wanted = rows->count, .chooses = true},
                        &pass, err));
    pass->last_use = ++forward->clock;
    forward->started = pass;
    return forward->options.device->ops->start(pass->executable, err);
}

sl_status sl_forward_finish(sl_forward *forward, const int32_t **out_tokens, sl_error *err) {
    const sl_device_ops *ops = forward->options.device->ops;
    SL_TRY(ops->finish(forward->started->executable, err));
    *out_tokens = ops->output(forward->started->executable, SL_FORWARD_TOKEN);
    return SL_OK;
}

sl_status sl_forward_fetch(sl_forward *forward, sl_forward_result *out, sl_error *err) {
    const sl_device_ops *ops = forward->options.device->ops;
    sl_executable *executable = forward->started->executable;
    SL_TRY(ops->fetch(executable, SL_FORWARD_LOGITS, err));
    SL_TRY(ops->fetch(executable, SL_FORWARD_HIDDEN, err));
    *out = result_of(ops, executable);
    return SL_OK;
}

sl_forward_stats sl_forward_describe(const sl_forward *forward) {
    return forward->stats;
}

const sl_forward_options *sl_forward_options_of(const sl_forward *forward) {
    return &forward->options;
}

sl_status sl_forward_prepare(sl_forward *forward, uint32_t rows, uint32_t wanted,
                             sl_prepared_forward *out, sl_error *err) {
    compiled_forward *pass;
    SL_TRY(find_forward(forward, (pass_shape){.rows = rows, .wanted = wanted}, &pass, err));
    *out = (sl_prepared_forward){pass->program, pass->executable};
    return SL_OK;
}

bool sl_forward_state_at(const sl_forward *forward, uint32_t index, sl_forward_state *out) {
    if (index >= forward->state_count) return false;
    const state *s = &forward->states[index];
    *out = (sl_forward_state){s->name, s->data, s->bytes_each, s->kind, &s->type};
    return true;
}
