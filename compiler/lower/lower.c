/* lower.c - From graph to program: values become views of buffers, nodes become steps. */
#include "compiler/compile.h"
#include "compiler/ops/access.h"
#include <string.h>

typedef struct {
    const sl_graph *graph;
    sl_program *program;
    sl_operand *windows; /* [value]: where each value lies */
    uint32_t *version;   /* [value]: updates of its state that it has seen */
    uint32_t *updates;   /* [buffer]: of a state, so far */
    bool *live;          /* [node] */
} lowering;

static sl_buffer_kind kind_of(sl_value_kind kind) {
    static const sl_buffer_kind kinds[] = {
        [SL_VALUE_INPUT] = SL_BUFFER_INPUT,       [SL_VALUE_WEIGHT] = SL_BUFFER_WEIGHT,
        [SL_VALUE_CONSTANT] = SL_BUFFER_CONSTANT, [SL_VALUE_STATE] = SL_BUFFER_STATE,
        [SL_VALUE_EXPERTS] = SL_BUFFER_EXPERTS,   [SL_VALUE_RESULT] = SL_BUFFER_TEMP,
    };
    return kinds[kind];
}

/* A node is live when it changes a state or when something live needs a result. */
static void mark_live(lowering *l) {
    const sl_graph *g = l->graph;
    for (uint32_t o = 0; o < g->output_count; o++) {
        const sl_value_info *value = &g->values[g->outputs[o].value.v];
        if (value->kind == SL_VALUE_RESULT) l->live[value->node] = true;
    }
    for (uint32_t n = g->node_count; n-- > 0;) {
        const sl_node *node = &g->nodes[n];
        l->live[n] |= sl_node_changes_state(node);
        for (uint32_t i = 0; l->live[n] && i < node->input_count; i++) {
            const sl_value_info *value = &g->values[node->inputs[i].v];
            if (value->kind == SL_VALUE_RESULT) l->live[value->node] = true;
        }
    }
}

static sl_status copy_text(sl_program *program, const char *text, const char **out, sl_error *err) {
    *out = text ? sl_arena_copy_text(&program->arena, text, strlen(text)) : NULL;
    return text && !*out ? sl_no_memory(err, "a program", strlen(text)) : SL_OK;
}

static sl_status add_buffer(lowering *l, const sl_value_info *value, const char *name,
                            sl_operand *out, sl_error *err) {
    sl_program *p = l->program;
    const sl_buffer_id id = {p->buffer_count++};
    sl_buffer *buffer = &p->buffers[id.v];
    *buffer =
        (sl_buffer){.kind = kind_of(value->kind),
                    .type = value->type,
                    .bytes = value->kind == SL_VALUE_EXPERTS ? 0 : sl_type_bytes(&value->type)};
    SL_TRY(copy_text(p, name, &buffer->name, err));
    if (value->borrowed) {
        buffer->data = value->data;
    } else if (value->kind == SL_VALUE_CONSTANT) {
        void *data = sl_arena_alloc(&p->arena, buffer->bytes, 64);
        if (!data) return sl_no_memory(err, "a constant", buffer->bytes);
        memcpy(data, value->data, buffer->bytes);
        buffer->data = data;
    }
    *out = (sl_operand){id, 0, value->type};
    return SL_OK;
}

/* Whether all results of a node are parts of its first input, and where.  Parts of a state are
 * copies: they must not change when the state does. */
static bool are_views(const lowering *l, const sl_node *node, const sl_operand *inputs,
                      sl_operand *out) {
    const sl_step step = {.op = node->op,
                          .operand_count = node->input_count,
                          .input_count = node->input_count,
                          .operands = inputs,
                          .attrs = node->attrs};
    const bool view = sl_op_info_of(node->op)->traits & SL_OP_VIEW;
    if (!view && l->program->buffers[inputs[0].buffer.v].kind == SL_BUFFER_STATE) return false;
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_type *type = &l->graph->values[node->outputs[o].v].type;
        sl_access part = {.begin = inputs[0].offset_bytes};
        if (!view && !sl_op_is_part(l->program, &step, o, type, &part)) return false;
        out[o] = (sl_operand){inputs[0].buffer, part.begin, *type};
    }
    return true;
}

