/* control_test.c - if, while, scan and custom ops on the CPU and in the evaluator, against plain C
 * loops. */
#include "sluice/experimental.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- custom ops for the tests ---- */

/* less: whether input 0 is less than input 1, both one f32; the result is one bool. */
static sl_status less_shape(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                            sl_error *err) {
    (void)ctx;
    if (call->input_count != 2 || strcmp(call->inputs[0].dtype, "f32") != 0) {
        (void)snprintf(err->message, sizeof err->message, "less takes two f32");
        return SL_INVALID;
    }
    outputs[0] = (sl_tensor_type){.dtype = "bool"};
    return SL_OK;
}
static sl_status less_eval(void *ctx, const sl_custom_call *call, const double *const *inputs,
                           double *const *outputs, sl_error *err) {
    (void)ctx, (void)call, (void)err;
    outputs[0][0] = inputs[0][0] < inputs[1][0];
    return SL_OK;
}
static sl_status less_kernel(void *ctx, const sl_custom_call *call, const void *const *inputs,
                             void *const *outputs, sl_error *err) {
    (void)ctx, (void)call, (void)err;
    float x, y;
    memcpy(&x, inputs[0], sizeof x);
    memcpy(&y, inputs[1], sizeof y);
    *(uint8_t *)outputs[0] = x < y;
    return SL_OK;
}

/* scaled: x times the number in attrs, and the number of elements; counts its calls in ctx. */
static sl_status scaled_shape(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                              sl_error *err) {
    (void)ctx, (void)err;
    outputs[0] = call->inputs[0];
    outputs[1] = (sl_tensor_type){.dtype = "i64"};
    return SL_OK;
}
static int64_t elements_of(const sl_tensor_type *type) {
    int64_t count = 1;
    for (uint32_t d = 0; d < type->rank; d++) count *= type->dims[d];
    return count;
}
static sl_status scaled_eval(void *ctx, const sl_custom_call *call, const double *const *inputs,
                             double *const *outputs, sl_error *err) {
    (void)ctx, (void)err;
    const int64_t count = elements_of(&call->outputs[0]);
    for (int64_t i = 0; i < count; i++) outputs[0][i] = inputs[0][i] * atof(call->attrs);
    memcpy(outputs[1], &count, sizeof count);
    return SL_OK;
}
static sl_status scaled_kernel(void *ctx, const sl_custom_call *call, const void *const *inputs,
                               void *const *outputs, sl_error *err) {
    (void)err;
    const int64_t count = elements_of(&call->outputs[0]);
    for (int64_t i = 0; i < count; i++)
        ((float *)outputs[0])[i] = ((const float *)inputs[0])[i] * (float)atof(call->attrs);
    memcpy(outputs[1], &count, sizeof count);
    ++*(int *)ctx;
    return SL_OK;
}

static sl_status fails_kernel(void *ctx, const sl_custom_call *call, const void *const *inputs,
                              void *const *outputs, sl_error *err) {
    (void)ctx, (void)call, (void)inputs, (void)outputs, (void)err;
    return SL_IO;
}

static int scaled_calls;
static sl_custom_ops *new_ops(void) {
    sl_custom_ops *ops = NULL;
    sl_error err = {0};
    const sl_custom_op less = {.struct_size = sizeof less,
                               .name = "less",
                               .shape = less_shape,
                               .eval = less_eval,
                               .kernel = less_kernel};
    const sl_custom_op scaled = {.struct_size = sizeof scaled,
                                 .name = "scaled",
                                 .ctx = &scaled_calls,
                                 .shape = scaled_shape,
                                 .eval = scaled_eval,
                                 .kernel = scaled_kernel};
    const sl_custom_op bare = {.struct_size = sizeof bare, .name = "bare", .shape = scaled_shape};
    const sl_custom_op fails = {.struct_size = sizeof fails,
                                .name = "fails",
                                .shape = scaled_shape,
                                .kernel = fails_kernel};
    assert_int_equal(sl_custom_ops_create(&ops, &err), SL_OK);
    assert_int_equal(sl_custom_ops_add(ops, &less, &err), SL_OK);
    assert_int_equal(sl_custom_ops_add(ops, &scaled, &err), SL_OK);
    assert_int_equal(sl_custom_ops_add(ops, &bare, &err), SL_OK);
    assert_int_equal(sl_custom_ops_add(ops, &fails, &err), SL_OK);
    assert_int_equal(sl_custom_ops_add(ops, &less, &err), SL_INVALID);
    assert_string_equal(err.message, "custom op 'less' is already registered");
    return ops;
}

