/* two_graphs.c - A language model as two graphs on one executor: prefill reads the prompt, decode
 * makes one token at a time.  They share weights and the KV cache; a third graph, which sees all
 * tokens at once, must agree.  The weights are random numbers.  Arguments: [DEVICE] */
#include "sluice/executor.h"
#include "sluice/experimental.h"
#include <stdio.h>

enum { PROMPT = 5, NEW = 9, ALL = PROMPT + NEW - 1, LARGEST = 64 * 32 };

/* T tokens, of which each attends to those before it, also of earlier runs. */
static const char model[] =
    "graph \"model\" {\n"
    "  symbol T = 1\n"
    "  input %ids : i32[T]  input %slots : i32[T]  input %positions : i32[T]\n"
    "  weight %table : f32[64,32]  weight %norm1 : f32[32]  weight %norm2 : f32[32]\n"
    "  weight %wq : f32[32,32]  weight %wk : f32[32,32]  weight %wv : f32[32,32]\n"
    "  weight %wo : f32[32,32]  weight %gate : f32[48,32]  weight %up : f32[48,32]\n"
    "  weight %down : f32[32,48]  weight %head : f32[64,32]\n"
    "  state %keys : f32[1,4,1,8,16]  state %values : f32[1,4,16,8]\n"
    "  %x = embed(%table, %ids)\n"
    "  %in = rms_norm(%x, %norm1)\n"
    "  %q1 = linear(%in, %wq)  %q2 = reshape(%q1) {shape = [T,4,8]}\n"
    "  %k1 = linear(%in, %wk)  %k2 = reshape(%k1) {shape = [T,4,8]}\n"
    "  %v1 = linear(%in, %wv)  %v2 = reshape(%v1) {shape = [T,4,8]}\n"
    "  %cos, %sin = rope_table(%positions) {rotary = 8}\n"
    "  %q = rope_apply(%q2, %cos, %sin)  %k = rope_apply(%k2, %cos, %sin)\n"
    "  %keys2, %values2 = kv_append(%k, %v2, %slots, %positions, %keys, %values)\n"
    "  %mix = sdpa(%q, %keys2, %values2, %slots, %positions) {scale = 0.35}\n"
    "  %flat = reshape(%mix) {shape = [T,32]}\n"
    "  %o = linear(%flat, %wo)  %seen = add(%x, %o)\n"
    "  %in2 = rms_norm(%seen, %norm2)\n"
    "  %g = linear(%in2, %gate)  %u = linear(%in2, %up)  %m = swiglu(%g, %u)\n"
    "  %d = linear(%m, %down)  %y = add(%seen, %d)\n"
    "  %logits = linear(%y, %head)  %next = argmax(%logits)\n"
    "  output \"next\" = %next }";

static const char *const weights[] = {"table", "norm1", "norm2", "wq",   "wk",  "wv",
                                      "wo",    "gate",  "up",    "down", "head"};
static const size_t counts[] = {2048, 32, 32, 1024, 1024, 1024, 1024, 1536, 1536, 1536, 2048};

/* The model for so many tokens. */
static sl_status compile(const sl_graph *any, int64_t tokens, const sl_compile_options *how,
                         sl_compiled **out, sl_error *err) {
    sl_graph *graph = NULL;
    sl_status status = sl_graph_with_sizes(any, &(sl_symbol_size){"T", tokens}, 1, &graph, err);
    if (status == SL_OK) status = sl_compile(graph, how, out, err);
    sl_graph_destroy(graph);
    return status;
}

static sl_status fill(sl_compiled *compiled, sl_error *err) {
    static float numbers[LARGEST];
    uint32_t seed = 1;
    sl_status status = SL_OK;
    for (size_t w = 0; w < sizeof weights / sizeof *weights && status == SL_OK; w++) {
        for (size_t i = 0; i < counts[w]; i++) {
            seed = seed * 1664525u + 1013904223u;
            numbers[i] = counts[w] == 32 ? 1 : (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
        }
        status = sl_compiled_set(compiled, weights[w], numbers, counts[w] * sizeof *numbers, err);
    }
    return status;
}

/* Runs tokens[first] and so many more; next gets what follows the last of them. */
static sl_status run(sl_compiled *compiled, const int32_t *tokens, int first, int count,
                     int32_t *next, sl_error *err) {
    const size_t bytes = (size_t)count * sizeof *tokens;
    int32_t slots[ALL] = {0}, positions[ALL];
    for (int i = 0; i < count; i++) positions[i] = first + i;
    sl_status status = sl_compiled_set(compiled, "ids", tokens + first, bytes, err);
    if (status == SL_OK) status = sl_compiled_set(compiled, "slots", slots, bytes, err);
    if (status == SL_OK) status = sl_compiled_set(compiled, "positions", positions, bytes, err);
    if (status == SL_OK) status = sl_compiled_start(compiled, err);
    if (status == SL_OK) status = sl_compiled_finish(compiled, err); /* after other work */
    if (status != SL_OK) return status;
    return sl_compiled_get_at(compiled, "next", bytes - sizeof *next, next, sizeof *next, err);
}

int main(int count, char **words) {
    int32_t tokens[ALL + 1] = {3, 14, 15, 9, 26}, again = 0, differ = 0;
    sl_error err = {0};
    sl_graph *any = NULL;
    sl_executor *executor = NULL;
    sl_compiled *prefill = NULL, *decode = NULL, *full = NULL;
    const sl_executor_options on = {.struct_size = sizeof on,
                                    .device = count > 1 ? words[1] : NULL};
    sl_compile_options how = {.struct_size = sizeof how};
    sl_status status = sl_graph_read(model, sizeof model - 1, &any, &err);
    if (status == SL_OK) status = sl_executor_create(&on, &executor, &err);
    how.executor = executor;
    if (status == SL_OK) status = compile(any, PROMPT, &how, &prefill, &err);
    if (status == SL_OK) status = compile(any, ALL, &how, &full, &err);
    how.share = prefill; /* full has weights and a KV cache of its own */
    if (status == SL_OK) status = compile(any, 1, &how, &decode, &err);
    if (status == SL_OK) status = fill(prefill, &err);
    if (status == SL_OK) status = fill(full, &err);
    if (status == SL_OK) status = run(prefill, tokens, 0, PROMPT, &tokens[PROMPT], &err);
    for (int at = PROMPT; at < ALL && status == SL_OK; at++)
        status = run(decode, tokens, at, 1, &tokens[at + 1], &err);
    if (status == SL_OK) status = run(full, tokens, 0, ALL, &again, &err);
    for (int at = 0; at <= ALL && status == SL_OK; at++) {
        const size_t before = (size_t)(at - 1) * sizeof again;
        if (at >= PROMPT)
            status = sl_compiled_get_at(full, "next", before, &again, sizeof again, &err);
        differ += at >= PROMPT && again != tokens[at];
        (void)printf("%d%s", tokens[at], at == PROMPT - 1 ? " | " : at == ALL ? "\n" : " ");
    }
    if (status != SL_OK)
        (void)fprintf(stderr, "%s\n", err.message);
    else
        (void)printf("prefill with decode and one full pass %s\n", differ ? "differ" : "agree");
    sl_compiled_destroy(prefill);
    sl_compiled_destroy(decode);
    sl_compiled_destroy(full);
    sl_executor_destroy(executor);
    sl_graph_destroy(any);
    return status != SL_OK || differ;
}
