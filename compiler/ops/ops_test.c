/* ops_test.c - Every op against PyTorch (tests/data/ops/fixtures.json), fused ones against explicit
 * formulas (fused.json), and error messages. */
#include "compiler/graph.h"
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include "tests/support/families.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- an expert source in memory, which returns the last requested first ---- */

typedef struct {
    sl_expert_source source; /* must be first */
    sl_type type;            /* [E, I, H] */
    float *gate, *up, *down;
    int32_t wanted[16];
    uint32_t wanted_count, requests, leases;
    sl_layer_id layer;
} memory_source;

static sl_status source_request(sl_expert_source *source, sl_layer_id layer, const int32_t *experts,
                                uint32_t count, sl_error *err) {
    memory_source *m = (memory_source *)source;
    if (count > 16) return sl_fail(err, SL_INVALID, "too many experts");
    for (uint32_t i = 0; i < count; i++) m->wanted[i] = experts[i];
    m->wanted_count = count;
    m->layer = layer;
    m->requests++;
    return SL_OK;
}

static sl_status source_take(sl_expert_source *source, sl_layer_id layer, sl_expert_lease *out,
                             sl_error *err) {
    memory_source *m = (memory_source *)source;
    if (layer.v != m->layer.v) return sl_fail(err, SL_INVALID, "wrong layer %u", layer.v);
    *out = (sl_expert_lease){.expert = -1};
    if (m->wanted_count == 0) return SL_OK;
    const int32_t expert = m->wanted[--m->wanted_count];
    const int64_t width = m->type.shape.dims[1], hidden = m->type.shape.dims[2];
    const int64_t at = expert * width * hidden;
    const sl_type wide = sl_type_make(SL_DTYPE_f32, 2, width, hidden);
    const sl_type tall = sl_type_make(SL_DTYPE_f32, 2, hidden, width);
    *out = (sl_expert_lease){.expert = expert,
                             .gate = {m->gate + at, wide},
                             .up = {m->up + at, wide},
                             .down = {m->down + at, tall}};
    m->leases++;
    return SL_OK;
}

static void source_release(sl_expert_source *source, const sl_expert_lease *lease) {
    assert_true(lease->expert >= 0);
    ((memory_source *)source)->leases--;
}

/* ---- Running an op on tensors ---- */

typedef struct {
    sl_arena arena;
    sl_op op;
    const sl_op_info *info;
    sl_eval_tensor in[SL_MAX_INPUTS], out[SL_MAX_OUTPUTS];
    _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
    memory_source experts;
    sl_graph *owner;              /* owner of the attributes */
    uint32_t in_count, out_count; /* more than the op's own if it has lists */
    sl_error err;
} bench;

static void bench_open(bench *b, const char *op, const char *attrs) {
    memset(b, 0, sizeof *b);
    sl_arena_init(&b->arena, NULL);
    assert_int_equal(sl_graph_create("attributes", NULL, &b->owner, &b->err), SL_OK);
    b->op = sl_op_find(op, strlen(op));
    assert_true(b->op < SL_OP_COUNT);
    b->info = sl_op_info_of(b->op);
    b->in_count = b->info->input_count, b->out_count = b->info->output_count;
    if (sl_attrs_parse(b->op, attrs, strlen(attrs), b->owner, b->attrs, &b->err) != SL_OK)
        fail_msg("%s {%s}: %s", op, attrs, b->err.message);
}

static void bench_close(bench *b) {
    sl_graph_destroy(b->owner);
    sl_arena_deinit(&b->arena);
}

static double *new_doubles(bench *b, int64_t count) {
    double *data = SL_ARENA_NEW_ARRAY(&b->arena, double, count);
    assert_non_null(data);
    return data;
}

/* Infers the results and computes them. */
static sl_status bench_run(bench *b) {
    sl_type in[SL_MAX_INPUTS], out[SL_MAX_OUTPUTS] = {0};
    for (uint32_t i = 0; i < b->in_count; i++) in[i] = b->in[i].type;
    const sl_infer_args types = {b->info->name, in, b->attrs, out, b->in_count, b->out_count};
    SL_TRY(sl_infer(b->op, &types, &b->err));
    for (uint32_t o = 0; o < b->out_count; o++) {
        const int32_t state = sl_output_state(b->info, o);
        b->out[o].type = out[o];
        b->out[o].data = state >= 0 ? b->in[state].data : new_doubles(b, sl_type_elements(&out[o]));
    }
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    const sl_eval_args args = {b->info->name, b->in,       b->attrs,    b->out,
                               &scratch,      b->in_count, b->out_count};
    const sl_status status = sl_eval(b->op, &args, &b->err);
    sl_arena_deinit(&scratch);
    return status;
}

/* A tensor of ones, or of zeros if it holds integers. */
static void set_ones(bench *b, uint32_t input, const char *type_text) {
    sl_type *type = &b->in[input].type;
    const char *bracket = type_text ? strchr(type_text, '[') : NULL;
    if (!bracket) {
        fail_msg("%s: input %u has no type", b->info->name, input);
        return;
    }
    assert_true(sl_dtype_find(type_text, (size_t)(bracket - type_text), &type->dtype));
    type->shape.rank = 0;
    for (const char *p = bracket; *p != ']' && p[1] != ']'; p = strpbrk(p + 1, ",]"))
        type->shape.dims[type->shape.rank++] = strtoll(p + 1, NULL, 10);
    b->in[input].data = new_doubles(b, sl_type_elements(type));
    if (type->dtype == SL_DTYPE_i32) return;
    for (int64_t i = 0; i < sl_type_elements(type); i++) b->in[input].data[i] = 1;
}

