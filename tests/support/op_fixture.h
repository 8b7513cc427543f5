/* op_fixture.h - Cases in JSON of what an op gives: {"op", "attrs", "in": [tensor], "out":
 * [tensor]}.
 *
 * A tensor is {"dtype", "dims", "data"}: numbers, "nan", "inf" or "-inf"; of c64 the two parts one
 * after the other, of u64 its bits as i64.  Lists of inputs and results may have any length. */
#ifndef SL_TESTS_SUPPORT_OP_FIXTURE_H
#define SL_TESTS_SUPPORT_OP_FIXTURE_H
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

enum { MOST_TENSORS = 16 };

typedef struct {
    sl_arena arena;
    sl_graph *owner; /* of attributes */
    sl_op op;
    const sl_op_info *info;
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    uint32_t in_count, out_count;
    sl_eval_tensor in[MOST_TENSORS], out[MOST_TENSORS];
    sl_error err;
} fixture;

static void fixture_open(fixture *f, const char *op, const char *attrs) {
    memset(f, 0, sizeof *f);
    sl_arena_init(&f->arena, NULL);
    assert_int_equal(sl_graph_create("attributes", NULL, &f->owner, &f->err), SL_OK);
    f->op = sl_op_find(op, strlen(op));
    if (f->op == SL_OP_COUNT) fail_msg("no op '%s'", op);
    f->info = sl_op_info_of(f->op);
    f->in_count = f->info->input_count;
    f->out_count = f->info->output_count;
    if (sl_attrs_parse(f->op, attrs, strlen(attrs), f->owner, f->attrs, &f->err) != SL_OK)
        fail_msg("%s {%s}: %s", op, attrs, f->err.message);
}
static void fixture_close(fixture *f) {
    sl_graph_destroy(f->owner);
    sl_arena_deinit(&f->arena);
}

static double *fixture_slots(fixture *f, const sl_type *type) {
    double *slots = SL_ARENA_NEW_ARRAY(&f->arena, double, sl_type_slots(type) + 1);
    assert_non_null(slots);
    return slots;
}

static double fixture_number(const json_t *item) {
    return json_is_string(item) ? strtod(json_string_value(item), NULL) : json_number_value(item);
}

static sl_eval_tensor fixture_tensor(fixture *f, const json_t *item) {
    sl_eval_tensor t = {0};
    const char *dtype = json_string_value(json_object_get(item, "dtype"));
    assert_true(sl_dtype_find(dtype, strlen(dtype), &t.type.dtype));
    const json_t *dims = json_object_get(item, "dims"), *data = json_object_get(item, "data");
    t.type.shape.rank = (uint32_t)json_array_size(dims);
    for (uint32_t d = 0; d < t.type.shape.rank; d++)
        t.type.shape.dims[d] = json_integer_value(json_array_get(dims, d));
    assert_int_equal(json_array_size(data), sl_type_slots(&t.type));
    t.data = fixture_slots(f, &t.type);
    const sl_dtype_kind kind = sl_dtype_infos[t.type.dtype].kind;
    for (size_t i = 0; i < json_array_size(data); i++) {
        const json_t *number = json_array_get(data, i);
        if (kind == SL_KIND_INT || kind == SL_KIND_BOOL)
            sl_slot_set_integer(t.type.dtype, &t.data[i], json_integer_value(number));
        else
            t.data[i] = fixture_number(number);
    }
    return t;
}

/* A case with its inputs, and the results that it wants in `out`. */
__attribute__((unused)) static void fixture_read(fixture *f, const json_t *item) {
    fixture_open(f, json_string_value(json_object_get(item, "op")),
                 json_string_value(json_object_get(item, "attrs")));
    const json_t *ins = json_object_get(item, "in"), *outs = json_object_get(item, "out");
    if (f->info->list_name) f->in_count = (uint32_t)json_array_size(ins);
    if (f->info->outs_name) f->out_count = (uint32_t)json_array_size(outs);
    assert_true(f->in_count <= MOST_TENSORS && f->out_count <= MOST_TENSORS);
    assert_int_equal(json_array_size(ins), f->in_count);
    assert_int_equal(json_array_size(outs), f->out_count);
    for (uint32_t i = 0; i < f->in_count; i++) f->in[i] = fixture_tensor(f, json_array_get(ins, i));
    for (uint32_t o = 0; o < f->out_count; o++)
        f->out[o] = fixture_tensor(f, json_array_get(outs, o));
}

/* What the op gives. */
static sl_status fixture_eval(fixture *f, sl_eval_tensor *out) {
    sl_type in[MOST_TENSORS], types[MOST_TENSORS] = {0};
    for (uint32_t i = 0; i < f->in_count; i++) in[i] = f->in[i].type;
    const sl_infer_args infer = {f->info->name, in, f->attrs, types, f->in_count, f->out_count};
    SL_TRY(sl_infer(f->op, &infer, &f->err));
    for (uint32_t o = 0; o < f->out_count; o++)
        out[o] = (sl_eval_tensor){.type = types[o], .data = fixture_slots(f, &types[o])};
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    const sl_eval_args args = {f->info->name, f->in,       f->attrs,    out,
                               &scratch,      f->in_count, f->out_count};
    const sl_status status = sl_eval(f->op, &args, &f->err);
    sl_arena_deinit(&scratch);
    return status;
}

