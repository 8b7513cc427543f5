/* Weights made of rows of another tensor, which a pack holds in every kind of type. */
#include "tests/support/folder.h"

#include "core/codec.h"
#include "engine/formats/pack.h"
#include "engine/models/gather.h"
#include "engine/models/weights.h"
#include "engine/quant/quantise.h"

enum { GROUPS = 3, COLS = 64, MAX_ROWS = GROUPS * 96 };

static float original[MAX_ROWS][COLS];

/* A pack with one tensor of `rows` rows; original has what its rows decode to. */
static sl_source *make_source(sl_dtype dtype, int64_t rows) {
    const sl_type type = sl_type_make(dtype, 2, rows, (int64_t)COLS);
    static _Alignas(64) uint8_t bytes[MAX_ROWS * COLS * 4 + 4096];
    static float values[MAX_ROWS * COLS];
    sl_error err = {0};
    for (int64_t i = 0; i < rows * COLS; i++)
        values[i] = (float)((i * 7919) % 997) / 64 - (float)(i % 5);
    if (sl_dtype_infos[dtype].kind == SL_KIND_PANEL)
        assert_int_equal(sl_quantise(dtype, values, rows, COLS, bytes, &err), SL_OK);
    for (int64_t i = 0; sl_dtype_infos[dtype].kind != SL_KIND_PANEL && i < rows * COLS; i++) {
        const double value = (double)values[i];
        sl_encode_f64(dtype, &value, 1, bytes + (size_t)i * sl_dtype_infos[dtype].bytes);
    }
    for (int64_t r = 0; r < rows; r++) sl_decode_row(dtype, bytes, rows, COLS, r, original[r]);
    sl_pack_writer *writer = NULL;
    sl_source *source = NULL;
    assert_int_equal(sl_pack_writer_create(test_path("a.sluice"), NULL, &writer, &err), SL_OK);
    assert_int_equal(sl_pack_writer_text(writer, "config.json", "{}", 2, &err), SL_OK);
    assert_int_equal(sl_pack_writer_begin(writer, "model.from.weight", type, &err), SL_OK);
    assert_int_equal(sl_pack_writer_piece(writer, bytes, sl_type_bytes(&type), &err), SL_OK);
    assert_int_equal(sl_pack_writer_end(writer, &err), SL_OK);
    assert_int_equal(sl_pack_writer_finish(writer, &err), SL_OK);
    sl_pack_writer_destroy(writer);
    if (sl_source_open(test_path("a.sluice"), NULL, &source, &err)) fail_msg("%s", err.message);
    return source;
}

/* Compares row by row with where each must have come from. */
static void check(sl_dtype dtype, sl_weight_gather gather, sl_dtype wanted) {
    sl_source *source = make_source(dtype, (int64_t)GROUPS * gather.stride);
    sl_error err = {0};
    sl_weights weights;
    sl_weights_init(&weights, source, NULL);
    int64_t rows = 0;
    for (uint32_t p = 0; p < gather.part_count; p++)
        rows += (int64_t)GROUPS * gather.parts[p].length;
    const sl_weight_request request = {"made.weight", SL_WEIGHT_MATRIX, {2, {rows, COLS}}, &gather};
    const sl_weight *weight = NULL;
    if (sl_weights_get(&weights, &request, &weight, &err)) fail_msg("%s", err.message);
    assert_int_equal(weight->type.dtype, wanted);
    if (sl_weights_read(&weights, &err)) fail_msg("%s", err.message);
    int64_t to = 0;
    for (uint32_t p = 0; p < gather.part_count; p++)
        for (uint32_t g = 0; g < GROUPS; g++)
            for (uint32_t r = 0; r < gather.parts[p].length; r++, to++) {
                float found[COLS];
                sl_decode_row(wanted, weight->data, rows, COLS, to, found);
                assert_memory_equal(found, original[g * gather.stride + gather.parts[p].offset + r],
                                    sizeof found);
            }
    sl_weights_deinit(&weights);
    sl_source_close(source);
}

static void test_rows_move(void **state) {
    (void)state;
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_bf16, SL_DTYPE_q8, SL_DTYPE_q4};
    const sl_weight_gather even = {.from = "from.weight",
                                   .groups = GROUPS,
                                   .stride = 96,
                                   .part_count = 3,
                                   .parts = {{0, 16}, {48, 32}, {16, 32}}};
    const sl_weight_gather odd = {.from = "from.weight",
                                  .groups = GROUPS,
                                  .stride = 7,
                                  .part_count = 2,
                                  .parts = {{5, 2}, {1, 3}}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const bool panel = sl_dtype_infos[types[i]].kind == SL_KIND_PANEL;
        check(types[i], even, types[i]);
        check(types[i], odd, panel ? SL_DTYPE_f32 : types[i]);
    }
}

