/* graph_case.h - A graph in text form with random inputs, run by the CPU device on every
 * instruction set and compared with the evaluator. */
#ifndef SL_TESTS_SUPPORT_GRAPH_CASE_H
#define SL_TESTS_SUPPORT_GRAPH_CASE_H
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "core/codec.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/kernel_set.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#ifdef SL_CASE_CUDA
#include "tests/support/cuda_graph.h"
#endif

enum { GRAPH_INPUTS = 16 };
typedef struct {
    sl_graph *graph;
    sl_value inputs[GRAPH_INPUTS];
    void *data[GRAPH_INPUTS];
    uint32_t count;
} graph_case;

static uint64_t graph_random = 88172645463325252u;
static double graph_uniform(void) { /* in [-1, 1) */
    graph_random ^= graph_random << 13;
    graph_random ^= graph_random >> 7;
    graph_random ^= graph_random << 17;
    return (double)(graph_random >> 11) * 0x1p-52 - 1;
}

static void *graph_fill(const sl_type *type) {
    const int64_t slots = sl_type_slots(type), elements = sl_type_elements(type);
    double *values = calloc((size_t)slots + 1, sizeof *values);
    void *data = NULL;
    assert_non_null(values);
    assert_int_equal(posix_memalign(&data, 64, sl_type_bytes(type) + 64), 0);
    for (int64_t i = 0; i < slots; i++) values[i] = graph_uniform();
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_INT && sl_dtype_infos[type->dtype].bytes == 8)
        for (int64_t i = 0; i < slots; i++) {
            const int64_t whole = (int64_t)(values[i] * 9);
            memcpy(&values[i], &whole, sizeof whole);
        }
    else if (sl_dtype_infos[type->dtype].kind == SL_KIND_INT)
        for (int64_t i = 0; i < slots; i++) values[i] = floor(fabs(values[i]) * 9);
    else if (sl_dtype_infos[type->dtype].kind == SL_KIND_BOOL)
        for (int64_t i = 0; i < slots; i++) values[i] = values[i] > 0;
    sl_encode_f64(type->dtype, values, elements, data);
    free(values);
    return data;
}

static graph_case graph_open(const char *body) {
    sl_error err = {0};
    graph_case c = {0};
    const size_t room = strlen(body) + 64;
    char *text = malloc(room);
    assert_non_null(text);
    const int bytes = snprintf(text, room, "graph \"case\" {%s}", body);
    if (sl_graph_parse(text, (size_t)bytes, NULL, &c.graph, &err) != SL_OK)
        fail_msg("%s in %s", err.message, text);
    free(text);
    for (uint32_t v = 1; v <= c.graph->value_count; v++) {
        if (c.graph->values[v].kind != SL_VALUE_INPUT) continue;
        assert_true(c.count < GRAPH_INPUTS);
        c.inputs[c.count] = (sl_value){v};
        c.data[c.count++] = graph_fill(&c.graph->values[v].type);
    }
    return c;
}

static void graph_close(graph_case *c) {
    for (uint32_t i = 0; i < c->count; i++) free(c->data[i]);
    sl_graph_destroy(c->graph);
}

