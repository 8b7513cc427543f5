/* hf_test.c - Converters of Hugging Face and MLX folders: every element against the format's
 * definition, and error messages of malformed folders. */
#include "core/codec.h"
#include "engine/formats/source.h"
#include "tests/support/folder.h"
#include <math.h>

enum { MOST_BYTES = 1 << 20 };

/* A safetensors file being built. */
typedef struct {
    char header[1 << 14];
    uint8_t *data;
    size_t bytes;
} made;
static made folder;

static uint32_t seed;
static uint8_t random_byte(void) {
    seed = seed * 1664525 + 1013904223;
    return (uint8_t)(seed >> 24);
}

static int begin(void **state) {
    (void)state;
    folder.data = malloc(MOST_BYTES);
    folder.bytes = 0;
    (void)strcpy(folder.header, "{");
    seed = 7;
    return folder.data ? 0 : -1;
}
static int end(void **state) {
    free(folder.data);
    return empty_test_folder(state);
}

/* shape: "2,64".  Random bytes unless data is given. */
static uint8_t *add(const char *name, const char *dtype, const char *shape, const void *data,
                    size_t bytes) {
    uint8_t *to = folder.data + folder.bytes;
    const size_t used = strlen(folder.header);
    assert_true(folder.bytes + bytes <= MOST_BYTES);
    for (size_t i = 0; i < bytes; i++) to[i] = data ? ((const uint8_t *)data)[i] : random_byte();
    (void)snprintf(folder.header + used, sizeof folder.header - used,
                   "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                   used > 1 ? "," : "", name, dtype, shape, folder.bytes, folder.bytes + bytes);
    folder.bytes += bytes;
    return to;
}

/* Small and finite for any bits. */
static uint8_t *add_scales(const char *name, const char *dtype, const char *shape, size_t count) {
    uint8_t *to = add(name, dtype, shape, NULL, count * (strcmp(dtype, "F32") == 0 ? 4 : 2));
    for (size_t i = 0; i < count; i++) {
        const float value = (float)(random_byte() - 128) / 256;
        const uint16_t half =
            strcmp(dtype, "F16") == 0 ? sl_f16_from_f32(value) : sl_bf16_from_f32(value);
        if (strcmp(dtype, "F32") == 0)
            memcpy(to + 4 * i, &value, 4);
        else
            memcpy(to + 2 * i, &half, 2);
    }
    return to;
}

static sl_status open_made(const char *config, sl_source **out, sl_error *err) {
    const size_t length = strlen(folder.header) + 1, padded = (length + 7) / 8 * 8;
    uint8_t *file = calloc(1, 8 + padded + folder.bytes);
    assert_non_null(file);
    memset(file + 8, ' ', padded);
    memcpy(file, &(uint64_t){padded}, 8);
    memcpy(file + 8, folder.header, length - 1);
    file[8 + length - 1] = '}';
    memcpy(file + 8 + padded, folder.data, folder.bytes);
    write_test_file("model.safetensors", file, 8 + padded + folder.bytes);
    write_test_file("config.json", config, strlen(config));
    free(file);
    return sl_source_open(test_folder, NULL, out, err);
}

static sl_source *must_open(const char *config) {
    sl_source *source = NULL;
    sl_error err = {0};
    if (open_made(config, &source, &err) != SL_OK) fail_msg("%s", err.message);
    return source;
}

static float element(sl_source *source, const char *name, int64_t matrix, int64_t row,
                     int64_t col) {
    const sl_tensor_entry *entry = sl_source_find(source, name);
    sl_error err = {0};
    const void *data = NULL;
    static float values[4096];
    if (!entry) {
        fail_msg("no tensor '%s'", name);
        return 0;
    }
    if (sl_source_map(source, entry, &data, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_dims *shape = &entry->type.shape;
    const int64_t cols = shape->dims[shape->rank - 1];
    const int64_t rows = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    const sl_type one = {entry->type.dtype, {2, {rows, cols}}};
    const uint8_t *from = (const uint8_t *)data + (uint64_t)matrix * sl_type_bytes(&one);
    assert_true(row < rows && col < cols && cols <= 4096);
    sl_decode_row(entry->type.dtype, from, rows, cols, row, values);
    return values[col];
}

static float from_e4m3(uint8_t bits) {
    const int e = bits >> 3 & 15, m = bits & 7;
    const float value = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
    return bits & 128 ? -value : value;
}
static float from_e2m1(unsigned code) {
    static const float values[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -values[code & 7] : values[code & 7];
}

static void check_shape(sl_source *source, const char *name, sl_dtype dtype, const char *wanted) {
    const sl_tensor_entry *entry = sl_source_find(source, name);
    char text[SL_TYPE_TEXT];
    if (!entry) {
        fail_msg("no tensor '%s'", name);
        return;
    }
    assert_int_equal(entry->type.dtype, dtype);
    assert_string_equal(strchr(sl_type_format(&entry->type, text, sizeof text), '['), wanted);
}

/* ---- fp8 ---- */

static uint8_t *add_fp8(const char *name, const char *shape, size_t count) {
    uint8_t *codes = add(name, "F8_E4M3", shape, NULL, count);
    for (size_t i = 0; i < count; i++)
        if ((codes[i] & 127) == 127) codes[i] = 1;
    return codes;
}

#define FP8(block) "{\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\"" block "}}"

/* Partial blocks at the edges; blocks that no panel type supports; one block for the whole
 * matrix. */
static void test_fp8(void **state) {
    (void)state;
    static const struct {
        const char *config, *scale_shape;
        int block_rows, block_cols;
        sl_dtype dtype;
    } cases[] = {
        {FP8(",\"weight_block_size\":[128,128]"), "2,3", 128, 128, SL_DTYPE_f8},
        {FP8(",\"weight_block_size\":[32,64]"), "5,5", 32, 64, SL_DTYPE_f8},
        {FP8(",\"weight_block_size\":[100,100]"), "2,3", 100, 100, SL_DTYPE_f32},
        {FP8(""), "", 136, 288, SL_DTYPE_f8},
    };
    enum { ROWS = 136, COLS = 288 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int across = (COLS + cases[i].block_cols - 1) / cases[i].block_cols;
        const int down = (ROWS + cases[i].block_rows - 1) / cases[i].block_rows;
        const uint8_t *codes = add_fp8("a.weight", "136,288", (size_t)ROWS * COLS);
        float scales[32];
        memcpy(
            scales,
            add_scales("a.weight_scale_inv", "F32", cases[i].scale_shape, (size_t)(across * down)),
            (size_t)(across * down) * 4);
        sl_source *source = must_open(cases[i].config);
        check_shape(source, "a.weight", cases[i].dtype, "[136,288]");
        assert_null(sl_source_find(source, "a.weight_scale_inv"));
        for (int k = 0; k < 500; k++) {
            const int r = random_byte() % ROWS, c = (random_byte() * 256 + random_byte()) % COLS;
            const float scale = scales[r / cases[i].block_rows * across + c / cases[i].block_cols];
            assert_true(element(source, "a.weight", 0, r, c) ==
                        scale * from_e4m3(codes[r * COLS + c]));
        }
        sl_source_close(source);
        free(folder.data);
        (void)begin(NULL);
    }
}

/* Gate and up stacked, split within a block. */
static void test_fp8_stacked(void **state) {
    (void)state;
    enum { E = 2, I = 48, H = 64, ACROSS = 2, DOWN = 3 };
    const uint8_t *codes =
        add_fp8("model.layers.0.mlp.experts.gate_up_proj", "2,96,64", (size_t)E * 2 * I * H);
    const uint8_t *raw = add_scales("model.layers.0.mlp.experts.gate_up_proj_scale_inv", "BF16",
                                    "2,3,2", (size_t)E * DOWN * ACROSS);
    sl_source *source = must_open(FP8(",\"weight_block_size\":[32,32]"));
    for (int k = 0; k < 600; k++) {
        const int e = k % E, m = k / 2 % 2, r = random_byte() % I, c = random_byte() % H;
        const int row = m * I + r;
        uint16_t scale;
        memcpy(&scale, raw + 2 * (e * DOWN * ACROSS + row / 32 * ACROSS + c / 32), 2);
        const float found = element(source,
                                    m ? "model.layers.0.mlp.experts.up_proj"
                                      : "model.layers.0.mlp.experts.gate_proj",
                                    e, r, c);
        assert_true(found == sl_f32_from_bf16(scale) * from_e4m3(codes[(e * 2 * I + row) * H + c]));
    }
    sl_source_close(source);
}

/* ---- gpt_oss ---- */

static const char experts[] = "model.layers.0.mlp.experts.";
static const char *expert_name(const char *what) {
    static char names[4][96];
    static unsigned next;
    char *name = names[next++ % 4];
    (void)snprintf(name, sizeof names[0], "%s%s", experts, what);
    return name;
}

static void test_gpt_oss_plain(void **state) {
    (void)state;
    enum { E = 2, I = 32, H = 64 };
    const uint8_t *both =
        add_scales(expert_name("gate_up_proj"), "BF16", "2,64,64", (size_t)E * H * 2 * I);
    const uint8_t *down =
        add_scales(expert_name("down_proj"), "BF16", "2,32,64", (size_t)E * I * H);
    const uint8_t *bias =
        add_scales(expert_name("gate_up_proj_bias"), "BF16", "2,64", (size_t)E * 2 * I);
    sl_source *source = must_open("{\"model_type\":\"gpt_oss\"}");
    check_shape(source, expert_name("gate_proj"), SL_DTYPE_bf16, "[2,32,64]");
    check_shape(source, expert_name("down_proj"), SL_DTYPE_bf16, "[2,64,32]");
    check_shape(source, expert_name("up_proj_bias"), SL_DTYPE_bf16, "[2,32]");
    for (int k = 0; k < 600; k++) {
        const int e = k % E, m = k / 2 % 2, i = random_byte() % I, h = random_byte() % H;
        uint16_t half;
        memcpy(&half, both + 2 * ((e * H + h) * 2 * I + 2 * i + m), 2);
        assert_true(element(source, expert_name(m ? "up_proj" : "gate_proj"), e, i, h) ==
                    sl_f32_from_bf16(half));
        memcpy(&half, down + 2 * ((e * I + i) * H + h), 2);
        assert_true(element(source, expert_name("down_proj"), e, h, i) == sl_f32_from_bf16(half));
        memcpy(&half, bias + 2 * (e * 2 * I + 2 * i + m), 2);
        assert_true(element(source, expert_name(m ? "up_proj_bias" : "gate_proj_bias"), 0, e, i) ==
                    sl_f32_from_bf16(half));
    }
    sl_source_close(source);
}

static void test_gpt_oss_mxfp4(void **state) {
    (void)state;
    enum { E = 2, I = 24, H = 96 };
    const uint8_t *codes =
        add(expert_name("gate_up_proj_blocks"), "U8", "2,48,3,16", NULL, (size_t)E * 2 * I * H / 2);
    uint8_t *scales =
        add(expert_name("gate_up_proj_scales"), "U8", "2,48,3", NULL, (size_t)E * 2 * I * H / 32);
    for (int i = 0; i < E * 2 * I * H / 32; i++) scales[i] = (uint8_t)(110 + scales[i] % 30);
    sl_source *source = must_open(
        "{\"model_type\":\"gpt_oss\",\"quantization_config\":{\"quant_method\":\"mxfp4\"}}");
    check_shape(source, expert_name("gate_proj"), SL_DTYPE_mxfp4, "[2,24,96]");
    for (int k = 0; k < 600; k++) {
        const int e = k % E, m = k / 2 % 2, r = random_byte() % I, c = random_byte() % H;
        const int row = e * 2 * I + 2 * r + m;
        const unsigned code = codes[row * H / 2 + c / 2] >> (c % 2 * 4) & 15;
        assert_true(element(source, expert_name(m ? "up_proj" : "gate_proj"), e, r, c) ==
                    ldexpf(from_e2m1(code), scales[row * H / 32 + c / 32] - 127));
    }
    sl_source_close(source);
}

/* ---- MLX ---- */

static void test_mlx_biases_of_experts(void **state) {
    (void)state;
    (void)add_scales(expert_name("gate_proj.bias"), "F32", "2,4", 8);
    sl_source *source = must_open("{\"model_type\":\"gpt_oss\"}");
    check_shape(source, expert_name("gate_proj_bias"), SL_DTYPE_f32, "[2,4]");
    sl_source_close(source);
}

/* nvfp4 with a scale per expert: its largest weight. */
static void test_matrix_scale(void **state) {
    (void)state;
    const uint8_t *codes = add("x.switch_mlp.up_proj.weight", "U32", "2,3,4", NULL, 96);
    uint8_t *scales = add("x.switch_mlp.up_proj.scales", "U8", "2,3,2", NULL, 12);
    for (int i = 0; i < 12; i++) scales[i] = (uint8_t)(scales[i] % 126);
    (void)add("x.switch_mlp.up_proj.global_scale", "F32", "2", (const float[]){9.5f, 0.25f}, 8);
    sl_source *source =
        must_open("{\"quantization\":{\"group_size\":16,\"bits\":4,\"mode\":\"nvfp4\"}}");
    check_shape(source, "x.switch_mlp.up_proj.weight", SL_DTYPE_nvfp4, "[2,3,32]");
    for (int i = 0; i < 192; i++) {
        const float scale = (i < 96 ? 9.5f : 0.25f) / (6 * 448) * from_e4m3(scales[i / 16]);
        const float wanted = scale * from_e2m1(codes[i / 2] >> (i % 2 * 4) & 15);
        const float found =
            element(source, "x.switch_mlp.up_proj.weight", i / 96, i / 32 % 3, i % 32);
        assert_true(fabsf(found - wanted) <= 1e-6f * fabsf(wanted));
    }
    sl_source_close(source);
}

/* One is subtracted from norm gains if the layout of a convolution shows that mlx-lm has converted
 * the model. */
static void test_raised_gains(void **state) {
    (void)state;
    for (int sanitised = 0; sanitised < 2; sanitised++) {
        uint16_t gain;
        memcpy(&gain, add_scales("language_model.model.norm.weight", "BF16", "4", 4), 2);
        (void)add_scales("language_model.model.layers.0.linear_attn.norm.weight", "BF16", "4", 4);
        (void)add_scales("language_model.model.layers.0.linear_attn.conv1d.weight", "BF16",
                         sanitised ? "8,4,1" : "8,1,4", 32);
        sl_source *source = must_open("{\"model_type\":\"qwen3_5_moe\"}");
        assert_true(element(source, "language_model.model.norm.weight", 0, 0, 0) ==
                    sl_f32_from_bf16(gain) - (float)sanitised);
        check_shape(source, "language_model.model.layers.0.linear_attn.norm.weight", SL_DTYPE_bf16,
                    "[4]");
        sl_source_close(source);
        free(folder.data);
        (void)begin(NULL);
    }
}

/* ---- malformed ---- */

#define MLX(more) "{\"quantization\":{\"group_size\":64,\"bits\":4" more "}}"
static const struct {
    const char *config;
    const char *weight, *scales, *biases; /* "U32 2,8"; NULL: absent */
    const char *message;
} malformed[] = {
    {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4}}", NULL, NULL, NULL,
     "config.json: quantised by 'gptq', which is not supported; supported are MLX"},
    {"{\"quantization_config\":{\"quant_method\":\"awq\"}}", NULL, NULL, NULL,
     "quantised by 'awq'"},
    {"{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}", NULL, NULL, NULL,
     "quantised by 'bitsandbytes'"},
    {"{\"quantization_config\":{\"quant_method\":\"compressed-tensors\"}}", NULL, NULL, NULL,
     "quantised by 'compressed-tensors'"},
    {"{\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}}", NULL, NULL, NULL,
     "fp8 as 'e5m2' is not supported, wanted e4m3"},
    {"{\"quantization_config\":{}}", NULL, NULL, NULL, "quantised by 'an unnamed method'"},
    {"{\"quantization\":4}", NULL, NULL, NULL, "config.json: 'quantization' is not an object"},
    {"{\"quantization\":{\"bits\":\"4\"}}", "U32 2,8", "BF16 2,1", "BF16 2,1",
     "config.json: quantization: 'bits' is not a number from 1 to 1024"},
    {MLX(",\"mode\":\"nf4\""), "U32 2,8", "BF16 2,1", "BF16 2,1",
     "mode 'nf4' is not supported; supported: affine, mxfp4, mxfp8, nvfp4"},
    {MLX(",\"a\":7"), "U32 2,8", "BF16 2,1", "BF16 2,1",
     "quantization of a is neither an object nor false"},
    {MLX(",\"a\":false"), "U32 2,8", "BF16 2,1", "BF16 2,1",
     "tensor 'a.weight' has scales, but config.json says it is not quantised"},
    {MLX(",\"a\":{\"bits\":8,\"group_size\":64}"), "U32 2,8", "BF16 2,1", "BF16 2,1",
     "tensor 'a.weight': 8 words and 1 scales per row are affine, 4 bits, config.json says 8 bits "
     "in groups of 64"},
    {MLX(",\"a\":{\"bits\":8,\"group_size\":64}"), "BF16 2,64", NULL, NULL,
     "tensor 'a.weight' is BF16[2,64], but config.json says that it has 8 bits"},
    {MLX(",\"a\":{\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\"}"), "U32 2,8", "BF16 2,2",
     "BF16 2,2", "are affine, 4 bits, config.json says 4 bits in groups of 32, mode mxfp4"},
    {MLX(""), "U32 2,7", "BF16 2,1", "BF16 2,1",
     "7 words and 1 scales per row are not a supported number of bits"},
    {MLX(""), "U32 2,8", "BF16 3,1", "BF16 3,1",
     "tensor 'a.weight' is U32[2,8], its scales are BF16[3,1]"},
    {MLX(""), "U32 2,8", "BF16 2,1", "F16 2,1",
     "tensor 'a.weight' has scales BF16[2,1] and biases F16[2,1]"},
    {MLX(""), "U32 2,8", "BF16 2,1", NULL, "tensor 'a.biases' is missing beside 'a.scales'"},
    {MLX(""), "U32 2,8", "I32 2,1", NULL,
     "tensor 'a.scales' is I32[2,1], wanted F32, F16, BF16 or U8"},
    {MLX(""), "U32 2,9", "U8 2,1", NULL, "9 words and 1 scales per row are not a float mode"},
};

static void add_shaped(const char *name, const char *what) {
    char dtype[8], shape[32];
    assert_int_equal(sscanf(what, "%7s %31s", dtype, shape), 2);
    size_t bytes = strcmp(dtype, "U8") == 0 ? 1 : strchr(dtype, '3') ? 4 : 2;
    for (const char *at = shape; at; at = strchr(at, ','))
        bytes *= strtoul(at += *at == ',', NULL, 10);
    (void)add(name, dtype, shape, NULL, bytes);
}

static void test_malformed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        sl_source *source = NULL;
        sl_error err = {0};
        if (malformed[i].weight) add_shaped("a.weight", malformed[i].weight);
        if (malformed[i].scales) add_shaped("a.scales", malformed[i].scales);
        if (malformed[i].biases) add_shaped("a.biases", malformed[i].biases);
        assert_int_not_equal(open_made(malformed[i].config, &source, &err), SL_OK);
        expect_message(&err, malformed[i].message);
        free(folder.data);
        (void)begin(NULL);
    }
}