/* ---- Fixtures ---- */

static sl_type read_type(const json_t *item) {
    sl_type type = {0};
    const char *dtype = json_string_value(json_object_get(item, "dtype"));
    assert_true(sl_dtype_find(dtype, strlen(dtype), &type.dtype));
    const json_t *dims = json_object_get(item, "dims");
    type.shape.rank = (uint32_t)json_array_size(dims);
    for (uint32_t d = 0; d < type.shape.rank; d++)
        type.shape.dims[d] = json_integer_value(json_array_get(dims, d));
    return type;
}

static double *read_data(bench *b, const json_t *array) {
    double *data = new_doubles(b, (int64_t)json_array_size(array));
    for (size_t i = 0; i < json_array_size(array); i++)
        data[i] = json_number_value(json_array_get(array, i));
    return data;
}

static float *read_floats(bench *b, const json_t *item, const char *name) {
    const json_t *array = json_object_get(item, name);
    const double *data = read_data(b, array);
    float *floats = SL_ARENA_NEW_ARRAY(&b->arena, float, json_array_size(array));
    for (size_t i = 0; i < json_array_size(array); i++) floats[i] = (float)data[i];
    return floats;
}

static void read_experts(bench *b, const json_t *item, sl_eval_tensor *out) {
    b->experts = (memory_source){.source = {source_request, source_take, source_release, 0},
                                 .type = out->type,
                                 .gate = read_floats(b, item, "gate"),
                                 .up = read_floats(b, item, "up"),
                                 .down = read_floats(b, item, "down")};
    out->source = &b->experts.source;
}

static void read_tensor(bench *b, const json_t *item, sl_eval_tensor *out) {
    out->type = read_type(item);
    if (json_object_get(item, "gate")) {
        read_experts(b, item, out);
        return;
    }
    double *data = read_data(b, json_object_get(item, "data"));
    if (json_object_get(item, "coded")) {
        void *bytes = sl_arena_alloc(&b->arena, sl_type_bytes(&out->type), 64);
        assert_non_null(bytes);
        sl_encode_f64(out->type.dtype, data, sl_type_elements(&out->type), bytes);
        out->coded = bytes;
    } else {
        out->data = data;
    }
}

static void compare(bench *b, const json_t *item, const sl_eval_tensor *found, size_t index) {
    const sl_type type = read_type(item);
    char got[SL_TYPE_TEXT], want[SL_TYPE_TEXT];
    if (!sl_type_equal(&type, &found->type))
        fail_msg("case %zu, %s: %s instead of %s", index, b->info->name,
                 sl_type_format(&found->type, got, sizeof got),
                 sl_type_format(&type, want, sizeof want));
    const double *data = read_data(b, json_object_get(item, "data"));
    double largest = 0;
    const int64_t count = sl_type_elements(&type);
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(data[i]));
    const double allowed = type.dtype == SL_DTYPE_i32 ? 0 : 1e-12 * largest;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found->data[i] - data[i]) <= allowed))
            fail_msg("case %zu, %s: element %lld is %.17g instead of %.17g", index, b->info->name,
                     (long long)i, found->data[i], data[i]);
}

/* moe_ffn, biased or not, runs after moe_group, which has requested the experts in use; the
 * attributes of both begin with the layer. */
static void request_used(bench *b) {
    const sl_eval_tensor *starts = &b->in[2];
    for (int32_t e = 0; e + 1 < starts->type.shape.dims[0]; e++)
        if (starts->data[e] != starts->data[e + 1])
            b->experts.wanted[b->experts.wanted_count++] = e;
    b->experts.layer.v = ((const sl_moe_ffn_attrs *)(const void *)b->attrs)->layer;
}

static void check_group(const bench *b) {
    assert_int_equal(b->experts.requests, 1);
    assert_int_equal(b->experts.layer.v, 3);
    const double *starts = b->out[1].data;
    uint32_t used = 0;
    for (int64_t e = 0; e < b->experts.type.shape.dims[0]; e++)
        if (starts[e] != starts[e + 1]) assert_int_equal(b->experts.wanted[used++], e);
    assert_int_equal(used, b->experts.wanted_count);
}

