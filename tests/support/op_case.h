/* op_case.h - One op with random operands, run by every kernel of every instruction set this
 * machine has and compared with the plain meaning of the op (sl_eval, in double).
 *
 * Each case runs under several divisions of its items, in both orders, which must agree to the last
 * bit; then each row of the result must lie within a tolerance of the oracle's, relative to the
 * row's norm.  Scratch has exactly the size asked for, so that a sanitizer sees overruns.
 * With SL_CASE_CUDA the CUDA device takes the place of the instruction sets. */
#ifndef SL_TESTS_SUPPORT_OP_CASE_H
#define SL_TESTS_SUPPORT_OP_CASE_H
#include "compiler/ops/semantics.h"
#include "core/codec.h"
#include "core/kv.h"
#include "runtime/arguments.h"
#include "runtime/cpu/kernel_set.h"
#include "tests/support/kernel_items.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_OPERANDS = SL_MAX_INPUTS + SL_MAX_OUTPUTS };
static const char *const isas[] = {SL_ISA_NAMES};
enum { ISA_COUNT = sizeof isas / sizeof isas[0] };

/* ---- random data ---- */

static uint64_t seed = 0x9e3779b97f4a7c15;
static uint32_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}
static double uniform(double low, double high) {
    return low + (high - low) * (double)next() / 4294967296.0;
}

/* 16-bit floats in [low, high). */
static void fill_halves(uint8_t *to, int64_t count, bool bf16, double low, double high) {
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)uniform(low, high);
        const uint16_t half = bf16 ? sl_bf16_from_f32(value) : sl_f16_from_f32(value);
        memcpy(to + i * 2, &half, sizeof half);
    }
}

static void fill_floats(uint8_t *to, int64_t count, double low, double high) {
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)uniform(low, high);
        memcpy(to + i * 4, &value, sizeof value);
    }
}

/* The parameters of a group: floats.  Bytes are random already. */
static void fill_group(sl_dtype dtype, const sl_panel_layout *l, int64_t g, uint8_t *panel) {
    const int64_t lanes = SL_PANEL_ROWS;
    uint8_t *params = panel + sl_group_params(l, g), *codes = panel + sl_group_codes(l, g);
    if (dtype == SL_DTYPE_q8) fill_halves(params, lanes, false, -0.01, 0.01);
    if (dtype == SL_DTYPE_q4_0) fill_halves(params, lanes, false, -0.1, 0.1);
    if (dtype == SL_DTYPE_iq4_nl) fill_halves(params, lanes, false, -0.01, 0.01);
    if (dtype == SL_DTYPE_mxfp4) fill_halves(params, lanes, true, -0.1, 0.1);
    if (dtype == SL_DTYPE_q4_m || dtype == SL_DTYPE_q6_m)
        fill_halves(panel + sl_block_at(l, g), lanes * 2, true, -0.1, 0.1);
    if (dtype == SL_DTYPE_q8_m) {
        fill_halves(panel + sl_block_at(l, g), lanes, true, -0.01, 0.01);
        fill_halves(panel + sl_block_at(l, g) + 32, lanes, true, -1, 1);
    }
    if (dtype == SL_DTYPE_q4_f) fill_floats(params, lanes * 2, -0.1, 0.1);
    if (dtype == SL_DTYPE_q8_f) fill_floats(params, lanes, -0.01, 0.01);
    if (dtype == SL_DTYPE_q8_f) fill_floats(params + 64, lanes, -1, 1);
    if (dtype == SL_DTYPE_f8) fill_floats(params, lanes, -0.01, 0.01);
    for (int i = 0; i < 2 * lanes && (dtype == SL_DTYPE_q4_k || dtype == SL_DTYPE_q5_k); i++)
        params[i] &= 63;
    for (int i = 0; i < 2 * lanes && dtype == SL_DTYPE_nvfp4; i++) params[i] &= 0x77;
    for (uint64_t i = 0; i < l->group_bytes && dtype == SL_DTYPE_f8; i++)
        if ((codes[i] & 0x7f) == 0x7f) codes[i] = 0; /* NaN */
}

