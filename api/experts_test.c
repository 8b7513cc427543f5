/* experts_test.c - MoE layers of bare graphs on sources of experts of every kind. */
#include "base/error.h"
#include "sluice/direct.h"
#include "sluice/experts.h"
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 5, HIDDEN = 8, WIDTH = 12, EXPERTS = 7, LAYERS = 2, K = 3, MATRIX = WIDTH * HIDDEN };
enum { VALUES = ROWS * HIDDEN };
/* A budget for two experts, and the counts of uses and misses of all. */
enum { TWO_EXPERTS = 3600 + 8 * LAYERS * EXPERTS };

static sl_error err;
/* Experts in memory, as a program of a user has them. */
static _Alignas(64) float weights[LAYERS][EXPERTS][3][MATRIX];

static float number(uint32_t i) {
    i = i * 2654435761u + 12345;
    i ^= i >> 15;
    i *= 2246822519u;
    return (float)(i >> 8) / 16777216.0f - 0.5f;
}

static int fill_weights(void **state) {
    (void)state;
    float *all = &weights[0][0][0][0];
    for (uint32_t i = 0; i < sizeof weights / sizeof *all; i++) all[i] = number(i);
    return 0;
}

/* ---- the graph: MoE layers one after the other ---- */

static sl_value one_of(sl_graph *g, const char *op, const sl_value *in, uint32_t count,
                       const char *attrs, sl_value *second) {
    sl_value out[2] = {{0}};
    const sl_node_spec spec = {.struct_size = sizeof spec,
                               .op = op,
                               .attrs = attrs,
                               .inputs = in,
                               .input_count = count,
                               .outputs = out,
                               .output_count = 2};
    (void)sl_graph_add_node(g, &spec);
    if (second) *second = out[1];
    return out[0];
}

static sl_value add_layer(sl_graph *g, sl_value x, sl_value router, sl_value experts,
                          uint32_t layer) {
    char attrs[32];
    sl_value mixing, starts;
    (void)snprintf(attrs, sizeof attrs, "layer=%u", layer);
    const sl_value logits = sl_graph_apply(g, "linear", (sl_value[]){x, router}, 2, NULL);
    const sl_value chosen = one_of(g, "route", &logits, 1, "k=3", &mixing);
    const sl_value order = one_of(g, "moe_group", (sl_value[]){chosen, experts}, 2, attrs, &starts);
    (void)snprintf(attrs, sizeof attrs, "k=3, layer=%u", layer);
    const sl_value out =
        sl_graph_apply(g, "moe_ffn", (sl_value[]){x, order, starts, experts}, 4, attrs);
    return sl_graph_apply(g, "moe_combine", (sl_value[]){out, mixing}, 2, NULL);
}

static void build(sl_graph *g) {
    sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){ROWS, HIDDEN});
    const sl_value router =
        sl_graph_add_weight(g, "router", "f32", 2, (int64_t[]){EXPERTS, HIDDEN});
    const sl_value experts =
        sl_graph_add_experts(g, "experts", "f32", 3, (int64_t[]){EXPERTS, WIDTH, HIDDEN});
    for (uint32_t layer = 0; layer < LAYERS; layer++) x = add_layer(g, x, router, experts, layer);
    sl_graph_add_output(g, "y", x);
}

static float inputs[VALUES], router_weights[EXPERTS * HIDDEN];
static void fill_inputs(void) {
    for (uint32_t i = 0; i < VALUES; i++) inputs[i] = number(i + 7000);
    for (uint32_t i = 0; i < EXPERTS * HIDDEN; i++) router_weights[i] = number(i + 9000);
}