/* Assigns a place to each result of a step: its state or a new buffer. */
static sl_status place_results(lowering *l, const sl_node *node, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t o = 0; o < node->output_count; o++) {
        sl_operand *window = &l->windows[node->outputs[o].v];
        const int32_t state = sl_output_state(info, o);
        if (state >= 0) {
            *window = l->windows[node->inputs[state].v];
            l->version[node->outputs[o].v] = ++l->updates[window->buffer.v];
        } else {
            SL_TRY(add_buffer(l, &l->graph->values[node->outputs[o].v], node->label, window, err));
        }
    }
    return SL_OK;
}

/* A view of a state is valid until the state is updated. */
static sl_status check_fresh(const lowering *l, sl_value value, const char *user, sl_error *err) {
    const uint32_t buffer = l->windows[value.v].buffer.v;
    if (l->version[value.v] == l->updates[buffer]) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: uses a view of state '%s' that was updated since", user,
                   l->program->buffers[buffer].name);
}

static sl_status declare_accesses(sl_program *p, sl_step *step, sl_error *err) {
    sl_step_accesses accesses = {
        .reads = SL_ARENA_NEW_ARRAY(&p->arena, sl_access, step->operand_count + 1),
        .writes = SL_ARENA_NEW_ARRAY(&p->arena, sl_access, step->operand_count + 1)};
    if (!accesses.reads || !accesses.writes) return sl_no_memory(err, "a step", 0);
    sl_op_accesses(p, step, &accesses);
    step->read_count = accesses.read_count;
    step->write_count = accesses.write_count;
    step->reads = accesses.reads;
    step->writes = accesses.writes;
    return SL_OK;
}

/* Bodies become programs of the step, in the order of the attributes. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    sl_step *step;           /* NULL: only count */
    const sl_allocator *allocator;
    uint32_t count;
    sl_error *err;
    sl_status status;
} body_lowering;

static void lower_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    body_lowering *b = (body_lowering *)visitor;
    const sl_attr *attr = value;
    (void)name;
    if (kind != SL_ATTR_graph || b->status != SL_OK) return;
    const uint32_t index = b->count++;
    if (b->step && attr->graph)
        b->status = sl_lower(attr->graph, b->allocator, &b->step->bodies[index], b->err);
}

/* The step is already in the program, which owns its allocations. */
static sl_status add_bodies(sl_program *p, const sl_node *node, sl_step *step, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(node->op);
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    memcpy(attrs, node->attrs, info->attrs_bytes);
    body_lowering b = {.visitor = {lower_body}, .allocator = p->arena.allocator, .err = err};
    info->visit_attrs(&b.visitor, attrs);
    if (!b.count) return SL_OK;
    step->bodies = SL_ARENA_NEW_ARRAY(&p->arena, sl_program *, b.count);
    if (!step->bodies) return sl_no_memory(err, "a step", b.count);
    step->body_count = b.count;
    b.count = 0;
    b.step = step;
    info->visit_attrs(&b.visitor, attrs);
    return b.status == SL_OK ? SL_OK : sl_fail_in(err, b.status, "%s", node->label);
}

/* operands: has the inputs, and room for the results. */
static sl_status add_step(lowering *l, const sl_node *node, sl_operand *operands, sl_error *err) {
    sl_program *p = l->program;
    const sl_op_info *info = sl_op_info_of(node->op);
    void *attrs = sl_attrs_copy(&p->arena, NULL, node->op, node->attrs);
    if (!attrs) return sl_no_memory(err, "a step", 0);
    sl_step step = {.op = node->op,
                    .operand_count = node->input_count,
                    .input_count = node->input_count,
                    .operands = operands,
                    .attrs = attrs};
    SL_TRY(copy_text(p, node->label, &step.label, err));
    for (uint32_t o = 0; o < node->output_count; o++)
        if (sl_output_state(info, o) < 0)
            operands[step.operand_count++] = l->windows[node->outputs[o].v];
    SL_TRY(declare_accesses(p, &step, err));
    p->steps[p->step_count++] = step;
    return add_bodies(p, node, &p->steps[p->step_count - 1], err);
}

