/* golden_test.c - Whole models against logits, hidden states and greedy tokens that transformers
 * computed (tiny checkpoints in float64, fable in float32). */
#include "sluice/sluice.h"
#include "sluice/tensors.h"
#include "tests/support/described.h"
#include "tests/support/relative_error.h"
#include "tests/support/shared.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct {
    sl_model *model;
    sl_tensors *reference;
    sl_error err;
} fixture;

static void must(fixture *f, sl_status status) {
    if (status != SL_OK) fail_msg("%s", f->err.message);
}

static bool open_fixture(fixture *f, const char *name, const sl_model_options *options) {
    char path[512];
    if (!shared_path(name, path, sizeof path)) return false;
    must(f, sl_model_open(path, options, &f->model, &f->err));
    (void)strncat(path, "/reference.safetensors", sizeof path - strlen(path) - 1);
    must(f, sl_tensors_open(path, &f->reference, &f->err));
    return true;
}

static void close_fixture(fixture *f) {
    sl_tensors_close(f->reference);
    sl_model_close(f->model);
}

static sl_tensor_item tensor(fixture *f, const char *name) {
    sl_tensor_item item = {0};
    must(f, sl_tensors_find(f->reference, name, &item, &f->err));
    return item;
}

static void check_relative(const char *what, const float *found, const float *wanted, size_t count,
                           double bound) {
    const double error = relative_error(found, wanted, count);
    if (!(error <= bound))
        fail_msg("%s: relative error %.3g, at most %.3g allowed", what, error, bound);
    print_message("  %s: relative error %.3g\n", what, error);
}

/* Logits of all tokens, and the last eight rows of the final hidden states where they are known. */
static void check_logits(fixture *f, uint32_t chunk, double bound) {
    const sl_model_info info = test_model_info(f->model);
    const sl_tensor_item tokens = tensor(f, "tokens"), wanted = tensor(f, "logits");
    const size_t count = (size_t)tokens.dims[0];
    float *logits = calloc(count * info.vocab, sizeof *logits);
    float *hidden = calloc(count * info.hidden, sizeof *hidden);
    sl_session *session = NULL;
    const sl_session_options options = {.struct_size = sizeof options, .chunk_tokens = chunk};
    must(f, sl_session_create(f->model, &options, &session, &f->err));
    must(f, sl_session_extend_all(session, tokens.data, count, logits, hidden, &f->err));
    char what[64];
    (void)snprintf(what, sizeof what, "logits, chunk %u", chunk);
    check_relative(what, logits, wanted.data, count * info.vocab, bound);
    (void)snprintf(what, sizeof what, "hidden.%u", info.layers);
    const sl_tensor_item last = tensor(f, what);
    const size_t rows = (size_t)last.dims[last.rank - 2];
    check_relative(what, hidden + (count - rows) * info.hidden, last.data, rows * info.hidden,
                   bound);
    sl_session_destroy(session);
    free(logits);
    free(hidden);
}

/* Continues the first `prompt` tokens greedily and compares with all that follow. */
static void check_greedy(fixture *f, const sl_token *wanted, size_t prompt, size_t count) {
    sl_session *session = NULL;
    must(f, sl_session_create(f->model, NULL, &session, &f->err));
    must(f, sl_session_extend(session, wanted, prompt, &f->err));
    for (size_t i = prompt; i < count; i++) {
        sl_token token;
        must(f, sl_session_sample(session, &(sl_sampling){.struct_size = sizeof(sl_sampling)},
                                  &token, &f->err));
        if (token != wanted[i]) fail_msg("greedy token %zu is %d, wanted %d", i, token, wanted[i]);
        must(f, sl_session_extend(session, &token, 1, &f->err));
    }
    sl_session_destroy(session);
}

/* Every architecture; all that the CPU computes is within a few roundings of the reference. */
static const char *const families[] = {
    "qwen3_5_moe_a", "qwen3_next", "qwen3_moe",   "qwen3",   "mixtral",
    "olmoe",         "glm4_moe",   "deepseek_v3", "gpt_oss",
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0], GREEDY_PROMPT = 12 };