/* Runs twice, so that a cache is met that is not empty. */
static sl_status run(const char *device, uint32_t threads, sl_experts *experts, float *out) {
    sl_graph *g = NULL;
    sl_compiled *c = NULL;
    fill_inputs();
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    build(g);
    const sl_compile_options how = {
        .struct_size = sizeof how, .device = device, .threads = threads, .experts = experts};
    sl_status status = sl_compile(g, &how, &c, &err);
    if (status == SL_OK) status = sl_compiled_set(c, "x", inputs, sizeof inputs, &err);
    if (status == SL_OK)
        status = sl_compiled_set(c, "router", router_weights, sizeof router_weights, &err);
    for (int i = 0; i < 2 && status == SL_OK; i++) status = sl_compiled_run(c, &err);
    if (status == SL_OK) memcpy(out, sl_compiled_get(c, "y", NULL), VALUES * sizeof *out);
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    return status;
}

/* ---- what the layers compute ---- */

static void one_expert(const float (*w)[MATRIX], const double *x, double weight, double *out) {
    double inner[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        double gate = 0, up = 0;
        for (int h = 0; h < HIDDEN; h++) {
            gate += (double)w[0][i * HIDDEN + h] * x[h];
            up += (double)w[1][i * HIDDEN + h] * x[h];
        }
        inner[i] = gate / (1 + exp(-gate)) * up;
    }
    for (int h = 0; h < HIDDEN; h++)
        for (int i = 0; i < WIDTH; i++) out[h] += weight * inner[i] * (double)w[2][h * WIDTH + i];
}

static void dense_row(uint32_t layer, double *x) {
    double logits[EXPERTS], out[HIDDEN] = {0}, all = 0;
    for (int e = 0; e < EXPERTS; e++) {
        logits[e] = 0;
        for (int h = 0; h < HIDDEN; h++) logits[e] += (double)router_weights[e * HIDDEN + h] * x[h];
        all += exp(logits[e]);
    }
    for (int e = 0; e < EXPERTS; e++) {
        int above = 0;
        for (int o = 0; o < EXPERTS; o++) above += logits[o] > logits[e];
        if (above < K) one_expert(weights[layer][e], x, exp(logits[e]) / all, out);
    }
    memcpy(x, out, sizeof out);
}

static void check_dense(const char *what, const float *found) {
    fill_inputs();
    for (int row = 0; row < ROWS; row++) {
        double x[HIDDEN];
        for (int h = 0; h < HIDDEN; h++) x[h] = (double)inputs[row * HIDDEN + h];
        for (uint32_t layer = 0; layer < LAYERS; layer++) dense_row(layer, x);
        for (int h = 0; h < HIDDEN; h++)
            if (!(fabs((double)found[row * HIDDEN + h] - x[h]) <= 1e-6))
                fail_msg("%s: %g instead of %g", what, (double)found[row * HIDDEN + h], x[h]);
    }
}

static sl_expert_shape shape(void) {
    return (sl_expert_shape){sizeof(sl_expert_shape), LAYERS, EXPERTS, WIDTH, HIDDEN, "f32", NULL};
}

/* ---- a function that reads ---- */

typedef struct {
    pthread_mutex_t lock;
    uint32_t calls;
    int fails_at; /* an expert of layer 1; -1: none */
    bool silent;  /* fails without a message */
} reading;

static sl_status read_expert(void *ctx, uint32_t layer, uint32_t expert, void *gate, void *up,
                             void *down, sl_error *error) {
    reading *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->calls++;
    const bool fails = layer == 1 && (int)expert == r->fails_at;
    pthread_mutex_unlock(&r->lock);
    if (fails && r->silent) return SL_IO;
    if (fails) return sl_fail(error, SL_IO, "the network is down");
    memcpy(gate, weights[layer][expert][0], sizeof weights[0][0][0]);
    memcpy(up, weights[layer][expert][1], sizeof weights[0][0][0]);
    memcpy(down, weights[layer][expert][2], sizeof weights[0][0][0]);
    return SL_OK;
}

static sl_experts *make_reading(reading *r, uint64_t budget) {
    sl_experts *experts = NULL;
    const sl_expert_shape s = shape();
    const sl_expert_reader reader = {
        .struct_size = sizeof reader, .ctx = r, .read = read_expert, .budget_bytes = budget};
    *r = (reading){.fails_at = -1};
    pthread_mutex_init(&r->lock, NULL);
    if (sl_experts_create(&s, &reader, &experts, &err) != SL_OK) fail_msg("%s", err.message);
    return experts;
}