/* The parameters of one panel, which has random bytes. */
static void fill_parameters(sl_dtype dtype, const sl_panel_layout *l, uint8_t *panel) {
    const int64_t lanes = SL_PANEL_ROWS;
    for (int64_t s = 0; s < l->supers && l->super_bytes; s++) {
        uint8_t *above = panel + sl_super_params(l, s);
        const bool both =
            dtype == SL_DTYPE_q4_k || dtype == SL_DTYPE_q5_k || dtype == SL_DTYPE_q2_k;
        memset(above, 0, 64);
        fill_halves(above, both ? lanes * 2 : lanes, false, -0.001, both ? 0.01 : 0.001);
    }
    for (int64_t g = 0; g < l->groups; g++) fill_group(dtype, l, g, panel);
}

static void fill_panels(const sl_type *type, uint8_t *bytes) {
    const int64_t rows = type->shape.dims[0], cols = type->shape.dims[1];
    const sl_panel_layout l = sl_panel_layout_of(type->dtype, rows, cols);
    for (uint64_t i = 0; i < l.matrix_bytes; i++) bytes[i] = (uint8_t)next();
    if (l.header_bytes) fill_floats(bytes, l.panels * l.supers * 2, 0.0001, 0.001);
    for (int64_t p = 0; p < l.panels; p++)
        fill_parameters(type->dtype, &l, bytes + l.header_bytes + (uint64_t)p * l.panel_bytes);
}

/* Each matrix of a stack. */
static void fill_stack(const sl_type *type, uint8_t *bytes) {
    const sl_dims *shape = &type->shape;
    const uint32_t rank = shape->rank;
    const sl_type matrix =
        sl_type_make(type->dtype, 2, shape->dims[rank - 2], shape->dims[rank - 1]);
    const uint64_t each = sl_type_bytes(&matrix), all = sl_type_bytes(type);
    for (uint64_t at = 0; at < all; at += each) fill_panels(&matrix, bytes + at);
}

/* Rows of ordinary values, with a group of zeros now and then. */
static void fill_rows(const sl_type *type, void *bytes, double low, double high) {
    const int64_t count = sl_type_elements(type);
    float *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = i / SL_GROUP_COLS % 9 == 8 ? 0 : (float)uniform(low, high);
    sl_quantise_rows(type, x, bytes);
    free(x);
}

/* Rows of keys or values, one of zeros now and then. */
static void fill_cache(const sl_type *type, void *bytes, double low, double high) {
    const int64_t rows = sl_kv_rows(type), width = sl_type_elements(type) / rows;
    float *x = calloc((size_t)width, sizeof *x);
    assert_non_null(x);
    memset(bytes, 0, sl_type_bytes(type));
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < width; i++) x[i] = row % 23 == 22 ? 0 : (float)uniform(low, high);
        sl_kv_store_row(type, bytes, row, x);
    }
    free(x);
}

/* What keys may be kept as; the CUDA device keeps no codes. */
#ifdef SL_CASE_CUDA
enum { CACHE_TYPES = 2 };
#else
enum { CACHE_TYPES = 3 };
#endif
__attribute__((unused)) static const sl_dtype cache_types[] = {SL_DTYPE_f32, SL_DTYPE_f16,
                                                               SL_DTYPE_k16};

/* What sdpa over coded keys and values in [-1, 1) adds to its error, five times the expected as
 * thousands of rows are looked at: a query's elements are off by 0.29 (evenly up to a half) of its
 * norm over SL_K16_NORM, so a score by as much of the product of norms, which is dim / 3, times the
 * scale; and 64 equal weights share a sum of 131000. */
