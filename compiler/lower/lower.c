/* lower.c - Graph to program: values become windows on buffers, nodes become steps. */
#include "compiler/compile.h"
#include <string.h>

typedef struct {
    const sl_graph *graph;
    sl_program *program;
    sl_operand *windows; /* [value]: where each value lies */
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
        const sl_op_info *info = sl_op_info_of(node->op);
        for (uint32_t o = 0; o < info->output_count; o++)
            if (info->output_state[o] >= 0) l->live[n] = true;
        for (uint32_t i = 0; l->live[n] && i < info->input_count; i++) {
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
    if (value->kind == SL_VALUE_CONSTANT) {
        void *data = sl_arena_alloc(&p->arena, buffer->bytes, 64);
        if (!data) return sl_no_memory(err, "a constant", buffer->bytes);
        memcpy(data, value->data, buffer->bytes);
        buffer->data = data;
    }
    *out = (sl_operand){id, 0, value->type};
    return SL_OK;
}

/* Where each result of a node lies: in its state, in its operand (views), or in a new buffer. */
static sl_status place_results(lowering *l, const sl_node *node, sl_error *err) {
    const sl_op_info *info = sl_op_info_of(node->op);
    for (uint32_t o = 0; o < info->output_count; o++) {
        const sl_value result = node->outputs[o];
        const sl_value_info *value = &l->graph->values[result.v];
        if (info->output_state[o] >= 0) {
            l->windows[result.v] = l->windows[node->inputs[info->output_state[o]].v];
        } else if (info->traits & SL_OP_VIEW) {
            l->windows[result.v] = l->windows[node->inputs[0].v];
            l->windows[result.v].type = value->type;
        } else {
            SL_TRY(add_buffer(l, value, node->label, &l->windows[result.v], err));
        }
    }
    return SL_OK;
}

static sl_access whole(const sl_operand *operand) {
    return (sl_access){operand->buffer, operand->offset_bytes,
                       operand->offset_bytes + sl_type_bytes(&operand->type)};
}

static sl_status add_step(lowering *l, const sl_node *node, sl_error *err) {
    sl_program *p = l->program;
    const sl_op_info *info = sl_op_info_of(node->op);
    enum { MOST = SL_MAX_INPUTS + SL_MAX_OUTPUTS };
    sl_operand *operands = SL_ARENA_NEW_ARRAY(&p->arena, sl_operand, MOST);
    sl_access *accesses = SL_ARENA_NEW_ARRAY(&p->arena, sl_access, 2 * MOST);
    void *attrs = sl_arena_alloc(&p->arena, info->attrs_bytes, _Alignof(max_align_t));
    if (!operands || !accesses || !attrs) return sl_no_memory(err, "a step", 0);
    memcpy(attrs, node->attrs, info->attrs_bytes);
    sl_step step = {.op = node->op,
                    .operands = operands,
                    .attrs = attrs,
                    .reads = accesses,
                    .writes = accesses + MOST};
    SL_TRY(copy_text(p, node->label, &step.label, err));
    for (uint32_t i = 0; i < info->input_count; i++) {
        const sl_operand window = l->windows[node->inputs[i].v];
        operands[step.operand_count++] = window;
        if (info->input_kinds[i] == SL_OPERAND_EXPERTS) continue;
        accesses[step.read_count++] = whole(&window);
        if (info->input_kinds[i] == SL_OPERAND_STATE)
            accesses[MOST + step.write_count++] = whole(&window);
    }
    for (uint32_t o = 0; o < info->output_count; o++) {
        if (info->output_state[o] >= 0) continue;
        const sl_operand window = l->windows[node->outputs[o].v];
        operands[step.operand_count++] = window;
        accesses[MOST + step.write_count++] = whole(&window);
    }
    p->steps[p->step_count++] = step;
    return SL_OK;
}

static sl_status add_outputs(lowering *l, sl_error *err) {
    sl_program *p = l->program;
    for (uint32_t o = 0; o < l->graph->output_count; o++) {
        const sl_graph_out *out = &l->graph->outputs[o];
        sl_program_output *output = &p->outputs[p->output_count++];
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
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (!l->live[n]) continue;
        SL_TRY(place_results(l, &g->nodes[n], err));
        if (!(sl_op_info_of(g->nodes[n].op)->traits & SL_OP_VIEW))
            SL_TRY(add_step(l, &g->nodes[n], err));
    }
    return add_outputs(l, err);
}

sl_status sl_lower(const sl_graph *graph, const sl_allocator *allocator, sl_program **out,
                   sl_error *err) {
    sl_status status = SL_OK;
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
        .live = SL_ARENA_NEW_ARRAY(&scratch, bool, graph->node_count + 1),
    };
    program->buffers = SL_ARENA_NEW_ARRAY(&program->arena, sl_buffer, graph->value_count + 1);
    program->steps = SL_ARENA_NEW_ARRAY(&program->arena, sl_step, graph->node_count + 1);
    program->outputs =
        SL_ARENA_NEW_ARRAY(&program->arena, sl_program_output, graph->output_count + 1);
    status = l.windows && l.live && program->buffers && program->steps && program->outputs
                 ? copy_text(program, graph->name, &program->name, err)
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