/* ---- running ---- */

typedef struct {
    sl_custom_ops *ops;
    sl_graph *graph;
    sl_compiled *compiled;
} machine;

static machine start(const char *text, const char *device, uint32_t threads) {
    machine m = {.ops = new_ops()};
    sl_error err = {0};
    if (sl_graph_read_using(text, strlen(text), m.ops, &m.graph, &err)) fail_msg("%s", err.message);
    const sl_compile_options options = {
        .struct_size = sizeof options, .device = device, .threads = threads};
    if (sl_compile(m.graph, &options, &m.compiled, &err)) fail_msg("%s: %s", device, err.message);
    return m;
}

static void stop(machine *m) {
    sl_compiled_destroy(m->compiled);
    sl_graph_destroy(m->graph);
    sl_custom_ops_destroy(m->ops);
}

static void set(machine *m, const char *name, const void *data, size_t bytes) {
    sl_error err = {0};
    if (sl_compiled_set(m->compiled, name, data, bytes, &err)) fail_msg("%s", err.message);
}

static const void *get(machine *m, const char *name, size_t bytes) {
    size_t found = 0;
    const void *data = sl_compiled_get(m->compiled, name, &found);
    assert_non_null(data);
    assert_int_equal(found, bytes);
    return data;
}

static void run(machine *m) {
    sl_error err = {0};
    if (sl_compiled_run(m->compiled, &err)) fail_msg("%s", err.message);
}

static void same(const float *got, const float *want, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-6f * fabsf(want[i]) + 1e-6f))
            fail_msg("element %zu is %g, must be %g", i, (double)got[i], (double)want[i]);
}

static const char *const devices[] = {"cpu", "ref", "cuda"};
static bool has_cuda;
#define FOR_DEVICES(D) for (int D = 0; D < (has_cuda ? 3 : 2); D++)

/* The emulated driver, unless SLUICE_CUDA is "device": then the machine's own. */
static int find_cuda(void **state) {
    (void)state;
    const char *which = getenv("SLUICE_CUDA"), *emulator = getenv("SLUICE_CUDA_EMULATOR");
    const bool real = which && strcmp(which, "device") == 0;
    has_cuda = real || (emulator && dlopen(emulator, RTLD_NOW | RTLD_GLOBAL));
    return 0;
}

/* ---- if ---- */

static const char if_text[] =
    "graph \"choice\" { input %c : bool[1] input %x : f32[3] input %y : f32[3] "
    "%a, %b = if(%c, %x, %y) {"
    "  then = graph \"t\" { input %x : f32[3] input %y : f32[3] %s = add(%x, %y) "
    "    output \"s\" = %s output \"x\" = %x },"
    "  otherwise = graph \"o\" { input %x : f32[3] input %y : f32[3] "
    "    constant %two : f32[] = {2} %p = mul(%x, %two) output \"p\" = %p output \"y\" = %y }} "
    "output \"a\" = %a output \"b\" = %b }";

static void test_if(void **state) {
    (void)state;
    const float x[] = {1, -2, 3.5f}, y[] = {10, 20, 30};
    FOR_DEVICES(d) {
        machine m = start(if_text, devices[d], 2);
        set(&m, "x", x, sizeof x);
        set(&m, "y", y, sizeof y);
        for (int choice = 0; choice < 4; choice++) {
            const uint8_t yes = choice % 2;
            set(&m, "c", &yes, 1);
            run(&m);
            float want[3];
            for (int i = 0; i < 3; i++) want[i] = yes ? x[i] + y[i] : 2 * x[i];
            same(get(&m, "a", sizeof want), want, 3);
            same(get(&m, "b", sizeof want), yes ? x : y, 3);
        }
        stop(&m);
    }
}

/* ---- while ---- */

/* Newton's square root; the number of iterations depends on the input. */
static const char newton_text[] =
    "graph \"newton\" { input %x : f32[] input %limit : f32[] constant %one : f32[] = {1} "
    "constant %zero : f32[] = {0} "
    "%r, %e, %a, %l, %n = while(%x, %x, %x, %limit, %zero) {"
    "  condition = graph \"c\" { input %r : f32[] input %e : f32[] input %a : f32[] "
    "    input %l : f32[] input %n : f32[] %go = custom(%l, %e) {name = \"less\"} "
    "    output \"go\" = %go },"
    "  body = graph \"b\" { input %r : f32[] input %e : f32[] input %a : f32[] input %l : f32[] "
    "    input %n : f32[] constant %half : f32[] = {0.5} constant %one : f32[] = {1} "
    "    %q = div(%a, %r) %s = add(%r, %q) %next = mul(%s, %half) "
    "    %p = mul(%next, %next) %d = sub(%p, %a) %f = abs(%d) %m = add(%n, %one) "
    "    output \"r\" = %next output \"e\" = %f output \"a\" = %a output \"l\" = %l "
    "    output \"n\" = %m }, most = @} "
    "output \"root\" = %r output \"steps\" = %n }";

