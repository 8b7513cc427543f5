/* sampling_test.c - The sampling that a model was published with, in each format. */
#include "tests/support/folder.h"

#include "engine/text/model_text.h"
#include "tests/support/gguf_maker.h"

enum { I32 = 5, TEXT = 8 };

static sl_error err;

typedef struct {
    sl_sampling sampling;
    sl_sampler_options sampler;
    char note[128];
} found;

static found load(const char *path) {
    sl_source *source;
    sl_arena arena;
    sl_model_text text = {0};
    found result = {0};
    if (sl_source_open(path, NULL, &source, &err) != SL_OK) fail_msg("%s", err.message);
    sl_arena_init(&arena, NULL);
    if (sl_model_text_load(&text, source, 100, &arena, &err) != SL_OK) fail_msg("%s", err.message);
    result.sampling = text.sampling;
    result.sampler = text.sampler;
    if (text.note) (void)snprintf(result.note, sizeof result.note, "%s", text.note);
    sl_model_text_unload(&text);
    sl_arena_deinit(&arena);
    sl_source_close(source);
    return result;
}

static void expect(const found *f, float temperature, uint32_t top_k, float top_p, float min_p) {
    const sl_sampling *s = &f->sampling;
    if (s->temperature == temperature && s->top_k == top_k && s->top_p == top_p &&
        s->min_p == min_p)
        return;
    fail_msg("temperature %g, top-k %u, top-p %g, min-p %g; wanted %g, %u, %g, %g",
             (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p,
             (double)temperature, top_k, (double)top_p, (double)min_p);
}

static void sampling_of_a_folder(void **state) {
    (void)state;
    static const struct {
        const char *config;
        float temperature;
        uint32_t top_k;
        float top_p, min_p;
    } cases[] = {
        {"{\"do_sample\": false, \"temperature\": 0.5}", 0, 0, 0, 0},
        {"{\"do_sample\": true, \"temperature\": 0.6, \"top_k\": 20, \"top_p\": 0.9}", 0.6f, 20,
         0.9f, 0},
        {"{\"do_sample\": true}", 1, 0, 0, 0},
        {"{\"eos_token_id\": 1}", 0.8f, 40, 0.95f, 0.05f},
        {"{\"temperature\": 0.7, \"top_k\": 0}", 0.7f, 0, 0.95f, 0.05f},
        {"{\"do_sample\": true, \"temperature\": -3, \"top_p\": 7, \"top_k\": -1}", 1, 0, 0, 0},
    };
    static const char header[] = "\x08\0\0\0\0\0\0\0{}      ";
    static const char penalties[] =
        "{\"do_sample\": true, \"repetition_penalty\": 1.05, \"typical_p\": 0.5, \"mirostat\": 7}";
    write_test_file("config.json", "{}", 2);
    write_test_file("model.safetensors", header, sizeof header - 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_test_file("generation_config.json", cases[i].config, strlen(cases[i].config));
        const found f = load(test_folder);
        expect(&f, cases[i].temperature, cases[i].top_k, cases[i].top_p, cases[i].min_p);
        assert_true(f.sampler.temperature == f.sampling.temperature &&
                    f.sampler.top_k == f.sampling.top_k && f.sampler.repeat_penalty == 0);
    }
    write_test_file("generation_config.json", penalties, sizeof penalties - 1);
    const found f = load(test_folder);
    assert_true(f.sampler.repeat_penalty == 1.05f && f.sampler.repeat_last_n == -1);
    assert_true(f.sampler.typical_p == 0.5f && f.sampler.mirostat == 0);
    assert_string_equal(f.note, "");
}

static void write_gguf(bool recommends, int32_t last_n) {
    static const char *const tokens[] = {"a", "b", "c"};
    gguf_maker m = {0};
    gguf_small_model(&m, 3);
    gguf_text(&m, "tokenizer.ggml.model", "gpt2");
    gguf_text(&m, "tokenizer.ggml.pre", "qwen2");
    gguf_array(&m, "tokenizer.ggml.tokens", TEXT, 3);
    for (int i = 0; i < 3; i++) gguf_element(&m, tokens[i]);
    if (recommends) {
        gguf_f32(&m, "general.sampling.temp", 0.5f);
        gguf_i32(&m, "general.sampling.top_k", 20);
        gguf_f32(&m, "general.sampling.top_p", 0.75f);
        gguf_f32(&m, "general.sampling.penalty_repeat", 1.25f);
        gguf_f32(&m, "general.sampling.xtc_probability", 0.25f);
        if (last_n) gguf_i32(&m, "general.sampling.penalty_last_n", last_n);
    }
    gguf_write(&m, test_path("m.gguf"));
    gguf_release(&m);
}

static void sampling_of_a_gguf_file(void **state) {
    (void)state;
    write_gguf(true, 0);
    found f = load(test_path("m.gguf"));
    expect(&f, 0.5f, 20, 0.75f, 0.05f);
    assert_string_equal(f.note, "");
    assert_true(f.sampler.repeat_penalty == 1.25f && f.sampler.repeat_last_n == 64);
    assert_true(f.sampler.xtc_probability == 0.25f);
    write_gguf(true, -1);
    assert_int_equal(load(test_path("m.gguf")).sampler.repeat_last_n, -1);
    write_gguf(false, 0);
    f = load(test_path("m.gguf"));
    expect(&f, 0.8f, 40, 0.95f, 0.05f);
    assert_string_equal(f.note, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sampling_of_a_folder, empty_test_folder),
        cmocka_unit_test_teardown(sampling_of_a_gguf_file, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
