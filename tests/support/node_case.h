/* node_case.h - One node of any op, with lists and every plain type: inferred, evaluated, compared
 * with fixtures and with finite differences, and run by the kernels of every instruction set.
 *
 * Kernels run under several divisions of their items, in both orders, which must agree to the last
 * bit; scratch has exactly the size asked for, so that a sanitizer sees overruns.  Limits: f32
 * 2e-6 of the largest magnitude of the tensor, f64 1e-12, halves half a step more; others exact. */
#ifndef SL_TESTS_SUPPORT_NODE_CASE_H
#define SL_TESTS_SUPPORT_NODE_CASE_H
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#ifdef SL_CASE_CUDA
#include "tests/support/cuda_graph.h"
#endif

enum { NODE_OPERANDS = 24 };

typedef struct {
    sl_arena arena;
    sl_op op;
    const sl_op_info *info;
    uint32_t in_count, out_count;
    sl_eval_tensor in[NODE_OPERANDS], out[NODE_OPERANDS];
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    sl_graph *owner; /* of attributes */
    sl_error err;
    double tolerance; /* of f32 results; 0: the usual */
} node_case;

static uint64_t node_seed = 0x9e3779b97f4a7c15;
__attribute__((unused)) static uint32_t node_next(void) {
    node_seed ^= node_seed << 13;
    node_seed ^= node_seed >> 7;
    node_seed ^= node_seed << 17;
    return (uint32_t)(node_seed >> 32);
}
__attribute__((unused)) static int64_t node_between(int64_t low, int64_t high) {
    return low + (int64_t)(node_next() % (uint32_t)(high - low + 1));
}

/* Lists must be stated; those that a test leaves out are empty. */
typedef struct {
    sl_attr_visitor visitor; /* first */
    const char *given;
    char text[1000];
} node_lists;

static void node_add_list(sl_attr_visitor *v, const char *name, sl_attr_kind kind, void *value) {
    node_lists *l = (node_lists *)(void *)v;
    (void)value;
    if (kind != SL_ATTR_list && kind != SL_ATTR_reals && kind != SL_ATTR_dims) return;
    const size_t bytes = strlen(name), at = strlen(l->text);
    for (const char *p = l->given; (p = strstr(p, name)); p += bytes)
        if ((p == l->given || p[-1] == ' ') && p[bytes] == ' ') return;
    (void)snprintf(l->text + at, sizeof l->text - at, "%s%s = []", at ? ", " : "", name);
}

static void node_open(node_case *n, const char *op, const char *given) {
    memset(n, 0, sizeof *n);
    sl_arena_init(&n->arena, NULL);
    assert_int_equal(sl_graph_create("attributes", NULL, &n->owner, &n->err), SL_OK);
    n->op = sl_op_find(op, strlen(op));
    if (n->op >= SL_OP_COUNT) fail_msg("no op %s", op);
    n->info = sl_op_info_of(n->op);
    n->out_count = n->info->output_count;
    node_lists lists = {.visitor = {node_add_list}, .given = given};
    (void)snprintf(lists.text, sizeof lists.text, "%s", given);
    n->info->visit_attrs(&lists.visitor, n->attrs);
    const char *attrs = lists.text;
    if (sl_attrs_parse(n->op, attrs, strlen(attrs), n->owner, n->attrs, &n->err) != SL_OK)
        fail_msg("%s {%s}: %s", op, attrs, n->err.message);
}

static void node_close(node_case *n) {
    sl_graph_destroy(n->owner);
    sl_arena_deinit(&n->arena);
}

static double *node_doubles(node_case *n, int64_t count) {
    double *data = SL_ARENA_NEW_ARRAY(&n->arena, double, count + 1);
    assert_non_null(data);
    return data;
}

/* Another input, of zeros. */
static double *node_input(node_case *n, const sl_type *type) {
    assert_true(n->in_count < NODE_OPERANDS);
    sl_eval_tensor *tensor = &n->in[n->in_count++];
    *tensor = (sl_eval_tensor){.type = *type, .data = node_doubles(n, sl_type_slots(type))};
    return tensor->data;
}

/* "f32[2,3]" */
__attribute__((unused)) static sl_type node_type(const char *text) {
    sl_type type = {0};
    const char *bracket = strchr(text, '[');
    if (!bracket || !sl_dtype_find(text, (size_t)(bracket - text), &type.dtype))
        fail_msg("no type '%s'", text);
    for (const char *p = bracket; p && *p != ']' && p[1] != ']'; p = strpbrk(p + 1, ",]"))
        type.shape.dims[type.shape.rank++] = strtoll(p + 1, NULL, 10);
    return type;
}

