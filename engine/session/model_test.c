/* model_test.c - Which device a model is opened on, what is said of it, and what it keeps. */
#include "engine/session/model.h"
#include "runtime/devices.h"
#include "sluice/sluice.h"
#include "tests/support/described.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NO_DEVICE = 100, OLD_DRIVER = 11040 }; /* what calls of the driver give */

static sl_error err;
static void (*break_call)(const char *symbol, int after, int result, bool lasting);

/* The emulated driver is found by its name once it is loaded. */
static void load_driver(void) {
    const char *path = getenv("SLUICE_CUDA_EMULATOR");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!library) {
        print_message("skipped: no emulated driver was built\n");
        skip();
    }
    *(void **)&break_call = dlsym(library, "emulated_fail");
    assert_non_null(break_call);
}

static sl_model *open_fable(const char *device) {
    sl_model *model = NULL;
    const sl_model_options options = {.struct_size = sizeof options, .device = device};
    if (sl_model_open("models/fable", &options, &model, &err)) fail_msg("%s", err.message);
    return model;
}

static void no_driver_is_not_noted(void **state) {
    (void)state;
    const sl_device_row *row;
    for (uint32_t i = 0; (row = sl_device_row_at(i)); i++)
        if (row->accelerator && row->present()) {
            print_message("skipped: this machine has a driver for %s\n", row->name);
            skip();
        }
    sl_model *model = open_fable(NULL);
    assert_string_equal(test_model_info(model).device, "cpu");
    assert_null(test_model_info(model).note);
    sl_model_close(model);
}

static void a_driver_without_a_gpu_is_not_noted(void **state) {
    (void)state;
    load_driver();
    break_call("cuInit", 0, NO_DEVICE, true);
    sl_model *model = open_fable("auto");
    break_call("", 0, 0, false);
    assert_string_equal(test_model_info(model).device, "cpu");
    assert_null(test_model_info(model).note);
    sl_model_close(model);
}

static void a_gpu_that_fails_is_noted(void **state) {
    (void)state;
    load_driver();
    break_call("cuDriverGetVersion", 0, OLD_DRIVER, true);
    sl_model *model = open_fable("auto"), *asked = open_fable("cpu");
    break_call("", 0, 0, false);
    const char *note = test_model_info(model).note;
    assert_string_equal(test_model_info(model).device, "cpu");
    assert_non_null(note);
    assert_non_null(strstr(note, "running on the cpu"));
    assert_non_null(strstr(note, "11.4"));
    assert_null(test_model_info(asked).note);
    sl_model_close(model);
    sl_model_close(asked);
}

static void options_without_effect_are_noted(void **state) {
    (void)state;
    static const struct {
        sl_model_options options;
        const char *word;
    } cases[] = {{{.device_budget_bytes = 1 << 30}, "device budget"},
                 {{.device_budget_share = 0.5}, "device budget"},
                 {{.compile = "no-fusion,apart"}, "apart"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sl_model *model = NULL;
        sl_model_options options = cases[i].options;
        options.struct_size = sizeof options;
        options.device = "cpu";
        if (sl_model_open("models/fable", &options, &model, &err)) fail_msg("%s", err.message);
        assert_non_null(test_model_info(model).note);
        assert_non_null(strstr(test_model_info(model).note, cases[i].word));
        sl_model_close(model);
    }
}

static void devices_that_do_not_serve_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"null", "abacus"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sl_model *model = NULL;
        const sl_model_options options = {.struct_size = sizeof options, .device = wrong[i]};
        assert_int_equal(sl_model_open("models/fable", &options, &model, &err), SL_UNSUPPORTED);
        assert_non_null(strstr(err.message, wrong[i]));
        assert_null(model);
    }
}

static void the_text_of_the_tokenizer_is_not_kept(void **state) {
    (void)state;
    sl_model *model = open_fable("cpu");
    assert_non_null(model->text.tokenizer);
    assert_null(sl_source_text(model->source, "tokenizer.json", NULL));
    assert_non_null(sl_source_text(model->source, "config.json", NULL));
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_driver_is_not_noted),
        cmocka_unit_test(a_driver_without_a_gpu_is_not_noted),
        cmocka_unit_test(a_gpu_that_fails_is_noted),
        cmocka_unit_test(options_without_effect_are_noted),
        cmocka_unit_test(devices_that_do_not_serve_are_refused),
        cmocka_unit_test(the_text_of_the_tokenizer_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
