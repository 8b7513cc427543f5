/* mlx_test.c - Folders that mlx-lm has quantised (tools/make_mlx.py): against the evaluator in
 * double precision on the same weights, against mlx-lm's own logits, and under a budget.  A small
 * model lies in tests/data/mlx; $SLUICE_MLX may name a folder with fable in every code. */
#include "sluice/sluice.h"
#include "sluice/tensors.h"
#include "tests/support/described.h"
#include "tests/support/relative_error.h"
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_PROMPTS = 8 };

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static uint64_t least_budget; /* of the model opened last */

static float *logits_of(const char *path, sl_model_options given, sl_tensor_item tokens,
                        size_t *out_count) {
    sl_model *model = NULL;
    sl_session *session = NULL;
    given.struct_size = sizeof given;
    given.context_tokens = 256;
    must(sl_model_open(path, &given, &model, &err));
    const sl_session_options options = {.struct_size = sizeof options, .chunk_tokens = 32};
    must(sl_session_create(model, &options, &session, &err));
    const sl_model_info info = test_model_info(model);
    least_budget = info.minimum_budget_bytes;
    *out_count = (size_t)tokens.dims[0] * info.vocab;
    float *out = malloc(*out_count * sizeof *out);
    assert_non_null(out);
    must(sl_session_extend_all(session, tokens.data, (size_t)tokens.dims[0], out, NULL, &err));
    sl_session_destroy(session);
    sl_model_close(model);
    return out;
}

static bool find(sl_tensors *tensors, int prompt, const char *what, sl_tensor_item *out) {
    char name[64];
    (void)snprintf(name, sizeof name, "prompt%d.%s", prompt, what);
    return sl_tensors_find(tensors, name, out, &err) == SL_OK;
}

static void check_prompt(const char *path, sl_tensors *reference, int prompt) {
    sl_tensor_item tokens, theirs;
    if (!find(reference, prompt, "tokens", &tokens)) return;
    assert_true(find(reference, prompt, "logits", &theirs));
    size_t count = 0;
    float *truth = logits_of(path, (sl_model_options){.device = "ref"}, tokens, &count);
    float *exact =
        logits_of(path, (sl_model_options){.compile = "exact", .device = "cpu"}, tokens, &count);
    float *fast = logits_of(path, (sl_model_options){.device = "cpu"}, tokens, &count);
    float *little =
        logits_of(path, (sl_model_options){.device = "cpu", .expert_budget_bytes = least_budget},
                  tokens, &count);
    const double own = relative_error(exact, truth, count),
                 coded = relative_error(fast, truth, count);
    const double other = relative_error(theirs.data, truth, count);
    print_message("  prompt %d: exact %.2g, in 8 bits %.2g, mlx-lm %.2g from the truth\n", prompt,
                  own, coded, other);
    assert_true(own < 1e-5);
    assert_true(other < 1e-5);
    assert_true(coded < 0.25); /* random experts: small errors choose others */
    assert_memory_equal(fast, little, count * sizeof *fast);
    free(truth);
    free(exact);
    free(fast);
    free(little);
}

static int check_folder(const char *root) {
    DIR *directory = opendir(root);
    int checked = 0;
    if (!directory) return 0;
    for (const struct dirent *entry; (entry = readdir(directory));) {
        char path[512], beside[600];
        sl_tensors *reference = NULL;
        (void)snprintf(path, sizeof path, "%s/%s", root, entry->d_name);
        (void)snprintf(beside, sizeof beside, "%s.safetensors", path);
        if (entry->d_name[0] == '.' || sl_tensors_open(beside, &reference, &err) != SL_OK) continue;
        print_message("%s\n", entry->d_name);
        for (int p = 0; p < MOST_PROMPTS; p++) check_prompt(path, reference, p);
        sl_tensors_close(reference);
        checked++;
    }
    (void)closedir(directory);
    return checked;
}

static void small_model(void **state) {
    (void)state;
    assert_true(check_folder("tests/data/mlx") > 0);
}

static void fable(void **state) {
    (void)state;
    const char *root = getenv("SLUICE_MLX");
    if (!root) {
        print_message("skipped: SLUICE_MLX does not name what tools/make_mlx.py made of fable\n");
        skip();
        return;
    }
    assert_true(check_folder(root) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_model), cmocka_unit_test(fable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
