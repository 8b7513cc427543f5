#include "tests/support/reference.h"
#include "compiler/ops/numbers.h"
#include "core/codec.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
    const double single = 2e-6 * largest + 0x1p-120; /* e^x on the way may overflow */
    if (dtype == SL_DTYPE_f64) return 1e-12 * largest;
    if (dtype == SL_DTYPE_f16) return single + fmax(fabs(value), 0x1p-14) * 0x1p-11 * 1.001;
    if (dtype == SL_DTYPE_bf16) return single + fmax(fabs(value), 0x1p-126) * 0x1p-8 * 1.001;
    return single;
}

/* Ops whose operands say exactly what comes out: what moves and compares elements, is rounded once,
 * or decides by numbers that the op itself defines to the last bit. */
static bool is_exact(sl_op op) {
    static const sl_op ops[] = {SL_OP_add,
                                SL_OP_sub,
                                SL_OP_mul,
                                SL_OP_div,
                                SL_OP_maximum,
                                SL_OP_minimum,
                                SL_OP_where,
                                SL_OP_clamp,
                                SL_OP_neg,
                                SL_OP_abs,
                                SL_OP_relu,
                                SL_OP_round,
                                SL_OP_floor,
                                SL_OP_ceil,
                                SL_OP_sign,
                                SL_OP_cast,
                                SL_OP_bitcast,
                                SL_OP_stop_gradient,
                                SL_OP_complex,
                                SL_OP_real,
                                SL_OP_imag,
                                SL_OP_conjugate,
                                SL_OP_reduce_max,
                                SL_OP_reduce_min,
                                SL_OP_topk,
                                SL_OP_sort,
                                SL_OP_pool_max,
                                SL_OP_pool_min,
                                SL_OP_im2col,
                                SL_OP_dequantize,
                                SL_OP_dequant_moe_weights,
                                SL_OP_transform_region,
                                SL_OP_resize_nearest2x,
                                SL_OP_relu_backward,
                                SL_OP_rng_uniform,
                                SL_OP_embed,
                                SL_OP_kv_append,
                                SL_OP_argmax,
                                SL_OP_argmin,
                                SL_OP_argsort,
                                SL_OP_max_pool_indices,
                                SL_OP_quantise,
                                SL_OP_quantize,
                                SL_OP_q_matmul,
                                SL_OP_q_conv,
                                SL_OP_fake_quantize,
                                SL_OP_fake_quantize_lsq,
                                SL_OP_fake_quantize_lsq_backward_x};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i] == op) return true;
    return op >= SL_OP_reshape && op <= SL_OP_one_hot;
}

/* An element of one op alone: kernels are as near as they can be.  A region has several. */
static bool is_single(sl_op op) {
    const bool region = op == SL_OP_elementwise_region || op == SL_OP_add3;
    return (sl_op_info_of(op)->traits & SL_OP_POINTWISE) && !region;
}

static double step_of(sl_dtype dtype) {
    return dtype == SL_DTYPE_f64 ? 0x1p-51 : 0x1p-22;
}

/* Any magnitude up to this one, or 0. */
static double some_magnitude(reference *r, double most) {
    enum { HALVINGS = 120 };
    return test_draw(&r->moves, 4) ? ldexp(most, -(int)test_draw(&r->moves, HALVINGS)) : 0;
}

static double moved(reference *r, sl_op op, sl_dtype dtype, double largest, double value) {
    const bool pointwise = is_single(op);
    if (isnan(value) && r->may_lose_nan && test_draw(&r->moves, 2)) return 0;
    if (!isfinite(value) || (pointwise && value == 0)) return value;
    if (pointwise) largest = fmax(fabs(value), fmin(largest, 1));
    if (sl_op_info_of(op)->traits & SL_OP_RUNS && dtype == SL_DTYPE_f64)
        dtype = SL_DTYPE_f32; /* as bodies may compute in it */
    double by = reference_limit(dtype, largest, value);
    if (!pointwise && !is_exact(op)) by = fmax(by, r->least * step_of(dtype));
    if (r->faint && !pointwise && fabs(value) <= by) value = 0, by = some_magnitude(r, by);
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

/* Of the largest numbers that the op takes differences of: more than a step of them is not known.
 */
static double terms_of(const sl_node *node, const sl_eval_tensor *in) {
    if (node->op != SL_OP_attention_backward || node->input_count < 4) return 0;
    double largest[4] = {2, 2, 2, 2}; /* of drawn weights */
    for (int i = 0; i < 4; i++)
        if (in[i].data) largest[i] = reference_largest(&in[i].type, in[i].data);
    return largest[2] * largest[3] * (double)in[2].type.shape.dims[3] *
           fmax(largest[0], largest[1]); /* v, dout, and what their products are multiplied by */
}

/* Operands of an op that sums or chooses, each moved by a few steps of what it computes in: a right
 * result is near that of such operands. */
static void move_operands(reference *r, sl_op op, sl_eval_tensor *in, uint32_t count) {
    r->least = INFINITY;
    if (!r->moved || is_exact(op) || is_single(op)) return;
    for (uint32_t i = 0; i < count; i++) {
        const sl_dtype_kind kind = sl_dtype_infos[in[i].type.dtype].kind;
        const bool state = sl_input_kind(sl_op_info_of(op), i) == SL_OPERAND_STATE;
        if (!in[i].data || state || (kind != SL_KIND_FLOAT && kind != SL_KIND_COMPLEX)) continue;
        double *moved = new_slots(r, &in[i].type);
        const double by = step_of(in[i].type.dtype);
        r->least = fmin(r->least, reference_largest(&in[i].type, in[i].data));
        for (int64_t s = 0; s < sl_type_slots(&in[i].type); s++)
            moved[s] = in[i].data[s] * (test_draw(&r->moves, 2) ? 1 + by : 1 - by);
        if (op == SL_OP_route_groups && i == 1) /* chooses by its sum with a number up to 1 */
            for (int64_t s = 0; s < sl_type_slots(&in[i].type); s++)
                moved[s] += test_draw(&r->moves, 2) ? by : -by;
        in[i].data = moved;
    }
}

/* ---- bodies ---- */

bool reference_takes_finite(sl_op op) {
    static const sl_op ops[] = {
#define ROW(OP, OPERANDS, ATTRS)
#define CHAIN(NODES)
#define FINITE(OP) SL_OP_##OP,
#define NOT_DRAWN(OP, REASON)
#include "tests/support/vocabulary.def"
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i] == op) return true;
    return false;
}

