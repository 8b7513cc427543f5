/* ragged_test.c [COUNT [SEED]] - Every kernel of every instruction set against the evaluator, on
 * COUNT (200) cases with random shapes: at and next to multiples of vector widths, and ones.
 *
 * Case n depends only on SEED + n; if it fails, the last line says how to run it alone. */
#include "core/kv.h"
#include "tests/support/memory_source.h"
#include "tests/support/op_case.h"

static int64_t between(int64_t low, int64_t high) {
    return low + (int64_t)(next() % (uint32_t)(high - low + 1));
}
/* 1 to most: often one less or more than a multiple of a power of two. */
static int64_t ragged(int64_t most) {
    if (next() % 4 == 0) return between(1, most);
    const int64_t unit = (int64_t)1 << next() % 7, size = unit * between(0, 5) + between(-1, 1);
    return size < 1 ? 1 : size > most ? between(1, most) : size;
}
/* Enough rows for `width` that their mean norm is representative: where a sum may nearly cancel,
 * only the norm of several elements shows how large an error is. */
static int64_t rows_for(int64_t width, int64_t most) {
    const int64_t least = (31 + width) / width;
    return least < most ? between(least, most) : least;
}
static sl_dtype weight_type(void) {
    return weight_types[next() % WEIGHT_TYPES];
}
/* Weights that are not panels have the alignment of a file. */
static void weight(op_case *c, int64_t rows, int64_t cols) {
    const sl_dtype dtype = weight_type();
    if (sl_dtype_infos[dtype].kind != SL_KIND_PANEL)
        c->misalign[c->inputs] = sl_dtype_infos[dtype].bytes * (uint32_t)between(0, 5);
    input(c, sl_type_make(dtype, 2, rows, cols), -1, 1);
}
static sl_type ragged_type(sl_dtype dtype, uint32_t rank) {
    static const int64_t most[] = {0, 3000, 130, 24, 11};
    sl_type type = {.dtype = dtype, .shape.rank = rank};
    for (uint32_t d = 0; d < rank; d++) type.shape.dims[d] = ragged(most[rank]);
    return type;
}

/* ---- elementwise ---- */

/* A shape that broadcasts to the whole: leading dims omitted, others 1. */
static sl_type part_of(const sl_type *whole) {
    const uint32_t left_out = next() % 3 ? 0 : (uint32_t)between(0, whole->shape.rank);
    sl_type part = {.dtype = whole->dtype, .shape.rank = whole->shape.rank - left_out};
    for (uint32_t d = 0; d < part.shape.rank; d++)
        part.shape.dims[d] = next() % 4 ? whole->shape.dims[d + left_out] : 1;
    return part;
}
static void binary(void) {
    static const sl_op ops[] = {SL_OP_add,     SL_OP_sub,     SL_OP_mul,
                                SL_OP_maximum, SL_OP_minimum, SL_OP_div};
    const sl_op op = ops[next() % 6];
    const bool integer = op != SL_OP_div && next() % 4 == 0;
    const sl_type type = ragged_type(integer ? SL_DTYPE_i32 : SL_DTYPE_f32, next() % 5);
    const double limit = integer ? 100000 : 4;
    op_case c = case_of(op, NULL, 1e-7);
    input(&c, part_of(&type), -limit, limit), input(&c, part_of(&type), -limit, limit);
    check(&c);
}
static void unary(void) {
    static const struct {
        sl_op op;
        double low, high, tolerance;
    } rows[] = {
        {SL_OP_neg, -4, 4, 0},          {SL_OP_abs, -4, 4, 0},
        {SL_OP_relu, -4, 4, 0},         {SL_OP_exp, -80, 80, 1.2e-7},
        {SL_OP_log, 1e-3, 1e3, 1.2e-7}, {SL_OP_sqrt, 0, 1e3, 1e-7},
        {SL_OP_rsqrt, 1e-3, 1e3, 2e-7}, {SL_OP_tanh, -4, 4, 2e-7},
        {SL_OP_sigmoid, -80, 80, 3e-7}, {SL_OP_silu, -80, 80, 3e-7},
        {SL_OP_gelu, -5, 5, 5e-7},
    };
    const size_t row = next() % (sizeof rows / sizeof rows[0]);
    op_case c = case_of(rows[row].op, NULL, rows[row].tolerance);
    input(&c, ragged_type(SL_DTYPE_f32, next() % 5), rows[row].low, rows[row].high);
    check(&c);
}
static void gated(void) {
    const sl_type type = ragged_type(SL_DTYPE_f32, (uint32_t)between(1, 3));
    op_case c = case_of(next() % 2 ? SL_OP_swiglu : SL_OP_sigmoid_gate, NULL, 1e-6);
    input(&c, type, -9, 9), input(&c, type, -9, 9);
    check(&c);
}

