/* list_case.h - One node of any op, lists and all element types included: its results by the
 * evaluator, and by every kernel of every instruction set this machine has, under several divisions
 * of its items that must agree to the last bit.
 *
 * f32 may be off by a tolerance of the tensor's largest magnitude, f64 by 1e-12 of it, f16 and bf16
 * by that tolerance and half a step; all else must be exact. */
#ifndef SL_TESTS_SUPPORT_LIST_CASE_H
#define SL_TESTS_SUPPORT_LIST_CASE_H
#include "compiler/graph.h"
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include "runtime/arguments.h"
#include "runtime/cpu/kernel_set.h"
#include "tests/support/kernel_items.h"
#include "tests/support/one_node.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#ifdef SL_CASE_CUDA
#include "tests/support/cuda_graph.h"
#endif

enum { CASE_OPERANDS = 32 };
static const char *const case_isas[] = {SL_ISA_NAMES};

typedef struct {
    sl_arena arena;
    sl_graph *owner; /* of attributes */
    sl_op op;
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    uint32_t inputs, outputs;
    sl_type types[CASE_OPERANDS];        /* inputs, then outputs */
    void *bytes[CASE_OPERANDS];          /* of inputs */
    sl_eval_tensor slots[CASE_OPERANDS]; /* inputs, then outputs of the evaluator */
    double unit; /* results are differences of such numbers: errors may be relative to it */
    sl_error err;
} list_case;

static void case_open(list_case *c, const char *op, const char *attrs) {
    memset(c, 0, sizeof *c);
    sl_arena_init(&c->arena, NULL);
    assert_int_equal(sl_graph_create("attributes", NULL, &c->owner, &c->err), SL_OK);
    c->op = sl_op_find(op, strlen(op));
    if (c->op >= SL_OP_COUNT) fail_msg("no op %s", op);
    if (sl_attrs_parse(c->op, attrs, strlen(attrs), c->owner, c->attrs, &c->err))
        fail_msg("%s {%s}: %s", op, attrs, c->err.message);
    c->outputs = sl_op_info_of(c->op)->output_count;
}

static void case_close(list_case *c) {
    sl_graph_destroy(c->owner);
    sl_arena_deinit(&c->arena);
}

static double *case_doubles(list_case *c, int64_t count) {
    double *data = SL_ARENA_NEW_ARRAY(&c->arena, double, count + 1);
    assert_non_null(data);
    return data;
}

/* An input, as slots: rounded to what its type holds. */
static void case_input(list_case *c, sl_type type, const double *slots) {
    const uint32_t i = c->inputs++;
    assert_true(i < CASE_OPERANDS / 2);
    c->types[i] = type;
    c->bytes[i] = sl_arena_alloc(&c->arena, sl_type_bytes(&type) + 1, 64);
    assert_non_null(c->bytes[i]);
    sl_encode_f64(type.dtype, slots, sl_type_elements(&type), c->bytes[i]);
    c->slots[i] = (sl_eval_tensor){.type = type, .data = case_doubles(c, sl_type_slots(&type))};
    sl_decode_f64(type.dtype, c->bytes[i], sl_type_elements(&type), c->slots[i].data);
}

/* "f32[2,3]" */
static sl_type case_type(const char *text) {
    sl_type type = {0};
    const char *bracket = strchr(text, '[');
    assert_non_null(bracket);
    assert_true(sl_dtype_find(text, (size_t)(bracket - text), &type.dtype));
    for (const char *p = bracket; *p != ']' && p[1] != ']'; p = strpbrk(p + 1, ",]"))
        type.shape.dims[type.shape.rank++] = strtoll(p + 1, NULL, 10);
    return type;
}

static sl_status case_infer(list_case *c) {
    const sl_op_info *info = sl_op_info_of(c->op);
    const sl_infer_args args = {info->name,           c->types,  c->attrs,
                                c->types + c->inputs, c->inputs, c->outputs};
    return sl_infer(c->op, &args, &c->err);
}

static sl_status case_eval(list_case *c) {
    const sl_op_info *info = sl_op_info_of(c->op);
    SL_TRY(case_infer(c));
    for (uint32_t o = c->inputs; o < c->inputs + c->outputs; o++)
        c->slots[o] = (sl_eval_tensor){.type = c->types[o],
                                       .data = case_doubles(c, sl_type_slots(&c->types[o]))};
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    const sl_eval_args args = {info->name, c->slots,  c->attrs,  c->slots + c->inputs,
                               &scratch,   c->inputs, c->outputs};
    const sl_status status = sl_eval(c->op, &args, &c->err);
    sl_arena_deinit(&scratch);
    return status;
}