static sl_op run_fixture(const json_t *item, size_t index) {
    bench b;
    bench_open(&b, json_string_value(json_object_get(item, "op")),
               json_string_value(json_object_get(item, "attrs")));
    const json_t *ins = json_object_get(item, "in"), *outs = json_object_get(item, "out");
    if (b.info->list_name) b.in_count = (uint32_t)json_array_size(ins);
    assert_int_equal(json_array_size(ins), b.in_count);
    if (b.info->outs_name) b.out_count = (uint32_t)json_array_size(outs);
    assert_int_equal(json_array_size(outs), b.out_count);
    for (uint32_t i = 0; i < b.in_count; i++) read_tensor(&b, json_array_get(ins, i), &b.in[i]);
    if (b.op == SL_OP_moe_ffn || b.op == SL_OP_moe_ffn_biased) request_used(&b);
    if (bench_run(&b) != SL_OK) fail_msg("case %zu: %s", index, b.err.message);
    for (uint32_t o = 0; o < b.out_count; o++)
        compare(&b, json_array_get(outs, o), &b.out[o], index);
    if (b.op == SL_OP_moe_group) check_group(&b);
    assert_int_equal(b.experts.leases, 0);
    bench_close(&b);
    return b.op;
}

static void run_fixtures(const char *path, uint32_t seen[SL_OP_COUNT]) {
    json_error_t error;
    json_t *cases = json_load_file(path, 0, &error);
    if (!cases) fail_msg("%s: %s", path, error.text);
    for (size_t i = 0; i < json_array_size(cases); i++)
        seen[run_fixture(json_array_get(cases, i), i)]++;
    json_decref(cases);
}

static void every_op_matches_its_fixtures(void **state) {
    (void)state;
    uint32_t seen[SL_OP_COUNT] = {0};
    run_fixtures("tests/data/ops/fixtures.json", seen);
    run_fixtures("tests/data/ops/fused.json", seen);
    run_fixtures("tests/data/ops/quant_a8.json", seen);
    run_fixtures("tests/data/ops/moe.json", seen);
    run_fixtures("tests/data/ops/choose.json", seen);
    run_fixtures("tests/data/ops/sdpa.json", seen);
    run_fixtures("tests/data/ops/norm_rms.json", seen);
    run_fixtures("tests/data/ops/signal.json", seen);
    run_fixtures("tests/data/ops/splat.json", seen);
    for (int i = 0; i < FIRST_FAMILIES; i++)
        if (seen[first_families[i]] < 2)
            fail_msg("%s has %u fixtures", sl_op_info_of(first_families[i])->name,
                     seen[first_families[i]]);
}

/* ---- NaN ---- */

static void set_f32(bench *b, uint32_t input, const double *data, int64_t count) {
    b->in[input].type = sl_type_make(SL_DTYPE_f32, 1, count);
    b->in[input].data = new_doubles(b, count);
    memcpy(b->in[input].data, data, (size_t)count * sizeof *data);
}

static void nan_wins_in_maximum_and_minimum(void **state) {
    (void)state;
    const char *const ops[] = {"maximum", "minimum"};
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open(&b, ops[i], "");
        set_f32(&b, 0, (double[]){NAN, 1, 2}, 3);
        set_f32(&b, 1, (double[]){1, NAN, 5}, 3);
        assert_int_equal(bench_run(&b), SL_OK);
        assert_true(isnan(b.out[0].data[0]) && isnan(b.out[0].data[1]));
        assert_true(b.out[0].data[2] == (i == 0 ? 5 : 2));
        bench_close(&b);
    }
}

static void nan_survives_relu_and_reduce_max(void **state) {
    (void)state;
    const char *const ops[] = {"relu", "reduce_max"};
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open(&b, ops[i], i ? "axes = [0]" : "");
        set_f32(&b, 0, (double[]){NAN, -1}, 2);
        assert_int_equal(bench_run(&b), SL_OK);
        assert_true(isnan(b.out[0].data[0]));
        bench_close(&b);
    }
}

/* ---- two forms of the delta net's recurrence ---- */

/* 70 rows: 40 of slot 1 from its start, 30 that continue slot 0. */
static void fill_delta(bench *b) {
    const char *const types[] = {"f32[70,2,8]", "f32[70,2,8]", "f32[70,4,6]", "f32[70,4]",
                                 "f32[70,4]",   "i32[70]",     "i32[70]",     "f32[2,4,8,6]"};
    for (uint32_t i = 0; i < 8; i++) {
        set_ones(b, i, types[i]);
        double *data = b->in[i].data;
        for (int64_t n = 0; n < sl_type_elements(&b->in[i].type); n++) {
            if (i == 5)
                data[n] = n < 40;
            else if (i == 6)
                data[n] = (double)(n < 40 ? n : n + 100);
            else if (i == 3)
                data[n] = -fabs(sin((double)n));
            else if (i == 4)
                data[n] = 0.5 + 0.4 * cos((double)n);
            else
                data[n] = 0.4 * sin((double)n * (1.1 + i));
        }
    }
}

static void chunks_equal_steps(void **state) {
    (void)state;
    bench step, chunk;
    bench_open(&step, "delta_step", "");
    fill_delta(&step);
    assert_int_equal(bench_run(&step), SL_OK);
    const char *const sizes[] = {"chunk = 1", "chunk = 7", "chunk = 64"};
    for (int size = 0; size < 3; size++) {
        bench_open(&chunk, "delta_chunk", sizes[size]);
        fill_delta(&chunk);
        assert_int_equal(bench_run(&chunk), SL_OK);
        for (int o = 0; o < 2; o++)
            for (int64_t i = 0; i < sl_type_elements(&step.out[o].type); i++)
                assert_true(fabs(step.out[o].data[i] - chunk.out[o].data[i]) < 1e-13);
        bench_close(&chunk);
    }
    bench_close(&step);
}