static bool node_is_exact(sl_dtype dtype) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    return kind != SL_KIND_FLOAT && kind != SL_KIND_COMPLEX;
}

/* Random elements in [low, high), as the type holds them. */
__attribute__((unused)) static double *node_random(node_case *n, const sl_type *type, double low,
                                                   double high) {
    double *data = node_input(n, type);
    const sl_dtype_info *info = &sl_dtype_infos[type->dtype];
    const sl_dtype each = info->kind == SL_KIND_COMPLEX ? SL_DTYPE_f32 : type->dtype;
    for (int64_t i = 0; i < sl_type_slots(type); i++) {
        unsigned char bytes[8];
        const double value = low + (high - low) * (double)node_next() / 4294967296.0;
        if (node_is_exact(type->dtype)) {
            sl_slot_set_integer(type->dtype, &data[i], (int64_t)floor(value));
            continue;
        }
        sl_encode_f64(each, &value, 1, bytes);
        sl_decode_f64(each, bytes, 1, &data[i]);
    }
    return data;
}

/* Infers the results and computes them. */
static sl_status node_run(node_case *n) {
    sl_type in[NODE_OPERANDS], out[NODE_OPERANDS] = {0};
    for (uint32_t i = 0; i < n->in_count; i++) in[i] = n->in[i].type;
    const sl_infer_args infer = {n->info->name, in, n->attrs, out, n->in_count, n->out_count};
    SL_TRY(sl_infer(n->op, &infer, &n->err));
    for (uint32_t o = 0; o < n->out_count; o++)
        n->out[o] =
            (sl_eval_tensor){.type = out[o], .data = node_doubles(n, sl_type_slots(&out[o]))};
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    const sl_eval_args args = {n->info->name, n->in,       n->attrs,    n->out,
                               &scratch,      n->in_count, n->out_count};
    const sl_status status = sl_eval(n->op, &args, &n->err);
    sl_arena_deinit(&scratch);
    return status;
}

/* ---- comparing ---- */

/* How far a result may be from its true value. */
static double node_limit(const node_case *n, sl_dtype dtype, double largest, double value) {
    const double single = (n->tolerance > 0 ? n->tolerance : 2e-6) * largest;
    if (dtype == SL_DTYPE_f64) return 1e-12 * largest;
    if (dtype == SL_DTYPE_f32 || dtype == SL_DTYPE_c64) return single + 0x1p-150;
    const double step = dtype == SL_DTYPE_f16 ? fmax(fabs(value), 0x1p-14) * 0x1p-11
                                              : fmax(fabs(value), 0x1p-126) * 0x1p-8;
    return single + step * 1.001;
}

static void node_compare(const node_case *n, const char *by, const sl_type *type,
                         const double *found, const double *want, bool computed) {
    double largest = 0;
    const int64_t count = sl_type_slots(type);
    for (int64_t i = 0; i < count && !node_is_exact(type->dtype); i++)
        if (isfinite(want[i])) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < count; i++) {
        if (node_is_exact(type->dtype)) {
            if (!sl_same_slot(&found[i], &want[i]))
                fail_msg("%s by %s: element %lld is %lld instead of %lld", n->info->name, by,
                         (long long)i, (long long)sl_slot_integer(type->dtype, &found[i]),
                         (long long)sl_slot_integer(type->dtype, &want[i]));
            continue;
        }
        const double limit =
            computed ? node_limit(n, type->dtype, largest, want[i]) : 1e-12 * largest + 2e-13;
        if (isnan(want[i]) ? isnan(found[i]) : found[i] == want[i]) continue;
        if (!(fabs(found[i] - want[i]) <= limit))
            fail_msg("%s by %s: element %lld is %.17g instead of %.17g, off by %g of %g",
                     n->info->name, by, (long long)i, found[i], want[i],
                     fabs(found[i] - want[i]) / largest, largest);
    }
}

/* ---- kernels ---- */

/* The bytes of all operands, results with something else than their values. */
static void **node_bytes(const node_case *n) {
    void **bytes = calloc(n->in_count + n->out_count + 1, sizeof *bytes);
    assert_non_null(bytes);
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        const sl_eval_tensor *t = i < n->in_count ? &n->in[i] : &n->out[i - n->in_count];
        const uint64_t size = sl_type_bytes(&t->type);
        assert_int_equal(posix_memalign(&bytes[i], 64, size + !size), 0);
        if (i < n->in_count)
            sl_encode_f64(t->type.dtype, t->data, sl_type_elements(&t->type), bytes[i]);
        else
            memset(bytes[i], 0xa5, size);
    }
    return bytes;
}
static void node_bytes_free(const node_case *n, void **bytes) {
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) free(bytes[i]);
    free(bytes);
}

