/* forms_test.c - The goldens in other forms: their matrices as fp8 with a scale per block, the
 * experts of gpt_oss as mxfp4.  What a folder in such a form computes must be what one with the
 * very same weights as floats does. */
#include "sluice/sluice.h"
#include "sluice/tensors.h"
#include "tests/support/described.h"
#include "tests/support/relative_error.h"
#include "tests/support/shared.h"
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_BYTES = 16 << 20, BLOCK = 128 };
static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

/* A folder in the making. */
typedef struct {
    char path[64];
    json_t *header;
    uint8_t *data;
    size_t bytes;
} made;

static void begin(made *m) {
    *m = (made){
        .path = "/tmp/sluice-forms-XXXXXX", .header = json_object(), .data = malloc(MOST_BYTES)};
    assert_non_null(mkdtemp(m->path));
    assert_non_null(m->data);
}

static void *add(made *m, const char *name, const char *dtype, json_t *shape, size_t bytes) {
    void *to = m->data + m->bytes;
    assert_true(m->bytes + bytes <= MOST_BYTES);
    (void)json_object_set_new(m->header, name,
                              json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape,
                                        "data_offsets", (json_int_t)m->bytes,
                                        (json_int_t)(m->bytes + bytes)));
    m->bytes += (bytes + 7) / 8 * 8;
    return to;
}

static void write_text(const made *m, const char *name, const char *text) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", m->path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void finish(made *m, const json_t *config) {
    char path[128], *header = json_dumps(m->header, JSON_COMPACT), *text = json_dumps(config, 0);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", m->path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    const uint64_t length = strlen(header);
    (void)fwrite(&length, sizeof length, 1, file);
    (void)fwrite(header, 1, length, file);
    assert_int_equal(fwrite(m->data, 1, m->bytes, file), m->bytes);
    assert_int_equal(fclose(file), 0);
    write_text(m, "config.json", text);
    free(header);
    free(text);
    free(m->data);
    json_decref(m->header);
}

static void remove_made(const made *m) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/model.safetensors", m->path);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/config.json", m->path);
    (void)unlink(path);
    (void)rmdir(m->path);
}

static json_t *shape_of(const sl_tensor_item *item) {
    json_t *shape = json_array();
    for (uint32_t i = 0; i < item->rank; i++)
        (void)json_array_append_new(shape, json_integer(item->dims[i]));
    return shape;
}

static float from_bf16(const void *data, size_t i) {
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float e4m3(unsigned code) {
    const int e = code >> 3 & 15, m = code & 7;
    const float value = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);
    return code & 128 ? -value : value;
}
static float e2m1(unsigned code) {
    static const float values[] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -values[code & 7] : values[code & 7];
}

/* The code whose float is nearest. */
static uint8_t nearest(float value, float (*decode)(unsigned), unsigned codes) {
    unsigned best = 0;
    for (unsigned c = 0; c < codes; c++)
        if ((codes == 16 || (c & 127) != 127) &&
            fabsf(decode(c) - value) < fabsf(decode(best) - value))
            best = c;
    return (uint8_t)best;
}

/* [rows, cols] to codes and a scale for each block, and to the same as floats. */
static void to_fp8(const sl_tensor_item *item, made *coded, made *plain) {
    const int64_t rows = item->dims[0], cols = item->dims[1];
    const int64_t down = (rows + BLOCK - 1) / BLOCK, across = (cols + BLOCK - 1) / BLOCK;
    const size_t count = (size_t)(rows * cols);
    char name[256];
    (void)snprintf(name, sizeof name, "%s_scale_inv", item->name);
    uint8_t *codes = add(coded, item->name, "F8_E4M3", shape_of(item), count);
    float *scales =
        add(coded, name, "F32", json_pack("[I, I]", (json_int_t)down, (json_int_t)across),
            (size_t)(down * across) * 4);
    float *floats = add(plain, item->name, "F32", shape_of(item), count * 4);
    for (int64_t i = 0; i < down * across; i++) scales[i] = 1e-6f;
    for (int64_t i = 0; i < rows * cols; i++) {
        float *scale = &scales[i / cols / BLOCK * across + i % cols / BLOCK];
        *scale = fmaxf(*scale, fabsf(from_bf16(item->data, (size_t)i)) / 448);
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        const float scale = scales[i / cols / BLOCK * across + i % cols / BLOCK];
        codes[i] = nearest(from_bf16(item->data, (size_t)i) / scale, e4m3, 256);
        floats[i] = scale * e4m3(codes[i]);
    }
}

/* [experts, in, out] to blocks of [experts, out, in / 32, 16], and to the same as they were. */
static void to_mxfp4(const sl_tensor_item *item, made *coded, made *plain) {
    const int64_t experts = item->dims[0], in = item->dims[1], out = item->dims[2];
    char blocks[256], exponents[256];
    (void)snprintf(blocks, sizeof blocks, "%s_blocks", item->name);
    (void)snprintf(exponents, sizeof exponents, "%s_scales", item->name);
    const size_t count = (size_t)(experts * in * out);
    uint8_t *codes = add(
        coded, blocks, "U8",
        json_pack("[I, I, I, i]", (json_int_t)experts, (json_int_t)out, (json_int_t)(in / 32), 16),
        count / 2);
    uint8_t *scales =
        add(coded, exponents, "U8",
            json_pack("[I, I, I]", (json_int_t)experts, (json_int_t)out, (json_int_t)(in / 32)),
            count / 32);
    float *floats = add(plain, item->name, "F32", shape_of(item), count * 4);
    memset(codes, 0, count / 2);
    for (int64_t g = 0; g < (int64_t)count / 32; g++) {
        const int64_t row = g / (in / 32), first = g % (in / 32) * 32; /* row: of all experts' */
        const int64_t e = row / out, o = row % out;
        float largest = 1e-6f;
        for (int64_t k = first; k < first + 32; k++)
            largest =
                fmaxf(largest, fabsf(from_bf16(item->data, (size_t)((e * in + k) * out + o))));
        const int exponent = (int)ceilf(log2f(largest / 6));
        scales[g] = (uint8_t)(127 + exponent);
        for (int64_t k = first; k < first + 32; k++) {
            const int64_t at = (e * in + k) * out + o;
            const uint8_t code =
                nearest(ldexpf(from_bf16(item->data, (size_t)at), -exponent), e2m1, 16);
            codes[(row * in + k) / 2] |= (uint8_t)(code << (k % 2 * 4));
            floats[at] = ldexpf(e2m1(code), exponent);
        }
    }
}

