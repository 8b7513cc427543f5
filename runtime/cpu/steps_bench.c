/* steps_bench.c - Cost of the steps of a Qwen3.5-35B-A3B token that are neither products with
 * weights nor attention, on one core: time, bytes and operations of each kernel for one token and
 * for 512, and how close it comes to its floor, the longer of the times to move the bytes and to
 * compute the operations, both measured in the same run.
 *
 *   steps_bench [isa [op]]     default: the best instruction set and every op */
#include "base/clock.h"
#include "compiler/ops/semantics.h"
#include "runtime/cpu/bench_support.h"
#include "sluice/inspect.h"

enum {
    HIDDEN = 2048,
    CHANNELS = 8192,
    TAPS = 4,
    KEY_HEADS = 16,
    VALUE_HEADS = 32,
    HEAD = 128,
    EXPERTS = 256,
    CHOSEN = 8,
    VOCAB = 248320,
    CHUNK = 64,
    SLOTS = 64, /* slots of state: larger than a cache, like the layers of the model together */
};

typedef struct {
    sl_op op;
    union {
        float floats[4];
        uint32_t numbers[4];
    } attrs;
    sl_type types[SL_MAX_INPUTS + SL_MAX_OUTPUTS];
    uint32_t inputs;
    double bytes, operations; /* bytes read and written; an FMA is two operations */
} step_case;

static sl_type f32_of(int64_t a, int64_t b, int64_t c) {
    return c ? sl_type_make(SL_DTYPE_f32, 3, a, b, c) : sl_type_make(SL_DTYPE_f32, 2, a, b);
}
static sl_type vector_of(sl_dtype dtype, int64_t n) {
    return sl_type_make(dtype, 1, n);
}

/* ---- the cases ---- */

static step_case simple(sl_op op, sl_type x, double operations_each) {
    step_case c = {.op = op, .types = {x}, .inputs = 1};
    c.operations = operations_each * (double)sl_type_elements(&x);
    return c;
}
static void also(step_case *c, sl_type type) {
    c->types[c->inputs++] = type;
}

static step_case norm_case(sl_op op, sl_type x, uint32_t like_x, bool gain) {
    step_case c = simple(op, x, 4);
    for (uint32_t i = 0; i < like_x; i++) also(&c, x);
    if (gain) also(&c, vector_of(SL_DTYPE_f32, x.shape.dims[x.shape.rank - 1]));
    c.attrs.floats[0] = 1e-6f;
    c.attrs.floats[1] = 1;
    return c;
}

static step_case conv_case(int64_t tokens) {
    step_case c = simple(SL_OP_causal_conv, f32_of(tokens, CHANNELS, 0), 2 * TAPS + 20);
    also(&c, f32_of(CHANNELS, TAPS, 0));
    also(&c, vector_of(SL_DTYPE_i32, tokens));
    also(&c, vector_of(SL_DTYPE_i32, tokens));
    also(&c, f32_of(1, TAPS - 1, CHANNELS));
    return c;
}

static step_case decay_case(int64_t tokens) {
    step_case c = simple(SL_OP_decay_beta, f32_of(tokens, VALUE_HEADS, 0), 80);
    also(&c, c.types[0]);
    also(&c, vector_of(SL_DTYPE_f32, VALUE_HEADS));
    also(&c, vector_of(SL_DTYPE_f32, VALUE_HEADS));
    return c;
}

static double delta_operations(int64_t tokens) {
    const double n = CHUNK, d = HEAD, chunks = (double)tokens / CHUNK;
    if (tokens == 1) return 7.0 * d * d * VALUE_HEADS;
    const double triangles = n * (n + 1) / 2;
    const double of_key = 2 * 2 * triangles * d; /* k k^T and q k^T */
    const double of_value =
        3 * 2 * n * d * d + 2 * 2 * triangles * d; /* M k, M q, update; mixing */
    return chunks * (of_key * KEY_HEADS + of_value * VALUE_HEADS);
}

