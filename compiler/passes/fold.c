/* fold.c - Constant folding: nodes on constants alone, or on empty tensors, are computed by the
 * reference evaluator. */
#include "compiler/ops/semantics.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/rebuild.h"
#include "core/codec.h"

/* A folded result is stored in the graph: it may not be much larger than its operands. */
enum { SMALL_BYTES = 1 << 20, MOST_INPUT_BYTES = 1 << 26 };

static bool is_plain(const sl_type *type) {
    return sl_dtype_infos[type->dtype].bytes > 0;
}

/* A tensor without elements counts as a constant. */
static bool is_known(const sl_value_info *value) {
    return is_plain(&value->type) && !value->root.v &&
           (value->kind == SL_VALUE_CONSTANT || !sl_type_elements(&value->type));
}

/* Whether the node computes nothing. */
static bool gives_nothing(const sl_rebuild *r, const sl_node *node) {
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_type *type = &sl_rebuild_value(r, node->outputs[o])->type;
        if (!is_plain(type) || sl_type_elements(type)) return false;
    }
    return true;
}

static bool may_fold(const sl_rebuild *r, const sl_node *node) {
    uint64_t in = 0, out = 0;
    const sl_op_info *info = sl_op_info_of(node->op);
    if (!sl_op_is_pure(info) || (info->traits & SL_OP_RUNS)) return false;
    if (gives_nothing(r, node)) return true;
    if (!node->input_count) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_value_info *value = sl_rebuild_value(r, sl_rebuild_input(r, node, i));
        if (!is_known(value)) return false;
        in += sl_type_bytes(&value->type);
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_type *type = &sl_rebuild_value(r, node->outputs[o])->type;
        if (!is_plain(type)) return false;
        out += sl_type_bytes(type);
    }
    return in <= MOST_INPUT_BYTES && (out <= SMALL_BYTES || out <= in);
}

static sl_status evaluate(const sl_rebuild *r, const sl_node *node, sl_arena *arena,
                          sl_eval_tensor *in, sl_eval_tensor *out) {
    sl_error err;
    for (uint32_t o = 0; o < node->output_count; o++) {
        out[o] = (sl_eval_tensor){.type = sl_rebuild_value(r, node->outputs[o])->type};
        out[o].data = SL_ARENA_NEW_ARRAY(arena, double, sl_type_slots(&out[o].type) + 1);
        if (!out[o].data) return SL_NO_MEMORY;
    }
    if (gives_nothing(r, node)) return SL_OK;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_value_info *value = sl_rebuild_value(r, sl_rebuild_input(r, node, i));
        in[i] = (sl_eval_tensor){.type = value->type};
        in[i].data = SL_ARENA_NEW_ARRAY(arena, double, sl_type_slots(&value->type) + 1);
        if (!in[i].data) return SL_NO_MEMORY;
        if (value->data) sl_decode_tensor(&value->type, value->data, in[i].data);
    }
    const sl_eval_args args = {node->label,       in, node->attrs, out, arena, node->input_count,
                               node->output_count};
    return sl_eval(node->op, &args, &err);
}

/* A name that is not in use. */
static const char *fresh_name(const sl_graph *graph, sl_arena *arena) {
    for (uint32_t number = graph->value_count;; number++) {
        const char *name = sl_arena_format(arena, "folded.%u", number);
        if (!name || !sl_graph_find(graph, name).v) return name;
    }
}

static bool keep_results(sl_rebuild *r, const sl_node *node, sl_arena *arena,
                         const sl_eval_tensor *out) {
    for (uint32_t o = 0; o < node->output_count; o++) {
        const char *name = fresh_name(r->graph, arena);
        void *data = sl_arena_alloc(arena, sl_type_bytes(&out[o].type) + 1, 64);
        if (!name || !data) return false;
        sl_encode_f64(out[o].type.dtype, out[o].data, sl_type_elements(&out[o].type), data);
        sl_rebuild_set(r, node, o, sl_graph_constant(r->graph, name, out[o].type, data));
    }
    return true;
}

/* A node that cannot be evaluated, for example because of a bad index, stays and fails at run time.
 */
static void fold_node(sl_rebuild *r, const sl_node *node) {
    sl_arena arena;
    sl_arena_init(&arena, r->graph->arena.allocator);
    sl_status status = SL_INVALID;
    if (may_fold(r, node)) {
        sl_eval_tensor *in = SL_ARENA_NEW_ARRAY(&arena, sl_eval_tensor, node->input_count + 1);
        sl_eval_tensor *out = SL_ARENA_NEW_ARRAY(&arena, sl_eval_tensor, node->output_count + 1);
        status = in && out ? evaluate(r, node, &arena, in, out) : SL_NO_MEMORY;
        if (status == SL_OK && !keep_results(r, node, &arena, out)) status = SL_NO_MEMORY;
    }
    if (status == SL_NO_MEMORY)
        sl_graph_mistake(r->graph, SL_NO_MEMORY, "%s: no memory for folding it", node->label);
    else if (status == SL_OK)
        r->changed = true;
    else
        sl_rebuild_same(r, node);
    sl_arena_deinit(&arena);
}

sl_status sl_pass_fold(sl_graph *graph, sl_pass_context *context, bool *changed, sl_error *err) {
    (void)context;
    sl_rebuild r = {.graph = graph, .node = fold_node};
    SL_TRY(sl_rebuild_graph(&r, err));
    *changed = r.changed;
    return SL_OK;
}