/* Reorders rows * 4 heads of `size` elements from two groups of two heads to two tiles. */
static void tile_heads(const double *from, int64_t rows, int64_t size, double *to) {
    static const int order[4] = {0, 2, 1, 3}; /* tile j, group g holds head 2g + j */
    for (int64_t r = 0; r < rows; r++)
        for (int h = 0; h < 4; h++)
            memcpy(to + (r * 4 + h) * size, from + (r * 4 + order[h]) * size,
                   (size_t)size * sizeof *to);
}

static void tiled_heads_are_grouped_ones_elsewhere(void **state) {
    (void)state;
    const char *const ops[] = {"delta_step", "delta_chunk"};
    const char *const attrs[][2] = {{"", "tiled = 1"}, {"chunk = 7", "chunk = 7, tiled = 1"}};
    static double wanted[70 * 4 * 6];
    for (int o = 0; o < 2; o++) {
        bench grouped, tiled;
        bench_open(&grouped, ops[o], attrs[o][0]);
        bench_open(&tiled, ops[o], attrs[o][1]);
        fill_delta(&grouped);
        fill_delta(&tiled);
        tile_heads(grouped.in[2].data, 70, 6, tiled.in[2].data);
        tile_heads(grouped.in[3].data, 70, 1, tiled.in[3].data);
        tile_heads(grouped.in[4].data, 70, 1, tiled.in[4].data);
        tile_heads(grouped.in[7].data, 2, 48, tiled.in[7].data);
        assert_int_equal(bench_run(&grouped), SL_OK);
        assert_int_equal(bench_run(&tiled), SL_OK);
        tile_heads(grouped.out[0].data, 70, 6, wanted);
        assert_memory_equal(tiled.out[0].data, wanted, sizeof wanted);
        assert_memory_not_equal(tiled.out[0].data, grouped.out[0].data, sizeof wanted);
        bench_close(&grouped);
        bench_close(&tiled);
    }
}

/* ---- weights stay encoded ---- */

static void linear_reads_panels(void **state) {
    (void)state;
    enum { ROWS = 19, COLS = 37 };
    bench b;
    bench_open(&b, "linear", "");
    double x[COLS];
    for (int k = 0; k < COLS; k++) x[k] = sin(k);
    set_f32(&b, 0, x, COLS);
    b.in[0].type = sl_type_make(SL_DTYPE_f32, 2, (int64_t)1, (int64_t)COLS);
    b.in[1].type = sl_type_make(SL_DTYPE_q8, 2, (int64_t)ROWS, (int64_t)COLS);
    const sl_panel_layout layout = sl_panel_layout_of(SL_DTYPE_q8, ROWS, COLS);
    unsigned char *bytes = sl_arena_alloc(&b.arena, layout.matrix_bytes, 64);
    for (uint64_t i = 0; i < layout.matrix_bytes; i++) bytes[i] = (unsigned char)(i * 7 % 60);
    b.in[1].coded = bytes;
    assert_int_equal(bench_run(&b), SL_OK);
    for (int n = 0; n < ROWS; n++) {
        float row[COLS];
        sl_decode_row(SL_DTYPE_q8, bytes, ROWS, COLS, n, row);
        double sum = 0;
        for (int k = 0; k < COLS; k++) sum += x[k] * (double)row[k];
        assert_true(b.out[0].data[n] == sum && sum != 0);
    }
    bench_close(&b);
}

/* ---- errors ---- */

/* Inputs are ones, integers zeros; then one integer is set to an invalid value. */
static void refuses(const char *op, const char *attrs, const char *const *types, uint32_t input,
                    double wrong, const char *message) {
    bench b;
    bench_open(&b, op, attrs);
    for (uint32_t i = 0; i < b.info->input_count; i++) set_ones(&b, i, types[i]);
    assert_int_equal(bench_run(&b), SL_OK);
    b.in[input].data[0] = wrong;
    assert_int_equal(bench_run(&b), SL_INVALID);
    assert_string_equal(b.err.message, message);
    bench_close(&b);
}

#define TYPES(...) ((const char *const[SL_MAX_INPUTS]){__VA_ARGS__})