/* ---- kernels ---- */

/* Runs one kernel; results go to outs, blocks of malloc. */
__attribute__((unused)) static sl_status
case_run_kernel(list_case *c, const char *isa, int64_t step, bool backwards, void **outs) {
    const sl_kernel *kernel = sl_cpu_kernel_find(sl_cpu_kernel_set(isa), c->op, c->types);
    assert_non_null(kernel);
    sl_operand operands[CASE_OPERANDS] = {0};
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    for (uint32_t i = 0; i < c->inputs + c->outputs; i++) operands[i].type = c->types[i];
    const sl_step s = {.op = c->op,
                       .operands = operands,
                       .operand_count = c->inputs + c->outputs,
                       .input_count = c->inputs,
                       .attrs = c->attrs};
    void *args = sl_arguments_create(&s, &arena);
    assert_non_null(args);
    for (uint32_t i = 0; i < c->inputs; i++) sl_argument(&s, args, i)->data = c->bytes[i];
    for (uint32_t o = 0; o < c->outputs; o++) {
        const size_t bytes = sl_type_bytes(&c->types[c->inputs + o]);
        outs[o] = malloc(bytes + 1);
        assert_non_null(outs[o]);
        memset(outs[o], 0xa5, bytes);
        sl_argument(&s, args, c->inputs + o)->data = outs[o];
    }
    const sl_status status = run_items(kernel, args, step, backwards, &c->err);
    sl_arena_deinit(&arena);
    return status;
}

static double largest_of(const double *x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i])) largest = fmax(largest, fabs(x[i]));
    return largest;
}

/* How far an element may be off, given the tensor's largest. */
static double case_allowed(sl_dtype dtype, double tolerance, double want, double largest) {
    if (dtype == SL_DTYPE_f64) return 1e-12 * largest;
    if (dtype == SL_DTYPE_f32) return tolerance * largest;
    if (dtype == SL_DTYPE_f16) return tolerance * largest + 0x1p-11 * fabs(want) + 0x1p-25;
    if (dtype == SL_DTYPE_bf16) return tolerance * largest + 0x1p-8 * fabs(want);
    return 0;
}

static void case_compare(const list_case *c, const char *isa, uint32_t output, const void *got,
                         double tolerance) {
    const sl_type *type = &c->types[c->inputs + output];
    const int64_t count = sl_type_elements(type);
    const double *want = c->slots[c->inputs + output].data;
    double *values = calloc((size_t)sl_type_slots(type) + 1, sizeof *values);
    assert_non_null(values);
    sl_decode_f64(type->dtype, got, count, values);
    const double largest = fmax(largest_of(want, count), c->unit);
    for (int64_t i = 0; i < count; i++) {
        const bool wide = sl_is_wide(type->dtype);
        if (sl_same_slot(&values[i], &want[i])) continue;
        if (!wide && isnan(values[i]) && isnan(want[i])) continue;
        const double allowed = case_allowed(type->dtype, tolerance, want[i], largest);
        if (wide || !(fabs(values[i] - want[i]) <= allowed))
            fail_msg("%s on %s: element %lld of result %u is %.9g instead of %.9g, largest %g",
                     sl_op_info_of(c->op)->name, isa, (long long)i, output, values[i], want[i],
                     largest);
    }
    free(values);
}