typedef enum { KEPT, FP8, MXFP4 } fate;
static fate fate_of(const sl_tensor_item *item, bool is_gpt_oss) {
    const char *experts = strstr(item->name, ".mlp.experts.");
    if (is_gpt_oss) return experts && item->rank == 3 ? MXFP4 : KEPT;
    const bool matrix = item->rank == 2 && strstr(item->name, "_proj");
    return matrix || (strstr(item->name, ".w") && item->rank == 2 && strstr(item->name, "experts."))
               ? FP8
               : KEPT;
}

static void convert(const char *path, bool is_gpt_oss, made *coded, made *plain) {
    char file[600];
    sl_tensors *tensors = NULL;
    (void)snprintf(file, sizeof file, "%s/model.safetensors", path);
    must(sl_tensors_open(file, &tensors, &err));
    for (uint32_t i = 0; i < sl_tensors_count(tensors); i++) {
        sl_tensor_item item;
        must(sl_tensors_at(tensors, i, &item, &err));
        const fate f = fate_of(&item, is_gpt_oss);
        if (f == FP8) to_fp8(&item, coded, plain);
        if (f == MXFP4) to_mxfp4(&item, coded, plain);
        if (f != KEPT) continue;
        made *both[] = {coded, plain};
        for (int k = 0; k < 2; k++)
            memcpy(add(both[k], item.name, "BF16", shape_of(&item), item.bytes), item.data,
                   item.bytes);
    }
    sl_tensors_close(tensors);
    (void)snprintf(file, sizeof file, "%s/config.json", path);
    json_t *config = json_load_file(file, 0, NULL);
    assert_non_null(config);
    finish(plain, config);
    json_t *how = is_gpt_oss ? json_pack("{s:s}", "quant_method", "mxfp4")
                             : json_pack("{s:s, s:s, s:[i, i]}", "quant_method", "fp8", "fmt",
                                         "e4m3", "weight_block_size", BLOCK, BLOCK);
    (void)json_object_set_new(config, "quantization_config", how);
    finish(coded, config);
    json_decref(config);
}

static float *logits_of(const char *path, sl_model_options given, const sl_tensor_item *tokens,
                        size_t *out_count) {
    sl_model *model = NULL;
    sl_session *session = NULL;
    given.struct_size = sizeof given;
    given.device = "cpu";
    given.context_tokens = 128;
    must(sl_model_open(path, &given, &model, &err));
    const sl_session_options options = {.struct_size = sizeof options, .chunk_tokens = 32};
    must(sl_session_create(model, &options, &session, &err));
    *out_count = (size_t)tokens->dims[0] * test_model_info(model).vocab;
    float *out = malloc(*out_count * sizeof *out);
    assert_non_null(out);
    must(sl_session_extend_all(session, tokens->data, (size_t)tokens->dims[0], out, NULL, &err));
    sl_session_destroy(session);
    sl_model_close(model);
    return out;
}

static void check(const char *name) {
    char path[512], file[600];
    if (!shared_path(name, path, sizeof path)) skip();
    made coded, plain;
    begin(&coded), begin(&plain);
    convert(path, strstr(name, "gpt_oss") != NULL, &coded, &plain);
    sl_tensors *reference = NULL;
    sl_tensor_item tokens = {0};
    (void)snprintf(file, sizeof file, "%s/reference.safetensors", path);
    must(sl_tensors_open(file, &reference, &err));
    must(sl_tensors_find(reference, "tokens", &tokens, &err));
    size_t count = 0;
    const sl_model_options exact = {.compile = "exact"};
    float *wanted = logits_of(plain.path, exact, &tokens, &count);
    float *found = logits_of(coded.path, exact, &tokens, &count);
    float *fast = logits_of(coded.path, (sl_model_options){0}, &tokens, &count);
    const double own = relative_error(found, wanted, count),
                 rough = relative_error(fast, wanted, count);
    print_message("%s: %.2g from the same weights as floats, %.2g in 8 bits\n", name, own, rough);
    assert_true(own < 1e-5);
    free(wanted);
    free(found);
    free(fast);
    sl_tensors_close(reference);
    remove_made(&coded);
    remove_made(&plain);
}

static void fp8(void **state) {
    (void)state;
    check("models/golden/deepseek_v3");
    check("models/golden/glm4_moe");
    check("models/golden/mixtral");
    check("models/golden/qwen3_next");
    check("models/golden/qwen3");
}

static void mxfp4(void **state) {
    (void)state;
    check("models/golden/gpt_oss");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fp8), cmocka_unit_test(mxfp4)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