static void indices_out_of_range_are_refused(void **state) {
    (void)state;
    refuses("embed", "", TYPES("f32[3,2]", "i32[2]"), 1, 3, "embed: ids[0] is 3, must be 0 to 2");
    refuses("embed", "", TYPES("f32[3,2]", "i32[2]"), 1, -1, "embed: ids[0] is -1, must be 0 to 2");
    refuses("gather", "axis = 1", TYPES("f32[3,2]", "i32[2]"), 1, 2,
            "gather: an index is 2, must be -2 to 1");
    const char *const *append =
        TYPES("f32[1,2,3]", "f32[1,2,3]", "i32[1]", "i32[1]", "f16[2,2,2,3,16]", "f16[2,2,32,3]");
    refuses("kv_append", "", append, 2, 2, "kv_append: slots[0] is 2, must be 0 to 1");
    refuses("kv_append", "", append, 3, 32, "kv_append: positions[0] is 32, must be 0 to 31");
    const char *const *sdpa =
        TYPES("f32[1,2,3]", "f32[2,2,1,3,16]", "f32[2,2,16,3]", "i32[1]", "i32[1]");
    refuses("sdpa", "", sdpa, 3, -1, "sdpa: slots[0] is -1, must be 0 to 1");
    refuses("sdpa", "", sdpa, 4, 16, "sdpa: positions[0] is 16, must be 0 to 15");
    refuses("sdpa_parts", "", sdpa, 4, 16, "sdpa_parts: positions[0] is 16, must be 0 to 15");
    refuses("rope_table", "rotary = 2, theta = 10", TYPES("i32[1]"), 0, -1,
            "rope_table: positions[0] is -1, must be 0 to 2147483646");
    const char *const *conv = TYPES("f32[1,2]", "f32[2,4]", "i32[1]", "i32[1]", "f32[2,3,2]");
    refuses("resume", "", TYPES("i32[1]", "i32[1]", "i32[2]"), 1, 2,
            "resume: slots[0] is 2, must be 0 to 1");
    refuses("choose", "", TYPES("f32[1,4]", "f64[1,5]", "i32[1]", "i32[2]"), 2, -1,
            "choose: slots[0] is -1, must be 0 to 1");
    refuses("causal_conv", "", conv, 2, 2, "causal_conv: slots[0] is 2, must be 0 to 1");
    refuses("causal_conv", "", conv, 3, -1,
            "causal_conv: positions[0] is -1, must be 0 to 2147483647");
    const char *const *delta = TYPES("f32[1,1,2]", "f32[1,1,2]", "f32[1,2,3]", "f32[1,2]",
                                     "f32[1,2]", "i32[1]", "i32[1]", "f32[2,2,2,3]");
    refuses("delta_step", "", delta, 5, 2, "delta_step: slots[0] is 2, must be 0 to 1");
    refuses("delta_chunk", "chunk = 2", delta, 5, 2, "delta_chunk: slots[0] is 2, must be 0 to 1");
}

static void experts_out_of_range_are_refused(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "moe_group", "");
    set_ones(&b, 0, "i32[2,1]");
    b.in[1].type = sl_type_make(SL_DTYPE_f32, 3, (int64_t)4, (int64_t)1, (int64_t)1);
    assert_int_equal(bench_run(&b), SL_INVALID);
    assert_string_equal(b.err.message, "moe_group: experts are not bound");
    b.experts.source = (sl_expert_source){source_request, source_take, source_release, 0};
    b.in[1].source = &b.experts.source;
    b.in[0].data[1] = 4;
    assert_int_equal(bench_run(&b), SL_INVALID);
    assert_string_equal(b.err.message, "moe_group: chosen[1] is 4, must be 0 to 3");
    bench_close(&b);
}

static void experts_that_never_come_are_noticed(void **state) {
    (void)state;
    bench b;
    bench_open(&b, "moe_ffn", "k = 1");
    set_ones(&b, 0, "f32[2,3]");
    set_ones(&b, 1, "i32[2]");
    set_ones(&b, 2, "i32[2]");
    b.in[2].data[1] = 2;
    b.in[3].type = sl_type_make(SL_DTYPE_f32, 3, (int64_t)1, (int64_t)1, (int64_t)3);
    b.experts.source = (sl_expert_source){source_request, source_take, source_release, 0};
    b.in[3].source = &b.experts.source;
    assert_int_equal(bench_run(&b), SL_INVALID);
    assert_string_equal(b.err.message, "moe_ffn: the leased experts covered 0 of 2 pairs");
    bench_close(&b);
}

/* An invalid operand, and the expected message. */
static void rejects(const char *op, const char *attrs, const char *const *types,
                    const char *message) {
    bench b;
    bench_open(&b, op, attrs);
    for (uint32_t i = 0; i < b.info->input_count; i++) set_ones(&b, i, types[i]);
    assert_int_equal(bench_run(&b), SL_INVALID);
    assert_string_equal(b.err.message, message);
    bench_close(&b);
}

static void elementwise_types_are_checked(void **state) {
    (void)state;
    rejects("swiglu", "", TYPES("f32[2,3]", "f32[3,2]"),
            "swiglu: up is f32[3,2], its leading dims must be those of gate f32[2,3]");
}

static void contraction_types_are_checked(void **state) {
    (void)state;
    rejects("linear", "", TYPES("f32[4,256]", "bf16[64,128]"),
            "linear: w is bf16[64,128], its second dim must be 256 as in x f32[4,256]");
    rejects("linear", "", TYPES("f32[4,2]", "i32[64,2]"),
            "linear: w is i32[64,2], must be weight[N,K] (f32, f16, bf16 or a panel type)");
    rejects("matmul", "", TYPES("f32[2,3]", "f32[2,3]"),
            "matmul: b is f32[2,3], its second-to-last dim must be 3 as in a f32[2,3]");
    rejects("matmul", "", TYPES("f32[3]", "f32[3,3]"),
            "matmul: a is f32[3], must have two dims or more");
    rejects(
        "matmul", "", TYPES("f32[2,3,3]", "f32[4,3,3]"),
        "matmul: dims 2 and 4 (number 1 from the end) do not broadcast: they must be equal or 1");
    rejects("embed", "", TYPES("f32[2,3]", "f32[1]"), "embed: ids is f32[1], must be i32[T]");
}

