/* direct_node.c - Direct mode: a node as a graph of its own, which is compiled, loaded and run. */
#include "api/direct.h"
#include "api/experts.h"
#include "compiler/binary.h"
#include "core/codec.h"
#include <stdio.h>
#include <string.h>

/* The graph of a node, and which value of the whole graph each of its operands is: of a version of
 * a state, the state. */
typedef struct {
    sl_graph *graph;
    sl_value *operands;
    uint32_t count;
} single;

typedef struct {
    char text[16];
} operand_name;
static operand_name name_operand(uint32_t index) {
    operand_name name;
    (void)snprintf(name.text, sizeof name.text, "i%u", index);
    return name;
}

/* ---- the graph ---- */

static sl_value declare(const sl_direct *d, const single *s, uint32_t index) {
    const sl_value outer = s->operands[index];
    const sl_value_info *info = &d->graph->values[outer.v];
    const sl_direct_value *own = &d->values[outer.v];
    const operand_name name = name_operand(index);
    if (own->known)
        return sl_graph_constant_in_place(s->graph, name.text, info->type,
                                          own->shared ? own->shared : own->data);
    const sl_value_kind kind = info->kind == SL_VALUE_RESULT ? SL_VALUE_INPUT : info->kind;
    return sl_graph_declare(s->graph, kind, name.text, info->type);
}

/* An operand that occurs twice is declared once. */
static sl_value operand_of(const sl_direct *d, single *s, sl_value value) {
    const sl_value root = d->graph->values[value.v].root;
    const sl_value outer = root.v ? root : value;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->operands[i].v == outer.v) return sl_graph_find(s->graph, name_operand(i).text);
    s->operands[s->count++] = outer;
    return declare(d, s, s->count - 1);
}

/* Results that are new values are outputs. */
static sl_status build(const sl_direct *d, const sl_node *node, single *s, sl_arena *scratch,
                       sl_error *err) {
    const sl_op_info *info = sl_op_info_of(node->op);
    sl_value *in = SL_ARENA_NEW_ARRAY(scratch, sl_value, node->input_count + 1);
    sl_value *out = SL_ARENA_NEW_ARRAY(scratch, sl_value, node->output_count + 1);
    s->operands = SL_ARENA_NEW_ARRAY(scratch, sl_value, node->input_count + 1);
    if (!in || !out || !s->operands) return sl_no_memory(err, "a node", node->input_count);
    s->graph->customs = d->graph->customs;
    for (uint32_t i = 0; i < node->input_count; i++) in[i] = operand_of(d, s, node->inputs[i]);
    sl_graph_append_list(s->graph, node->op, (sl_values){node->input_count, in}, node->attrs,
                         (sl_value_slots){node->output_count, out});
    for (uint32_t o = 0; o < node->output_count; o++) {
        char name[16];
        (void)snprintf(name, sizeof name, "o%u", o);
        if (sl_output_state(info, o) < 0) sl_graph_output(s->graph, name, out[o]);
    }
    return sl_graph_check(s->graph, err);
}

/* ---- programs by their key ---- */

typedef struct {
    unsigned char *bytes; /* NULL: only count */
    size_t count;
} key_writer;

static sl_status write_key(void *ctx, const void *bytes, size_t count, sl_error *err) {
    key_writer *key = ctx;
    (void)err;
    if (key->bytes && count) memcpy(key->bytes + key->count, bytes, count);
    key->count += count;
    return SL_OK;
}

/* Callbacks are not part of the binary form: nodes that have some share nothing. */
static sl_status make_key(const sl_node *node, const sl_graph *graph, key_writer *key,
                          sl_error *err) {
    const sl_sink sink = {write_key, key};
    const bool alone = sl_op_info_of(node->op)->traits & SL_OP_RUNS;
    const void *identity = alone ? node->attrs : NULL;
    key->count = 0;
    SL_TRY(sl_graph_write(graph, &sink, err));
    return write_key(key, &identity, sizeof identity, err);
}

static sl_status load(const sl_direct *d, sl_direct_program *p, sl_error *err) {
    if (!d->device) return sl_evaluator_create(p->graph, NULL, &p->evaluator, err);
    SL_TRY(sl_compile_graph(p->graph, &d->compile, NULL, &p->program, err));
    return d->device->ops->load(d->device, p->program, &p->executable, err);
}

static void unload(const sl_direct *d, sl_direct_program *p) {
    if (p->executable) d->device->ops->unload(p->executable);
    sl_program_destroy(p->program);
    sl_evaluator_destroy(p->evaluator);
    sl_graph_destroy(p->graph);
    sl_release(NULL, p->key, p->key_bytes, SL_DIRECT_VALUE_ALIGNMENT);
}

void sl_direct_programs_destroy(sl_direct *d) {
    for (sl_direct_program *p = d->programs; p; p = p->next) unload(d, p);
}

/* Takes the graph and the key, also when it fails. */
static sl_status add_program(sl_direct *d, sl_graph *graph, const key_writer *key,
                             sl_direct_program **out, sl_error *err) {
    sl_direct_program fresh = {
        .key = key->bytes, .key_bytes = key->count, .graph = graph, .next = d->programs};
    sl_direct_program *p = SL_ARENA_NEW(&d->arena, sl_direct_program);
    const sl_status status = p ? load(d, &fresh, err) : sl_no_memory(err, "a program", sizeof *p);
    if (status != SL_OK) {
        unload(d, &fresh);
        return status;
    }
    *p = fresh;
    *out = d->programs = p;
    return SL_OK;
}