static sl_status lower_node(lowering *l, const sl_node *node, sl_error *err) {
    const uint32_t inputs = node->input_count, outputs = node->output_count;
    sl_operand *operands = SL_ARENA_NEW_ARRAY(&l->program->arena, sl_operand, inputs + outputs + 1);
    if (!operands) return sl_no_memory(err, "a step", 0);
    for (uint32_t i = 0; i < inputs; i++) {
        SL_TRY(check_fresh(l, node->inputs[i], node->label, err));
        operands[i] = l->windows[node->inputs[i].v];
    }
    sl_operand *const results = operands + inputs;
    if (!inputs || !are_views(l, node, operands, results)) {
        SL_TRY(place_results(l, node, err));
        return add_step(l, node, operands, err);
    }
    for (uint32_t o = 0; o < outputs; o++) {
        l->windows[node->outputs[o].v] = results[o];
        l->version[node->outputs[o].v] = l->version[node->inputs[0].v];
    }
    return SL_OK;
}

static sl_status add_outputs(lowering *l, sl_error *err) {
    sl_program *p = l->program;
    for (uint32_t o = 0; o < l->graph->output_count; o++) {
        const sl_graph_out *out = &l->graph->outputs[o];
        sl_program_output *output = &p->outputs[p->output_count++];
        SL_TRY(check_fresh(l, out->value, out->name, err));
        output->operand = l->windows[out->value.v];
        SL_TRY(copy_text(p, out->name, &output->name, err));
        sl_buffer *buffer = &p->buffers[output->operand.buffer.v];
        if (buffer->kind == SL_BUFFER_TEMP) buffer->kind = SL_BUFFER_OUTPUT;
    }
    return SL_OK;
}

static sl_status fill(lowering *l, sl_error *err) {
    const sl_graph *g = l->graph;
    for (uint32_t v = 1; v <= g->value_count; v++) {
        const sl_value_info *value = &g->values[v];
        if (value->kind == SL_VALUE_RESULT) continue;
        SL_TRY(add_buffer(l, value, value->name, &l->windows[v], err));
    }
    mark_live(l);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (l->live[n]) SL_TRY(lower_node(l, &g->nodes[n], err));
    l->program->report.nodes = g->node_count;
    l->program->report.steps = l->program->step_count;
    return add_outputs(l, err);
}

sl_status sl_lower(const sl_graph *graph, const sl_allocator *allocator, sl_program **out,
                   sl_error *err) {
    sl_arena arena, scratch;
    sl_arena_init(&arena, allocator);
    sl_arena_init(&scratch, allocator);
    sl_program *program = SL_ARENA_NEW(&arena, sl_program);
    if (!program) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a program", sizeof *program);
    }
    program->arena = arena;
    lowering l = {
        .graph = graph,
        .program = program,
        .windows = SL_ARENA_NEW_ARRAY(&scratch, sl_operand, graph->value_count + 1),
        .version = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, graph->value_count + 1),
        .updates = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, graph->value_count + 1),
        .live = SL_ARENA_NEW_ARRAY(&scratch, bool, graph->node_count + 1),
    };
    program->buffers = SL_ARENA_NEW_ARRAY(&program->arena, sl_buffer, graph->value_count + 1);
    program->steps = SL_ARENA_NEW_ARRAY(&program->arena, sl_step, graph->node_count + 1);
    program->outputs =
        SL_ARENA_NEW_ARRAY(&program->arena, sl_program_output, graph->output_count + 1);
    const bool fine = l.windows && l.version && l.updates && l.live && program->buffers &&
                      program->steps && program->outputs;
    sl_status status = fine ? copy_text(program, graph->name, &program->name, err)
                            : sl_no_memory(err, "a program", 0);
    if (status == SL_OK) status = fill(&l, err);
    sl_arena_deinit(&scratch);
    if (status != SL_OK) {
        sl_program_destroy(program);
        return status;
    }
    *out = program;
    return SL_OK;
}