/* Items in ranges of `step`, from the front or from the back. */
static void node_items(const node_case *n, const sl_kernel *kernel, void *const *bytes,
                       int64_t step, bool backwards) {
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_operand operands[NODE_OPERANDS * 2] = {0};
    const uint32_t count = n->in_count + n->out_count;
    for (uint32_t i = 0; i < count; i++)
        operands[i].type = i < n->in_count ? n->in[i].type : n->out[i - n->in_count].type;
    const sl_step of = {.op = n->op,
                        .operand_count = count,
                        .input_count = n->in_count,
                        .operands = operands,
                        .attrs = n->attrs};
    void *args = sl_arguments_create(&of, &arena);
    assert_non_null(args);
    for (uint32_t i = 0; i < count; i++) sl_argument(&of, args, i)->data = bytes[i];
    sl_error err = {0};
    if (run_items(kernel, args, step, backwards, &err) != SL_OK)
        fail_msg("%s: %s", n->info->name, err.message);
    sl_arena_deinit(&arena);
}

__attribute__((unused)) static void node_isa(const node_case *n, const char *isa,
                                             const sl_kernel *kernel) {
    static const int64_t steps[] = {INT32_MAX, 1, 3};
    void **first = node_bytes(n);
    node_items(n, kernel, first, steps[0], false);
    for (uint32_t o = 0; o < n->out_count; o++) {
        const sl_type *type = &n->out[o].type;
        double *found = calloc((size_t)sl_type_slots(type) + 1, sizeof *found);
        assert_non_null(found);
        sl_decode_f64(type->dtype, first[n->in_count + o], sl_type_elements(type), found);
        node_compare(n, isa, type, found, n->out[o].data, true);
        free(found);
    }
    for (int s = 1; s < 6; s++) {
        void **bytes = node_bytes(n);
        node_items(n, kernel, bytes, steps[s / 2], s % 2);
        for (uint32_t o = 0; o < n->out_count; o++)
            if (memcmp(bytes[n->in_count + o], first[n->in_count + o],
                       sl_type_bytes(&n->out[o].type)) != 0)
                fail_msg("%s on %s: another division of items gives other bits", n->info->name,
                         isa);
        node_bytes_free(n, bytes);
    }
    node_bytes_free(n, first);
}

static sl_graph *node_graph(const node_case *n) {
    sl_type in[NODE_OPERANDS];
    for (uint32_t i = 0; i < n->in_count; i++) in[i] = n->in[i].type;
    return one_node_graph(&(one_node){n->op, n->attrs, n->in_count, n->out_count, in});
}

#ifdef SL_CASE_CUDA
/* Runs what was compiled, which must end so; results are compared where it went well. */
static void node_run_cuda(node_case *n, const cuda_graph *g, sl_status wanted) {
    const sl_device_ops *ops = cuda_device()->ops;
    void **bytes = node_bytes(n);
    for (uint32_t i = 0; i < n->in_count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "x%u", i);
        cuda_graph_bind(g, name, bytes[i]);
    }
    if (ops->run(g->exe, &n->err) != wanted) fail_msg("%s: %s", n->info->name, n->err.message);
    for (uint32_t o = 0; o < n->out_count && wanted == SL_OK; o++) {
        const sl_type *type = &n->out[o].type;
        double *found = node_doubles(n, sl_type_slots(type));
        sl_decode_f64(type->dtype, ops->output(g->exe, o), sl_type_elements(type), found);
        node_compare(n, "cuda", type, found, n->out[o].data, true);
    }
    node_bytes_free(n, bytes);
}

