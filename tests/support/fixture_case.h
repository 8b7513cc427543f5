/* fixture_case.h - Cases of tests/data/ops as slots (core/codec.h): an op, its attributes, inputs
 * of any number and outputs.  Numbers that JSON has no words for are text. */
#ifndef SL_TESTS_SUPPORT_FIXTURE_CASE_H
#define SL_TESTS_SUPPORT_FIXTURE_CASE_H
#include "compiler/graph.h"
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASE_INPUTS = 64 };
typedef struct {
    sl_arena arena;
    sl_graph *owner; /* of attributes */
    sl_op op;
    const sl_op_info *info;
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    uint32_t in_count;
    sl_eval_tensor in[CASE_INPUTS], out;
    sl_type wanted_type;
    double *wanted; /* NULL when there is none */
    sl_error err;
} fixture_case;

static double *case_slots(fixture_case *c, int64_t count) {
    double *slots = SL_ARENA_NEW_ARRAY(&c->arena, double, (size_t)count + 1);
    assert_non_null(slots);
    return slots;
}

static void case_open(fixture_case *c, const char *op, const char *attrs) {
    memset(c, 0, sizeof *c);
    sl_arena_init(&c->arena, NULL);
    assert_int_equal(sl_graph_create("attributes", NULL, &c->owner, &c->err), SL_OK);
    c->op = sl_op_find(op, strlen(op));
    if (c->op >= SL_OP_COUNT) fail_msg("there is no op '%s'", op);
    c->info = sl_op_info_of(c->op);
    if (sl_attrs_parse(c->op, attrs, strlen(attrs), c->owner, c->attrs, &c->err) != SL_OK)
        fail_msg("%s {%s}: %s", op, attrs, c->err.message);
}

static void case_close(fixture_case *c) {
    sl_graph_destroy(c->owner);
    sl_arena_deinit(&c->arena);
}

static void case_add(fixture_case *c, sl_type type) {
    assert_true(c->in_count < CASE_INPUTS);
    c->in[c->in_count].type = type;
    c->in[c->in_count++].data = case_slots(c, sl_type_slots(&type));
}

/* Infers the output and computes it. */
static sl_status case_evaluate(fixture_case *c) {
    sl_type in[CASE_INPUTS], out = {0};
    for (uint32_t i = 0; i < c->in_count; i++) in[i] = c->in[i].type;
    const sl_infer_args types = {c->info->name, in, c->attrs, &out, c->in_count, 1};
    SL_TRY(sl_infer(c->op, &types, &c->err));
    c->out = (sl_eval_tensor){.type = out, .data = case_slots(c, sl_type_slots(&out))};
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    const sl_eval_args args = {c->info->name, c->in, c->attrs, &c->out, &scratch, c->in_count, 1};
    const sl_status status = sl_eval(c->op, &args, &c->err);
    sl_arena_deinit(&scratch);
    return status;
}

/* ---- from JSON ---- */

static sl_type case_type(const json_t *item) {
    sl_type type = {0};
    const char *dtype = json_string_value(json_object_get(item, "dtype"));
    assert_true(sl_dtype_find(dtype, strlen(dtype), &type.dtype));
    const json_t *dims = json_object_get(item, "dims");
    type.shape.rank = (uint32_t)json_array_size(dims);
    for (uint32_t d = 0; d < type.shape.rank; d++)
        type.shape.dims[d] = json_integer_value(json_array_get(dims, d));
    return type;
}

static void case_slot(sl_dtype dtype, const json_t *item, double *slot) {
    const char *text = json_string_value(item);
    if (sl_is_wide(dtype) && text)
        sl_slot_set_integer(dtype, slot, (int64_t)strtoull(text, NULL, 10)); /* signs too */
    else if (sl_is_wide(dtype))
        sl_slot_set_integer(dtype, slot, json_integer_value(item));
    else
        *slot = text ? strtod(text, NULL) : json_number_value(item);
}

static double *case_data(fixture_case *c, const sl_type *type, const json_t *item) {
    const json_t *data = json_object_get(item, "data");
    double *slots = case_slots(c, sl_type_slots(type));
    assert_int_equal(json_array_size(data), sl_type_slots(type));
    for (size_t i = 0; i < json_array_size(data); i++)
        case_slot(type->dtype, json_array_get(data, i), slots + i);
    return slots;
}

static void case_read(fixture_case *c, const json_t *item) {
    case_open(c, json_string_value(json_object_get(item, "op")),
              json_string_value(json_object_get(item, "attrs")));
    const json_t *ins = json_object_get(item, "in"), *outs = json_object_get(item, "out");
    assert_int_equal(json_array_size(outs), 1);
    for (size_t i = 0; i < json_array_size(ins); i++) {
        const json_t *input = json_array_get(ins, i);
        assert_true(i < CASE_INPUTS);
        c->in[i].type = case_type(input);
        c->in[i].data = case_data(c, &c->in[i].type, input);
        c->in_count++;
    }
    c->wanted_type = case_type(json_array_get(outs, 0));
    c->wanted = case_data(c, &c->wanted_type, json_array_get(outs, 0));
}

/* Calls `check` with each case of a file; returns how many there are. */
static size_t for_each_case(const char *path, void check(fixture_case *c, size_t index)) {
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    if (!cases) fail_msg("%s: %s", path, error.text);
    const size_t count = json_array_size(cases);
    for (size_t i = 0; i < count; i++) {
        fixture_case c;
        case_read(&c, json_array_get(cases, i));
        check(&c, i);
        case_close(&c);
    }
    json_decref(cases);
    return count;
}
#endif