static char *with_number(const char *text, const char *number) {
    const char *at = strchr(text, '@');
    const size_t room = strlen(text) + strlen(number) + 1;
    char *out = calloc(room, 1);
    assert_non_null(out);
    (void)snprintf(out, room, "%.*s%s%s", (int)(at - text), text, number, at + 1);
    return out;
}

static float newton(float x, float limit, int most, float *steps) {
    float r = x, e = x;
    for (*steps = 0; limit < e && (!most || *steps < (float)most); ++*steps) {
        r = (r + x / r) * 0.5f;
        e = fabsf(r * r - x);
    }
    return r;
}

static void test_while(void **state) {
    (void)state;
    const char *const bounds[] = {"0", "3"};
    for (int b = 0; b < 2; b++) {
        char *text = with_number(newton_text, bounds[b]);
        FOR_DEVICES(d) {
            machine m = start(text, devices[d], 2);
            const float limit = 1e-3f;
            set(&m, "limit", &limit, sizeof limit);
            for (int power = 0; power < 5; power++) {
                const float x = 0.25f * powf(7, (float)power);
                set(&m, "x", &x, sizeof x);
                run(&m);
                float steps;
                const float want = newton(x, limit, atoi(bounds[b]), &steps);
                same(get(&m, "root", sizeof want), &want, 1);
                same(get(&m, "steps", sizeof steps), &steps, 1);
            }
            stop(&m);
        }
        free(text);
    }
}

/* Carries that are passed on in another order, and a body that never runs. */
static void test_while_swaps(void **state) {
    (void)state;
    const char *text =
        "graph \"swaps\" { input %a : f32[4] input %b : f32[4] input %n : f32[] "
        "constant %zero : f32[] = {0} "
        "%x, %y, %i, %m = while(%a, %b, %zero, %n) {"
        "  condition = graph \"c\" { input %a : f32[4] input %b : f32[4] input %i : f32[] "
        "    input %n : f32[] %go = custom(%i, %n) {name = \"less\"} output \"go\" = %go },"
        "  body = graph \"b\" { input %a : f32[4] input %b : f32[4] input %i : f32[] "
        "    input %n : f32[] constant %one : f32[] = {1} %j = add(%i, %one) "
        "    output \"a\" = %b output \"b\" = %a output \"i\" = %j output \"n\" = %n }} "
        "output \"x\" = %x output \"y\" = %y }";
    const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
    FOR_DEVICES(d) {
        machine m = start(text, devices[d], 1);
        set(&m, "a", a, sizeof a);
        set(&m, "b", b, sizeof b);
        for (int n = 0; n < 5; n++) {
            const float times = (float)n;
            set(&m, "n", &times, sizeof times);
            run(&m);
            same(get(&m, "x", sizeof a), n % 2 ? b : a, 4);
            same(get(&m, "y", sizeof a), n % 2 ? a : b, 4);
        }
        stop(&m);
    }
}

/* ---- scan ---- */

/* h = tanh(h w + x[t]), s = s + h; ys: h and x[t] * c. */
static const char scan_text[] =
    "graph \"rnn\" { input %h : f32[2,3] input %s : f32[2,3] input %w : f32[3,3] "
    "input %c : f32[] input %x : f32[5,2,3] "
    "%hn, %sn, %hs, %xs = scan(%h, %s, %w, %c, %x) {carries = 2, consts = 2, reverse = @,"
    "  body = graph \"step\" { input %h : f32[2,3] input %s : f32[2,3] input %w : f32[3,3] "
    "    input %c : f32[] input %x : f32[2,3] "
    "    %p = matmul(%h, %w) %q = add(%p, %x) %n = tanh(%q) %t = add(%s, %n) %k = mul(%x, %c) "
    "    output \"h\" = %n output \"s\" = %t output \"hs\" = %n output \"xs\" = %k }} "
    "output \"hn\" = %hn output \"sn\" = %sn output \"hs\" = %hs output \"xs\" = %xs }";