static void refuse(const char *config, const char *message) {
    sl_source *source = NULL;
    sl_error err = {0};
    assert_int_not_equal(open_made(config, &source, &err), SL_OK);
    expect_message(&err, message);
    free(folder.data);
    (void)begin(NULL);
}

static void test_malformed_floats(void **state) {
    (void)state;
    (void)add_fp8("a.weight", "4,64", 256);
    (void)add_scales("a.weight_scale_inv", "F32", "1,1", 1);
    refuse(FP8(",\"weight_block_size\":[128]"), "'weight_block_size' is not two numbers");
    (void)add_fp8("a.weight", "4,256", 1024);
    (void)add_scales("a.weight_scale_inv", "F32", "1,1", 1);
    refuse(
        FP8(",\"weight_block_size\":[128,128]"),
        "tensor 'a.weight_scale_inv' is F32[1,1], wanted floats, one for each block of 128 x 128 "
        "of F8_E4M3[4,256]");
    (void)add("a_blocks", "U8", "2,3,8", NULL, 48);
    (void)add("a_scales", "U8", "2,3", NULL, 6);
    refuse(
        "{}",
        "tensor 'a_blocks' is U8[2,3,8] with scales U8[2,3], wanted U8 [.., rows, columns/32, 16]");
}

/* A tensor that cannot be read is only an error if it is used; the message then says why. */
static void test_left_out(void **state) {
    (void)state;
    (void)add("model.a.weight", "U32", "2,8", NULL, 64);
    (void)add_fp8("model.b.weight", "4,64", 256);
    (void)add("model.visual.a.weight", "U32", "2,7", NULL, 56);
    (void)add("model.visual.a.scales", "BF16", "2,1", NULL, 4);
    sl_source *source = must_open("{}");
    assert_non_null(strstr(sl_source_skipped(source, "model.a.weight"), "no MLX scales"));
    assert_non_null(strstr(sl_source_skipped(source, "model.b.weight"), "no weight_scale_inv"));
    assert_non_null(sl_source_skipped(source, "model.visual.a.weight"));
    sl_source_close(source);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_fp8),
        TEST(test_fp8_stacked),
        TEST(test_gpt_oss_plain),
        TEST(test_gpt_oss_mxfp4),
        TEST(test_mlx_biases_of_experts),
        TEST(test_raised_gains),
        TEST(test_matrix_scale),
        TEST(test_malformed),
        TEST(test_malformed_floats),
        TEST(test_left_out),
    };
#undef TEST
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