static step_case delta_case(int64_t tokens) {
    const bool one = tokens == 1;
    step_case c =
        simple(one ? SL_OP_delta_step : SL_OP_delta_chunk, f32_of(tokens, KEY_HEADS, HEAD), 0);
    also(&c, c.types[0]);
    also(&c, f32_of(tokens, VALUE_HEADS, HEAD));
    also(&c, f32_of(tokens, VALUE_HEADS, 0));
    also(&c, f32_of(tokens, VALUE_HEADS, 0));
    also(&c, vector_of(SL_DTYPE_i32, tokens));
    also(&c, vector_of(SL_DTYPE_i32, tokens));
    also(&c, sl_type_make(SL_DTYPE_f32, 4, (int64_t)SLOTS, (int64_t)VALUE_HEADS, (int64_t)HEAD,
                          (int64_t)HEAD));
    c.attrs.numbers[0] = CHUNK;
    c.operations = delta_operations(tokens);
    c.bytes = 2.0 * VALUE_HEADS * HEAD * HEAD * sizeof(float) +
              (double)tokens * (2 * KEY_HEADS + 2 * VALUE_HEADS) * HEAD * sizeof(float);
    return c;
}

static step_case route_case(int64_t tokens) {
    step_case c = simple(SL_OP_route, f32_of(tokens, EXPERTS, 0), 24);
    c.attrs.numbers[0] = CHOSEN;
    c.attrs.numbers[1] = 1;
    return c;
}

static step_case embed_case(sl_dtype dtype, int64_t tokens) {
    const int64_t rows = dtype == SL_DTYPE_f32 ? VOCAB / 16 : VOCAB;
    step_case c = simple(SL_OP_embed, sl_type_make(dtype, 2, rows, (int64_t)HIDDEN), 0);
    also(&c, vector_of(SL_DTYPE_i32, tokens));
    const double row_bytes = (double)sl_type_bytes(&c.types[0]) / (double)rows;
    c.bytes = (double)tokens * (row_bytes + HIDDEN * sizeof(float));
    c.operations = (double)tokens * HIDDEN * 2;
    return c;
}

static step_case join_case(int64_t tokens) {
    step_case c = simple(SL_OP_moe_join, f32_of(tokens, CHOSEN, HIDDEN), 2);
    also(&c, f32_of(tokens, CHOSEN, 0));
    also(&c, f32_of(tokens, HIDDEN, 0));
    also(&c, f32_of(tokens, 1, 0));
    also(&c, f32_of(tokens, HIDDEN, 0));
    return c;
}

static uint32_t all_cases(int64_t tokens, step_case *out) {
    uint32_t n = 0;
    const sl_type keys = f32_of(tokens, KEY_HEADS, HEAD),
                  values = f32_of(tokens, VALUE_HEADS, HEAD);
    const sl_type hidden = f32_of(tokens, HIDDEN, 0);
    out[n++] = delta_case(tokens);
    out[n++] = conv_case(tokens);
    out[n++] = decay_case(tokens);
    out[n++] = norm_case(SL_OP_l2_norm, keys, 0, false);
    out[n++] = norm_case(SL_OP_gated_rms_norm, values, 1, true);
    out[n++] = norm_case(SL_OP_rms_norm, hidden, 0, true);
    out[n++] = norm_case(SL_OP_add_rms_norm, hidden, 1, true);
    out[n++] = route_case(tokens);
    out[n++] = join_case(tokens);
    static const sl_dtype tables[] = {SL_DTYPE_f32, SL_DTYPE_bf16, SL_DTYPE_q8, SL_DTYPE_q4};
    for (int i = 0; i < 4; i++) out[n++] = embed_case(tables[i], tokens);
    static const sl_op unary[] = {SL_OP_exp,  SL_OP_log,  SL_OP_tanh,
                                  SL_OP_silu, SL_OP_gelu, SL_OP_softmax};
    for (int i = 0; i < 6; i++) out[n++] = simple(unary[i], hidden, i < 4 ? 20 : 30);
    return n;
}

/* ---- running the cases ---- */

static uint32_t random_state = 12345;
static float random_float(void) {
    random_state = random_state * 1664525 + 1013904223;
    return (float)(random_state >> 8) * 0x1p-24f;
}