static bool open_family(fixture *f, const char *name, const sl_model_options *options) {
    char path[64];
    (void)snprintf(path, sizeof path, "models/golden/%s", name);
    print_message("  %s\n", name);
    return open_fixture(f, path, options);
}

static void check_family(fixture *f) {
    static const uint32_t chunks[] = {1, 7, 64, 90};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) check_logits(f, chunks[i], 2e-5);
    const sl_tensor_item greedy = tensor(f, "greedy");
    check_greedy(f, greedy.data, GREEDY_PROMPT, (size_t)greedy.dims[0]);
    close_fixture(f);
}

static void goldens_with_everything_in_memory(void **state) {
    (void)state;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        fixture f = {0};
        if (!open_family(&f, families[i], NULL)) skip();
        check_family(&f);
    }
}

static void goldens_with_two_experts_per_layer(void **state) {
    (void)state;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        fixture f = {0};
        if (!open_family(&f, families[i], NULL)) skip();
        const sl_model_info all = test_model_info(f.model);
        close_fixture(&f);
        if (all.experts == 0) continue;
        const uint64_t slots = 2 * all.expert_count / all.experts;
        const sl_model_options options = {
            .struct_size = sizeof options,
            .expert_budget_bytes = all.budget_bytes - (all.slot_count - slots) * all.slot_bytes};
        f = (fixture){0};
        if (!open_family(&f, families[i], &options)) skip();
        assert_in_range(test_model_info(f.model).slot_count, all.experts_used, slots);
        check_family(&f);
    }
}

/* What a pack holds is what the folder holds. */
static void goldens_packed_as_they_are(void **state) {
    (void)state;
    char folder[] = "/tmp/sluice-golden-XXXXXX", pack[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(pack, sizeof pack, "%s/golden.sluice", folder);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        char path[512], name[64];
        fixture f = {0};
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i]);
        if (!shared_path(name, path, sizeof path)) break;
        print_message("  %s\n", families[i]);
        const sl_pack_options options = {
            .struct_size = sizeof options, .quant = "none", .force = 1};
        must(&f, sl_pack_write(path, pack, &options, &f.err));
        must(&f, sl_model_open(pack, NULL, &f.model, &f.err));
        (void)strncat(path, "/reference.safetensors", sizeof path - strlen(path) - 1);
        must(&f, sl_tensors_open(path, &f.reference, &f.err));
        check_logits(&f, 64, 2e-5);
        close_fixture(&f);
        assert_int_equal(unlink(pack), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* The matrices that latent attention makes of kv_b_proj are as small as others. */
static void latent_attention_stays_coded(void **state) {
    (void)state;
    static const struct {
        const char *quant;
        uint64_t most_bytes;
    } rows[] = {{"q4", 320000}, {"q8", 510000}};
    char path[512], pack[] = "/tmp/sluice-latent-XXXXXX";
    if (!shared_path("models/golden/deepseek_v3", path, sizeof path)) skip();
    assert_int_equal(close(mkstemp(pack)), 0);
    for (int i = 0; i < 2; i++) {
        fixture f = {0};
        const sl_pack_options options = {
            .struct_size = sizeof options, .quant = rows[i].quant, .force = 1};
        must(&f, sl_pack_write(path, pack, &options, &f.err));
        must(&f, sl_model_open(pack, NULL, &f.model, &f.err));
        const sl_model_info info = test_model_info(f.model);
        print_message("  %s: %llu resident bytes\n", rows[i].quant,
                      (unsigned long long)info.resident_bytes);
        assert_string_equal(info.resident_dtype, rows[i].quant);
        assert_in_range(info.resident_bytes, rows[i].most_bytes / 2, rows[i].most_bytes);
        close_fixture(&f);
    }
    assert_int_equal(unlink(pack), 0);
}

/* Sequences can be cut back to where they were, whatever they are made of. */
static void goldens_rewound(void **state) {
    (void)state;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        fixture f = {0};
        if (!open_family(&f, families[i], NULL)) skip();
        const sl_tensor_item tokens = tensor(&f, "tokens"), wanted = tensor(&f, "logits");
        const sl_model_info info = test_model_info(f.model);
        const sl_token *ids = tokens.data;
        sl_session *session = NULL;
        must(&f, sl_session_create(f.model, NULL, &session, &f.err));
        must(&f, sl_session_extend(session, ids, 40, &f.err));
        must(&f, sl_session_extend(session, ids, 20, &f.err));
        must(&f, sl_session_rewind(session, 40, &f.err));
        must(&f, sl_session_extend(session, ids + 40, 30, &f.err));
        check_relative("last logits", sl_session_logits(session, NULL),
                       (const float *)wanted.data + (size_t)69 * info.vocab, info.vocab, 2e-5);
        sl_session_destroy(session);
        close_fixture(&f);
    }
}

