#include "tests/support/differential.h"
#include "compiler/compile.h"
#include "core/codec.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cpu/kernel_set.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- devices ---- */

typedef struct {
    const char *isa;
    uint32_t threads;
    sl_device *device;
} runner;
enum { MOST_RUNNERS = 8 };
static runner runners[MOST_RUNNERS];
static uint32_t runner_count;

static void make_runners(void) {
    static const char *const isas[] = {SL_ISA_NAMES};
    sl_error err = {0};
    if (runner_count) return;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        for (uint32_t threads = 1; threads <= 2 && sl_cpu_kernel_set(isas[i]); threads++) {
            runner *r = &runners[runner_count++];
            *r = (runner){isas[i], threads, NULL};
            const sl_device_options options = {.threads = threads, .isa = isas[i]};
            if (sl_device_cpu_create(&options, NULL, &r->device, &err)) fail_msg("%s", err.message);
        }
}

void differential_end(void) {
    for (uint32_t i = 0; i < runner_count; i++) runners[i].device->ops->destroy(runners[i].device);
    runner_count = 0;
}

/* ---- the spread of moved evaluations ---- */

enum { MOVES = 32, ALL_MOVES = 2 * MOVES }; /* those from MOVES on are faint */
typedef struct {
    const drawn_graph *drawn;
    uint32_t made;
    bool failed[ALL_MOVES];
    reference runs[ALL_MOVES];
} spread;

/* Evaluation k; NULL: it fails. */
static const reference *moved_run(spread *s, uint32_t k) {
    const sl_graph *graph = s->drawn->graph;
    sl_error err = {0};
    for (; s->made <= k; s->made++) {
        reference *r = &s->runs[s->made];
        reference_init(r, graph, graph->value_count + 1, s->made + 1);
        r->faint = s->made >= MOVES;
        for (uint32_t v = 1; v <= graph->value_count; v++)
            if (graph->values[v].kind != SL_VALUE_RESULT)
                reference_declare(r, (sl_value){v}, s->drawn->bytes[v]);
        bool *failed = &s->failed[s->made];
        for (uint32_t n = 0; n < graph->node_count && !*failed; n++)
            *failed = reference_node(r, &graph->nodes[n], &err) != SL_OK;
    }
    return s->failed[k] ? NULL : &s->runs[k];
}

static void release_spread(spread *s) {
    for (uint32_t k = 0; k < s->made; k++) reference_deinit(&s->runs[k]);
}

/* ---- comparing ---- */

static bool is_exact(sl_dtype dtype) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    return kind == SL_KIND_INT || kind == SL_KIND_BOOL;
}

static bool same(sl_dtype dtype, const double *a, const double *b) {
    if (is_exact(dtype)) return sl_same_slot(a, b);
    return *a == *b || (isnan(*a) && isnan(*b));
}

static bool is_within(double found, double wanted, double limit) {
    return fabs(found - wanted) <= limit;
}

/* Whether an element that is farther off than one op may be is what moves of operands explain. */
static bool explained(spread *s, uint32_t value, int64_t i, double limit, double found,
                      difference *out) {
    const sl_eval_tensor *plain = &s->drawn->plain.tensors[value];
    const double wanted = plain->data[i];
    double farthest = 0;
    bool failed = false;
    for (uint32_t k = 0; k < ALL_MOVES && !failed; k++) {
        if (k == MOVES && is_within(found, wanted, limit + 4 * farthest)) break;
        const reference *r = moved_run(s, k);
        if (!r) { /* a faint one explains nothing then */
            failed = k < MOVES;
            continue;
        }
        const double *moved = &r->tensors[value].data[i];
        if (same(plain->type.dtype, moved, &plain->data[i])) continue;
        const double far = fabs(*moved - wanted);
        if (is_exact(plain->type.dtype) || !isfinite(far)) {
            out->open++;
            return true;
        }
        farthest = fmax(farthest, far);
    }
    if (!isfinite(found) && farthest >= fabs(wanted)) { /* on either side of a pole */
        out->open++;
        return true;
    }
    out->wide++;
    return failed || is_within(found, wanted, limit + 4 * farthest);
}