/* A stack of matrices, one of each group: panels are moved as they are. */
static void test_rows_become_matrices(void **state) {
    (void)state;
    static const sl_dtype types[] = {SL_DTYPE_f32, SL_DTYPE_bf16, SL_DTYPE_q8, SL_DTYPE_q4};
    const sl_weight_gather gather = {.from = "from.weight",
                                     .groups = GROUPS,
                                     .stride = 96,
                                     .part_count = 1,
                                     .parts = {{48, 32}}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        sl_source *source = make_source(types[i], (int64_t)GROUPS * gather.stride);
        sl_error err = {0};
        sl_weights weights;
        sl_weights_init(&weights, source, NULL);
        const sl_weight_request request = {
            "made.weight", SL_WEIGHT_MATRIX, {3, {GROUPS, 32, COLS}}, &gather};
        const sl_weight *weight = NULL;
        if (sl_weights_get(&weights, &request, &weight, &err)) fail_msg("%s", err.message);
        assert_int_equal(weight->type.dtype, types[i]);
        if (sl_weights_read(&weights, &err)) fail_msg("%s", err.message);
        const uint64_t each = sl_type_bytes(&weight->type) / GROUPS;
        for (uint32_t row = 0; row < GROUPS * 32; row++) {
            float found[COLS];
            sl_decode_row(types[i], (const char *)weight->data + row / 32 * each, 32, COLS,
                          row % 32, found);
            assert_memory_equal(found, original[row / 32 * 96 + 48 + row % 32], sizeof found);
        }
        static float floats[GROUPS * 32 * COLS];
        assert_int_equal(sl_weight_gather_floats(&weights, weight, floats, &err), SL_OK);
        for (uint32_t row = 0; row < GROUPS * 32; row++)
            assert_memory_equal(floats + (size_t)row * COLS,
                                original[row / 32 * 96 + 48 + row % 32], COLS * sizeof(float));
        sl_weights_deinit(&weights);
        sl_source_close(source);
    }
}

/* Element [group, column, row] of what was gathered. */
static float turned(const sl_weight *weight, int64_t group, int64_t column, int64_t row) {
    const int64_t length = weight->type.shape.dims[2];
    float values[MAX_ROWS];
    const char *matrix =
        (const char *)weight->data + (uint64_t)group * (sl_type_bytes(&weight->type) / GROUPS);
    sl_decode_row(weight->type.dtype, matrix, COLS, length, column, values);
    return values[row];
}

/* Floats are moved; codes get other groups, which 8 bits hardly change. */
static void test_rows_become_columns(void **state) {
    (void)state;
    static const struct {
        sl_dtype from, wanted;
        uint32_t length;
    } cases[] = {{SL_DTYPE_f32, SL_DTYPE_f32, 20},
                 {SL_DTYPE_bf16, SL_DTYPE_bf16, 20},
                 {SL_DTYPE_q8, SL_DTYPE_f32, 20},
                 {SL_DTYPE_q8, SL_DTYPE_q8, 32},
                 {SL_DTYPE_q4, SL_DTYPE_q8, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t length = cases[i].length;
        const sl_weight_gather gather = {.from = "from.weight",
                                         .groups = GROUPS,
                                         .stride = 48,
                                         .part_count = 1,
                                         .parts = {{3, cases[i].length}},
                                         .transposed = true};
        sl_source *source = make_source(cases[i].from, (int64_t)GROUPS * gather.stride);
        sl_error err = {0};
        sl_weights weights;
        sl_weights_init(&weights, source, NULL);
        const sl_weight_request request = {
            "made.weight", SL_WEIGHT_MATRIX, {3, {GROUPS, COLS, length}}, &gather};
        const sl_weight *weight = NULL;
        if (sl_weights_get(&weights, &request, &weight, &err)) fail_msg("%s", err.message);
        assert_int_equal(weight->type.dtype, cases[i].wanted);
        if (sl_weights_read(&weights, &err)) fail_msg("%s", err.message);
        double off = 0, size = 0;
        for (int64_t e = 0; e < GROUPS * COLS * length; e++) {
            const int64_t g = e / (COLS * length), c = e / length % COLS, r = e % length;
            const double wanted = (double)original[g * 48 + 3 + r][c];
            const double difference = (double)turned(weight, g, c, r) - wanted;
            off += difference * difference;
            size += wanted * wanted;
        }
        assert_true(cases[i].wanted == SL_DTYPE_q8 ? off > 0 && off < 3e-5 * size : off == 0);
        sl_weights_deinit(&weights);
        sl_source_close(source);
    }
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    sl_error err = {0};
    sl_source *source = make_source(SL_DTYPE_bf16, 30);
    const sl_weight_gather gather = {
        .from = "from.weight", .groups = 3, .stride = 8, .part_count = 1, .parts = {{0, 8}}};
    const sl_weight_request request = {"made.weight", SL_WEIGHT_MATRIX, {2, {24, COLS}}, &gather};
    sl_weight_gather absent = gather;
    absent.from = "absent.weight";
    const sl_weight_request lost = {"made.weight", SL_WEIGHT_MATRIX, {2, {24, COLS}}, &absent};
    const sl_weight *weight = NULL;
    sl_weights weights;
    sl_weights_init(&weights, source, NULL);
    assert_int_equal(sl_weights_get(&weights, &request, &weight, &err), SL_FORMAT);
    expect_message(&err, "tensor 'model.from.weight', of which 'made.weight' is a part, is "
                         "bf16[30,64], wanted [24,64]");
    assert_int_equal(sl_weights_get(&weights, &lost, &weight, &err), SL_FORMAT);
    expect_message(&err, "tensor 'model.made.weight' is missing");
    sl_weights_deinit(&weights);
    sl_source_close(source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_move),
        cmocka_unit_test(test_rows_become_matrices),
        cmocka_unit_test(test_rows_become_columns),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