/* ---- contraction, reduction, movement ---- */

static void matmul(void) {
    const int64_t n = ragged(150), m = rows_for(n, 20), k = ragged(90);
    const int64_t outer = between(1, 2), inner = between(1, 3);
    op_case c = case_of(SL_OP_matmul, NULL, 1e-6);
    c.by_tensor = true;
    floats(&c, f32(4, outer, next() % 2 ? 1 : inner, m, k)), floats(&c, f32(3, inner, k, n, 0));
    check(&c);
}
static void reduce(void) {
    static const sl_op ops[] = {SL_OP_reduce_sum, SL_OP_reduce_mean, SL_OP_reduce_max};
    sl_reduce_sum_attrs attrs = {.keep = next() % 2};
    const uint32_t rank = (uint32_t)between(1, 4), chosen = (uint32_t)between(1, (1 << rank) - 1);
    for (uint32_t d = 0; d < rank; d++)
        if (chosen >> d & 1) attrs.axes.dims[attrs.axes.rank++] = d;
    op_case c = case_of(ops[next() % 3], &attrs, 1e-6);
    input(&c, ragged_type(SL_DTYPE_f32, rank), 0.1, 2);
    check(&c);
}
static void last_axis(void) {
    const bool softmax = next() % 2;
    const sl_softmax_attrs last = {.axis = -1};
    const sl_argmax_attrs best = {.axis = -1};
    op_case c = softmax ? case_of(SL_OP_softmax, &last, 1e-6) : case_of(SL_OP_argmax, &best, 0);
    input(&c, ragged_type(SL_DTYPE_f32, (uint32_t)between(1, 4)), -20, 20);
    check(&c);
}
static void movement(void) {
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_bf16, SL_DTYPE_u8};
    const uint32_t rank = (uint32_t)between(1, 4), axis = next() % rank;
    const sl_type x = ragged_type(types[next() % 3], rank);
    const int64_t size = x.shape.dims[axis], start = between(0, size - 1);
    sl_transpose_attrs transpose = {.perm.rank = rank};
    for (uint32_t d = 0; d < rank; d++) transpose.perm.dims[d] = (d + axis) % rank;
    const sl_slice_attrs slice = {
        .axis = axis, .start = (uint32_t)start, .length = (uint32_t)between(1, size - start)};
    const sl_concat_attrs concat = {.axis = axis};
    const sl_gather_attrs gather = {.axis = axis};
    const struct {
        sl_op op;
        const void *attrs;
    } ops[] = {{SL_OP_transpose, &transpose},
               {SL_OP_slice, &slice},
               {SL_OP_concat, &concat},
               {SL_OP_gather, &gather}};
    const int which = (int)(next() % 4);
    op_case c = case_of(ops[which].op, ops[which].attrs, 0);
    input(&c, x, 0, 100);
    sl_type other = x;
    other.shape.dims[axis] = ragged(20);
    if (which == 2) input(&c, other, 0, 100);
    if (which == 3) input(&c, i32(ragged(20)), 0, (double)size);
    check(&c);
}
static void halves(void) {
    const int64_t half = ragged(150);
    const sl_split_attrs attrs = {.axis = -1, .sizes = {2, (int64_t[]){half, half}}};
    op_case c = case_of(SL_OP_split, &attrs, 0);
    c.outs = 2;
    floats(&c, f32(3, ragged(9), ragged(5), 2 * half, 0));
    check(&c);
}