static void goldens_in_double_precision(void **state) {
    (void)state;
    const sl_model_options options = {.struct_size = sizeof options, .device = "ref"};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        fixture f = {0};
        if (!open_family(&f, families[i], &options)) skip();
        check_logits(&f, 64, 2e-6); /* the reference's logits are rounded to f32 */
        close_fixture(&f);
    }
}

static void goldens_on_every_isa(void **state) {
    (void)state;
    static const char *const isas[] = {"baseline", "avx2", "avx512", "neon"};
    enum { ISA_COUNT = sizeof isas / sizeof isas[0] };
    for (int i = 0; i < ISA_COUNT * FAMILY_COUNT; i++) {
        const char *isa = isas[i / FAMILY_COUNT], *family = families[i % FAMILY_COUNT];
        fixture f = {0};
        char path[512], name[64];
        (void)snprintf(name, sizeof name, "models/golden/%s", family);
        if (!shared_path(name, path, sizeof path)) skip();
        const sl_model_options options = {.struct_size = sizeof options, .isa = isa};
        const sl_status status = sl_model_open(path, &options, &f.model, &f.err);
        print_message("  %s %s%s\n", isa, family,
                      status == SL_UNSUPPORTED ? ": this machine lacks it" : "");
        if (status == SL_UNSUPPORTED) continue;
        must(&f, status);
        (void)strncat(path, "/reference.safetensors", sizeof path - strlen(path) - 1);
        must(&f, sl_tensors_open(path, &f.reference, &f.err));
        check_logits(&f, 7, 2e-5);
        close_fixture(&f);
    }
}

static void fable_logits(void **state) {
    (void)state;
    fixture f = {0};
    if (!open_fixture(&f, "models/fable", NULL)) skip();
    const sl_model_info info = test_model_info(f.model);
    for (int p = 0; p < 7; p++) {
        char name[64];
        (void)snprintf(name, sizeof name, "prompt%d.greedy", p);
        const sl_tensor_item tokens = tensor(&f, name);
        (void)snprintf(name, sizeof name, "prompt%d.logits", p);
        const sl_tensor_item wanted = tensor(&f, name);
        const size_t rows = (size_t)wanted.dims[0];
        float *logits = calloc(rows * info.vocab, sizeof *logits);
        sl_session *session = NULL;
        must(&f, sl_session_create(f.model, NULL, &session, &f.err));
        must(&f, sl_session_extend_all(session, tokens.data, rows, logits, NULL, &f.err));
        check_relative(name, logits, wanted.data, rows * info.vocab, 5e-5);
        sl_session_destroy(session);
        free(logits);
    }
    close_fixture(&f);
}

static void fable_greedy(void **state) {
    (void)state;
    fixture f = {0};
    if (!open_fixture(&f, "models/fable", NULL)) skip();
    for (int p = 0; p < 7; p++) {
        char name[64];
        (void)snprintf(name, sizeof name, "prompt%d.tokens", p);
        const size_t prompt = (size_t)tensor(&f, name).dims[0];
        (void)snprintf(name, sizeof name, "prompt%d.greedy", p);
        const sl_tensor_item greedy = tensor(&f, name);
        check_greedy(&f, greedy.data, prompt, (size_t)greedy.dims[0]);
    }
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_with_everything_in_memory),
        cmocka_unit_test(goldens_with_two_experts_per_layer),
        cmocka_unit_test(goldens_packed_as_they_are),
        cmocka_unit_test(latent_attention_stays_coded),
        cmocka_unit_test(goldens_rewound),
        cmocka_unit_test(goldens_in_double_precision),
        cmocka_unit_test(goldens_on_every_isa),
        cmocka_unit_test(fable_logits),
        cmocka_unit_test(fable_greedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
