#include "tests/support/reference.h"
#include "compiler/ops/numbers.h"
#include "core/codec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

void reference_init(reference *r, const sl_graph *graph, uint32_t values, uint64_t seed) {
    *r = (reference){
        .graph = graph, .capacity = values, .moves = test_random_of(seed), .moved = seed != 0};
    sl_arena_init(&r->arena, NULL);
    r->tensors = SL_ARENA_NEW_ARRAY(&r->arena, sl_eval_tensor, values);
    assert_non_null(r->tensors);
}

void reference_deinit(reference *r) {
    sl_arena_deinit(&r->arena);
}

static double *new_slots(reference *r, const sl_type *type) {
    double *slots = SL_ARENA_NEW_ARRAY(&r->arena, double, sl_type_slots(type) + 1);
    assert_non_null(slots);
    return slots;
}

void reference_declare(reference *r, sl_value value, const void *data) {
    const sl_value_info *info = &r->graph->values[value.v];
    sl_eval_tensor *tensor = &r->tensors[value.v];
    assert_true(value.v < r->capacity);
    *tensor = (sl_eval_tensor){.type = info->type, .coded = data ? data : info->data};
    if (info->kind == SL_VALUE_WEIGHT) return; /* stays coded, as for the evaluator */
    tensor->data = new_slots(r, &info->type);
    sl_decode_tensor(&info->type, tensor->coded, tensor->data);
    if (info->kind == SL_VALUE_STATE) tensor->coded = NULL;
}

double reference_largest(const sl_type *type, const double *data) {
    double largest = 0;
    for (int64_t i = 0; i < sl_type_slots(type); i++)
        if (isfinite(data[i])) largest = fmax(largest, fabs(data[i]));
    return largest;
}

double reference_limit(sl_dtype dtype, double largest, double value) {
    const double single = 2e-6 * largest + 0x1p-149;
    if (dtype == SL_DTYPE_f64) return 1e-12 * largest;
    if (dtype == SL_DTYPE_f16) return single + fmax(fabs(value), 0x1p-14) * 0x1p-11 * 1.001;
    if (dtype == SL_DTYPE_bf16) return single + fmax(fabs(value), 0x1p-126) * 0x1p-8 * 1.001;
    return single;
}

/* Whether kernels give what can be represented exactly: what moves, compares, or is rounded once.
 */
static bool is_exact(sl_op op) {
    static const sl_op ops[] = {
        SL_OP_add,        SL_OP_sub,        SL_OP_mul,           SL_OP_div,         SL_OP_maximum,
        SL_OP_minimum,    SL_OP_where,      SL_OP_clamp,         SL_OP_neg,         SL_OP_abs,
        SL_OP_relu,       SL_OP_round,      SL_OP_floor,         SL_OP_ceil,        SL_OP_sign,
        SL_OP_cast,       SL_OP_bitcast,    SL_OP_stop_gradient, SL_OP_complex,     SL_OP_real,
        SL_OP_imag,       SL_OP_conjugate,  SL_OP_reduce_max,    SL_OP_reduce_min,  SL_OP_topk,
        SL_OP_sort,       SL_OP_pool_max,   SL_OP_pool_min,      SL_OP_im2col,      SL_OP_split_halves,
        SL_OP_dequantize, SL_OP_dequant_moe_weights, SL_OP_transform_region,
        SL_OP_resize_nearest2x, SL_OP_relu_backward, SL_OP_rng_uniform, SL_OP_embed, SL_OP_kv_append};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i] == op) return true;
    return op >= SL_OP_reshape && op <= SL_OP_one_hot;
}

static double moved(reference *r, sl_op op, sl_dtype dtype, double largest, double value) {
    const bool pointwise = sl_op_info_of(op)->traits & SL_OP_POINTWISE;
    if (!isfinite(value) || value == 0) return value;
    if (pointwise) largest = fmax(fabs(value), fmin(largest, 1));
    const double by = reference_limit(dtype, largest, value);
    return test_draw(&r->moves, 2) ? value + by : value - by;
}

/* Rounds a result to its type, and moves it where that is asked for. */
static void settle(reference *r, sl_op op, const sl_eval_tensor *out) {
    const sl_dtype_kind kind = sl_dtype_infos[out->type.dtype].kind;
    if ((kind != SL_KIND_FLOAT && kind != SL_KIND_COMPLEX) || !out->data) return;
    const sl_dtype dtype = kind == SL_KIND_COMPLEX ? SL_DTYPE_f32 : out->type.dtype;
    const double largest = r->moved ? reference_largest(&out->type, out->data) : 0;
    for (int64_t i = 0; i < sl_type_slots(&out->type); i++) {
        const double value = out->data[i];
        out->data[i] = sl_round_to(dtype, value);
        if (r->moved && !(is_exact(op) && out->data[i] == value))
            out->data[i] = sl_round_to(dtype, moved(r, op, dtype, largest, value));
    }
}

sl_status reference_node(reference *r, const sl_node *node, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    sl_eval_tensor in[64], out[64];
    assert_true(node->input_count <= 64 && node->output_count <= 64);
    for (uint32_t i = 0; i < node->input_count; i++) in[i] = r->tensors[node->inputs[i].v];
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_value_info *info = &r->graph->values[node->outputs[o].v];
        assert_true(node->outputs[o].v < r->capacity);
        out[o] = (sl_eval_tensor){.type = info->type};
        out[o].data = info->root.v ? r->tensors[info->root.v].data : new_slots(r, &info->type);
        r->tensors[node->outputs[o].v] = out[o];
    }
    const sl_eval_args args = {
        node->label, in, node->attrs, out, &scratch, node->input_count, node->output_count};
    const sl_status status = sl_eval(node->op, &args, err);
    sl_arena_deinit(&scratch);
    for (uint32_t o = 0; o < node->output_count && status == SL_OK; o++)
        settle(r, node->op, &out[o]);
    return status;
}