static void norms_and_caps_are_checked(void **state) {
    (void)state;
    rejects("rms_norm", "", TYPES("f16[2,3]", "f32[3]"),
            "rms_norm: gain is f32[3], its elements must be f16 as those of x");
    rejects("rms_norm", "", TYPES("i32[2,3]", "i32[3]"),
            "rms_norm: x is i32[2,3], must be float[..,D] (f32, f16, bf16 or f64)");
    rejects("sdpa", "softcap = -1",
            TYPES("f32[1,2,4]", "f32[1,1,1,4,16]", "f32[1,1,16,4]", "i32[1]", "i32[1]"),
            "sdpa: softcap is -1, must be 0 or positive");
}

static void model_ops_are_checked(void **state) {
    (void)state;
    rejects("rms_norm", "", TYPES("f32[2,3]", "f32[4]"),
            "rms_norm: gain is f32[4], its first dim must be 3 as in x f32[2,3]");
    rejects("rope_table", "rotary = 3, theta = 10", TYPES("i32[1]"),
            "rope_table: rotary is 3, must be even");
    rejects("rope_table", "rotary = 0, theta = 10", TYPES("i32[1]"),
            "rope_table: rotary is 0, must be 2 to 2147483647");
    rejects("rope_table", "rotary = 4, theta = 0", TYPES("i32[1]"),
            "rope_table: theta is 0, must be positive");
    rejects("rope_apply", "rotary = 3", TYPES("f32[1,1,4]", "f32[1,1,2]", "f32[1,1,2]"),
            "rope_apply: rotary is 3, must be even");
    rejects("norm_rope", "", TYPES("f32[1,1,4]", "f32[4]", "f32[1,1,3]", "f32[1,1,3]"),
            "norm_rope: twice the columns of cos is 6, must be 2 to 4");
    rejects("norm_rope", "", TYPES("f32[2,1,4]", "f32[4]", "f32[1,1,2]", "f32[1,1,2]"),
            "norm_rope: cos is f32[1,1,2], its first dim must be 2 as in x f32[2,1,4]");
    rejects("sdpa", "", TYPES("f32[1,3,4]", "f32[1,2,1,4,16]", "f32[1,2,16,4]", "i32[1]", "i32[1]"),
            "sdpa: q has 3 heads, must be a multiple of the cache's 2");
    rejects("sdpa", "", TYPES("f32[1,2,4]", "f32[1,2,2,4,16]", "f32[1,2,16,4]", "i32[1]", "i32[1]"),
            "sdpa: cache_v is f32[1,2,16,4], its third dim must be 32 as in cache_k "
            "f32[1,2,2,4,16]");
    rejects("sdpa", "",
            TYPES("f32[1,2,4]", "bf16[1,2,1,4,16]", "f32[1,2,16,4]", "i32[1]", "i32[1]"),
            "sdpa: cache_k is bf16[1,2,1,4,16], must be keys[S,heads,blocks,D,16] (f32, f16 or "
            "k16)");
    rejects("sdpa_parts", "",
            TYPES("f32[1,2,4]", "f16[1,2,1,4,16]", "f32[1,2,16,4]", "i32[1]", "i32[1]"),
            "sdpa_parts: cache_v is f32, must be f16 as cache_k");
    rejects("sdpa", "", TYPES("f32[1,2,4]", "k16[1,2,1,4,16]", "f16[1,2,16,4]", "i32[1]", "i32[1]"),
            "sdpa: cache_v is f16, must be v16 as cache_k");
    rejects("transpose", "perm = [1, 0]", TYPES("v16[16,4]"),
            "transpose: x is v16[16,4], must be of a plain type (not one of groups)");
    rejects("causal_conv", "", TYPES("f32[1,2]", "f32[2,4]", "i32[1]", "i32[1]", "f32[1,4,2]"),
            "causal_conv: window is f32[1,4,2], its second dim must be 3 as in w f32[2,4]");
    const char *const *delta = TYPES("f32[1,2,2]", "f32[1,2,2]", "f32[1,3,3]", "f32[1,3]",
                                     "f32[1,3]", "i32[1]", "i32[1]", "f32[2,3,2,3]");
    rejects("delta_step", "", delta, "delta_step: v has 3 heads, must be a multiple of q's 2");
    rejects("delta_chunk", "chunk = 0", delta, "delta_chunk: chunk is 0, must be 1 to 2147483647");
    rejects("route", "k = 4", TYPES("f32[1,3]"), "route: k is 4, must be 1 to 3");
    rejects("route", "k = 1, normalise = 2", TYPES("f32[1,3]"),
            "route: normalise is 2, must be 0 to 1");
    rejects("moe_ffn", "k = 2", TYPES("f32[2,3]", "i32[3]", "i32[5]", "f32[4,1,3]"),
            "moe_ffn: order has 3 pairs, must be 2 rows of x times k 2");
    rejects("moe_ffn", "k = 2", TYPES("f32[2,3]", "i32[4]", "i32[4]", "f32[4,1,3]"),
            "moe_ffn: starts has 4 entries, must be 4 experts and one");
    const char *const *routed = TYPES("f32[1,6]", "f32[6]");
    rejects("choose", "", TYPES("f32[2,9]", "f64[2,4]", "i32[2]", "i32[1]"),
            "choose: how is f64[2,4], its second dim must be 5");
    rejects("route_groups", "k = 1, groups = 1, groups_kept = 1, scale = 1",
            TYPES("f32[1,6]", "f32[5]"),
            "route_groups: bias is f32[5], its first dim must be 6 as in logits f32[1,6]");
    rejects("route_groups", "k = 1, scale = 1, groups = 0, groups_kept = 0", routed,
            "route_groups: groups is 0, must be 1 to 6");
    rejects("route_groups", "k = 1, groups = 4, groups_kept = 2, scale = 1", routed,
            "route_groups: 6 experts, must be a multiple of 4 groups");
    rejects("route_groups", "k = 1, groups = 3, groups_kept = 4, scale = 1", routed,
            "route_groups: groups_kept is 4, must be 1 to 3");
    rejects("route_groups", "k = 5, groups = 3, groups_kept = 2, scale = 1", routed,
            "route_groups: k is 5, must be 1 to 4");
    rejects("route_groups", "k = 4, groups = 3, groups_kept = 2, scale = 0", routed,
            "route_groups: scale is 0, must be greater than 0");
    const char *const *biased =
        TYPES("f32[2,3]", "i32[4]", "i32[5]", "f32[4,1]", "f32[4,1]", "f32[4,3]", "f32[4,1,3]");
    rejects("moe_ffn_biased", "k = 2, limit = 0, alpha = 1", biased,
            "moe_ffn_biased: limit is 0, must be greater than 0");
    rejects("moe_ffn_biased", "k = 2, limit = 1, alpha = 0", biased,
            "moe_ffn_biased: alpha is 0, must be greater than 0");
    rejects("moe_ffn_biased", "k = 1, limit = 1, alpha = 1", biased,
            "moe_ffn_biased: order has 4 pairs, must be 2 rows of x times k 1");
    rejects("moe_ffn_biased", "k = 2, limit = 1, alpha = 1",
            TYPES("f32[2,3]", "i32[4]", "i32[5]", "f32[4,1]", "f32[4,2]", "f32[4,3]", "f32[4,1,3]"),
            "moe_ffn_biased: up_bias is f32[4,2], its second dim must be 1 as in gate_bias "
            "f32[4,1]");
    rejects("shared_combine", "", TYPES("f32[2,3]", "f32[2,3]", "f32[2,2]"),
            "shared_combine: gate is f32[2,2], its second dim must be 1");
}

