/* model_test.c - The list of devices. */
#include "runtime/devices.h"
#include "sluice/inspect.h"
#include "sluice/tensors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void devices_are_listed(void **state) {
    (void)state;
    sl_error err;
    sl_device_item item = {.struct_size = sizeof item};
    uint32_t count = 0;
    for (; count < sl_device_count(); count++) {
        const sl_device_row *row = NULL;
        assert_int_equal(sl_device_at(count, &item, &err), SL_OK);
        assert_int_equal(sl_device_find(item.name, &row, &err), SL_OK);
        assert_ptr_equal(row, sl_device_row_at(count));
        assert_int_equal(item.runs_models, !row->checks_only);
    }
    assert_non_null(sl_device_row_at(0));
    assert_null(sl_device_row_at(count));
    assert_int_equal(sl_device_at(count, &item, &err), SL_INVALID);
}

/* A share of the experts that is less than a byte is a budget that is too small, not none. */
static void tiny_shares_are_refused(void **state) {
    (void)state;
    static const double shares[] = {1e-300, 1e-12, 1e-7};
    for (int i = 0; i < 3; i++) {
        sl_error err = {0};
        sl_model *model = NULL;
        const sl_model_options options = {
            .struct_size = sizeof options, .device = "cpu", .expert_budget_share = shares[i]};
        assert_int_equal(sl_model_open("models/fable", &options, &model, &err), SL_NO_MEMORY);
        assert_non_null(strstr(err.message, "budget"));
    }
}

/* Every function of sluice.h, tensors.h and inspect.h with nothing where something is wanted. */
static void null_pointers(void **state) {
    (void)state;
    sl_error err = {0};
    size_t count = 0;
    const sl_token *tokens;
    assert_int_equal(sl_model_open(NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_model_open("models/fable", NULL, NULL, NULL), SL_INVALID);
    assert_int_equal(sl_model_describe(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_model_tokenize(NULL, "x", 1, NULL, 0, &count, &err), SL_INVALID);
    assert_string_equal(sl_model_token_text(NULL, 0, &count), "");
    assert_int_equal(sl_model_begin_tokens(NULL, &tokens), 0);
    assert_int_equal(sl_model_token_ends(NULL, 0), 0);
    assert_int_equal(sl_vocabulary_open(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_model_render_chat(NULL, "{}", NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_session_create(NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_session_extend(NULL, NULL, 0, &err), SL_INVALID);
    assert_int_equal(sl_session_next(NULL, NULL, NULL, &err), SL_INVALID);
    assert_null(sl_session_logits(NULL, NULL));
    sl_session_cancel(NULL);
    assert_int_equal(sl_session_stats(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_pack_write(NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_pack_verify(NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_synth_write(NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_tensors_open(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_tensors_count(NULL), 0);
    assert_int_equal(sl_inspect(NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_inspect_text(NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_compare(NULL, NULL, NULL, NULL, &err), SL_INVALID);
    assert_int_equal(sl_measure_floors(1, NULL, &err), SL_INVALID);
    sl_model_close(NULL);
    sl_session_destroy(NULL);
    sl_vocabulary_close(NULL);
    sl_tensors_close(NULL);
}

/* The options of an older caller end early; what follows is not read. */
static void options_of_older_callers(void **state) {
    (void)state;
    sl_error err = {0};
    sl_model *model = NULL;
    sl_session *session = NULL;
    const sl_session_options shorter = {.struct_size = sizeof(size_t), .chunk_tokens = 1u << 30};
    if (sl_model_open("models/fable", NULL, &model, &err)) fail_msg("%s", err.message);
    if (sl_session_create(model, &shorter, &session, &err)) fail_msg("%s", err.message);
    sl_session_destroy(session);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(tiny_shares_are_refused),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(options_of_older_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