typedef struct {
    sl_attr_visitor visitor; /* first */
    bool found;
} finite_search;

static void search_node(finite_search *search, const sl_node *node) {
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    memcpy(attrs, node->attrs, sl_op_info_of(node->op)->attrs_bytes);
    sl_op_info_of(node->op)->visit_attrs(&search->visitor, attrs);
}

static void search_body(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind,
                        void *value) {
    finite_search *search = (finite_search *)visitor;
    (void)name;
    const sl_graph *body = kind == SL_ATTR_graph ? ((const sl_attr *)value)->graph : NULL;
    for (uint32_t n = 0; body && n < body->node_count; n++) {
        search->found |= reference_takes_finite(body->nodes[n].op);
        search_node(search, &body->nodes[n]);
    }
}

static bool loses_nan(const sl_node *node, const sl_eval_tensor *in) {
    finite_search search = {{search_body}, false};
    bool finite = true;
    if (!(sl_op_info_of(node->op)->traits & SL_OP_RUNS)) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const sl_dtype_kind kind = sl_dtype_infos[in[i].type.dtype].kind;
        const bool floats = kind == SL_KIND_FLOAT || kind == SL_KIND_COMPLEX;
        for (int64_t s = 0; floats && in[i].data && s < sl_type_slots(&in[i].type); s++)
            finite &= isfinite(in[i].data[s]) != 0;
    }
    if (!finite) search_node(&search, node);
    return search.found;
}

sl_status reference_node(reference *r, const sl_node *node, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    sl_eval_tensor in[64], out[64];
    assert_true(node->input_count <= 64 && node->output_count <= 64);
    for (uint32_t i = 0; i < node->input_count; i++) in[i] = r->tensors[node->inputs[i].v];
    move_operands(r, node->op, in, node->input_count);
    if (!isfinite(r->least)) r->least = 0;
    if (r->moved) r->least = fmax(r->least, terms_of(node, in));
    r->may_lose_nan = r->moved && loses_nan(node, in);
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_value_info *info = &r->graph->values[node->outputs[o].v];
        assert_true(node->outputs[o].v < r->capacity);
        out[o] = (sl_eval_tensor){.type = info->type};
        out[o].data = info->root.v ? r->tensors[info->root.v].data : new_slots(r, &info->type);
        r->tensors[node->outputs[o].v] = out[o];
    }
    const sl_eval_args args = {node->label,       in, node->attrs, out, &scratch, node->input_count,
                               node->output_count};
    const sl_status status = sl_eval(node->op, &args, err);
    sl_arena_deinit(&scratch);
    for (uint32_t o = 0; o < node->output_count && status == SL_OK; o++)
        settle(r, node->op, &out[o]);
    return status;
}

bool reference_near(const sl_eval_tensor *a, const sl_eval_tensor *b, double limits) {
    const sl_dtype_kind kind = sl_dtype_infos[a->type.dtype].kind;
    const bool exact = kind == SL_KIND_INT || kind == SL_KIND_BOOL;
    const double largest = exact ? 0 : reference_largest(&a->type, a->data);
    for (int64_t i = 0; i < sl_type_slots(&a->type); i++) {
        const double x = a->data[i], y = b->data[i];
        if (sl_same_slot(&a->data[i], &b->data[i]) || (!exact && isnan(x) && isnan(y))) continue;
        if (exact || !(fabs(x - y) <= limits * reference_limit(SL_DTYPE_f32, largest, x) ||
                       fabs(x - y) <= limits * reference_limit(a->type.dtype, largest, x)))
            return false;
    }
    return true;
}