#ifdef SL_CASE_CUDA
/* Evaluates the case and compares the device with that. */
__attribute__((unused)) static void case_check(list_case *c, double tolerance) {
    cuda_graph g;
    if (case_eval(c)) fail_msg("%s", c->err.message);
    const one_node node = {c->op, c->attrs, c->inputs, c->outputs, c->types};
    if (cuda_graph_open(one_node_graph(&node), &g, &c->err)) fail_msg("%s", c->err.message);
    for (uint32_t i = 0; i < c->inputs; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "x%u", i);
        cuda_graph_bind(&g, name, c->bytes[i]);
    }
    if (cuda_device()->ops->run(g.exe, &c->err)) fail_msg("%s", c->err.message);
    for (uint32_t o = 0; o < c->outputs; o++)
        case_compare(c, "cuda", o, cuda_device()->ops->output(g.exe, o), tolerance);
    cuda_graph_close(&g);
}
#else
/* Evaluates the case and compares all kernels with that. */
__attribute__((unused)) static void case_check(list_case *c, double tolerance) {
    static const int64_t steps[] = {INT32_MAX, 1, 3};
    if (case_eval(c)) fail_msg("%s", c->err.message);
    for (size_t isa = 0; isa < sizeof case_isas / sizeof case_isas[0]; isa++) {
        if (!sl_cpu_kernel_set(case_isas[isa])) continue;
        void *first[CASE_OPERANDS] = {0}, *outs[CASE_OPERANDS] = {0};
        for (int s = 0; s < 6; s++) {
            if (case_run_kernel(c, case_isas[isa], steps[s / 2], s % 2, s ? outs : first))
                fail_msg("%s", c->err.message);
            for (uint32_t o = 0; o < c->outputs; o++) {
                if (s == 0) case_compare(c, case_isas[isa], o, first[o], tolerance);
                if (s > 0 && first[o] && outs[o] &&
                    memcmp(first[o], outs[o], sl_type_bytes(&c->types[c->inputs + o])) != 0)
                    fail_msg("%s on %s: another division of items gives other bits",
                             sl_op_info_of(c->op)->name, case_isas[isa]);
                if (s > 0) free(outs[o]);
            }
        }
        for (uint32_t o = 0; o < c->outputs; o++) free(first[o]);
    }
}
#endif

/* ---- fixtures ---- */

static sl_type case_read_type(const json_t *item) {
    sl_type type = {0};
    const char *dtype = json_string_value(json_object_get(item, "dtype"));
    assert_true(sl_dtype_find(dtype, strlen(dtype), &type.dtype));
    const json_t *dims = json_object_get(item, "dims");
    type.shape.rank = (uint32_t)json_array_size(dims);
    for (uint32_t d = 0; d < type.shape.rank; d++)
        type.shape.dims[d] = json_integer_value(json_array_get(dims, d));
    return type;
}

/* Slots: of 64-bit integers their bits. */
static double *case_read_slots(list_case *c, const json_t *item, const sl_type *type) {
    const json_t *array = json_object_get(item, "data");
    assert_int_equal(json_array_size(array), sl_type_slots(type));
    double *data = case_doubles(c, (int64_t)json_array_size(array));
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        if (sl_is_wide(type->dtype))
            sl_slot_set_integer(type->dtype, &data[i], json_integer_value(value));
        else
            data[i] = json_number_value(value);
    }
    return data;
}

__attribute__((unused)) static void case_read(list_case *c, const json_t *item) {
    case_open(c, json_string_value(json_object_get(item, "op")),
              json_string_value(json_object_get(item, "attrs")));
    const json_t *ins = json_object_get(item, "in");
    for (size_t i = 0; i < json_array_size(ins); i++) {
        const json_t *in = json_array_get(ins, i);
        const sl_type type = case_read_type(in);
        case_input(c, type, case_read_slots(c, in, &type));
    }
    c->outputs = (uint32_t)json_array_size(json_object_get(item, "out"));
}

/* The evaluator's results against the fixture's: within 1e-12 of the largest, integers exactly. */
__attribute__((unused)) static void case_match(list_case *c, const json_t *item, size_t index) {
    const json_t *outs = json_object_get(item, "out");
    if (case_eval(c)) fail_msg("case %zu: %s", index, c->err.message);
    for (uint32_t o = 0; o < c->outputs; o++) {
        const json_t *out = json_array_get(outs, o);
        const sl_type type = case_read_type(out);
        const sl_eval_tensor *found = &c->slots[c->inputs + o];
        char got[SL_TYPE_TEXT], want[SL_TYPE_TEXT];
        if (!sl_type_equal(&type, &found->type))
            fail_msg("case %zu, %s: %s instead of %s", index, sl_op_info_of(c->op)->name,
                     sl_type_format(&found->type, got, sizeof got),
                     sl_type_format(&type, want, sizeof want));
        const double *data = case_read_slots(c, out, &type);
        const bool real = sl_dtype_infos[type.dtype].kind == SL_KIND_FLOAT;
        const double allowed = real ? 1e-12 * largest_of(data, sl_type_elements(&type)) : 0;
        for (int64_t i = 0; i < sl_type_elements(&type); i++)
            if (!sl_same_slot(&found->data[i], &data[i]) &&
                (sl_is_wide(type.dtype) || !(fabs(found->data[i] - data[i]) <= allowed)))
                fail_msg("case %zu, %s: element %lld of result %u is %.17g instead of %.17g", index,
                         sl_op_info_of(c->op)->name, (long long)i, o, found->data[i], data[i]);
    }
}
#endif