/* On the device, after node_run. */
__attribute__((unused)) static void node_kernels(node_case *n) {
    cuda_graph g;
    if (cuda_graph_open(node_graph(n), &g, &n->err) != SL_OK) fail_msg("%s", n->err.message);
    node_run_cuda(n, &g, SL_OK);
    cuda_graph_close(&g);
}
#else
/* Every kernel of the op, after node_run; none where all results are empty, as on the device. */
__attribute__((unused)) static void node_kernels(const node_case *n) {
    int64_t elements = 0;
    for (uint32_t o = 0; o < n->out_count; o++) elements += sl_type_elements(&n->out[o].type);
    if (!elements) return;
    static const char *const isas[] = {SL_ISA_NAMES};
    sl_type in[NODE_OPERANDS];
    for (uint32_t i = 0; i < n->in_count; i++) in[i] = n->in[i].type;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(isas[i]);
        if (!set) continue;
        const sl_kernel *kernel = sl_cpu_kernel_find(set, n->op, in);
        if (!kernel) fail_msg("%s has no kernel on %s", n->info->name, isas[i]);
        node_isa(n, isas[i], kernel);
    }
}
#endif

/* Evaluates, runs all kernels and closes. */
__attribute__((unused)) static void node_check(node_case *n) {
    if (node_run(n) != SL_OK) fail_msg("%s", n->err.message);
    node_kernels(n);
    node_close(n);
}

/* ---- text form ---- */

/* Printed, parsed and printed again. */
static void node_text(const node_case *n) {
    sl_graph *graph = node_graph(n), *again = NULL;
    char *first = NULL, *second = NULL;
    sl_arena arena;
    sl_error err = {0};
    sl_arena_init(&arena, NULL);
    if (sl_graph_print(graph, &arena, &first, &err) != SL_OK ||
        sl_graph_parse(first, strlen(first), NULL, &again, &err) != SL_OK ||
        sl_graph_print(again, &arena, &second, &err) != SL_OK)
        fail_msg("%s: %s in %s", n->info->name, err.message, first ? first : "a graph");
    assert_string_equal(first, second);
    sl_graph_destroy(graph);
    sl_graph_destroy(again);
    sl_arena_deinit(&arena);
}

/* ---- fixtures ---- */

static double node_number(const json_t *item) {
    const char *text = json_string_value(item);
    if (!text) return json_number_value(item);
    return text[0] == 'n' ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
}

static void node_read(const json_t *item, sl_type *type, double *data) {
    const json_t *dims = json_object_get(item, "dims"), *values = json_object_get(item, "data");
    const char *dtype = json_string_value(json_object_get(item, "dtype"));
    *type = (sl_type){.shape.rank = (uint32_t)json_array_size(dims)};
    assert_true(sl_dtype_find(dtype, strlen(dtype), &type->dtype));
    for (uint32_t d = 0; d < type->shape.rank; d++)
        type->shape.dims[d] = json_integer_value(json_array_get(dims, d));
    for (size_t i = 0; data && i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        if (sl_dtype_infos[type->dtype].kind == SL_KIND_INT)
            sl_slot_set_integer(type->dtype, &data[i], json_integer_value(value));
        else
            data[i] = node_number(value);
    }
}

/* A case with its inputs. */
static void node_open_fixture(node_case *n, const json_t *item) {
    sl_type type;
    node_open(n, json_string_value(json_object_get(item, "op")),
              json_string_value(json_object_get(item, "attrs")));
    const json_t *ins = json_object_get(item, "in");
    for (size_t i = 0; i < json_array_size(ins); i++) {
        node_read(json_array_get(ins, i), &type, NULL);
        node_read(json_array_get(ins, i), &type, node_input(n, &type));
    }
    if (n->info->outs_name) n->out_count = (uint32_t)json_array_size(json_object_get(item, "out"));
}

static sl_op node_fixture(const json_t *item) {
    node_case n;
    sl_type type;
    node_open_fixture(&n, item);
    const json_t *outs = json_object_get(item, "out");
    assert_int_equal(json_array_size(outs), n.out_count);
    if (node_run(&n) != SL_OK) fail_msg("%s", n.err.message);
    for (uint32_t o = 0; o < n.out_count; o++) {
        node_read(json_array_get(outs, o), &type, NULL);
        char found[SL_TYPE_TEXT], want[SL_TYPE_TEXT];
        if (!sl_type_equal(&type, &n.out[o].type))
            fail_msg("%s: %s instead of %s", n.info->name,
                     sl_type_format(&n.out[o].type, found, sizeof found),
                     sl_type_format(&type, want, sizeof want));
        double *data = node_doubles(&n, sl_type_slots(&type));
        node_read(json_array_get(outs, o), &type, data);
        node_compare(&n, "evaluation", &type, n.out[o].data, data, false);
    }
    node_kernels(&n);
    node_text(&n);
    node_close(&n);
    return n.op;
}