__attribute__((unused)) static double coded_tolerance(int64_t dim, double scale) {
    return 5 * 0.29 * (scale * (double)dim / 3 / SL_K16_NORM + 64 / 131000.0);
}

/* All that weights may have. */
static const sl_dtype weight_types[] = {
    SL_DTYPE_f32,
    SL_DTYPE_f16,
    SL_DTYPE_bf16,
#define PANEL(NAME, ...) SL_DTYPE_##NAME,
#include "core/panels.def"
};
enum { FIRST_PANEL_TYPE = 3, WEIGHT_TYPES = sizeof weight_types / sizeof weight_types[0] };

static void fill(const sl_type *type, void *bytes, double low, double high) {
    if (type->dtype == SL_DTYPE_a8) {
        fill_rows(type, bytes, low, high);
        return;
    }
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL) {
        fill_stack(type, bytes);
        return;
    }
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_CACHE) {
        fill_cache(type, bytes, low, high);
        return;
    }
    const size_t each = sl_dtype_infos[type->dtype].bytes;
    const sl_dtype_kind kind = sl_dtype_infos[type->dtype].kind;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        double value[2] = {uniform(low, high), 0};
        if (kind == SL_KIND_COMPLEX) value[1] = uniform(low, high);
        if (kind == SL_KIND_INT || kind == SL_KIND_BOOL)
            sl_slot_set_integer(type->dtype, value, (int64_t)floor(value[0]));
        sl_encode_f64(type->dtype, value, 1, (char *)bytes + (size_t)i * each);
    }
}

/* ---- an op with its operands ---- */

typedef struct {
    sl_op op;
    const void *attrs;
    double tolerance;          /* relative to a row's norm, */
    bool by_tensor;            /* or to the mean norm of all rows where that is larger */
    uint32_t inputs, operands; /* operands: inputs, then OUTs */
    uint32_t outs;             /* how many OUTS stands for */
    sl_type types[MAX_OPERANDS];
    void *data[MAX_OPERANDS]; /* of inputs: what they start from; of OUTs: NULL */
    uint32_t misalign[MAX_OPERANDS];
    sl_expert_source *source;
    void (*prepare)(sl_expert_source *source); /* before each run, for streaming ops */
} op_case;

static op_case case_of(sl_op op, const void *attrs, double tolerance) {
    static const uint64_t none[SL_MAX_ATTRS_BYTES / 8];
    return (op_case){.op = op, .attrs = attrs ? attrs : none, .tolerance = tolerance};
}

/* Adds an input with elements in [low, high) and returns its bytes. */
static void *input(op_case *c, sl_type type, double low, double high) {
    const uint64_t bytes = sl_type_bytes(&type);
    void *data = NULL;
    assert_int_equal(posix_memalign(&data, 64, bytes), 0);
    fill(&type, data, low, high);
    c->types[c->inputs] = type;
    c->data[c->inputs++] = data;
    return data;
}
__attribute__((unused)) static float *floats(op_case *c, sl_type type) {
    return input(c, type, -1, 1);
}
static sl_type f32(uint32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return sl_type_make(SL_DTYPE_f32, rank, a, b, c, d);
}
static sl_type i32(int64_t n) {
    return sl_type_make(SL_DTYPE_i32, 1, n);
}

static void infer_outputs(op_case *c) {
    const sl_op_info *info = sl_op_info_of(c->op);
    sl_type outs[MAX_OPERANDS];
    sl_error err = {0};
    if (!info->list_name) assert_int_equal(c->inputs, info->input_count);
    const sl_infer_args args = {info->name, c->types,  c->attrs,
                                outs,       c->inputs, info->output_count + c->outs};
    if (sl_infer(c->op, &args, &err)) fail_msg("%s", err.message);
    c->operands = c->inputs;
    for (uint32_t o = 0; o < args.out_count; o++)
        if (sl_output_state(info, o) < 0) c->types[c->operands++] = outs[o];
}