/* ---- weights ---- */

static void linear(void) {
    const int64_t rows = ragged(150), cols = ragged(600);
    op_case c = case_of(SL_OP_linear, NULL, 2e-6);
    c.by_tensor = true;
    const sl_type w = sl_type_make(weight_type(), 2, rows, cols);
    const bool coded = sl_dtype_infos[w.dtype].kind == SL_KIND_PANEL && next() % 2;
    floats(&c, sl_type_make(coded ? SL_DTYPE_a8 : SL_DTYPE_f32, 2, rows_for(rows, 20), cols));
    input(&c, w, -1, 1);
    check(&c);
}
static void linear_heads(void) {
    const int64_t heads = between(1, 5), rows = ragged(80), cols = ragged(300);
    op_case c = case_of(SL_OP_linear_heads, NULL, 2e-6);
    c.by_tensor = true;
    floats(&c, f32(3, rows_for(rows * heads, 12), heads, cols, 0));
    input(&c, sl_type_make(weight_type(), 3, heads, rows, cols), -1, 1);
    check(&c);
}
static void embed(void) {
    const int64_t rows = ragged(70);
    op_case c = case_of(SL_OP_embed, NULL, 0);
    weight(&c, rows, ragged(300));
    input(&c, i32(ragged(20)), 0, (double)rows);
    check(&c);
}

/* ---- norms and attention ---- */

static void norm(void) {
    const int64_t width = ragged(700);
    const sl_type x = f32(3, ragged(7), ragged(5), width, 0), gain = f32(1, width, 0, 0, 0);
    const sl_rms_norm_attrs rms = {.eps = 1e-6f, .offset = (float)(next() % 2)};
    const sl_gated_rms_norm_attrs gated_rms = {.eps = 1e-6f};
    const sl_l2_norm_attrs l2 = {.eps = 1e-6f, .scale = 0.125f};
    const uint32_t which = next() % 3;
    op_case c = which == 0   ? case_of(SL_OP_rms_norm, &rms, 1e-6)
                : which == 1 ? case_of(SL_OP_gated_rms_norm, &gated_rms, 1e-6)
                             : case_of(SL_OP_l2_norm, &l2, 1e-6);
    floats(&c, x);
    if (which == 1) floats(&c, x);
    if (which < 2) floats(&c, gain);
    check(&c);
}
static void rope(void) {
    const int64_t rows = ragged(20), width = 2 * ragged(80), rotary = 2 * between(1, width / 2);
    const sl_rope_table_attrs attrs = {.rotary = (uint32_t)rotary, .theta = 1e7f};
    op_case table = case_of(SL_OP_rope_table, &attrs, 1e-7);
    input(&table, i32(rows), 0, 250000);
    check(&table);
    const sl_rope_apply_attrs turn = {.interleaved = next() % 2};
    op_case c = case_of(SL_OP_rope_apply, &turn, 3e-7);
    floats(&c, f32(3, rows, ragged(5), width, 0));
    for (int i = 0; i < 2; i++) floats(&c, f32(3, rows, 1, rotary / 2, 0));
    check(&c);
}