/* Calls a function for every case of a file; seen counts those of each op. */
__attribute__((unused)) static void each_fixture(const char *path, void visit(fixture *f, size_t n),
                                                 uint32_t seen[SL_OP_COUNT]) {
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    if (!cases) fail_msg("%s: %s", path, error.text);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        fixture f;
        fixture_read(&f, json_array_get(cases, i));
        visit(&f, i);
        seen[f.op]++;
        fixture_close(&f);
    }
    json_decref(cases);
}

/* The evaluator's results are those wanted: integers exactly, floats to `tolerance` of the largest.
 */
__attribute__((unused)) static void fixture_compare(fixture *f, size_t number, double tolerance) {
    sl_eval_tensor got[MOST_TENSORS];
    if (fixture_eval(f, got) != SL_OK) fail_msg("case %zu: %s", number, f->err.message);
    for (uint32_t o = 0; o < f->out_count; o++) {
        const sl_type *type = &f->out[o].type;
        const double *want = f->out[o].data;
        char found[SL_TYPE_TEXT], wanted[SL_TYPE_TEXT];
        if (!sl_type_equal(type, &got[o].type))
            fail_msg("case %zu, %s: %s instead of %s", number, f->info->name,
                     sl_type_format(&got[o].type, found, sizeof found),
                     sl_type_format(type, wanted, sizeof wanted));
        const sl_dtype_kind kind = sl_dtype_infos[type->dtype].kind;
        const bool exact = kind == SL_KIND_INT || kind == SL_KIND_BOOL;
        double largest = 0;
        for (int64_t i = 0; !exact && i < sl_type_slots(type); i++)
            if (isfinite(want[i])) largest = fmax(largest, fabs(want[i]));
        for (int64_t i = 0; i < sl_type_slots(type); i++) {
            const double x = got[o].data[i];
            const bool same = sl_same_slot(&x, &want[i]) ||
                              (!exact && (x == want[i] || (isnan(x) && isnan(want[i])) ||
                                          fabs(x - want[i]) <= tolerance * largest));
            if (!same)
                fail_msg("case %zu, %s: element %lld of result %u is %.17g instead of %.17g",
                         number, f->info->name, (long long)i, o, x, want[i]);
        }
    }
}

/* A graph of the case alone, its inputs declared. */
__attribute__((unused)) static sl_graph *fixture_graph(const fixture *f) {
    sl_graph *g = NULL;
    sl_error err = {0};
    sl_value in[MOST_TENSORS], out[MOST_TENSORS];
    assert_int_equal(sl_graph_create("case", NULL, &g, &err), SL_OK);
    for (uint32_t i = 0; i < f->in_count; i++) {
        const char name[] = {'i', (char)('a' + i), 0};
        in[i] = sl_graph_declare(g, SL_VALUE_INPUT, name, f->in[i].type);
    }
    sl_graph_append_list(g, f->op, (sl_values){f->in_count, in}, f->attrs,
                         (sl_value_slots){f->out_count, out});
    for (uint32_t o = 0; o < f->out_count; o++) {
        const char name[] = {'o', (char)('a' + o), 0};
        sl_graph_output(g, name, out[o]);
    }
    if (sl_graph_check(g, &err) != SL_OK || sl_graph_verify(g, &err) != SL_OK)
        fail_msg("%s: %s", f->info->name, err.message);
    return g;
}

/* What is printed parses back to what is printed. */
__attribute__((unused)) static void fixture_round_trip(fixture *f) {
    sl_graph *g = fixture_graph(f), *again = NULL;
    char *text = NULL, *second = NULL;
    if (sl_graph_print(g, &f->arena, &text, &f->err) != SL_OK ||
        sl_graph_parse(text, strlen(text), NULL, &again, &f->err) != SL_OK ||
        sl_graph_print(again, &f->arena, &second, &f->err) != SL_OK)
        fail_msg("%s: %s\n%s", f->info->name, f->err.message, text ? text : "");
    assert_string_equal(text, second);
    sl_graph_destroy(g);
    sl_graph_destroy(again);
}

/* The op refuses inputs of these types, of ones, with this message.  Types end with NULL. */
__attribute__((unused)) static void fixture_rejects(const char *op, const char *attrs,
                                                    const char *const *types, const char *message) {
    fixture f;
    sl_eval_tensor out[MOST_TENSORS];
    fixture_open(&f, op, attrs);
    for (f.in_count = 0; types[f.in_count]; f.in_count++) {
        const char *text = types[f.in_count], *bracket = strchr(text, '[');
        sl_eval_tensor *t = &f.in[f.in_count];
        assert_true(sl_dtype_find(text, (size_t)(bracket - text), &t->type.dtype));
        for (const char *p = bracket; *p != ']' && p[1] != ']'; p = strpbrk(p + 1, ",]"))
            t->type.shape.dims[t->type.shape.rank++] = strtoll(p + 1, NULL, 10);
        t->data = fixture_slots(&f, &t->type);
        for (int64_t i = 0; i < sl_type_slots(&t->type); i++) t->data[i] = 1;
    }
    if (f.info->outs_name) f.out_count = 2;
    assert_int_equal(fixture_eval(&f, out), SL_INVALID);
    assert_string_equal(f.err.message, message);
    fixture_close(&f);
}
#define TYPES(...)                                                                                 \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }
#endif