/* Small numbers of both signs, except for logarithms, rates and decays; keys have norm 1. */
static void fill(const step_case *c, uint32_t operand, void *data) {
    const sl_type *type = &c->types[operand];
    const int64_t count = sl_type_elements(type);
    const bool delta = c->op == SL_OP_delta_step || c->op == SL_OP_delta_chunk;
    float scale = 1, offset = delta && operand == 4 ? 0 : c->op == SL_OP_log ? 0.01f : -0.5f;
    if (delta && operand == 1) scale = 0.15f, offset = -0.075f;
    if (type->dtype == SL_DTYPE_f32)
        for (int64_t i = 0; i < count; i++) ((float *)data)[i] = random_float() * scale + offset;
    else if (type->dtype == SL_DTYPE_i32)
        for (int64_t i = 0; i < count; i++)
            ((int32_t *)data)[i] = c->op == SL_OP_embed ? (int32_t)(i * 7919 % (VOCAB / 16)) : 0;
    else
        memset(data, 0x11, sl_type_bytes(type));
}

/* The argument struct of an op: the views of its operands, then its attributes. */
typedef struct {
    sl_view views[SL_MAX_INPUTS + SL_MAX_OUTPUTS];
    uint32_t operands;
    unsigned char args[1024];
} prepared;

static bool prepare(const step_case *c, prepared *p) {
    const sl_op_info *info = sl_op_info_of(c->op);
    sl_type outs[SL_MAX_OUTPUTS];
    sl_error err = {0};
    memset(p, 0, sizeof *p);
    if (sl_infer_plain(c->op, info->name, c->types, &c->attrs, outs, &err) != SL_OK) {
        (void)fprintf(stderr, "%s: %s\n", info->name, err.message);
        return false;
    }
    for (uint32_t i = 0; i < c->inputs; i++) p->views[p->operands++].type = c->types[i];
    for (uint32_t o = 0; o < info->output_count; o++)
        if (info->output_state[o] < 0) p->views[p->operands++].type = outs[o];
    for (uint32_t i = 0; i < p->operands; i++) {
        const size_t bytes = sl_type_bytes(&p->views[i].type);
        p->views[i].data = bench_room(bytes);
        if (i < c->inputs)
            fill(c, i, p->views[i].data);
        else
            memset(p->views[i].data, 1, bytes);
    }
    memcpy(p->args, p->views, p->operands * sizeof p->views[0]);
    memcpy(p->args + p->operands * sizeof p->views[0], &c->attrs, info->attrs_bytes);
    return true;
}

/* Uses another sequence's state in each round, at a position inside its sequence. */
static void move_on(const step_case *c, const prepared *p, uint64_t round) {
    const bool delta = c->op == SL_OP_delta_step || c->op == SL_OP_delta_chunk;
    if (!delta && c->op != SL_OP_causal_conv) return;
    const uint32_t slots = delta ? 5 : 2;
    const int64_t rows = sl_type_elements(&c->types[slots]);
    for (int64_t t = 0; t < rows; t++) {
        ((int32_t *)p->views[slots].data)[t] = delta ? (int32_t)(round % SLOTS) : 0;
        ((int32_t *)p->views[slots + 1].data)[t] = (int32_t)(100 + t);
    }
}

static const double LEAST_SECONDS = 0.15;

/* Number of calls per measurement, so that reading the clock is negligible. */
static uint64_t calls_for(double seconds) {
    return seconds < 2e-5 ? (uint64_t)(2e-5 / (seconds + 1e-8)) + 1 : 1;
}

static double seconds_of(const step_case *c, const prepared *p, const sl_kernel *kernel) {
    const sl_split split = kernel->split(p->args);
    void *scratch = bench_room(split.scratch_bytes);
    sl_error err = {0};
    sl_worker worker = {.scratch = scratch, .err = &err};
    double best = 1e9;
    uint64_t calls = 1;
    const double start = sl_clock_seconds();
    for (uint64_t n = 0; n < 5 || sl_clock_seconds() - start < LEAST_SECONDS; n++) {
        move_on(c, p, n);
        const double begin = bench_clock();
        sl_status status = SL_OK;
        for (uint64_t i = 0; i < calls && status == SL_OK; i++)
            status = kernel->run(p->args, 0, split.items, &worker);
        if (status != SL_OK) {
            (void)fprintf(stderr, "%s\n", err.message);
            break;
        }
        const double seconds = (bench_clock() - begin) / (double)calls;
        if (seconds < best) best = seconds;
        calls = calls_for(best);
    }
    free(scratch);
    return best;
}