/* Rows of two slots out of three; each starts at a position below `limit`. */
static void add_slots(op_case *c, int64_t rows, int64_t limit) {
    int32_t *slots = input(c, i32(rows), 0, 1), *positions = input(c, i32(rows), 0, 1);
    const int64_t split = between(0, rows), other = between(0, 1);
    const int64_t first = between(0, limit - split), second = between(0, limit - rows + split);
    for (int64_t t = 0; t < rows; t++) {
        slots[t] = (int32_t)(t < split ? 2 : other);
        positions[t] = (int32_t)(t < split ? first + t : second + t - split);
    }
}
static void attention(void) {
    const int64_t width = ragged(140), heads = between(1, 3), group = between(1, 4);
    const int64_t rows = rows_for(width * heads, 20), capacity = rows + between(0, 60);
    const sl_kv_shape cache = {cache_types[next() % CACHE_TYPES], 3, heads, capacity, width};
    const bool coded = cache.dtype == SL_DTYPE_k16;
    const sl_type row = f32(3, rows, heads, width, 0);
    const sl_sdpa_attrs attrs = {.scale = 0.7f};
    const bool append = next() % 3 == 0;
    /* The error of a score grows with the width; it is a relative error of the softmax weight. */
    const double tolerance =
        2e-6 + (double)width * 0x1p-24 + (coded ? coded_tolerance(width, 0.7) : 0);
    op_case c = append ? case_of(SL_OP_kv_append, NULL, coded ? 1e-6 : 0)
                       : case_of(SL_OP_sdpa, &attrs, tolerance);
    c.by_tensor = true;
    if (append) {
        floats(&c, row), floats(&c, row), add_slots(&c, rows, capacity);
        floats(&c, sl_kv_keys(cache)), floats(&c, sl_kv_values(cache));
    } else {
        floats(&c, f32(3, rows, heads * group, width, 0));
        floats(&c, sl_kv_keys(cache)), floats(&c, sl_kv_values(cache));
        add_slots(&c, rows, capacity);
    }
    check(&c);
}

/* ---- delta net ---- */

static void conv(void) {
    const int64_t channels = ragged(300), rows = rows_for(channels, 20), taps = between(2, 6);
    op_case c = case_of(SL_OP_causal_conv, NULL, 1e-6);
    c.by_tensor = true;
    floats(&c, f32(2, rows, channels, 0, 0)), floats(&c, f32(2, channels, taps, 0, 0));
    add_slots(&c, rows, rows + 9);
    floats(&c, f32(3, 3, taps - 1, channels, 0));
    check(&c);
}
static void decay(void) {
    const int64_t heads = ragged(40);
    const sl_type x = f32(2, rows_for(heads, 20), heads, 0, 0), head = f32(1, heads, 0, 0, 0);
    op_case c = case_of(SL_OP_decay_beta, NULL, 1e-6);
    c.by_tensor = true;
    input(&c, x, -20, 20), input(&c, x, -20, 20), floats(&c, head), floats(&c, head);
    check(&c);
}
static void delta(void) {
    const int64_t rows = ragged(50), keys = between(1, 3), values = keys * between(1, 3);
    const int64_t dk = ragged(40), dv = ragged(60);
    const sl_delta_chunk_attrs attrs = {.chunk = (uint32_t)between(1, 64), .tiled = next() % 2};
    const sl_delta_step_attrs step = {.tiled = attrs.tiled};
    op_case c = case_of(SL_OP_delta_chunk, &attrs, 5e-6);
    if (next() % 2) c = case_of(SL_OP_delta_step, &step, 5e-6);
    c.by_tensor = true;
    floats(&c, f32(3, rows, keys, dk, 0));
    float *k = floats(&c, f32(3, rows, keys, dk, 0));
    for (int64_t i = 0; i < rows * keys * dk; i++) k[i] /= sqrtf((float)dk);
    floats(&c, f32(3, rows, values, dv, 0));
    input(&c, f32(2, rows, values, 0, 0), -1, 0), input(&c, f32(2, rows, values, 0, 0), 0, 1);
    add_slots(&c, rows, rows + 9);
    floats(&c, f32(4, 3, values, dk, dv));
    check(&c);
}

/* ---- experts ---- */