typedef struct {
    float h[6], s[6], w[9], c, x[5][6];
    float hs[5][6], xs[5][6];
} rnn;

static void rnn_fill(rnn *r) {
    uint32_t random = 7;
    float *numbers = r->h;
    for (size_t i = 0; i < offsetof(rnn, hs) / sizeof(float); i++) {
        random = random * 1664525 + 1013904223;
        numbers[i] = (float)(random >> 8) / 8388608 - 1;
    }
}

static void rnn_run(rnn *r, bool reverse) {
    for (int step = 0; step < 5; step++) {
        const int t = reverse ? 4 - step : step;
        float next[6];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) {
                float sum = r->x[t][i * 3 + j];
                for (int k = 0; k < 3; k++) sum += r->h[i * 3 + k] * r->w[k * 3 + j];
                next[i * 3 + j] = tanhf(sum);
            }
        for (int i = 0; i < 6; i++) {
            r->h[i] = r->hs[t][i] = next[i];
            r->s[i] += next[i];
            r->xs[t][i] = r->x[t][i] * r->c;
        }
    }
}

static void set_rnn(machine *m, const rnn *r) {
    set(m, "h", r->h, sizeof r->h);
    set(m, "s", r->s, sizeof r->s);
    set(m, "w", r->w, sizeof r->w);
    set(m, "c", &r->c, sizeof r->c);
    set(m, "x", r->x, sizeof r->x);
}

static void test_scan(void **state) {
    (void)state;
    for (int reverse = 0; reverse < 2; reverse++) {
        char *text = with_number(scan_text, reverse ? "1" : "0");
        FOR_DEVICES(d) {
            machine m = start(text, devices[d], 2);
            rnn r = {0};
            rnn_fill(&r);
            set_rnn(&m, &r);
            rnn_run(&r, reverse);
            for (int again = 0; again < 2; again++) {
                run(&m);
                same(get(&m, "hn", sizeof r.h), r.h, 6);
                same(get(&m, "sn", sizeof r.s), r.s, 6);
                same(get(&m, "hs", sizeof r.hs), r.hs[0], 30);
                same(get(&m, "xs", sizeof r.xs), r.xs[0], 30);
            }
            stop(&m);
        }
        free(text);
    }
}

/* Longer than any unrolled loop. */
static void test_long_scan(void **state) {
    (void)state;
    enum { LENGTH = 300 };
    for (int reverse = 0; reverse < 2; reverse++) {
        char *text = with_number("graph \"long\" { input %h : f32[2] input %w : f32[2] "
                                 "input %x : f32[300,2] "
                                 "%hn, %ys = scan(%h, %w, %x) {carries = 1, consts = 1, "
                                 "reverse = @, body = graph \"b\" { input %h : f32[2] "
                                 "input %w : f32[2] input %x : f32[2] %p = mul(%h, %w) "
                                 "%n = add(%p, %x) output \"h\" = %n output \"y\" = %p }} "
                                 "output \"h\" = %hn output \"ys\" = %ys }",
                                 reverse ? "1" : "0");
        const float start_h[] = {1, -1}, w[] = {0.5f, -0.25f};
        float x[LENGTH][2], ys[LENGTH][2], h[2] = {1, -1};
        for (int t = 0; t < LENGTH; t++)
            for (int j = 0; j < 2; j++) x[t][j] = (float)((t * 5 + j) % 16) / 8;
        for (int i = 0; i < LENGTH; i++)
            for (int j = 0; j < 2; j++) {
                const int t = reverse ? LENGTH - 1 - i : i;
                ys[t][j] = h[j] * w[j];
                h[j] = ys[t][j] + x[t][j];
            }
        FOR_DEVICES(d) {
            machine m = start(text, devices[d], 2);
            set(&m, "h", start_h, sizeof start_h);
            set(&m, "w", w, sizeof w);
            set(&m, "x", x, sizeof x);
            run(&m);
            same(get(&m, "h", sizeof h), h, 2);
            same(get(&m, "ys", sizeof ys), ys[0], (size_t)2 * LENGTH);
            stop(&m);
        }
        free(text);
    }
}