/* Takes the graph. */
static sl_status program_of(sl_direct *d, const sl_node *node, sl_graph *graph,
                            sl_direct_program **out, sl_error *err) {
    key_writer key = {0};
    sl_status status = make_key(node, graph, &key, err);
    if (status == SL_OK) key.bytes = sl_allocate(NULL, key.count, SL_DIRECT_VALUE_ALIGNMENT);
    if (status == SL_OK && !key.bytes) status = sl_no_memory(err, "a program", key.count);
    if (status == SL_OK) status = make_key(node, graph, &key, err);
    for (sl_direct_program *p = d->programs; p && status == SL_OK; p = p->next) {
        if (p->key_bytes != key.count || memcmp(p->key, key.bytes, key.count) != 0) continue;
        *out = p;
        sl_release(NULL, key.bytes, key.count, SL_DIRECT_VALUE_ALIGNMENT);
        sl_graph_destroy(graph);
        return SL_OK;
    }
    if (status == SL_OK) return add_program(d, graph, &key, out, err);
    if (key.bytes) sl_release(NULL, key.bytes, key.count, SL_DIRECT_VALUE_ALIGNMENT);
    sl_graph_destroy(graph);
    return status;
}

/* ---- running ---- */

static sl_status run_on_device(sl_direct *d, const sl_direct_program *p, const single *s,
                               sl_error *err) {
    for (uint32_t i = 0; i < s->count; i++) {
        const sl_direct_value *own = &d->values[s->operands[i].v];
        const void *data = own->shared ? own->shared : own->data;
        sl_buffer_id id;
        if (own->known || !sl_program_find(p->program, name_operand(i).text, &id)) continue;
        if (p->program->buffers[id.v].kind == SL_BUFFER_EXPERTS) {
            SL_TRY(d->device->ops->bind_experts(p->executable, id, d->experts->source, err));
            continue;
        }
        if (own->state) data = own->state;
        SL_TRY(d->device->ops->bind(p->executable, id, (void *)(uintptr_t)data, err));
    }
    return d->device->ops->run(p->executable, err);
}

static sl_status bind_evaluator(const sl_direct *d, const sl_direct_program *p, const single *s,
                                sl_error *err) {
    for (uint32_t i = 0; i < s->count; i++) {
        const sl_direct_value *own = &d->values[s->operands[i].v];
        const sl_value inner = {i + 1}; /* declared in this order */
        const sl_type *type = &p->graph->values[inner.v].type;
        if (own->known) continue;
        const sl_value_kind kind = d->graph->values[s->operands[i].v].kind;
        if (kind == SL_VALUE_EXPERTS)
            SL_TRY(sl_evaluator_bind_experts(p->evaluator, inner, d->experts->source, err));
        else if (kind == SL_VALUE_STATE)
            SL_TRY(sl_evaluator_bind_state(p->evaluator, inner, own->slots, err));
        else if (own->slots)
            SL_TRY(sl_evaluator_give(p->evaluator, inner,
                                     &(sl_eval_tensor){.type = *type, .data = own->slots}, err));
        else
            SL_TRY(sl_evaluator_bind(p->evaluator, inner, own->shared, err));
    }
    return SL_OK;
}

/* The result as the evaluator holds it, and rounded to its type. */
static void keep_slots(const sl_direct_program *p, const sl_type *type, uint32_t output,
                       sl_direct_value *own) {
    const double *slots = sl_evaluator_result(p->evaluator, p->graph->outputs[output].value);
    memcpy(own->slots, slots, (size_t)sl_type_slots(type) * sizeof *slots);
    if (own->data) sl_encode_f64(type->dtype, slots, sl_type_elements(type), own->data);
}

static sl_status keep_result(sl_direct *d, const sl_direct_program *p, sl_value value,
                             uint32_t output, sl_error *err) {
    const sl_type *type = &d->graph->values[value.v].type;
    sl_direct_value *own = &d->values[value.v];
    SL_TRY(sl_direct_room(d, value, err));
    if (d->device) {
        const sl_operand *from = &p->program->outputs[output].operand;
        const uint64_t bytes = sl_type_bytes(type);
        if (bytes) memcpy(own->data, d->device->ops->output(p->executable, output), bytes);
        own->known = p->program->buffers[from->buffer.v].kind == SL_BUFFER_CONSTANT;
    } else {
        keep_slots(p, type, output, own);
    }
    own->ready = true;
    return SL_OK;
}

static sl_status run(sl_direct *d, const sl_node *node, const sl_direct_program *p, const single *s,
                     sl_error *err) {
    const sl_op_info *info = sl_op_info_of(node->op);
    uint32_t outputs = 0;
    if (d->device) {
        SL_TRY(run_on_device(d, p, s, err));
    } else {
        SL_TRY(bind_evaluator(d, p, s, err));
        SL_TRY(sl_evaluator_run(p->evaluator, err));
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_value root = d->graph->values[node->outputs[o].v].root;
        if (sl_output_state(info, o) < 0)
            SL_TRY(keep_result(d, p, node->outputs[o], outputs++, err));
        else
            d->values[root.v].current = node->outputs[o].v;
    }
    return SL_OK;
}

sl_status sl_direct_node(sl_direct *d, uint32_t n, sl_error *err) {
    const sl_node *node = &d->graph->nodes[n];
    single s = {0};
    sl_direct_program *program = NULL;
    sl_arena scratch;
    SL_TRY(sl_graph_create("node", NULL, &s.graph, err));
    sl_arena_init(&scratch, NULL);
    sl_status status = build(d, node, &s, &scratch, err);
    if (status == SL_OK)
        status = program_of(d, node, s.graph, &program, err);
    else
        sl_graph_destroy(s.graph);
    if (status == SL_OK) status = run(d, node, program, &s, err);
    sl_arena_deinit(&scratch);
    return status;
}