static void release_case(op_case *c) {
    for (uint32_t i = 0; i < c->inputs; i++) free(c->data[i]);
}

/* ---- one run of a kernel ---- */

typedef struct {
    void *blocks[MAX_OPERANDS];
    void *views[MAX_OPERANDS]; /* into blocks, perhaps misaligned */
} memory;

static bool is_written(const op_case *c, uint32_t operand) {
    return operand >= c->inputs || sl_input_kind(sl_op_info_of(c->op), operand) == SL_OPERAND_STATE;
}

static memory memory_of(const op_case *c) {
    memory m = {0};
    for (uint32_t i = 0; i < c->operands; i++) {
        if (c->source && i == c->inputs - 1) continue; /* experts come last */
        const uint64_t bytes = sl_type_bytes(&c->types[i]);
        assert_int_equal(posix_memalign(&m.blocks[i], 64, bytes + c->misalign[i]), 0);
        m.views[i] = (char *)m.blocks[i] + c->misalign[i];
        if (i < c->inputs)
            memcpy(m.views[i], c->data[i], bytes);
        else
            memset(m.views[i], 0xa5, bytes);
    }
    return m;
}
static void memory_free(memory *m) {
    for (int i = 0; i < MAX_OPERANDS; i++) free(m->blocks[i]);
}

static void *args_of(const op_case *c, const memory *m, sl_arena *arena) {
    sl_operand operands[MAX_OPERANDS] = {0};
    for (uint32_t i = 0; i < c->operands; i++) operands[i].type = c->types[i];
    const sl_step step = {.op = c->op,
                          .operands = operands,
                          .operand_count = c->operands,
                          .input_count = c->inputs,
                          .attrs = c->attrs};
    void *args = sl_arguments_create(&step, arena);
    assert_non_null(args);
    for (uint32_t i = 0; i < c->operands; i++)
        sl_argument(&step, args, i)->data =
            c->source && i == c->inputs - 1 ? (void *)c->source : m->views[i];
    return args;
}

static sl_status run_kernel(const op_case *c, const char *isa, memory *m, int64_t step,
                            bool backwards, sl_error *err) {
    const sl_kernel *kernel = sl_cpu_kernel_find(sl_cpu_kernel_set(isa), c->op, c->types);
    assert_non_null(kernel);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    const void *args = args_of(c, m, &arena);
    if (c->prepare) c->prepare(c->source);
    uint64_t written = 0; /* as the device does, what gives nothing is not run */
    for (uint32_t i = 0; i < c->operands; i++)
        if (is_written(c, i)) written += sl_type_bytes(&c->types[i]);
    const sl_status status = written ? run_items(kernel, args, step, backwards, err) : SL_OK;
    sl_arena_deinit(&arena);
    return status;
}

/* ---- the oracle ---- */

static double *doubles_of(const sl_type *type, const void *bytes) {
    double *out = calloc((size_t)sl_type_slots(type) + 1, sizeof *out);
    assert_non_null(out);
    if (bytes) sl_decode_tensor(type, bytes, out);
    return out;
}

/* The largest scale of a coded cache. */
static double cache_step(const sl_type *type, const void *bytes) {
    const int64_t rows = sl_kv_rows(type), width = sl_type_elements(type) / rows;
    double step = 0;
    for (int64_t row = 0; row < rows; row++) {
        const char *block = (const char *)bytes + row / SL_KV_LANES * sl_kv_block_bytes(width);
        step = fmax(step, (double)((const float *)(const void *)block)[row % SL_KV_LANES]);
    }
    return step;
}

/* How far a row's error may go beyond rounding: a value that the kernel and the oracle put on
 * either side of an edge between two codes is one step off.  One such value may be in a row. */
