/* options_test.c - The table of sampling options, and that docs/sampling.md has it. */
#include "engine/choose/options.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sl_error err;

static char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) fail_msg("%s cannot be opened", path);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    (void)fclose(file);
    return text;
}

/* | `name`, `alias` | `--flag VALUE` | range | help | */
static void row_text(const sl_sampler_option *row, char *out, size_t room) {
    size_t at = (size_t)snprintf(out, room, "| `%s`", row->name);
    for (const char *alias = row->aliases; *alias;) {
        const size_t bytes = strcspn(alias, " ");
        at += (size_t)snprintf(out + at, room - at, ", `%.*s`", (int)bytes, alias);
        alias += bytes + (alias[bytes] == ' ');
    }
    at += (size_t)snprintf(out + at, room - at, " | `--%s%s%s` | ", row->flag,
                           row->value ? " " : "", row->value ? row->value : "");
    if (row->least < row->most && strcmp(row->kind, "onoff") != 0)
        at += (size_t)snprintf(out + at, room - at, "%.10g to %.10g", row->least, row->most);
    (void)snprintf(out + at, room - at, " | %s |\n", row->help);
}

static void the_documentation_has_all_options(void **state) {
    (void)state;
    char *text = read_file("docs/sampling.md"), line[1024];
    for (uint32_t i = 0; i < sl_option_rows(); i++) {
        const sl_sampler_option row = sl_option_row(i);
        row_text(&row, line, sizeof line);
        if (!strstr(text, line)) fail_msg("docs/sampling.md lacks:\n%s", line);
    }
    free(text);
}

/* Every number can be set by name, flag and alias, at both ends of its range and not beyond. */
static void options_are_set_within_their_range(void **state) {
    (void)state;
    for (uint32_t i = 0; i < sl_option_rows(); i++) {
        const sl_sampler_option row = sl_option_row(i);
        const bool is_number = strcmp(row.kind, "list") != 0 && strcmp(row.kind, "order") != 0;
        sl_sampler_options o = {0};
        if (!is_number) continue;
        assert_true(sl_option_set_number(&o, row.name, row.least));
        assert_false(sl_option_set_number(&o, row.name, row.least - 1));
        assert_false(sl_option_set_number(&o, row.name, NAN));
        if (row.most < 9e18) {
            assert_true(sl_option_set_number(&o, row.name, row.most));
            assert_false(sl_option_set_number(&o, row.name, row.most * 2 + 1));
            if (strcmp(row.kind, "seed") != 0)
                assert_int_equal(sl_options_complete(&o, &err), SL_OK);
        }
        if (row.aliases[0]) {
            char alias[64];
            (void)snprintf(alias, sizeof alias, "%.*s", (int)strcspn(row.aliases, " "),
                           row.aliases);
            assert_true(sl_option_set_number(&o, alias, row.least));
        }
    }
}

/* Zeros become what the table says, and that is in range. */
static void zeros_are_completed(void **state) {
    (void)state;
    sl_sampler_options o = {0};
    assert_int_equal(sl_options_complete(&o, &err), SL_OK);
    assert_true(o.repeat_penalty == 1 && o.typical_p == 1 && o.repeat_last_n == 64);
    assert_true(o.dry_base == 1.75f && o.dry_allowed_length == 2 && o.dry_penalty_last_n == 64);
    assert_true(o.mirostat_tau == 5 && o.mirostat_eta == 0.1f && o.xtc_threshold == 0.1f);
    assert_true(o.thinking_budget == -1 && o.dynatemp_exponent == 1);
    assert_null(sl_options_beyond_plain(&o));
    assert_false(sl_options_need_chain(&o));
    sl_sampler_options again = o;
    assert_int_equal(sl_options_complete(&again, &err), SL_OK);
    assert_memory_equal(&again, &o, sizeof o);
}

static void orders_are_lists_of_names(void **state) {
    (void)state;
    sl_sampling_order order;
    assert_int_equal(sl_sampling_order_parse(NULL, &order, &err), SL_OK);
    assert_int_equal(order.count, SL_SAMPLING_COUNT);
    assert_int_equal(sl_sampling_order_parse("temperature;typical, top-k ;dry", &order, &err),
                     SL_OK);
    assert_int_equal(order.count, 4);
    assert_int_equal(order.steps[0], SL_SAMPLING_TEMPERATURE);
    assert_int_equal(order.steps[1], SL_SAMPLING_TYPICAL);
    assert_int_equal(order.steps[2], SL_SAMPLING_TOP_K);
    assert_int_equal(sl_sampling_order_parse("top_k;top-k", &order, &err), SL_INVALID);
    assert_int_equal(sl_sampling_order_parse("top", &order, &err), SL_INVALID);
    assert_int_equal(sl_sampling_order_parse("", &order, &err), SL_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documentation_has_all_options),
        cmocka_unit_test(options_are_set_within_their_range),
        cmocka_unit_test(zeros_are_completed),
        cmocka_unit_test(orders_are_lists_of_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
