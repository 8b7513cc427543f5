/* model_files_test.c - A summary of model files says what the open model says. */
#include "sluice/model_files.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static sl_error err;

static sl_model_summary read_summary(const char *path) {
    sl_model_summary summary = {.struct_size = sizeof summary};
    if (sl_model_files_summary(path, &summary, &err) != SL_OK) fail_msg("%s", err.message);
    return summary;
}

static void agrees_with_the_open_model(void **state) {
    (void)state;
    const sl_model_summary summary = read_summary("models/fable");
    const sl_model_options options = {.struct_size = sizeof options, .device = "cpu"};
    sl_model_info info = {.struct_size = sizeof info};
    sl_model *model = NULL;
    if (sl_model_open("models/fable", &options, &model, &err) != SL_OK ||
        sl_model_describe(model, &info, &err) != SL_OK)
        fail_msg("%s", err.message);
    assert_string_equal(summary.problem, "");
    assert_string_equal(summary.format, info.format);
    assert_string_equal(summary.architecture, info.architecture);
    assert_int_equal(summary.layers, info.layers);
    assert_int_equal(summary.experts, info.experts);
    assert_int_equal(summary.experts_used, info.experts_used);
    assert_int_equal(summary.max_context_tokens, info.max_context_tokens);
    assert_int_equal(summary.parameters, info.parameters);
    assert_int_equal(summary.file_bytes, info.file_bytes);
    assert_int_equal(summary.resident_bytes, info.resident_bytes);
    assert_int_equal(summary.expert_bytes, info.expert_bytes);
    assert_int_equal(summary.least_expert_bytes,
                     info.expert_bytes / info.expert_count * info.experts_used);
    sl_model_close(model);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void what_is_wrong_is_a_problem(void **state) {
    (void)state;
    assert_non_null(strstr(read_summary("/no/such/model").problem, "No such file"));
    char path[] = "/tmp/model_files_test_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_text(path, "GGUF, but not really");
    const sl_model_summary summary = read_summary(path);
    assert_string_equal(summary.architecture, "");
    assert_non_null(strstr(summary.problem, strrchr(path, '/') + 1));
    assert_int_equal(remove(path), 0);
    (void)close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_open_model),
        cmocka_unit_test(what_is_wrong_is_a_problem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