static void route(void) {
    const int64_t experts = ragged(300);
    const sl_route_attrs attrs = {.k = (uint32_t)between(1, experts < 12 ? experts : 12),
                                  .normalise = next() % 2};
    op_case c = case_of(SL_OP_route, &attrs, 1e-6);
    input(&c, f32(2, ragged(20), experts, 0, 0), -5, 5);
    check(&c);
}
static void combine(void) {
    const int64_t width = ragged(300), rows = rows_for(width, 20), k = between(1, 9);
    const bool shared = next() % 2;
    op_case c = case_of(shared ? SL_OP_shared_combine : SL_OP_moe_combine, NULL, 1e-6);
    c.by_tensor = true;
    if (shared) {
        floats(&c, f32(2, rows, width, 0, 0)), floats(&c, f32(2, rows, width, 0, 0));
        floats(&c, f32(2, rows, 1, 0, 0));
    } else
        floats(&c, f32(3, rows, k, width, 0)), floats(&c, f32(2, rows, k, 0, 0));
    check(&c);
}
static void experts(void) {
    enum { EXPERTS = 5 };
    const int64_t hidden = ragged(130), width = ragged(130), rows = rows_for(hidden, 40);
    const sl_moe_ffn_attrs attrs = {.layer = 3, .k = (uint32_t)between(1, EXPERTS)};
    const int32_t pairs = (int32_t)(rows * attrs.k);
    const sl_type matrices = sl_type_make(weight_type(), 3, (int64_t)EXPERTS, width, hidden);
    memory_source source;
    memory_source_init(&source, &matrices);
    /* 2e-6 for each of the three products, the rest for swiglu. */
    op_case c = case_of(SL_OP_moe_ffn, &attrs, 7e-6);
    c.by_tensor = true;
    floats(&c, f32(2, rows, hidden, 0, 0));
    int32_t *order = input(&c, i32(pairs), 0, 1), *starts = input(&c, i32(EXPERTS + 1), 0, 1);
    for (int32_t i = 0; i < pairs; i++) order[i] = pairs - 1 - i;
    for (int e = 1; e < EXPERTS; e++) starts[e] = (int32_t)between(starts[e - 1], pairs);
    starts[EXPERTS] = pairs;
    for (int32_t e = 0; e < EXPERTS; e++)
        if (starts[e] < starts[e + 1]) source.used[source.used_count++] = e;
    c.types[c.inputs++] = matrices;
    c.source = &source.base;
    c.prepare = memory_source_request_used;
    check(&c);
    assert_int_equal(source.held, 0);
    memory_source_deinit(&source);
}

static void group(void) {
    const sl_moe_group_attrs attrs = {.layer = 3};
    const int64_t experts_count = between(1, MAX_EXPERTS);
    const sl_type matrices = sl_type_make(weight_type(), 3, experts_count, ragged(9), ragged(9));
    memory_source source;
    memory_source_init(&source, &matrices);
    op_case c = case_of(SL_OP_moe_group, &attrs, 0);
    input(&c, sl_type_make(SL_DTYPE_i32, 2, ragged(60), ragged(9)), 0, (double)experts_count);
    c.types[c.inputs++] = matrices;
    c.source = &source.base;
    check(&c);
    memory_source_deinit(&source);
}

/* ---- the cases ---- */

static void (*const kinds[])(void) = {
    binary,    unary,  gated, matmul,       reduce, last_axis, movement,
    halves,    linear, embed, linear_heads, norm,   rope,      conv,
    attention, decay,  delta, route,        group,  combine,   experts,
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static uint64_t first_seed = 1, count = 200, current;

static void test_ragged(void **state) {
    (void)state;
    for (current = first_seed; current < first_seed + count; current++) {
        seed = (current + 1) * 0x9e3779b97f4a7c15;
        /* Neighbouring seeds start with similar numbers. */
        for (int i = 0; i < 8; i++) (void)next();
        kinds[current % KINDS]();
    }
}

int main(int argc, char **argv) {
    if (argc > 1) count = strtoull(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ragged)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed) print_message("to repeat it: %s 1 %llu\n", argv[0], (unsigned long long)current);
    return failed;
}