static double one_step(const sl_type *type, const void *bytes, int64_t row) {
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_CACHE) return cache_step(type, bytes) * 1.001;
    if (type->dtype != SL_DTYPE_a8) return 0;
    const sl_rows_layout l = sl_rows_layout_of(type);
    const float *scales = (const float *)(const void *)((const char *)bytes + l.scales);
    double step = 0;
    for (int64_t g = row * l.groups; g < (row + 1) * l.groups; g++)
        step = fmax(step, (double)scales[g]);
    return step * 1.001;
}

/* Results by operand: of OUTs and of states. */
static void evaluate(const op_case *c, double *results[MAX_OPERANDS]) {
    const sl_op_info *info = sl_op_info_of(c->op);
    sl_eval_tensor in[MAX_OPERANDS] = {0}, out[MAX_OPERANDS] = {0};
    for (uint32_t i = 0; i < c->inputs; i++) {
        in[i].type = c->types[i];
        if (c->source && i == c->inputs - 1)
            in[i].source = c->source;
        else if (sl_dtype_infos[c->types[i].dtype].kind == SL_KIND_PANEL)
            in[i].coded = c->data[i];
        else
            results[i] = in[i].data = doubles_of(&c->types[i], c->data[i]);
    }
    uint32_t operand = c->inputs;
    for (uint32_t o = 0; o < info->output_count + c->outs; o++) {
        if (sl_output_state(info, o) >= 0) {
            out[o] = in[info->output_state[o]];
            continue;
        }
        out[o].type = c->types[operand];
        results[operand] = out[o].data = doubles_of(&c->types[operand], NULL);
        operand++;
    }
    sl_arena scratch;
    sl_arena_init(&scratch, NULL);
    sl_error err = {0};
    if (c->prepare) c->prepare(c->source);
    const sl_eval_args args = {
        info->name, in, c->attrs, out, &scratch, c->inputs, info->output_count + c->outs};
    if (sl_eval(c->op, &args, &err)) fail_msg("%s: %s", info->name, err.message);
    sl_arena_deinit(&scratch);
}

/* Integers must be exact.  So must halves that are rounded from what is given; where something is
 * computed first, what differs in the last bit of a float may be rounded another way. */
static double allowed(const op_case *c, sl_dtype dtype) {
    const sl_dtype_kind kind = sl_dtype_infos[dtype].kind;
    if (dtype == SL_DTYPE_f32 || kind == SL_KIND_ROWS || kind == SL_KIND_CACHE ||
        kind == SL_KIND_COMPLEX)
        return c->tolerance;
    if (dtype == SL_DTYPE_f64 && c->tolerance > 0) return 1e-12;
    if (dtype == SL_DTYPE_bf16 && c->tolerance > 0) return c->tolerance + 0x1p-7;
    return dtype == SL_DTYPE_f16 && c->tolerance > 0 ? c->tolerance + 0x1p-10 : 0;
}

/* Of a slot that holds a number; beside infinity and NaN nothing is small. */
static double square(sl_dtype dtype, double x) {
    return !sl_is_wide(dtype) && isfinite(x) ? x * x : 0;
}
/* The square of how far two slots are apart.  Integers of 64 bits are compared bit by bit, and
 * where nothing is allowed, halves with what the oracle has rounded. */
static double distance(const op_case *c, sl_dtype dtype, double got, double want) {
    if (sl_same_slot(&got, &want)) return 0;
    if (sl_is_wide(dtype)) return INFINITY;
    if (c->tolerance == 0 && (dtype == SL_DTYPE_f16 || dtype == SL_DTYPE_bf16)) {
        uint16_t half;
        sl_encode_f64(dtype, &want, 1, &half);
        sl_decode_f64(dtype, &half, 1, &want);
    }
    const bool same = got == want || (isnan(got) && isnan(want));
    return same ? 0 : (got - want) * (got - want);
}

