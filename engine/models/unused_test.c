/* Checkpoints with more in them than a model asks for. */
#include "tests/support/folder.h"

#include "engine/formats/names.h"
#include "engine/formats/safetensors.h"
#include "engine/models/unused.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const sl_model_config config = {
    .model_type = "deepseek_v3", .layers = 2, .further_layers = 1, .tied_embeddings = true};

/* Writes a checkpoint with these tensors, asks for the first and checks the rest. */
static sl_status check(const char *const *names, uint32_t count, const char **out_note,
                       sl_arena *arena, sl_error *err) {
    static const float zeros[4];
    char folder[] = "/tmp/sluice-unused-XXXXXX", file[64], text[64];
    sl_safetensors_item items[16];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(file, sizeof file, "%s/model.safetensors", folder);
    (void)snprintf(text, sizeof text, "%s/config.json", folder);
    for (uint32_t i = 0; i < count; i++)
        items[i] = (sl_safetensors_item){
            .name = names[i], .type = sl_type_make(SL_DTYPE_f32, 1, (int64_t)4), .data = zeros};
    assert_int_equal(sl_safetensors_write(file, items, count, err), SL_OK);
    FILE *out = fopen(text, "w");
    assert_non_null(out);
    assert_true(fputs("{}", out) >= 0 && fclose(out) == 0);
    sl_source *source = NULL;
    assert_int_equal(sl_source_open(folder, NULL, &source, err), SL_OK);
    assert_non_null(sl_model_tensor(source, "norm.weight"));
    const sl_status status = sl_model_check_unused(source, &config, arena, out_note, err);
    sl_source_close(source);
    (void)unlink(file);
    (void)unlink(text);
    assert_int_equal(rmdir(folder), 0);
    return status;
}

#define CHECK(...)                                                                                 \
    const char *const names[] = {"model.norm.weight", __VA_ARGS__};                                \
    const char *note = NULL;                                                                       \
    sl_error err = {0};                                                                            \
    sl_arena arena;                                                                                \
    sl_arena_init(&arena, NULL);                                                                   \
    const sl_status status = check(names, sizeof names / sizeof names[0], &note, &arena, &err)

static void test_other_parts_make_one_note(void **unused) {
    (void)unused;
    CHECK("model.visual.patch.weight", "model.visual.merger.weight", "mtp.fc.weight",
          "model.layers.2.enorm.weight", "model.layers.2.mlp.gate.weight");
    assert_int_equal(status, SL_OK);
    assert_string_equal(
        note, "5 tensors are not used by the text model: model.layers.2.*, model.visual.*, mtp.*");
    sl_arena_deinit(&arena);
}

static void test_what_says_nothing_new_is_passed_over(void **unused) {
    (void)unused;
    CHECK("lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq");
    assert_int_equal(status, SL_OK);
    assert_null(note);
    sl_arena_deinit(&arena);
}

static void test_others_are_named(void **unused) {
    (void)unused;
    CHECK("model.layers.0.self_attn.q_proj.bias", "model.layers.3.mlp.gate.weight", "a", "b", "c");
    assert_int_equal(status, SL_FORMAT);
    expect_message(&err, "5 tensors are not part of a deepseek_v3 with this config: a, b, c, "
                         "model.layers.0.self_attn.q_proj.bias, ...");
    assert_null(note);
    sl_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_parts_make_one_note),
        cmocka_unit_test(test_what_says_nothing_new_is_passed_over),
        cmocka_unit_test(test_others_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