/* The result of output `index` by the evaluator, to be freed. */
static double *graph_evaluate(const graph_case *c, uint32_t index) {
    sl_error err = {0};
    sl_evaluator *evaluator = NULL;
    assert_int_equal(sl_evaluator_create(c->graph, NULL, &evaluator, &err), SL_OK);
    for (uint32_t i = 0; i < c->count; i++)
        assert_int_equal(sl_evaluator_bind(evaluator, c->inputs[i], c->data[i], &err), SL_OK);
    if (sl_evaluator_run(evaluator, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_value value = c->graph->outputs[index].value;
    const size_t bytes = (size_t)sl_type_slots(&c->graph->values[value.v].type) * sizeof(double);
    double *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, sl_evaluator_result(evaluator, value), bytes);
    sl_evaluator_destroy(evaluator);
    return copy;
}

/* Fails unless the first outputs of two forms of a graph are the same to within `most`, beside 1,
 * for the inputs of the first. */
__attribute__((unused)) static void graph_alike(const graph_case *first, graph_case *other,
                                                double most, const char *name) {
    for (uint32_t v = 0; v < other->count; v++) {
        const sl_value_info *value = &first->graph->values[first->inputs[v].v];
        other->inputs[v] = sl_graph_find(other->graph, value->name);
        memcpy(other->data[v], first->data[v], sl_type_bytes(&value->type));
    }
    double *wanted = graph_evaluate(first, 0), *found = graph_evaluate(other, 0);
    const sl_type *type = &first->graph->values[first->graph->outputs[0].value.v].type;
    for (int64_t e = 0; e < sl_type_elements(type); e++)
        if (!(fabs(wanted[e] - found[e]) <= most * fmax(1, fabs(wanted[e]))))
            fail_msg("%s: %g instead of %g", name, found[e], wanted[e]);
    free(wanted);
    free(found);
}

/* How far off, beside the largest number of the tensor; integers and bools must be equal. */
static double graph_error(const sl_type *type, const double *wanted, const void *found) {
    const int64_t slots = sl_type_slots(type);
    double *values = calloc((size_t)slots + 1, sizeof *values), largest = 0, off = 0;
    assert_non_null(values);
    sl_decode_f64(type->dtype, found, sl_type_elements(type), values);
    const sl_dtype_kind kind = sl_dtype_infos[type->dtype].kind;
    if (kind == SL_KIND_INT || kind == SL_KIND_BOOL) {
        off = memcmp(values, wanted, (size_t)slots * sizeof *values) == 0 ? 0 : HUGE_VAL;
    } else {
        for (int64_t i = 0; i < slots; i++) {
            if (isfinite(wanted[i])) largest = fmax(largest, fabs(wanted[i]));
            const bool same = wanted[i] == values[i] || (isnan(wanted[i]) && isnan(values[i]));
            const double apart = same ? 0 : fabs(wanted[i] - values[i]);
            off = isnan(apart) ? HUGE_VAL : fmax(off, apart);
        }
        off = largest > 0 ? off / largest : off;
    }
    free(values);
    return off;
}

/* Results of a run that went well. */
static void graph_compare(const graph_case *c, const char *where, const sl_device *device,
                          const sl_executable *exe, double tolerance, double **wanted) {
    for (uint32_t o = 0; o < c->graph->output_count; o++) {
        const sl_type *type = &c->graph->values[c->graph->outputs[o].value.v].type;
        if (!wanted[o]) {
            fail_msg("%s: no value", c->graph->outputs[o].name);
            return;
        }
        const double off = graph_error(type, wanted[o], device->ops->output(exe, o));
        if (!(off <= tolerance))
            fail_msg("%s on %s: off by %.3g, at most %.3g allowed", c->graph->outputs[o].name,
                     where, off, tolerance);
    }
}

#ifdef SL_CASE_CUDA
static void graph_run_all(const graph_case *c, double tolerance, double **wanted) {
    cuda_graph g;
    sl_error err = {0};
    sl_graph *copy = NULL;
    assert_int_equal(sl_graph_copy(c->graph, NULL, &copy, &err), SL_OK);
    if (cuda_graph_open(copy, &g, &err) != SL_OK) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < c->count; i++)
        cuda_graph_bind(&g, c->graph->values[c->inputs[i].v].name, c->data[i]);
    if (cuda_device()->ops->run(g.exe, &err) != SL_OK) fail_msg("%s", err.message);
    graph_compare(c, "cuda", cuda_device(), g.exe, tolerance, wanted);
    cuda_graph_close(&g);
}
#else
static void graph_run(const graph_case *c, const char *isa, uint32_t threads, double tolerance,
                      double **wanted) {
    sl_error err = {0};
    sl_graph *copy = NULL;
    sl_program *program = NULL;
    sl_device *device = NULL;
    sl_executable *exe = NULL;
    assert_int_equal(sl_graph_copy(c->graph, NULL, &copy, &err), SL_OK);
    if (sl_compile_graph(copy, NULL, NULL, &program, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_device_options options = {.threads = threads, .isa = isa};
    assert_int_equal(sl_device_cpu_create(&options, NULL, &device, &err), SL_OK);
    if (device->ops->load(device, program, &exe, &err) != SL_OK) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < c->count; i++) {
        sl_buffer_id buffer = {0};
        if (sl_program_find(program, c->graph->values[c->inputs[i].v].name, &buffer))
            assert_int_equal(device->ops->bind(exe, buffer, c->data[i], &err), SL_OK);
    }
    if (device->ops->run(exe, &err) != SL_OK) fail_msg("%s", err.message);
    graph_compare(c, isa, device, exe, tolerance, wanted);
    device->ops->unload(exe);
    device->ops->destroy(device);
    sl_program_destroy(program);
    sl_graph_destroy(copy);
}

/* Every instruction set of this machine, with one thread and with two. */
static void graph_run_all(const graph_case *c, double tolerance, double **wanted) {
    static const char *const isas[] = {SL_ISA_NAMES};
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        for (uint32_t threads = 1; threads <= 2 && sl_cpu_kernel_set(isas[i]); threads++)
            graph_run(c, isas[i], threads, tolerance, wanted);
}
#endif

static void check_case(const graph_case *c, double tolerance) {
    enum { MOST = 8 };
    double *wanted[MOST] = {0};
    assert_true(c->graph->output_count <= MOST);
    for (uint32_t o = 0; o < c->graph->output_count && o < MOST; o++)
        wanted[o] = graph_evaluate(c, o);
    graph_run_all(c, tolerance, wanted);
    for (int o = 0; o < MOST; o++) free(wanted[o]);
}

/* Graphs that must not parse, each with what the message says. */
static inline void check_refused(const char *const (*cases)[2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        sl_graph *graph = NULL;
        sl_error err = {0};
        const int bytes = snprintf(text, sizeof text, "graph \"g\" {%s}", cases[i][0]);
        assert_int_not_equal(sl_graph_parse(text, (size_t)bytes, NULL, &graph, &err), SL_OK);
        if (!strstr(err.message, cases[i][1])) fail_msg("%s lacks %s", err.message, cases[i][1]);
    }
}

static inline void check_graph(double tolerance, const char *body) {
    graph_case c = graph_open(body);
    check_case(&c, tolerance);
    graph_close(&c);
}
#endif