/* ---- floors ---- */

enum { BLOCK_BYTES = 256 << 20 };

typedef float line __attribute__((vector_size(64)));

__attribute__((noinline)) static void rewrite(line *block, size_t count) {
    for (size_t i = 0; i < count; i++) block[i] = -block[i];
}

/* Seconds to read half of the bytes and write the other half: at a new place each time if the data
 * fits in no cache, else at the same place. */
static double moving_seconds(line *block, double bytes, bool fresh) {
    const size_t count = (size_t)(bytes / 2 / sizeof(line)) + 1;
    const size_t places = fresh ? BLOCK_BYTES / sizeof(line) / count : 1;
    double best = 1e9;
    uint64_t calls = 1;
    const double start = sl_clock_seconds();
    for (uint64_t n = 0; n < 5 || sl_clock_seconds() - start < LEAST_SECONDS / 3; n++) {
        const double begin = bench_clock();
        for (uint64_t i = 0; i < calls; i++) rewrite(block + n % places * count, count);
        const double seconds = (bench_clock() - begin) / (double)calls;
        if (seconds < best) best = seconds;
        calls = calls_for(best);
    }
    return best;
}

static void bench_case(step_case *c, const sl_kernel_set *set, line *block, double fma_rate) {
    prepared p;
    if (!prepare(c, &p)) return;
    if (c->bytes == 0)
        for (uint32_t i = 0; i < p.operands; i++)
            c->bytes += (double)sl_type_bytes(&p.views[i].type);
    const sl_kernel *kernel = sl_cpu_kernel_find(set, c->op, c->types);
    if (kernel) {
        const double seconds = seconds_of(c, &p, kernel);
        const double moving = moving_seconds(block, c->bytes, c->op == SL_OP_delta_step);
        const double computing = c->operations / fma_rate;
        const double floor = moving > computing ? moving : computing;
        const bool typed = c->op == SL_OP_embed;
        printf(
            "%-15s %-4s %10.2f us  %9.3f MB %8.2f GB/s  %9.3f M ops %7.1f GFLOP/s  %3.0f%% of %s\n",
            sl_op_info_of(c->op)->name, typed ? sl_dtype_infos[c->types[0].dtype].name : "",
            seconds * 1e6, c->bytes * 1e-6, c->bytes / seconds * 1e-9, c->operations * 1e-6,
            c->operations / seconds * 1e-9, 100 * floor / seconds,
            moving > computing ? "moving" : "computing");
    }
    for (uint32_t i = 0; i < p.operands; i++) free(p.views[i].data);
}

int main(int argc, char **argv) {
    const sl_kernel_set *set = sl_cpu_kernel_set(argc > 1 ? argv[1] : NULL);
    line *block = aligned_alloc(64, BLOCK_BYTES);
    sl_floors floors = {.struct_size = sizeof floors};
    sl_error err;
    if (!set || !block || sl_measure_floors(1, &floors, &err) != SL_OK) return 1;
    memset(block, 1, BLOCK_BYTES);
    printf("%s; reading %.1f GB/s, computing %.1f GFLOP/s, one core\n", set->isa,
           floors.read_bytes_per_second[0] * 1e-9, floors.f32_operations_per_second[0] * 1e-9);
    for (int64_t tokens = 1; tokens <= 512; tokens *= 512) {
        step_case cases[32];
        const uint32_t count = all_cases(tokens, cases);
        printf("%lld token%s\n", (long long)tokens, tokens > 1 ? "s" : "");
        for (uint32_t i = 0; i < count; i++)
            if (argc < 3 || strcmp(argv[2], sl_op_info_of(cases[i].op)->name) == 0)
                bench_case(&cases[i], set, block, floors.f32_operations_per_second[0]);
    }
    free(block);
    return 0;
}