static void compare(spread *s, const char *name, uint32_t value, const void *found,
                    difference *out) {
    const sl_eval_tensor *plain = &s->drawn->plain.tensors[value];
    const sl_type *type = &plain->type;
    const int64_t slots = sl_type_slots(type);
    double *got = calloc((size_t)slots + 1, sizeof *got);
    assert_non_null(got);
    sl_decode_tensor(type, found, got);
    const bool exact = is_exact(type->dtype);
    const double largest = exact ? 0 : reference_largest(type, plain->data);
    for (int64_t i = 0; i < slots && !out->why[0]; i++) {
        out->checked++;
        if (same(type->dtype, &got[i], &plain->data[i])) continue;
        const double limit = exact ? 0 : reference_limit(type->dtype, largest, plain->data[i]);
        if (!exact && fabs(got[i] - plain->data[i]) <= limit) continue;
        if (explained(s, value, i, limit, got[i], out)) continue;
        if (exact)
            (void)snprintf(out->why, sizeof out->why, "%s[%lld] is %lld instead of %lld", name,
                           (long long)i, (long long)sl_slot_integer(type->dtype, &got[i]),
                           (long long)sl_slot_integer(type->dtype, &plain->data[i]));
        else
            (void)snprintf(out->why, sizeof out->why,
                           "%s[%lld] is %.9g instead of %.9g, off by %.3g of %.9g", name,
                           (long long)i, got[i], plain->data[i],
                           fabs(got[i] - plain->data[i]) / largest, largest);
    }
    free(got);
}

/* ---- running ---- */

static void *copy_of(const sl_type *type, const void *bytes) {
    const uint64_t size = sl_type_bytes(type);
    void *copy = NULL;
    assert_int_equal(posix_memalign(&copy, 64, size + 64), 0);
    if (size) memcpy(copy, bytes, size);
    return copy;
}

/* States are compared as outputs are, behind them. */
static void compare_all(spread *s, const sl_device_ops *ops, sl_executable *exe,
                        void *const *states, difference *out) {
    const sl_graph *graph = s->drawn->graph;
    for (uint32_t o = 0; o < graph->output_count && !out->why[0]; o++) {
        out->output = graph->outputs[o].value.v;
        compare(s, graph->outputs[o].name, out->output, ops->output(exe, o), out);
    }
    for (uint32_t v = 1; v <= graph->value_count && !out->why[0]; v++) {
        if (!states[v]) continue;
        out->output = v;
        compare(s, graph->values[v].name, v, states[v], out);
    }
}

/* A program with its inputs and states, run once. */
typedef struct {
    sl_executable *exe;
    void **states; /* [value] */
} running;

static sl_status start(const drawn_graph *drawn, const sl_program *program, const runner *by,
                       running *r, sl_error *err) {
    const sl_graph *graph = drawn->graph;
    const sl_device_ops *ops = by->device->ops;
    *r = (running){.states = calloc(graph->value_count + 1, sizeof *r->states)};
    assert_non_null(r->states);
    SL_TRY(ops->load(by->device, program, &r->exe, err));
    for (uint32_t v = 1; v <= graph->value_count; v++) {
        const sl_value_info *info = &graph->values[v];
        sl_buffer_id buffer;
        if (!drawn->bytes[v] || !sl_program_find(program, info->name, &buffer)) continue;
        void *bytes = drawn->bytes[v];
        if (info->kind == SL_VALUE_STATE) bytes = r->states[v] = copy_of(&info->type, bytes);
        SL_TRY(ops->bind(r->exe, buffer, bytes, err));
    }
    return ops->run(r->exe, err);
}

static void stop(const drawn_graph *drawn, const runner *by, running *r) {
    if (r->exe) by->device->ops->unload(r->exe);
    for (uint32_t v = 1; v <= drawn->graph->value_count; v++) free(r->states[v]);
    free(r->states);
}

static void add_runner(const runner *by, difference *out) {
    const size_t at = strlen(out->why);
    if (at)
        (void)snprintf(out->why + at, sizeof out->why - at, " (%s, %u threads)", by->isa,
                       by->threads);
}

static void run(spread *s, const sl_program *program, const runner *by, difference *out) {
    sl_error err = {0};
    running r;
    if (start(s->drawn, program, by, &r, &err) == SL_OK)
        compare_all(s, by->device->ops, r.exe, r.states, out);
    else
        (void)snprintf(out->why, sizeof out->why, "%s", err.message);
    add_runner(by, out);
    stop(s->drawn, by, &r);
}

/* NaN is NaN, whatever its bits. */
static bool same_bits(const sl_type *type, const void *a, const void *b) {
    const int64_t slots = sl_type_slots(type);
    if (memcmp(a, b, sl_type_bytes(type)) == 0) return true;
    double *x = calloc((size_t)slots * 2 + 2, sizeof *x), *y = x + slots + 1;
    assert_non_null(x);
    sl_decode_tensor(type, a, x);
    sl_decode_tensor(type, b, y);
    bool same = true;
    for (int64_t i = 0; i < slots && same; i++)
        same = sl_same_slot(&x[i], &y[i]) || (!is_exact(type->dtype) && isnan(x[i]) && isnan(y[i]));
    free(x);
    return same;
}