/* Every row within the tolerance; integers exactly. */
static void compare(const op_case *c, const char *isa, uint32_t operand, const void *got,
                    const double *want) {
    if (!want) {
        fail_msg("%s: operand %u has no oracle", sl_op_info_of(c->op)->name, operand);
        return;
    }
    const sl_type *type = &c->types[operand];
    const int64_t columns = type->shape.rank ? type->shape.dims[type->shape.rank - 1] : 1;
    const int64_t rows = columns ? sl_type_elements(type) / columns : 0;
    const int64_t width = rows ? sl_type_slots(type) / rows : 0;
    double *values = doubles_of(type, got), all = 0;
    for (int64_t i = 0; c->by_tensor && i < rows * width; i++) all += square(type->dtype, want[i]);
    for (int64_t row = 0; row < rows; row++) {
        double error = 0, norm = 0;
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            error += distance(c, type->dtype, values[i], want[i]);
            norm += square(type->dtype, want[i]);
        }
        norm = fmax(norm, all / (double)rows);
        const double limit =
            c->tolerance > 0 || type->dtype == SL_DTYPE_f16
                ? allowed(c, type->dtype) * sqrt(norm) + one_step(type, got, row) + 1e-37
                : 0;
        if (!(sqrt(error) <= limit))
            fail_msg(
                "%s on %s: row %lld of operand %u is off by %g of %g, at most %g of it allowed",
                sl_op_info_of(c->op)->name, isa, (long long)row, operand, sqrt(error), sqrt(norm),
                c->tolerance);
    }
    free(values);
}

__attribute__((unused)) static void check_isa(const op_case *c, const char *isa,
                                              double *const want[MAX_OPERANDS]) {
    static const int64_t steps[] = {INT32_MAX, 1, 3};
    memory first = memory_of(c);
    for (int s = 0; s < 6; s++) {
        memory m = memory_of(c);
        sl_error err = {0};
        if (run_kernel(c, isa, &m, steps[s / 2], s % 2, &err)) fail_msg("%s", err.message);
        for (uint32_t i = 0; i < c->operands; i++) {
            if (!m.views[i] || !first.views[i]) continue; /* experts */
            const uint64_t bytes = sl_type_bytes(&c->types[i]);
            if (s == 0 && is_written(c, i)) compare(c, isa, i, m.views[i], want[i]);
            if (s == 0) memcpy(first.views[i], m.views[i], bytes);
            if (c->data[i] && !is_written(c, i))
                assert_memory_equal(m.views[i], c->data[i], bytes);
            else if (memcmp(m.views[i], first.views[i], bytes) != 0)
                fail_msg("%s on %s: another division of items gives other bits",
                         sl_op_info_of(c->op)->name, isa);
        }
        memory_free(&m);
    }
    memory_free(&first);
}

#ifdef SL_CASE_CUDA
#include "tests/support/case_cuda.h"
#endif

/* Runs everything on the case and releases it. */
__attribute__((unused)) static void check(op_case *c) {
    double *want[MAX_OPERANDS] = {0};
    infer_outputs(c);
    evaluate(c, want);
#ifdef SL_CASE_CUDA
    check_cuda(c, want);
#else
    for (int i = 0; i < ISA_COUNT; i++)
        if (sl_cpu_kernel_set(isas[i])) check_isa(c, isas[i], want);
#endif
    for (uint32_t i = 0; i < MAX_OPERANDS; i++) free(want[i]);
    release_case(c);
}

/* The kernel must refuse the case with SL_INVALID. */
__attribute__((unused)) static void check_refused(op_case *c) {
    infer_outputs(c);
#ifdef SL_CASE_CUDA
    check_cuda_refuses(c);
#endif
    for (int i = 0; i < ISA_COUNT; i++) {
        if (!sl_cpu_kernel_set(isas[i])) continue;
        memory m = memory_of(c);
        sl_error err = {0};
        assert_int_equal(run_kernel(c, isas[i], &m, 1, false, &err), SL_INVALID);
        assert_true(err.message[0] != 0);
        memory_free(&m);
    }
    release_case(c);
}
#endif