static void attention_attributes_are_checked(void **state) {
    (void)state;
    rejects("rope_table", "rotary = 4, theta = 10, scaling = 4", TYPES("i32[1]"),
            "rope_table: scaling is 4, must be 0 to 3");
    rejects("rope_table", "rotary = 4, theta = 10, scaling = 1, factor = 0", TYPES("i32[1]"),
            "rope_table: factor is 0, must be positive");
    rejects("rope_table", "rotary = 4, theta = 10, scaling = 2, factor = 2", TYPES("i32[1]"),
            "rope_table: original is 0, must be positive");
    rejects("rope_table",
            "rotary = 4, theta = 10, scaling = 3, factor = 2, original = 9, low = 32, high = 1",
            TYPES("i32[1]"), "rope_table: low is 32, must be less than high, which is 1");
    rejects("rope_table",
            "rotary = 4, theta = 1, scaling = 3, factor = 2, original = 9, low = 1, high = 32",
            TYPES("i32[1]"), "rope_table: theta is 1, must be more than 1 for yarn");
    rejects("rope_table", "rotary = 4, theta = 10, truncate = 2", TYPES("i32[1]"),
            "rope_table: truncate is 2, must be 0 to 1");
    rejects("rope_table", "rotary = 4, theta = 10, magnitude = -1", TYPES("i32[1]"),
            "rope_table: magnitude is -1, must be positive");
    rejects("norm_rope", "interleaved = 2",
            TYPES("f32[1,1,4]", "f32[4]", "f32[1,1,2]", "f32[1,1,2]"),
            "norm_rope: interleaved is 2, must be 0 to 1");
    rejects("sdpa_sinks", "",
            TYPES("f32[1,2,4]", "f32[1,2,1,4,16]", "f32[1,2,16,3]", "i32[1]", "i32[1]", "f32[3]"),
            "sdpa_sinks: sinks is f32[3], its first dim must be 2 as in q f32[1,2,4]");
    rejects("linear_heads", "", TYPES("f32[2,3,4]", "bf16[2,5,4]"),
            "linear_heads: w is bf16[2,5,4], its first dim must be 3 as in x f32[2,3,4]");
    rejects("linear_heads", "", TYPES("a8[2,3,4]", "q8[3,5,4]"),
            "linear_heads: x is a8[2,3,4], must be f32[T,heads,K]");
}