/* What is fused gives the bits of its parts. */
static void compare_bits(const drawn_graph *drawn, const sl_program *fused, const sl_program *parts,
                         const runner *by, difference *out) {
    const sl_graph *graph = drawn->graph;
    const sl_device_ops *ops = by->device->ops;
    void **whole = calloc(graph->output_count, sizeof *whole);
    sl_error err = {0};
    running r;
    assert_non_null(whole);
    if (start(drawn, fused, by, &r, &err)) fail_msg("%s", err.message);
    for (uint32_t o = 0; o < graph->output_count; o++) /* programs share the device's memory */
        whole[o] = copy_of(&graph->values[graph->outputs[o].value.v].type, ops->output(r.exe, o));
    stop(drawn, by, &r);
    if (start(drawn, parts, by, &r, &err)) fail_msg("%s", err.message);
    for (uint32_t o = 0; o < graph->output_count && !out->why[0]; o++) {
        out->output = graph->outputs[o].value.v;
        const sl_type *type = &graph->values[out->output].type;
        if (!same_bits(type, whole[o], ops->output(r.exe, o)))
            (void)snprintf(out->why, sizeof out->why, "%s has other bits where it is fused",
                           graph->outputs[o].name);
    }
    add_runner(by, out);
    stop(drawn, by, &r);
    for (uint32_t o = 0; o < graph->output_count; o++) free(whole[o]);
    free(whole);
}

static sl_program *compiled(const drawn_graph *drawn, bool fused, difference *out) {
    const sl_compiler_options options = {.model = SL_SCHEDULE_LEVELS, .no_fusion = !fused};
    sl_error err = {0};
    sl_graph *copy = NULL;
    sl_program *program = NULL;
    if (sl_graph_copy(drawn->graph, NULL, &copy, &err)) fail_msg("%s", err.message);
    if (sl_compile_graph(copy, &options, NULL, &program, &err))
        (void)snprintf(out->why, sizeof out->why, "compiling: %s", err.message);
    sl_graph_destroy(copy);
    return program;
}

void differential_check(const drawn_graph *drawn, difference *out) {
    static spread s;
    s = (spread){.drawn = drawn};
    out->why[0] = 0;
    make_runners();
    sl_program *fused = compiled(drawn, true, out), *parts = compiled(drawn, false, out);
    for (uint32_t i = 0; i < runner_count && !out->why[0]; i++) run(&s, fused, &runners[i], out);
    for (uint32_t i = 0; i < runner_count && !out->why[0]; i += 2)
        compare_bits(drawn, fused, parts, &runners[i], out);
    release_spread(&s);
    sl_program_destroy(fused);
    sl_program_destroy(parts);
}

/* ---- shrinking ---- */

typedef struct {
    const drawn_graph *from;
    drawn_graph *to;
    const bool *cut;
    bool *needed;
    uint32_t *map; /* [value] */
} rebuild;

/* What a value needs; nodes that are cut need nothing. */
static void mark(rebuild *r, uint32_t target) {
    const sl_graph *graph = r->from->graph;
    bool *values = calloc(graph->value_count + 1, sizeof *values);
    assert_non_null(values);
    values[target] = true;
    for (uint32_t n = graph->node_count; n > 0; n--) {
        const sl_node *node = &graph->nodes[n - 1];
        bool needed = false;
        for (uint32_t o = 0; o < node->output_count; o++) {
            const uint32_t v = node->outputs[o].v, root = graph->values[v].root.v;
            needed |= values[v] || (root && values[root]);
        }
        r->needed[n - 1] = needed && !r->cut[n - 1];
        for (uint32_t i = 0; i < node->input_count && r->needed[n - 1]; i++) {
            const uint32_t root = graph->values[node->inputs[i].v].root.v;
            values[node->inputs[i].v] = true;
            if (root) values[root] = true;
        }
    }
    free(values);
}

static sl_value bring(rebuild *r, uint32_t value) {
    const sl_value_info *info = &r->from->graph->values[value];
    const sl_eval_tensor *plain = &r->from->plain.tensors[value];
    drawn_graph *to = r->to;
    char name[32];
    if (r->map[value]) return (sl_value){r->map[value]};
    static uint32_t made_names; /* none is that of an earlier round */
    (void)snprintf(name, sizeof name, "v%u", made_names++);
    void *bytes = r->from->bytes[value];
    if (info->kind == SL_VALUE_CONSTANT) {
        const sl_value made = sl_graph_constant(to->graph, info->name, info->type, info->data);
        r->map[value] = made.v;
        reference_declare(&to->plain, made, NULL);
        return made;
    }
    if (info->kind == SL_VALUE_RESULT) {
        bytes = sl_arena_alloc(&to->plain.arena, sl_type_bytes(&info->type) + 64, 64);
        assert_non_null(bytes);
        sl_encode_f64(info->type.dtype, plain->data, sl_type_elements(&info->type), bytes);
    } else {
        const void *old = bytes;
        bytes = sl_arena_alloc(&to->plain.arena, sl_type_bytes(&info->type) + 64, 64);
        assert_non_null(bytes);
        memcpy(bytes, old, sl_type_bytes(&info->type));
    }
    const bool result = info->kind == SL_VALUE_RESULT;
    const sl_value made = sl_graph_declare(to->graph, result ? SL_VALUE_INPUT : info->kind,
                                           result ? name : info->name, info->type);
    to->bytes[made.v] = bytes;
    reference_declare(&to->plain, made, bytes);
    r->map[value] = made.v;
    return made;
}

