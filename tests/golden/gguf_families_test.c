/* gguf_families_test.c - A GGUF file of every architecture against the logits that transformers
 * computed for the checkpoint.
 *
 * Metadata and the table of tensors are llama.cpp's own (tests/data/gguf, made by
 * tools/make_gguf_heads.py).  The data is made from the checkpoint, and its sums are those of the
 * file that llama.cpp's converter wrote: the test's reading of its conventions is the right one. */
#include "sluice/sluice.h"
#include "tests/support/described.h"
#include "tests/support/folder.h"
#include "tests/support/gguf_recipe.h"
#include "tests/support/shared.h"
#include <math.h>

static const struct {
    const char *name, *architecture;
} families[] = {
    {"qwen3_5_moe_a", "qwen35moe"}, {"qwen3_next", "qwen3next"},
    {"qwen3_moe", "qwen3moe"},      {"qwen3", "qwen3"},
    {"mixtral", "llama"},           {"olmoe", "olmoe"},
    {"deepseek_v3", "deepseek2"},   {"glm4_moe", "glm4moe"},
    {"gpt_oss", "gpt-oss"},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static uint32_t sum_of(const uint8_t *data, uint64_t bytes) {
    uint32_t sum = ~0u;
    for (uint64_t i = 0; i < bytes; i++) {
        sum ^= data[i];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (0xedb88320u & (0u - (sum & 1)));
    }
    return ~sum;
}

static uint8_t *read_head(const char *family, size_t *out_bytes) {
    char path[128];
    (void)snprintf(path, sizeof path, "tests/data/gguf/%s.head", family);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *out_bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*out_bytes);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *out_bytes, file), *out_bytes);
    (void)fclose(file);
    return data;
}

/* Exponentials of two libraries may differ in the last bit. */
static bool is_exact(const char *name) {
    return strstr(name, ".ssm_a") == NULL;
}

static void fill_tensors(const gguf_recipe *recipe, const sl_gguf *gguf, const uint8_t *sums,
                         uint8_t *file) {
    for (uint32_t i = 0; i < gguf->tensor_count; i++) {
        const sl_gguf_tensor *t = &gguf->tensors[i];
        uint32_t wanted;
        memcpy(&wanted, sums + 4 * (size_t)i, 4);
        assert_int_equal(t->offset % sizeof(float), 0);
        if (!gguf_recipe_fill(recipe, t, (float *)(void *)(file + t->offset)))
            fail_msg("no recipe for '%s'", t->name);
        if (is_exact(t->name) && sum_of(file + t->offset, t->bytes) != wanted)
            fail_msg("'%s' is not what llama.cpp's converter wrote", t->name);
    }
}

/* The whole file of a family, as made.gguf in the test's folder. */
static void make_file(int family, const char *folder) {
    size_t bytes = 0;
    uint64_t places[2]; /* up to the data, of the whole file */
    char path[600];
    uint8_t *head = read_head(families[family].name, &bytes);
    memcpy(places, head + bytes - sizeof places, sizeof places);
    uint8_t *file = calloc(1, places[1]);
    assert_non_null(file);
    memcpy(file, head, places[0]);
    sl_arena arena;
    sl_gguf gguf;
    uint64_t wanted;
    const sl_gguf_start start = {file, places[1], places[1]};
    sl_arena_init(&arena, NULL);
    must(sl_gguf_parse("head", &start, &arena, &gguf, &wanted, &err));
    gguf_recipe recipe = {.architecture = families[family].architecture};
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    must(sl_tensors_open(path, &recipe.tensors, &err));
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    recipe.config = json_load_file(path, 0, NULL);
    assert_non_null(recipe.config);
    fill_tensors(&recipe, &gguf, head + places[0], file);
    write_test_file("made.gguf", file, places[1]);
    json_decref(recipe.config);
    sl_tensors_close(recipe.tensors);
    sl_arena_deinit(&arena);
    free(file);
    free(head);
}

static sl_tensor_item find(sl_tensors *tensors, const char *name) {
    sl_tensor_item item = {0};
    must(sl_tensors_find(tensors, name, &item, &err));
    return item;
}

static double error_of(const sl_model_options *options, sl_tensors *reference) {
    sl_model *model = NULL;
    sl_session *session = NULL;
    must(sl_model_open(test_path("made.gguf"), options, &model, &err));
    const sl_tensor_item tokens = find(reference, "tokens"), wanted = find(reference, "logits");
    const size_t count = (size_t)tokens.dims[tokens.rank - 1] * test_model_info(model).vocab;
    float *logits = malloc(count * sizeof *logits);
    assert_non_null(logits);
    must(sl_session_create(model, NULL, &session, &err));
    must(sl_session_extend_all(session, tokens.data, (size_t)tokens.dims[tokens.rank - 1], logits,
                               NULL, &err));
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        const double want = (double)((const float *)wanted.data)[i], d = (double)logits[i] - want;
        difference += d * d;
        size += want * want;
    }
    sl_session_destroy(session);
    sl_model_close(model);
    free(logits);
    return sqrt(difference / size);
}

static void logits_of_every_architecture(void **state) {
    (void)state;
    const sl_model_options all = {.struct_size = sizeof all};
    const sl_model_options little = {.struct_size = sizeof little, .expert_budget_share = 0.3};
    for (int i = 0; i < FAMILIES; i++) {
        char name[64], folder[512], path[600];
        sl_tensors *reference = NULL;
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i].name);
        if (!shared_path(name, folder, sizeof folder)) skip();
        make_file(i, folder);
        (void)snprintf(path, sizeof path, "%s/reference.safetensors", folder);
        must(sl_tensors_open(path, &reference, &err));
        const double whole = error_of(&all, reference), part = error_of(&little, reference);
        print_message("  %s: relative error %.2g, with few experts in memory %.2g\n",
                      families[i].architecture, whole, part);
        assert_true(whole < 2e-5);
        assert_true(part < 2e-5);
        sl_tensors_close(reference);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(logits_of_every_architecture, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