/* Random bytes must not be used as pointers. */
static void drop_pointer(sl_attr_visitor *v, const char *name, sl_attr_kind kind, void *value) {
    (void)v, (void)name;
    sl_attr *attr = value;
    if (kind == SL_ATTR_list || kind == SL_ATTR_reals || kind == SL_ATTR_graph ||
        kind == SL_ATTR_handler)
        memset(value, 0, sl_attr_bytes(kind));
    else if (kind == SL_ATTR_text)
        attr->text = "";
}
static void drop_pointers(sl_op op, void *attrs) {
    sl_attr_visitor visitor = {drop_pointer};
    sl_op_info_of(op)->visit_attrs(&visitor, attrs);
}

/* sl_infer_ is total: it returns a result or an error for any types. */
static void inference_is_total(void **state) {
    (void)state;
    uint64_t random = 1;
    uint32_t accepted = 0;
    sl_error err;
    for (int round = 0; round < 200000; round++) {
        sl_type in[SL_MAX_INPUTS], out[SL_MAX_OUTPUTS] = {0};
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES];
        for (size_t i = 0; i < sizeof attrs; i++)
            attrs[i] = (random = random * 6364136223846793005u + 1) >> 60 == 0 ? 0xff : 0;
        for (int i = 0; i < SL_MAX_INPUTS; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            in[i].dtype = (random >> 36) % 2 ? SL_DTYPE_f32 /* so that some are accepted */
                                             : (sl_dtype)((random >> 40) % (SL_DTYPE_COUNT + 1));
            in[i].shape.rank = (uint32_t)((random >> 48) % (SL_MAX_RANK + 2));
            for (int d = 0; d < SL_MAX_RANK; d++)
                in[i].shape.dims[d] = (int64_t)((random >> (8 + d * 5)) % 4) << (random >> 62) * 20;
        }
        const sl_op op = (sl_op)(round % SL_OP_COUNT);
        drop_pointers(op, attrs);
        if (sl_infer_plain(op, "any", in, attrs, out, &err) != SL_OK) continue;
        for (uint32_t o = 0; o < sl_op_info_of(op)->output_count; o++)
            assert_int_equal(sl_type_check_shape(&out[o], "any", &err), SL_OK);
        accepted++;
    }
    assert_true(accepted > 1000);
}

/* A dim is added to the eight that a tensor may have. */
static void results_have_room_for_their_dims(void **state) {
    (void)state;
    const sl_type in[2] = {{SL_DTYPE_i32, {.rank = SL_MAX_RANK, .dims = {1, 1, 1, 1, 1, 1, 1, 1}}},
                           sl_type_make(SL_DTYPE_f32, 1, (int64_t)2)};
    sl_type out[2];
    const sl_rope_tables_attrs attrs = {.magnitude = 1};
    sl_error err;
    assert_int_equal(sl_infer_plain(SL_OP_rope_tables, "any", in, &attrs, out, &err), SL_INVALID);
    assert_non_null(strstr(err.message, "9 dims, at most 8"));
}

/* NaN logits are never chosen; a row with too few other logits is an error. */
static void routes_choose_numbers(void **state) {
    (void)state;
    double logits[] = {NAN, 3, NAN, 5}, experts[2] = {0}, weights[2] = {0};
    const sl_type row = sl_type_make(SL_DTYPE_f32, 2, (int64_t)1, (int64_t)4);
    const sl_type pair = sl_type_make(SL_DTYPE_f32, 2, (int64_t)1, (int64_t)2);
    sl_type index = pair;
    index.dtype = SL_DTYPE_i32;
    const sl_eval_tensor in = {.type = row, .data = logits};
    const sl_eval_tensor out[] = {{.type = index, .data = experts},
                                  {.type = pair, .data = weights}};
    const sl_route_attrs attrs = {.k = 2, .normalise = 1};
    const sl_eval_args args = {"route", &in, &attrs, out, NULL, 1, 2};
    sl_error err = {0};
    assert_int_equal(sl_eval(SL_OP_route, &args, &err), SL_OK);
    assert_true(experts[0] == 3 && experts[1] == 1);
    assert_true(fabs(weights[0] + weights[1] - 1) < 1e-15 && weights[0] > weights[1]);
    logits[3] = NAN;
    assert_int_equal(sl_eval(SL_OP_route, &args, &err), SL_INVALID);
    assert_string_equal(err.message, "route: row 0 has fewer than 2 logits that are not NaN");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_choose_numbers),
        cmocka_unit_test(every_op_matches_its_fixtures),
        cmocka_unit_test(nan_wins_in_maximum_and_minimum),
        cmocka_unit_test(nan_survives_relu_and_reduce_max),
        cmocka_unit_test(chunks_equal_steps),
        cmocka_unit_test(tiled_heads_are_grouped_ones_elsewhere),
        cmocka_unit_test(linear_reads_panels),
        cmocka_unit_test(indices_out_of_range_are_refused),
        cmocka_unit_test(experts_out_of_range_are_refused),
        cmocka_unit_test(experts_that_never_come_are_noticed),
        cmocka_unit_test(elementwise_types_are_checked),
        cmocka_unit_test(contraction_types_are_checked),
        cmocka_unit_test(model_ops_are_checked),
        cmocka_unit_test(norms_and_caps_are_checked),
        cmocka_unit_test(attention_attributes_are_checked),
        cmocka_unit_test(inference_is_total),
        cmocka_unit_test(results_have_room_for_their_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