static void budgets_do_not_change_bits(void **state) {
    (void)state;
    static const uint64_t budgets[] = {0, TWO_EXPERTS, 12000};
    float first[VALUES], found[VALUES];
    for (size_t b = 0; b < 3; b++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            reading r;
            sl_experts *experts = make_reading(&r, budgets[b]);
            sl_expert_counts counts = {.struct_size = sizeof counts};
            if (run("cpu", threads, experts, found) != SL_OK) fail_msg("%s", err.message);
            check_dense("cpu", found);
            if (b == 0 && threads == 1) memcpy(first, found, sizeof first);
            assert_memory_equal(found, first, sizeof first);
            assert_int_equal(sl_experts_counts(experts, &counts, &err), SL_OK);
            assert_int_equal(counts.misses, r.calls);
            assert_true(counts.slots == (b == 0 ? LAYERS * EXPERTS : b == 1 ? 2 : counts.slots));
            assert_true(budgets[b] == 0 || counts.used_bytes <= budgets[b]);
            assert_true(b > 0 || counts.misses <= LAYERS * EXPERTS);
            assert_true(b != 1 || counts.misses > LAYERS * EXPERTS);
            sl_experts_destroy(experts);
            pthread_mutex_destroy(&r.lock);
        }
}

static void devices_agree(void **state) {
    (void)state;
    const char *path = getenv("SLUICE_CUDA_EMULATOR");
    const bool gpu = path && dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const char *const devices[] = {"ref", gpu ? "cuda" : "cpu"};
    for (size_t i = 0; i < 2; i++) {
        reading r;
        float found[VALUES];
        sl_experts *experts = make_reading(&r, TWO_EXPERTS);
        if (run(devices[i], 1, experts, found) != SL_OK) fail_msg("%s", err.message);
        check_dense(devices[i], found);
        sl_experts_destroy(experts);
        pthread_mutex_destroy(&r.lock);
    }
}