/* An endless loop that ends because its body fails. */
static void test_while_fails(void **state) {
    (void)state;
    const char *text = "graph \"fails\" { input %i : i32[1] input %x : f32[4] "
                       "%n, %y = while(%i, %x) {"
                       "  condition = graph \"c\" { input %i : i32[1] input %x : f32[4] "
                       "    constant %go : bool[] = {1} output \"go\" = %go },"
                       "  body = graph \"b\" { input %i : i32[1] input %x : f32[4] "
                       "    constant %one : i32[1] = {1} %e = gather(%x, %i) %j = add(%i, %one) "
                       "    %y = mul(%x, %e) output \"i\" = %j output \"y\" = %y }} "
                       "output \"n\" = %n output \"y\" = %y }";
    const float x[] = {1, 2, 3, 4};
    const int32_t first = 0;
    FOR_DEVICES(d) {
        machine m = start(text, devices[d], 2);
        sl_error err = {0};
        set(&m, "i", &first, sizeof first);
        set(&m, "x", x, sizeof x);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(sl_compiled_run(m.compiled, &err), SL_INVALID);
            assert_non_null(strstr(err.message, "index"));
        }
        stop(&m);
    }
}

/* A scan in a scan in an if: sums of products over both. */
static void test_nested(void **state) {
    (void)state;
    const char *text =
        "graph \"nested\" { input %c : bool[] input %x : f32[4,3] input %z : f32[] "
        "%o = if(%c, %x, %z) {"
        "  then = graph \"t\" { input %x : f32[4,3] input %z : f32[] "
        "    %s = scan(%z, %x) {carries = 1, consts = 0, body = graph \"outer\" { "
        "      input %s : f32[] input %row : f32[3] "
        "      %t = scan(%s, %row) {carries = 1, body = graph \"inner\" { "
        "        input %s : f32[] input %e : f32[] %q = mul(%e, %e) %n = add(%s, %q) "
        "        output \"s\" = %n }} "
        "      output \"s\" = %t }} "
        "    output \"s\" = %s },"
        "  otherwise = graph \"o\" { input %x : f32[4,3] input %z : f32[] output \"z\" = %z }} "
        "output \"o\" = %o }";
    float x[12], want = 2;
    for (int i = 0; i < 12; i++) {
        x[i] = (float)i - 5.5f;
        want += x[i] * x[i];
    }
    FOR_DEVICES(d) {
        machine m = start(text, devices[d], 2);
        const float z = 2;
        set(&m, "x", x, sizeof x);
        set(&m, "z", &z, sizeof z);
        for (int choice = 0; choice < 2; choice++) {
            const uint8_t yes = (uint8_t)choice;
            set(&m, "c", &yes, 1);
            run(&m);
            same(get(&m, "o", sizeof z), choice ? &want : &z, 1);
        }
        stop(&m);
    }
}

/* Independent loops run concurrently. */
static void test_side_by_side(void **state) {
    (void)state;
    char text[8192] = "graph \"side\" { input %x : f32[64,16] ";
    for (int i = 0; i < 6; i++) {
        const size_t length = strlen(text);
        (void)snprintf(text + length, sizeof text - length,
                       "constant %%z%d : f32[16] = {%d,0,0,0,0,0,0,0,0,0,0,0,0,0,0,%d} "
                       "%%s%d = scan(%%z%d, %%x) {carries = 1, reverse = %d, body = graph \"b\" { "
                       "input %%s : f32[16] input %%r : f32[16] %%m = maximum(%%s, %%r) "
                       "%%n = add(%%m, %%r) output \"s\" = %%n }} output \"s%d\" = %%s%d ",
                       i, i, -i, i, i, i % 2, i, i);
    }
    const size_t length = strlen(text);
    (void)snprintf(text + length, sizeof text - length, "}");
    float x[64][16];
    for (int t = 0; t < 64; t++)
        for (int j = 0; j < 16; j++) x[t][j] = (float)((t * 7 + j * 3) % 11) / 8 - 0.5f;
    machine m = start(text, "cpu", 4);
    set(&m, "x", x, sizeof x);
    for (int round = 0; round < 20; round++) {
        run(&m);
        for (int i = 0; i < 6; i++) {
            float s[16] = {[0] = (float)i, [15] = (float)-i};
            for (int step = 0; step < 64; step++)
                for (int j = 0; j < 16; j++) {
                    const float r = x[i % 2 ? 63 - step : step][j];
                    s[j] = (s[j] > r ? s[j] : r) + r;
                }
            const char name[] = {'s', (char)('0' + i), 0};
            same(get(&m, name, sizeof s), s, 16);
        }
    }
    stop(&m);
}

/* ---- gradients of scan ---- */

