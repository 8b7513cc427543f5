/* weights_test.c - Weights packed by the public call, decoded again, and under `linear`. */
#include "core/codec.h"
#include "core/gguf_blocks.h"
#include "sluice/graph.h"
#include "sluice/weights.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 19, COLS = 256, COUNT = 2 };
static sl_error err;
static uint32_t seed = 7;

static uint32_t next(void) {
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}
static void fill(void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)data)[i] = (unsigned char)(next() >> 4);
}
static double uniform(void) {
    return (double)next() / 8388608.0 - 1;
}

static void *pack(const sl_weight_source *from, const char *wanted_dtype) {
    const char *dtype = "";
    size_t bytes = 0;
    void *out = NULL;
    if (sl_weight_describe(from, &dtype, &bytes, &err) != SL_OK) fail_msg("%s", err.message);
    if (wanted_dtype) assert_string_equal(dtype, wanted_dtype);
    assert_int_equal(posix_memalign(&out, 64, bytes), 0);
    if (sl_weight_pack(from, out, bytes, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(sl_weight_pack(from, out, bytes - 1, &err), SL_INVALID);
    return out;
}

/* Row `row` of matrix `index` of what was packed. */
static void decode(const sl_weight_source *from, const void *packed, uint32_t index, int64_t row,
                   float *out) {
    const char *name;
    size_t bytes;
    sl_dtype dtype;
    assert_int_equal(sl_weight_describe(from, &name, &bytes, &err), SL_OK);
    assert_true(sl_dtype_find(name, strlen(name), &dtype));
    sl_decode_row(dtype, (const char *)packed + index * (bytes / from->count), from->rows,
                  from->cols, row, out);
}

/* ---- MLX: w = scale q + bias, q from a stream of bits, the lowest first ---- */

static uint32_t code_at(const uint8_t *row, uint32_t bits, int64_t col) {
    uint32_t code = 0;
    for (uint32_t b = 0; b < bits; b++) {
        const int64_t at = col * bits + b;
        code |= (uint32_t)(row[at / 8] >> at % 8 & 1) << b;
    }
    return code;
}

static void check_affine(uint32_t bits, uint32_t group, sl_dtype scale_type) {
    static uint8_t codes[COUNT * ROWS * COLS], scales[COUNT * ROWS * COLS], biases[sizeof scales];
    const size_t each = sl_dtype_infos[scale_type].bytes, groups = COLS / group;
    fill(codes, sizeof codes);
    for (size_t i = 0; i < COUNT * ROWS * groups; i++) {
        const double pair[2] = {uniform() / 16, uniform()};
        sl_encode_f64(scale_type, &pair[0], 1, scales + i * each);
        sl_encode_f64(scale_type, &pair[1], 1, biases + i * each);
    }
    const sl_weight_source from = {.struct_size = sizeof from,
                                   .format = "affine",
                                   .count = COUNT,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .data = codes,
                                   .data_bytes = (size_t)COUNT * ROWS * COLS * bits / 8,
                                   .scales = scales,
                                   .biases = biases,
                                   .scale_bytes = COUNT * ROWS * groups * each,
                                   .scale_dtype = sl_dtype_infos[scale_type].name,
                                   .bits = bits,
                                   .group = group};
    void *packed = pack(&from, NULL);
    for (uint32_t index = 0; index < COUNT; index++)
        for (int64_t row = 0; row < ROWS; row++) {
            float found[COLS];
            const int64_t at = index * ROWS + row;
            decode(&from, packed, index, row, found);
            for (int64_t col = 0; col < COLS; col++) {
                double scale, bias;
                const size_t place = ((size_t)at * groups + (size_t)col / group) * each;
                sl_decode_f64(scale_type, scales + place, 1, &scale);
                sl_decode_f64(scale_type, biases + place, 1, &bias);
                const double wanted =
                    scale * code_at(codes + at * COLS * bits / 8, bits, col) + bias;
                if (!(fabs((double)found[col] - wanted) <= 1e-6 * (fabs(bias) + fabs(scale) * 255)))
                    fail_msg("%u bits in %u: %g instead of %g", bits, group, (double)found[col],
                             wanted);
            }
        }
    free(packed);
}

static void affine_weights_are_exact(void **state) {
    (void)state;
    static const uint32_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const sl_dtype scales[] = {SL_DTYPE_f32, SL_DTYPE_f16, SL_DTYPE_bf16};
    for (int b = 0; b < 6; b++)
        for (int g = 0; g < 3; g++)
            for (int s = 0; s < 3; s++) check_affine(bits[b], groups[g], scales[s]);
}

/* ---- GGUF ---- */

static void blocks_are_exact(void **state) {
    (void)state;
    static const char *const names[] = {"q4_0", "q4_1", "q5_0", "q5_1",   "q8_0",   "q2_k",
                                        "q3_k", "q4_k", "q5_k", "iq4_nl", "iq4_xs", "q6_k"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        const sl_gguf_layout *l = sl_gguf_layout_find(names[n]);
        const size_t row_bytes = (size_t)(COLS / l->cols * l->bytes);
        uint8_t *blocks = malloc(COUNT * ROWS * row_bytes);
        assert_non_null(blocks);
        fill(blocks, COUNT * ROWS * row_bytes);
        for (size_t i = 0; i < COUNT * ROWS * row_bytes; i++) blocks[i] &= 0xbb; /* no NaN */
        const sl_weight_source from = {.struct_size = sizeof from,
                                       .format = names[n],
                                       .count = COUNT,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .data = blocks,
                                       .data_bytes = COUNT * ROWS * row_bytes};
        void *packed = pack(&from, sl_dtype_infos[l->dtype].name);
        for (int64_t row = 0; row < COUNT * ROWS; row++) {
            float found[COLS], wanted[COLS], most = 0;
            decode(&from, packed, (uint32_t)(row / ROWS), row % ROWS, found);
            sl_gguf_decode(l, blocks + (size_t)row * row_bytes, COLS / l->cols, wanted);
            for (int i = 0; i < COLS; i++) most = fmaxf(most, fabsf(wanted[i]));
            for (int i = 0; i < COLS; i++)
                if (!(fabsf(found[i] - wanted[i]) <= 1e-6f * most))
                    fail_msg("%s: %g instead of %g", names[n], (double)found[i], (double)wanted[i]);
        }
        free(packed);
        free(blocks);
    }
}

/* ---- numbers, and a graph ---- */

static void numbers_are_quantised(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        double off; /* root mean square: a little more than a step of codes over its sqrt(12) */
    } rows[] = {{"q4", 0.045}, {"q6_k", 0.011}, {"q8", 0.0027}};
    static const sl_dtype numbers[] = {SL_DTYPE_f32, SL_DTYPE_bf16};
    for (size_t r = 0; r < 6; r++) {
        static uint8_t data[ROWS * COLS * 4];
        const sl_dtype type = numbers[r % 2];
        const size_t each = sl_dtype_infos[type].bytes;
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++) {
            const double value = uniform();
            sl_encode_f64(type, &value, 1, data + i * each);
        }
        const sl_weight_source from = {.struct_size = sizeof from,
                                       .format = sl_dtype_infos[type].name,
                                       .dtype = rows[r / 2].dtype,
                                       .count = 1,
                                       .rows = ROWS,
                                       .cols = COLS,
                                       .data = data,
                                       .data_bytes = ROWS * COLS * each};
        void *packed = pack(&from, rows[r / 2].dtype);
        for (int64_t row = 0; row < ROWS; row++) {
            float found[COLS], wanted[COLS];
            decode(&from, packed, 0, row, found);
            sl_decode_row(type, data, ROWS, COLS, row, wanted);
            double sum = 0;
            for (int i = 0; i < COLS; i++)
                sum += pow((double)found[i] - (double)wanted[i], 2) / COLS;
            if (!(sqrt(sum) <= rows[r / 2].off))
                fail_msg("%s: off by %g", rows[r / 2].dtype, sqrt(sum));
        }
        free(packed);
    }
}

