/* thousand_bench.c - How long a graph of a thousand nodes takes from text to program, for the CPU.
 */
#include "base/clock.h"
#include "compiler/compile.h"
#include "runtime/cpu/cpu.h"
#include <stdio.h>
#include <string.h>

enum { LAYERS = 67, REPEATS = 20, TEXT_BYTES = 1 << 18 };

/* Fifteen nodes: a norm, attention by hand, a network, and a chain of elementwise ops. */
static const char layer[] =
    "weight %%g%1$d : f32[64] weight %%a%1$d : f32[64,64] weight %%b%1$d : f32[64,256] "
    "weight %%c%1$d : f32[256] weight %%d%1$d : f32[256,64]\n"
    "%%n%1$d = layer_norm(%%x%1$d, %%g%1$d, %%g%1$d) {axis = 1, eps = 1e-05} "
    "%%q%1$d = matmul(%%n%1$d, %%a%1$d) %%t%1$d = transpose(%%n%1$d) {perm = [1,0]} "
    "%%s%1$d = matmul(%%q%1$d, %%t%1$d) %%u%1$d = mul(%%s%1$d, %%scale) "
    "%%p%1$d = softmax(%%u%1$d) %%m%1$d = matmul(%%p%1$d, %%n%1$d) "
    "%%r%1$d = add(%%x%1$d, %%m%1$d) %%h%1$d = matmul(%%r%1$d, %%b%1$d) "
    "%%i%1$d = add(%%h%1$d, %%c%1$d) %%j%1$d = gelu(%%i%1$d) %%k%1$d = matmul(%%j%1$d, %%d%1$d) "
    "%%l%1$d = tanh(%%k%1$d) %%o%1$d = mul(%%l%1$d, %%g%1$d) "
    "%%x%2$d = add(%%r%1$d, %%o%1$d)\n";

static void write_text(char *text) {
    size_t used = (size_t)snprintf(text, TEXT_BYTES,
                                   "graph \"thousand\" { input %%x0 : f32[8,64] constant %%scale "
                                   ": f32[] = {0.125}\n");
    for (int i = 0; i < LAYERS; i++)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, layer, i, i + 1);
    (void)snprintf(text + used, TEXT_BYTES - used, "output \"y\" = %%x%d }\n", LAYERS);
}

typedef struct {
    double parse, prepare, lower, schedule, plan, all;
} times;

static sl_status once(const char *text, times *out, uint32_t *nodes, sl_error *err) {
    const sl_compiler_options options = {.target = &sl_target_cpu};
    sl_graph *graph = NULL;
    sl_program *program = NULL;
    double clock = sl_clock_seconds();
    SL_TRY(sl_graph_parse(text, strlen(text), NULL, &graph, err));
    out->parse = sl_clock_lap(&clock);
    *nodes = graph->node_count;
    const sl_status status = sl_compile_graph(graph, &options, NULL, &program, err);
    out->all = sl_clock_lap(&clock);
    if (status == SL_OK) {
        const sl_program_report *r = &program->report;
        out->prepare = sl_program_pass_seconds(r);
        out->lower = r->lower_seconds;
        out->schedule = r->schedule_seconds;
        out->plan = r->plan_seconds;
    }
    sl_program_destroy(program);
    sl_graph_destroy(graph);
    return status;
}

int main(void) {
    static char text[TEXT_BYTES];
    times best = {.all = 1e9}, t = {0};
    uint32_t nodes = 0;
    sl_error err;
    write_text(text);
    for (int i = 0; i < REPEATS; i++) {
        if (once(text, &t, &nodes, &err) != SL_OK) {
            (void)fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        if (t.all < best.all) best = t;
    }
    printf("%u nodes, ms: parse %.2f; compile %.2f = simplify, legalise and fuse %.2f, lower %.2f, "
           "schedule %.2f, plan %.2f\n",
           nodes, best.parse * 1e3, best.all * 1e3, best.prepare * 1e3, best.lower * 1e3,
           best.schedule * 1e3, best.plan * 1e3);
    return 0;
}