/* Every case of a file, evaluated and by all kernels; counts them by op. */
__attribute__((unused)) static void node_fixtures(const char *path, uint32_t seen[SL_OP_COUNT]) {
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    if (!cases) fail_msg("%s: %s", path, error.text);
    for (size_t i = 0; i < json_array_size(cases); i++)
        seen[node_fixture(json_array_get(cases, i))]++;
    json_decref(cases);
}

/* The same, for the ops of a family: each has at least three. */
__attribute__((unused)) static void node_family(const char *path, const sl_op *ops, size_t count) {
    uint32_t seen[SL_OP_COUNT] = {0};
    node_fixtures(path, seen);
    for (size_t i = 0; i < count; i++)
        if (seen[ops[i]] < 3)
            fail_msg("%s has %u fixtures", sl_op_info_of(ops[i])->name, seen[ops[i]]);
}

/* ---- gradients ---- */

/* The sum of dy times the result, after evaluating. */
static double node_loss(node_case *n, const double *dy) {
    double loss = 0;
    assert_non_null(dy);
    if (node_run(n) != SL_OK) fail_msg("%s", n->err.message);
    for (int64_t i = 0; i < sl_type_elements(&n->out[0].type); i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        loss += dy[i] * n->out[0].data[i];
    return loss;
}

/* gradient is that of the forward node's loss for input `input`: compared with central differences.
 * All are f64. */
__attribute__((unused)) static void node_differences(node_case *forward, uint32_t input,
                                                     const double *dy, const double *gradient) {
    sl_eval_tensor *x = &forward->in[input];
    double largest = 0;
    for (int64_t i = 0; i < sl_type_elements(&x->type); i++)
        largest = fmax(largest, fabs(gradient[i]));
    for (int64_t i = 0; i < sl_type_elements(&x->type); i++) {
        const double value = x->data[i], h = 1e-5 * fmax(1, fabs(value));
        x->data[i] = value + h;
        const double above = node_loss(forward, dy);
        x->data[i] = value - h;
        const double below = node_loss(forward, dy);
        x->data[i] = value;
        if (!(fabs((above - below) / (2 * h) - gradient[i]) <= 1e-7 * fmax(largest, 1e-3)))
            fail_msg("%s: gradient %lld for input %u is %.12g instead of %.12g",
                     forward->info->name, (long long)i, input, gradient[i],
                     (above - below) / (2 * h));
    }
}

/* A forward op, and the one for the gradient of an input; each of its operands is an operand of
 * the forward op, or NODE_DY. */
enum { NODE_DY = -1 };
typedef struct {
    const char *forward, *attrs, *types[5];
    uint32_t input;
    const char *backward, *backward_attrs;
    int operands[4];
    uint32_t operand_count;
} node_gradient;

__attribute__((unused)) static void node_check_gradient(const node_gradient *c) {
    node_case forward, backward;
    node_open(&forward, c->forward, c->attrs);
    for (int i = 0; i < 5 && c->types[i]; i++) {
        const sl_type type = node_type(c->types[i]);
        node_random(&forward, &type, 0.2, 2);
    }
    assert_int_equal(node_run(&forward), SL_OK);
    node_open(&backward, c->backward, c->backward_attrs);
    const double *dy = NULL;
    for (uint32_t i = 0; i < c->operand_count; i++) {
        if (c->operands[i] == NODE_DY) {
            dy = node_random(&backward, &forward.out[0].type, -1, 1);
            continue;
        }
        const sl_eval_tensor *from = &forward.in[c->operands[i]];
        memcpy(node_input(&backward, &from->type), from->data,
               (size_t)sl_type_elements(&from->type) * sizeof *from->data);
    }
    if (node_run(&backward) != SL_OK) fail_msg("%s", backward.err.message);
    assert_true(sl_type_equal(&backward.out[0].type, &forward.in[c->input].type));
    node_differences(&forward, c->input, dy, backward.out[0].data);
    node_close(&backward);
    node_close(&forward);
}

/* ---- refusals ---- */

/* types: as many as the node has inputs, then NULL. */
__attribute__((unused)) static void node_rejects(const char *op, const char *attrs,
                                                 const char *const *types, const char *message) {
    node_case n;
    node_open(&n, op, attrs);
    for (; *types; types++) {
        const sl_type type = node_type(*types);
        (void)node_input(&n, &type);
    }
    assert_int_equal(node_run(&n), SL_INVALID);
    assert_string_equal(n.err.message, message);
    node_close(&n);
}
#define NODE_TYPES(...) ((const char *const[]){__VA_ARGS__, NULL})
#endif