static void linear_takes_what_was_packed(void **state) {
    (void)state;
    static uint8_t codes[ROWS * COLS / 2];
    static uint16_t scales[ROWS * 4], biases[ROWS * 4];
    static float x[COLS];
    fill(codes, sizeof codes);
    for (int i = 0; i < ROWS * 4; i++) {
        scales[i] = sl_bf16_from_f32((float)uniform() / 8);
        biases[i] = sl_bf16_from_f32((float)uniform());
    }
    for (int i = 0; i < COLS; i++) x[i] = (float)uniform();
    const sl_weight_source from = {.struct_size = sizeof from,
                                   .format = "affine",
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .count = 1,
                                   .data = codes,
                                   .data_bytes = sizeof codes,
                                   .scales = scales,
                                   .biases = biases,
                                   .scale_bytes = sizeof scales,
                                   .scale_dtype = "bf16",
                                   .bits = 4,
                                   .group = 64};
    sl_graph *g = NULL;
    sl_compiled *c = NULL;
    const char *dtype;
    size_t bytes;
    void *packed = pack(&from, "q4_m");
    assert_int_equal(sl_weight_describe(&from, &dtype, &bytes, &err), SL_OK);
    assert_int_equal(sl_graph_create("g", NULL, &g, &err), SL_OK);
    const sl_value in[2] = {sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){1, COLS}),
                            sl_graph_add_weight(g, "w", dtype, 2, (int64_t[]){ROWS, COLS})};
    sl_graph_add_output(g, "y", sl_graph_apply(g, "linear", in, 2, NULL));
    if (sl_compile(g, NULL, &c, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(sl_compiled_set(c, "x", x, sizeof x, &err), SL_OK);
    if (sl_compiled_set(c, "w", packed, bytes, &err) != SL_OK) fail_msg("%s", err.message);
    assert_int_equal(sl_compiled_run(c, &err), SL_OK);
    const float *y = sl_compiled_get(c, "y", NULL);
    for (int row = 0; row < ROWS; row++) {
        double wanted = 0;
        for (int col = 0; col < COLS; col++) {
            const int at = row * 4 + col / 64;
            wanted += (double)x[col] * ((double)sl_f32_from_bf16(scales[at]) *
                                            code_at(codes + row * COLS / 2, 4, col) +
                                        (double)sl_f32_from_bf16(biases[at]));
        }
        if (!(fabs((double)y[row] - wanted) <= 1e-4))
            fail_msg("%g instead of %g", (double)y[row], wanted);
    }
    sl_compiled_destroy(c);
    sl_graph_destroy(g);
    free(packed);
}

static void mistakes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *format, *dtype, *scale_dtype;
        int64_t cols;
        uint32_t bits, group;
        const char *message;
    } rows[] = {
        {"q9", NULL, NULL, 64, 0, 0, "weights: format 'q9', must be f32, "},
        {"f32", NULL, NULL, 64, 0, 0, "weights: numbers become '', must be q4, q6_k or q8"},
        {"f32", "q4_m", NULL, 64, 0, 0, "weights: numbers become 'q4_m', must be"},
        {"q4_k", "q4", NULL, 256, 0, 0, "weights: dtype 'q4' is for numbers alone"},
        {"q4_k", NULL, NULL, 64, 0, 0, "weights: 64 columns, q4_k has blocks of 256"},
        {"affine", NULL, NULL, 64, 4, 64, "weights: scale_dtype is '', must be f32, f16 or bf16"},
        {"affine", NULL, "f32", 64, 7, 64, "7"},
        {"affine", NULL, "f32", 96, 4, 64, "weights: 96 columns, wanted whole groups of 64"},
        {"q4_0", NULL, NULL, 0, 0, 0, "weights: 1 x 0, each must be in [1, "},
    };
    const char *dtype;
    size_t bytes;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const sl_weight_source from = {.struct_size = sizeof from,
                                       .format = rows[i].format,
                                       .dtype = rows[i].dtype,
                                       .scale_dtype = rows[i].scale_dtype,
                                       .rows = 1,
                                       .cols = rows[i].cols,
                                       .bits = rows[i].bits,
                                       .group = rows[i].group};
        assert_int_not_equal(sl_weight_describe(&from, &dtype, &bytes, &err), SL_OK);
        if (!strstr(err.message, rows[i].message)) fail_msg("%zu: %s", i, err.message);
    }
    const sl_weight_source empty = {
        .struct_size = sizeof empty, .format = "q4_0", .rows = 1, .cols = 32, .data_bytes = 18};
    static _Alignas(64) char room[1024];
    assert_int_equal(sl_weight_describe(&empty, &dtype, &bytes, &err), SL_OK);
    assert_int_equal(sl_weight_pack(&empty, room, bytes, &err), SL_INVALID);
    assert_string_equal(err.message, "weights: data has 18 bytes at NULL, must have 18");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(affine_weights_are_exact), cmocka_unit_test(blocks_are_exact),
        cmocka_unit_test(numbers_are_quantised),    cmocka_unit_test(linear_takes_what_was_packed),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