/* c = c * w + x[t], y[t] = c * c: the gradient of f = <dc, c_T> + <dy, y> by hand. */
static const char backward_bodies[] =
    "body = graph \"f\" { input %c : f32[2] input %w : f32[2] input %x : f32[2] "
    "  %p = mul(%c, %w) %n = add(%p, %x) %y = mul(%n, %n) output \"c\" = %n output \"y\" = %y },"
    "backward = graph \"b\" { input %c : f32[2] input %w : f32[2] input %x : f32[2] "
    "  input %dn : f32[2] input %dy : f32[2] constant %two : f32[] = {2} "
    "  %p = mul(%c, %w) %n = add(%p, %x) %t = mul(%n, %two) %u = mul(%t, %dy) "
    "  %d = add(%dn, %u) %dc = mul(%d, %w) %dw = mul(%d, %c) "
    "  output \"dc\" = %dc output \"dw\" = %dw output \"dx\" = %d }";

static void check_backward(const char *device, int length, int checkpoints, int reverse) {
    char text[4096], attrs[200];
    (void)snprintf(attrs, sizeof attrs, "carries = 1, consts = 1, reverse = %d, checkpoints = %d, ",
                   reverse, checkpoints);
    (void)snprintf(text, sizeof text,
                   "graph \"back\" { input %%c : f32[2] input %%w : f32[2] input %%x : f32[%d,2] "
                   "input %%dn : f32[2] input %%dy : f32[%d,2] "
                   "%%dc, %%dw, %%dx = scan_backward(%%c, %%w, %%x, %%dn, %%dy) {%s%s} "
                   "%%only = scan_backward_xs(%%c, %%w, %%x, %%dn, %%dy) {%s%s} "
                   "output \"dc\" = %%dc output \"dw\" = %%dw output \"dx\" = %%dx "
                   "output \"only\" = %%only }",
                   length, length, attrs, backward_bodies, attrs, backward_bodies);
    machine m = start(text, device, 2);
    enum { MOST = 40 };
    float c[2] = {0.3f, -1}, w[2] = {0.9f, -0.7f}, dn[2] = {1, 0.5f};
    float x[MOST][2], dy[MOST][2], dx[MOST][2];
    for (int t = 0; t < length; t++)
        for (int j = 0; j < 2; j++) {
            x[t][j] = (float)((t * 5 + j) % 7) / 4 - 0.6f;
            dy[t][j] = (float)((t * 3 + j) % 5) / 6 - 0.2f;
        }
    set(&m, "c", c, sizeof c);
    set(&m, "w", w, sizeof w);
    set(&m, "dn", dn, sizeof dn);
    set(&m, "x", x, (size_t)length * sizeof x[0]);
    set(&m, "dy", dy, (size_t)length * sizeof dy[0]);
    float dc[2], dw[2];
    for (int j = 0; j < 2; j++) {
        double before[MOST + 1] = {(double)c[j]}, d = (double)dn[j], sum = 0;
        for (int s = 0; s < length; s++) {
            const int t = reverse ? length - 1 - s : s;
            before[s + 1] = before[s] * (double)w[j] + (double)x[t][j];
        }
        for (int s = length; s-- > 0;) {
            const int t = reverse ? length - 1 - s : s;
            d += 2 * before[s + 1] * (double)dy[t][j];
            dx[t][j] = (float)d;
            sum += d * before[s];
            d *= (double)w[j];
        }
        dc[j] = (float)d;
        dw[j] = (float)sum;
    }
    run(&m);
    same(get(&m, "dc", sizeof dc), dc, 2);
    same(get(&m, "dw", sizeof dw), dw, 2);
    same(get(&m, "dx", (size_t)length * sizeof dx[0]), dx[0], (size_t)length * 2);
    same(get(&m, "only", (size_t)length * sizeof dx[0]), dx[0], (size_t)length * 2);
    stop(&m);
}

static void test_scan_backward(void **state) {
    (void)state;
    const int lengths[] = {1, 2, 9, 10, 37};
    FOR_DEVICES(d)
    for (int l = 0; l < 5; l++)
        for (int checkpoints = 0; checkpoints < 6; checkpoints++)
            check_backward(devices[d], lengths[l], checkpoints == 5 ? 1000 : checkpoints, l % 2);
}

/* ---- custom ops and functions ---- */