static void direct_mode_takes_experts(void **state) {
    (void)state;
    reading r;
    float wanted[VALUES];
    const void *found;
    sl_graph *g = NULL;
    sl_direct *d = NULL;
    sl_experts *experts = make_reading(&r, TWO_EXPERTS);
    assert_int_equal(run("cpu", 1, experts, wanted), SL_OK);
    const sl_compile_options how = {.struct_size = sizeof how, .threads = 1, .experts = experts};
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    assert_int_equal(sl_direct_create(g, &how, &d, &err), SL_OK);
    assert_int_equal(sl_direct_set(d, "x", inputs, sizeof inputs, &err), SL_OK);
    assert_int_equal(sl_direct_set(d, "router", router_weights, sizeof router_weights, &err),
                     SL_OK);
    build(g);
    if (sl_graph_check(g, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_value last = sl_graph_node_output(g, sl_graph_node_count(g) - 1, 0);
    assert_int_equal(sl_direct_get(d, last, &found, NULL, &err), SL_OK);
    assert_memory_equal(found, wanted, sizeof wanted);
    sl_direct_destroy(d);
    sl_graph_destroy(g);
    sl_experts_destroy(experts);
    pthread_mutex_destroy(&r.lock);
}

static void a_failed_read_fails_the_run(void **state) {
    (void)state;
    float found[VALUES];
    for (int silent = 0; silent < 2; silent++) {
        reading r;
        sl_experts *experts = make_reading(&r, 0);
        r.silent = silent;
        /* Of the experts that are used, one at least. */
        sl_status status = SL_OK;
        for (r.fails_at = 0; r.fails_at < EXPERTS && status == SL_OK; r.fails_at++) {
            sl_experts_destroy(experts);
            const int at = r.fails_at;
            experts = make_reading(&r, 0);
            r.fails_at = at;
            r.silent = silent;
            status = run("cpu", 2, experts, found);
        }
        assert_int_equal(status, SL_IO);
        assert_non_null(strstr(err.message, "layer 1 expert "));
        assert_non_null(strstr(err.message, silent ? "a read or write failed" : "network is down"));
        r.fails_at = -1; /* the next run asks again */
        if (run("cpu", 2, experts, found) != SL_OK) fail_msg("%s", err.message);
        check_dense("after an error", found);
        sl_experts_destroy(experts);
        pthread_mutex_destroy(&r.lock);
    }
}

/* ---- callbacks ---- */

enum { RIGHT, NO_REQUEST, FAILS, TWICE, TOO_SMALL, UNALIGNED, NOTHING };
typedef struct {
    pthread_mutex_t lock;
    int wrong;
    uint32_t wanted[EXPERTS], left, held, most, released;
} lender;

static sl_status lender_request(void *ctx, uint32_t layer, const uint32_t *experts, uint32_t count,
                                sl_error *error) {
    lender *l = ctx;
    (void)layer;
    if (l->wrong == NO_REQUEST) return sl_fail(error, SL_CANCELLED, "no requests today");
    pthread_mutex_lock(&l->lock);
    memcpy(l->wanted, experts, count * sizeof *experts);
    l->left = count;
    pthread_mutex_unlock(&l->lock);
    return SL_OK;
}

static sl_status lender_take(void *ctx, uint32_t layer, sl_expert *out, sl_error *error) {
    lender *l = ctx;
    if (l->wrong == FAILS) return sl_fail(error, SL_IO, "nothing arrives");
    pthread_mutex_lock(&l->lock);
    assert_true(l->left > 0);
    const uint32_t e = l->wanted[l->wrong == TWICE ? 0 : l->left - 1];
    l->left--;
    l->held++;
    if (l->held > l->most) l->most = l->held;
    pthread_mutex_unlock(&l->lock);
    float(*w)[MATRIX] = weights[layer][e];
    *out =
        (sl_expert){e, w[0], w[1], w[2], sizeof w[0], sizeof w[0], sizeof w[0], &weights[layer][e]};
    if (l->wrong == TOO_SMALL) out->down_bytes -= 4;
    if (l->wrong == UNALIGNED) out->up = w[1] + 1;
    if (l->wrong == NOTHING) out->gate = NULL;
    return SL_OK;
}

static void lender_release(void *ctx, uint32_t layer, const sl_expert *expert) {
    lender *l = ctx;
    pthread_mutex_lock(&l->lock);
    assert_ptr_equal(expert->handle, &weights[layer][expert->expert]);
    l->held--;
    l->released++;
    pthread_mutex_unlock(&l->lock);
}

static sl_experts *make_lender(lender *l, int wrong, uint32_t most) {
    sl_experts *experts = NULL;
    const sl_expert_shape s = shape();
    const sl_expert_callbacks callbacks = {.struct_size = sizeof callbacks,
                                           .ctx = l,
                                           .request = lender_request,
                                           .take = lender_take,
                                           .release = lender_release,
                                           .most_taken = most};
    *l = (lender){.wrong = wrong};
    pthread_mutex_init(&l->lock, NULL);
    if (sl_experts_create_from(&s, &callbacks, &experts, &err) != SL_OK)
        fail_msg("%s", err.message);
    return experts;
}

static void callbacks_lend_experts(void **state) {
    (void)state;
    for (uint32_t most = 0; most < 3; most++)
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            lender l;
            float found[VALUES];
            sl_experts *experts = make_lender(&l, RIGHT, most);
            if (run("cpu", threads, experts, found) != SL_OK) fail_msg("%s", err.message);
            check_dense("callbacks", found);
            assert_true(l.held == 0 && l.released > 0 && (!most || l.most <= most));
            sl_experts_destroy(experts);
            pthread_mutex_destroy(&l.lock);
        }
}

static void what_callbacks_return_is_checked(void **state) {
    (void)state;
    static const struct {
        int wrong;
        sl_status status;
        const char *message;
    } rows[] = {
        {NO_REQUEST, SL_CANCELLED, "no requests today"},
        {FAILS, SL_IO, "nothing arrives"},
        {TWICE, SL_INVALID, "which was not requested or is taken already"},
        {TOO_SMALL, SL_INVALID, ": down has 380 bytes, f32[8,12] has 384"},
        {UNALIGNED, SL_INVALID, "must be at a multiple of 64"},
        {NOTHING, SL_INVALID, ": gate is at (nil), must be at a multiple of 64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            lender l;
            float found[VALUES];
            sl_experts *experts = make_lender(&l, rows[i].wrong, 0);
            assert_int_equal(run("cpu", threads, experts, found), rows[i].status);
            if (!strstr(err.message, rows[i].message)) fail_msg("%zu: %s", i, err.message);
            assert_int_equal(l.held, 0);
            sl_experts_destroy(experts);
            pthread_mutex_destroy(&l.lock);
        }
}

/* ---- refusals ---- */

static void refuses(const char *text, sl_experts *experts, const char *message) {
    char whole[1024];
    sl_graph *g = NULL;
    sl_compiled *c = NULL;
    (void)snprintf(whole, sizeof whole, "graph \"g\" {%s}", text);
    if (sl_graph_read(whole, strlen(whole), &g, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_compile_options how = {.struct_size = sizeof how, .threads = 2, .experts = experts};
    assert_int_equal(sl_compile(g, &how, &c, &err), SL_INVALID);
    if (!strstr(err.message, message)) fail_msg("%s", err.message);
    sl_graph_destroy(g);
}

#define HEAD "input %c : i32[5,3] input %x : f32[5,8] experts %e : f32[7,12,8] "
static void graphs_must_fit_the_source(void **state) {
    (void)state;
    reading r;
    sl_experts *experts = make_reading(&r, 0);
    refuses(HEAD "%o, %s = moe_group(%c, %e) output \"o\" = %o", NULL,
            "'e': the graph has experts, but sl_compile_options.experts names no source of them");
    refuses("input %c : i32[5,3] experts %e : bf16[7,12,8] %o, %s = moe_group(%c, %e) "
            "output \"o\" = %o",
            experts, "experts 'e' are bf16[7,12,8], the source has f32[7,12,8]");
    refuses(HEAD "%o, %s = moe_group(%c, %e) {layer = 2} output \"o\" = %o", experts,
            "moe_group: layer is 2, the source of experts has 2");
    refuses(HEAD "%o, %s = moe_group(%c, %e) {layer = 0} %y = moe_ffn(%x, %o, %s, %e) {k = 3} "
                 "%p, %t = moe_group(%c, %e) {layer = 1} %z = moe_ffn(%x, %p, %t, %e) {k = 3, "
                 "layer = 1} output \"y\" = %y output \"z\" = %z",
            experts, "requests experts before those of 'moe_group' are used");
    refuses(HEAD "%o, %s = moe_group(%c, %e) %y = moe_ffn(%x, %o, %s, %e) {k = 3} "
                 "%z = moe_ffn(%x, %o, %s, %e) {k = 3} output \"y\" = %y output \"z\" = %z",
            experts, "moe_ffn: uses experts of layer 0 that no moe_group requested for it alone");
    sl_experts_destroy(experts);
    pthread_mutex_destroy(&r.lock);
}

static void sources_must_make_sense(void **state) {
    (void)state;
    sl_experts *experts = NULL;
    const sl_expert_reader reader = {.struct_size = sizeof reader, .read = read_expert};
    sl_expert_shape s = shape();
    s.dtype = "i32";
    assert_int_equal(sl_experts_create(&s, &reader, &experts, &err), SL_INVALID);
    assert_string_equal(err.message, "experts: element type i32, must be f32, f16, bf16 or of "
                                     "quantised weights");
    s = shape();
    s.layers = 0;
    assert_int_equal(sl_experts_create(&s, &reader, &experts, &err), SL_INVALID);
    s = shape();
    const sl_expert_reader small = {
        .struct_size = sizeof small, .read = read_expert, .budget_bytes = 100};
    assert_int_equal(sl_experts_create(&s, &small, &experts, &err), SL_NO_MEMORY);
    assert_non_null(strstr(err.message, "expert budget of 100 bytes, at least "));
    const sl_expert_reader none = {.struct_size = sizeof none};
    assert_int_equal(sl_experts_create(&s, &none, &experts, &err), SL_INVALID);
    const sl_expert_callbacks nothing = {.struct_size = sizeof nothing};
    assert_int_equal(sl_experts_create_from(&s, &nothing, &experts, &err), SL_INVALID);
    assert_string_equal(err.message, "experts: the callback take is NULL");
    assert_int_equal(sl_experts_open("no/such", 0, &experts, &err), SL_IO);
    assert_null(experts);
}

/* ---- files ---- */

static void files_have_experts(void **state) {
    (void)state;
    static float first[4 * 1024];
    sl_expert_shape s = {.struct_size = sizeof s};
    for (int b = 0; b < 2; b++) {
        char text[512];
        sl_experts *experts = NULL;
        sl_graph *g = NULL;
        sl_compiled *c = NULL;
        if (sl_experts_open("models/fable", b ? 2000000 : 0, &experts, &err) != SL_OK)
            fail_msg("%s", err.message);
        assert_int_equal(sl_experts_shape(experts, &s, &err), SL_OK);
        assert_true(s.layers > 1 && s.experts > 8 && s.hidden <= 1024);
        (void)snprintf(text, sizeof text,
                       "graph \"g\" {input %%c : i32[2,2] input %%x : f32[2,%lld] experts %%e : "
                       "%s[%u,%lld,%lld] %%o, %%s = moe_group(%%c, %%e) {layer = 1} %%y = "
                       "moe_ffn(%%x, %%o, %%s, %%e) {k = 2, layer = 1} output \"y\" = %%y}",
                       (long long)s.hidden, s.dtype, s.experts, (long long)s.width,
                       (long long)s.hidden);
        if (sl_graph_read(text, strlen(text), &g, &err) != SL_OK) fail_msg("%s", err.message);
        const sl_compile_options how = {
            .struct_size = sizeof how, .threads = 2, .experts = experts};
        if (sl_compile(g, &how, &c, &err) != SL_OK) fail_msg("%s", err.message);
        float x[2 * 1024];
        for (uint32_t i = 0; i < 2 * 1024; i++) x[i] = number(i);
        assert_int_equal(sl_compiled_set(c, "x", x, 2 * (size_t)s.hidden * sizeof *x, &err), SL_OK);
        assert_int_equal(sl_compiled_set(c, "c", (int32_t[]){0, 5, 5, 7}, 16, &err), SL_OK);
        if (sl_compiled_run(c, &err) != SL_OK) fail_msg("%s", err.message);
        size_t bytes = 0;
        const float *y = sl_compiled_get(c, "y", &bytes);
        double norm = 0;
        for (size_t i = 0; i < bytes / sizeof *y; i++) norm += (double)y[i] * (double)y[i];
        assert_true(bytes == 4 * (size_t)s.hidden * sizeof *y && norm > 0 && isfinite(norm));
        if (b == 0) memcpy(first, y, bytes);
        assert_memory_equal(first, y, bytes);
        sl_compiled_destroy(c);
        sl_graph_destroy(g);
        sl_experts_destroy(experts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_do_not_change_bits),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(direct_mode_takes_experts),
        cmocka_unit_test(a_failed_read_fails_the_run),
        cmocka_unit_test(callbacks_lend_experts),
        cmocka_unit_test(what_callbacks_return_is_checked),
        cmocka_unit_test(graphs_must_fit_the_source),
        cmocka_unit_test(sources_must_make_sense),
        cmocka_unit_test(files_have_experts),
    };
    return cmocka_run_group_tests(tests, fill_weights, NULL);
}