static void rebuild_node(rebuild *r, const sl_node *node) {
    sl_value inputs[64], outputs[64];
    sl_error err = {0};
    for (uint32_t i = 0; i < node->input_count; i++) inputs[i] = bring(r, node->inputs[i].v);
    sl_graph_append_list(r->to->graph, node->op, (sl_values){node->input_count, inputs},
                         node->attrs, (sl_value_slots){node->output_count, outputs});
    if (sl_graph_check(r->to->graph, &err)) fail_msg("%s", err.message);
    for (uint32_t o = 0; o < node->output_count; o++) r->map[node->outputs[o].v] = outputs[o].v;
    const sl_node *made = &r->to->graph->nodes[r->to->graph->node_count - 1];
    if (reference_node(&r->to->plain, made, &err)) fail_msg("%s", err.message);
}

/* The graph of one value; *target becomes its number there. */
static drawn_graph *smaller(const drawn_graph *from, const bool *cut, uint32_t *target) {
    const sl_graph *graph = from->graph;
    sl_error err = {0};
    drawn_graph *to = calloc(1, sizeof *to);
    rebuild r = {.from = from,
                 .to = to,
                 .cut = cut,
                 .needed = calloc(graph->node_count + 1, sizeof(bool)),
                 .map = calloc(graph->value_count + 1, sizeof(uint32_t))};
    assert_true(to && r.needed && r.map);
    if (sl_graph_create("shrunk", NULL, &to->graph, &err)) fail_msg("%s", err.message);
    reference_init(&to->plain, to->graph, DRAWN_VALUES, 0);
    to->bytes = SL_ARENA_NEW_ARRAY(&to->plain.arena, void *, DRAWN_VALUES);
    assert_non_null(to->bytes);
    mark(&r, *target);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (r.needed[n]) rebuild_node(&r, &graph->nodes[n]);
    const sl_value value = bring(&r, *target);
    const bool state = graph->values[*target].kind == SL_VALUE_STATE;
    sl_value shown = value;
    for (uint32_t v = 1; v <= to->graph->value_count && state; v++) /* any output will do */
        if (to->graph->values[v].kind == SL_VALUE_INPUT) shown = (sl_value){v};
    sl_graph_output(to->graph, "y", shown);
    *target = value.v;
    free(r.needed);
    free(r.map);
    return to;
}

static bool still_differs(const drawn_graph *drawn) {
    difference now = {0};
    sl_error err = {0};
    if (sl_graph_verify(drawn->graph, &err)) return false;
    differential_check(drawn, &now);
    return now.why[0] != 0;
}

static bool may_cut(const sl_graph *graph, const sl_node *node) {
    for (uint32_t o = 0; o < node->output_count; o++) {
        const sl_value_info *info = &graph->values[node->outputs[o].v];
        if (info->root.v || info->type.dtype == SL_DTYPE_a8) return false;
    }
    return true;
}

drawn_graph *differential_shrink(const drawn_graph *drawn, const difference *from) {
    uint32_t target = from->output;
    bool *cut = calloc(DRAWN_VALUES, sizeof *cut);
    assert_non_null(cut);
    drawn_graph *best = smaller(drawn, cut, &target);
    if (!still_differs(best)) { /* only together with others */
        free(cut);
        drawn_destroy(best);
        return NULL;
    }
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t n = best->graph->node_count; n > 0 && !changed; n--) {
            if (!may_cut(best->graph, &best->graph->nodes[n - 1])) continue;
            uint32_t there = target;
            cut[n - 1] = true;
            drawn_graph *less = smaller(best, cut, &there);
            cut[n - 1] = false;
            if (less->graph->node_count > 0 && still_differs(less)) {
                drawn_destroy(best);
                best = less;
                target = there;
                changed = true;
            } else {
                drawn_destroy(less);
            }
        }
    }
    free(cut);
    return best;
}