static void test_custom(void **state) {
    (void)state;
    const char *text = "graph \"c\" { input %x : f32[2,3] "
                       "%y, %n = custom(%x) {name = \"scaled\", attrs = \"2.5\"} "
                       "%f = custom_fn(%y) {body = graph \"f\" { input %y : f32[2,3] "
                       "%z = neg(%y) output \"z\" = %z }} "
                       "output \"y\" = %y output \"n\" = %n output \"f\" = %f }";
    const float x[] = {1, 2, 3, 4, 5, 6};
    FOR_DEVICES(d) {
        machine m = start(text, devices[d], 2);
        set(&m, "x", x, sizeof x);
        scaled_calls = 0;
        run(&m);
        float want[6], negative[6];
        for (int i = 0; i < 6; i++) {
            want[i] = x[i] * 2.5f;
            negative[i] = -want[i];
        }
        same(get(&m, "y", sizeof want), want, 6);
        same(get(&m, "f", sizeof want), negative, 6);
        assert_int_equal(*(const int64_t *)get(&m, "n", 8), 6);
        assert_int_equal(scaled_calls, d != 1);
        stop(&m);
    }
}

static void test_custom_errors(void **state) {
    (void)state;
    sl_custom_ops *ops = new_ops();
    sl_graph *graph = NULL;
    sl_compiled *compiled = NULL;
    sl_error err = {0};
    const char *unknown = "graph \"c\" { input %x : f32[2] %y, %n = custom(%x) {name = \"no\"} "
                          "output \"y\" = %y }";
    assert_int_equal(sl_graph_read(unknown, strlen(unknown), &graph, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "no custom op 'no' is registered with the graph"));
    assert_int_equal(sl_graph_read_using(unknown, strlen(unknown), ops, &graph, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "no custom op 'no' is registered with the graph"));
    const char *wrong = "graph \"c\" { input %x : f32[2] %y = custom(%x) {name = \"less\"} "
                        "output \"y\" = %y }";
    assert_int_equal(sl_graph_read_using(wrong, strlen(wrong), ops, &graph, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "custom: less takes two f32"));
    const char *bare = "graph \"c\" { input %x : f32[2] scope \"my\" "
                       "%y, %n = custom(%x) {name = \"bare\"} output \"y\" = %y }";
    assert_int_equal(sl_graph_read_using(bare, strlen(bare), ops, &graph, &err), SL_OK);
    assert_int_equal(sl_compile(graph, NULL, &compiled, &err), SL_UNSUPPORTED);
    assert_string_equal(err.message,
                        "my custom: the cpu device has no kernel for custom op 'bare'");
    const sl_compile_options ref = {.struct_size = sizeof ref, .device = "ref"};
    assert_int_equal(sl_compile(graph, &ref, &compiled, &err), SL_OK);
    const float x[2] = {0};
    assert_int_equal(sl_compiled_set(compiled, "x", x, sizeof x, &err), SL_OK);
    assert_int_equal(sl_compiled_run(compiled, &err), SL_UNSUPPORTED);
    assert_string_equal(err.message, "my custom: custom op 'bare' has no eval");
    sl_compiled_destroy(compiled);
    sl_graph_destroy(graph);
    const char *fails = "graph \"c\" { input %x : f32[2] %y, %n = custom(%x) {name = \"fails\"} "
                        "output \"y\" = %y }";
    assert_int_equal(sl_graph_read_using(fails, strlen(fails), ops, &graph, &err), SL_OK);
    assert_int_equal(sl_compile(graph, NULL, &compiled, &err), SL_OK);
    assert_int_equal(sl_compiled_set(compiled, "x", x, sizeof x, &err), SL_OK);
    assert_int_equal(sl_compiled_run(compiled, &err), SL_IO);
    assert_string_equal(err.message,
                        "custom: the kernel of custom op 'fails' failed: a read or write failed");
    sl_compiled_destroy(compiled);
    sl_graph_destroy(graph);
    sl_custom_ops_destroy(ops);
}

static void set_zeros(machine *m) {
    static const unsigned char zeros[1 << 16];
    sl_graph_item item = {.struct_size = sizeof item};
    for (uint32_t i = 0; sl_graph_item_at(m->graph, i, &item, NULL) == SL_OK; i++) {
        size_t bytes = strcmp(item.dtype, "bool") == 0 ? 1 : 4;
        for (uint32_t d = 0; d < item.rank; d++) bytes *= (size_t)item.dims[d];
        assert_true(bytes <= sizeof zeros);
        if (strcmp(item.kind, "input") == 0) set(m, item.name, zeros, bytes);
    }
}

