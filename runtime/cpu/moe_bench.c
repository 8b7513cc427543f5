/* moe_bench.c - Speed of `moe_ffn` on one core: 8 of 128 experts with the dimensions of a large
 * model, all in memory, for one token and for many.
 *
 *   moe_bench [isa]     default: every instruction set */
#include "runtime/cpu/bench_support.h"

enum { EXPERTS = 128, USED = 8, HIDDEN = 2048, WIDTH = 512, MOST_TOKENS = 512 };
static const sl_dtype types[] = {SL_DTYPE_q4, SL_DTYPE_q8, SL_DTYPE_bf16};

/* An expert source that returns the experts that have pairs, in order. */
typedef struct {
    sl_expert_source source;
    const int32_t *starts;
    const uint8_t *block;
    sl_type gate, down;
    uint64_t first, copies; /* position of expert 0 in the block, in experts */
    int32_t next;
} all_in_memory;

static uint64_t matrix_bytes(const sl_type *type) {
    return (sl_type_bytes(type) + 63) / 64 * 64;
}
static uint64_t expert_bytes(const all_in_memory *s) {
    return 2 * matrix_bytes(&s->gate) + matrix_bytes(&s->down);
}

static sl_status take(sl_expert_source *source, sl_layer_id layer, sl_expert_lease *out,
                      sl_error *err) {
    all_in_memory *s = (all_in_memory *)(void *)source;
    (void)layer;
    (void)err;
    while (s->next < EXPERTS && s->starts[s->next] == s->starts[s->next + 1]) s->next++;
    *out = (sl_expert_lease){.expert = s->next < EXPERTS ? s->next : -1};
    if (out->expert < 0) return SL_OK;
    const uint8_t *at = s->block + (s->first + (uint64_t)s->next) % s->copies * expert_bytes(s);
    out->gate = (sl_cview){at, s->gate};
    out->up = (sl_cview){at + matrix_bytes(&s->gate), s->gate};
    out->down = (sl_cview){at + 2 * matrix_bytes(&s->gate), s->down};
    s->next++;
    return SL_OK;
}

static void release(sl_expert_source *source, const sl_expert_lease *lease) {
    (void)source;
    (void)lease;
}

/* Different experts for each call, so that a single token finds none in a cache. */
static void start_over(void *ctx, uint64_t call) {
    all_in_memory *s = ctx;
    s->next = 0;
    s->first = call * EXPERTS;
}

/* Each token uses USED different experts, spread over all; returns how many are in use. */
static int64_t choose(int64_t tokens, int32_t *order, int32_t *starts) {
    int32_t at = 0;
    int64_t used = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
        starts[e] = at;
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t j = 0; j < USED; j++)
                if ((t * 37 + j * 13 + t * t * 5) % EXPERTS == e)
                    order[at++] = (int32_t)(t * USED + j);
        used += at > starts[e];
    }
    starts[EXPERTS] = at;
    return used;
}

static void bench_moe(const sl_kernel_set *set, const uint8_t *block, sl_dtype dtype,
                      int64_t tokens, const bench_floors *floors) {
    static int32_t order[MOST_TOKENS * USED], starts[EXPERTS + 1];
    const int64_t used = choose(tokens, order, starts);
    all_in_memory s = {.source = {.take = take, .release = release},
                       .starts = starts,
                       .block = block,
                       .gate = sl_type_make(dtype, 2, (int64_t)WIDTH, (int64_t)HIDDEN),
                       .down = sl_type_make(dtype, 2, (int64_t)HIDDEN, (int64_t)WIDTH)};
    s.copies = BENCH_BLOCK_BYTES / expert_bytes(&s);
    const bool coded = sl_dtype_infos[dtype].kind == SL_KIND_PANEL;
    void *x = coded ? bench_rows(tokens, HIDDEN) : bench_floats(tokens * HIDDEN);
    float *out = bench_room((size_t)(tokens * USED * HIDDEN) * sizeof(float));
    const sl_moe_ffn_args args = {
        .attrs = {.layer = 0, .k = USED},
        .x = {x, sl_type_make(coded ? SL_DTYPE_a8 : SL_DTYPE_f32, 2, tokens, (int64_t)HIDDEN)},
        .order = {order, sl_type_make(SL_DTYPE_i32, 1, tokens * USED)},
        .starts = {starts, sl_type_make(SL_DTYPE_i32, 1, (int64_t)EXPERTS + 1)},
        .experts = {&s.source,
                    sl_type_make(dtype, 3, (int64_t)EXPERTS, (int64_t)WIDTH, (int64_t)HIDDEN)},
        .out = {out, sl_type_make(SL_DTYPE_f32, 3, tokens, (int64_t)USED, (int64_t)HIDDEN)},
    };
    const sl_type inputs[4] = {args.x.type, args.order.type, args.starts.type, args.experts.type};
    const sl_kernel *kernel = sl_cpu_kernel_find(set, SL_OP_moe_ffn, inputs);
    const bench_work work = {.isa = set->isa,
                             .name = "moe_ffn",
                             .type = sl_dtype_infos[dtype].name,
                             .tokens = tokens,
                             .int8 = coded,
                             .bytes = (double)(expert_bytes(&s) * (uint64_t)used),
                             .operations = 6.0 * (double)(tokens * USED) * HIDDEN * WIDTH};
    if (kernel) bench_line(&work, bench_call(kernel, &args, start_over, &s), floors);
    free(x);
    free(out);
}

int main(int argc, char **argv) {
    const uint8_t *block = bench_block();
    for (size_t i = 0; i < BENCH_ISAS; i++) {
        const sl_kernel_set *set = sl_cpu_kernel_set(bench_isas[i]);
        if (!set || (argc > 1 && strcmp(argv[1], bench_isas[i]) != 0)) continue;
        const bench_floors floors = bench_measure(set, block);
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            bench_moe(set, block, types[t], 1, &floors);
            bench_moe(set, block, types[t], MOST_TOKENS, &floors);
        }
    }
    return 0;
}