/* The null device checks bodies too. */
static void test_null(void **state) {
    (void)state;
    const char *const texts[] = {if_text, scan_text};
    for (int i = 0; i < 2; i++) {
        char *text = strchr(texts[i], '@') ? with_number(texts[i], "0") : strdup(texts[i]);
        machine m = start(text, "null", 0);
        set_zeros(&m);
        run(&m);
        stop(&m);
        free(text);
    }
}

/* The memory of a complex state holds both parts, on every device. */
static void test_complex_state(void **state) {
    (void)state;
    const char *text = "graph \"c\" { state %s : c64[4096] input %x : f32[1] %1 = neg(%x) "
                       "output \"y\" = %1 }";
    static const float numbers[8192] = {1, 2};
    FOR_DEVICES(d) {
        machine m = start(text, devices[d], 1);
        sl_error err = {0};
        const float x = 3;
        assert_int_equal(sl_compiled_set(m.compiled, "s", numbers, sizeof numbers, &err), SL_OK);
        assert_int_equal(sl_compiled_set(m.compiled, "x", &x, sizeof x, &err), SL_OK);
        run(&m);
        same(sl_compiled_get(m.compiled, "y", NULL), (const float[]){-3}, 1);
        stop(&m);
    }
}

/* Kernels that prepare tables when they are loaded do so in bodies too. */
static void test_prepared(void **state) {
    (void)state;
    const char *text = "graph \"p\" { input %x : f32[3,12] constant %c : f32[1] = {0} "
                       "%1, %2 = scan(%c, %x) {carries = 1, body = graph \"b\" { "
                       "input %c : f32[1] input %x : f32[12] %1 = fft(%x) {norm = 1} "
                       "output \"c\" = %c output \"y\" = %1 }} output \"y\" = %2 }";
    float x[36], got[3][36] = {{0}};
    for (int i = 0; i < 36; i++) x[i] = (float)(i * 7 % 11) - 4;
    FOR_DEVICES(d) {
        machine m = start(text, devices[d], 1);
        sl_error err = {0};
        assert_int_equal(sl_compiled_set(m.compiled, "x", x, sizeof x, &err), SL_OK);
        run(&m);
        memcpy(got[d], sl_compiled_get(m.compiled, "y", NULL), sizeof got[d]);
        same(got[0], got[d], 36);
        stop(&m);
    }
}

/* ---- graphs built through the API ---- */

static sl_graph *doubling(void) {
    sl_graph *body = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("double", NULL, &body, &err), SL_OK);
    const sl_value x = sl_graph_add_input(body, "x", "f32", 1, (int64_t[]){2});
    const sl_value y = sl_graph_apply(body, "add", (sl_value[]){x, x}, 2, NULL);
    sl_graph_add_output(body, "y", y);
    return body;
}

static void test_building(void **state) {
    (void)state;
    sl_graph *graph = NULL, *body = doubling();
    sl_compiled *compiled = NULL;
    sl_error err = {0};
    assert_int_equal(sl_graph_create("g", NULL, &graph, &err), SL_OK);
    const sl_value x = sl_graph_add_input(graph, "x", "f32", 1, (int64_t[]){2});
    sl_value y = {0};
    const sl_body_spec bodies[] = {{"body", body}};
    sl_graph_add_node(graph, &(sl_node_spec){.struct_size = sizeof(sl_node_spec),
                                             .op = "scan",
                                             .attrs = "carries = 1, length = 5",
                                             .inputs = &x,
                                             .input_count = 1,
                                             .outputs = &y,
                                             .output_count = 1,
                                             .bodies = bodies,
                                             .body_count = 1});
    sl_graph_add_output(graph, "y", y);
    sl_graph_destroy(body);
    if (sl_compile(graph, NULL, &compiled, &err)) fail_msg("%s", err.message);
    const float in[] = {1, -3}, want[] = {32, -96};
    assert_int_equal(sl_compiled_set(compiled, "x", in, sizeof in, &err), SL_OK);
    assert_int_equal(sl_compiled_run(compiled, &err), SL_OK);
    same(sl_compiled_get(compiled, "y", NULL), want, 2);
    sl_compiled_destroy(compiled);
    sl_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_if),
        cmocka_unit_test(test_while),
        cmocka_unit_test(test_while_swaps),
        cmocka_unit_test(test_while_fails),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_long_scan),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_scan_backward),
        cmocka_unit_test(test_custom),
        cmocka_unit_test(test_custom_errors),
        cmocka_unit_test(test_complex_state),
        cmocka_unit_test(test_prepared),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_building),
    };
    return cmocka_run_group_tests(tests, find_cuda, NULL);
}
