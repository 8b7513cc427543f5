/* template_work_test.c - Short templates that would work for hours: the limit of steps stops them
 * soon, and so does the caller. */
#include "engine/text/template.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Of this process, whatever else the machine does. */
static double cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

typedef struct {
    int calls, cancel_at; /* 0: never */
} caller;

static int ask(void *ctx, const char *what, uint64_t done, uint64_t total) {
    caller *c = ctx;
    assert_string_equal(what, "chat template");
    assert_true(done <= total);
    return ++c->calls == c->cancel_at;
}

static sl_status render(const char *text, caller *c, sl_error *err) {
    sl_template *tmpl;
    sl_arena arena;
    char *out = NULL;
    size_t bytes = 0;
    const sl_template_input input = {"{\"x\": 1}", 8, c ? ask : NULL, c};
    *err = (sl_error){0};
    if (sl_template_create(text, strlen(text), NULL, &tmpl, err) != SL_OK)
        fail_msg("%s", err->message);
    sl_arena_init(&arena, NULL);
    const sl_status status = sl_template_render(tmpl, &input, &arena, &out, &bytes, err);
    sl_arena_deinit(&arena);
    sl_template_destroy(tmpl);
    return status;
}

#define BIG "{% set b='a'*3000000 %}"
#define LOOP(x)                                                                                    \
    "{% for i in range(100000) %}{% for j in range(100000) %}" x "{% endfor %}{% endfor %}"

static const char *const endless[] = {
    BIG "{% set c='a'*3000000 %}" LOOP("{% if b < c %}{% endif %}"),
    BIG "{% set c='a'*3000000 %}" LOOP("{% if b == c %}{% endif %}"),
    BIG "{% set c='a'*3000000 %}" LOOP("{% if b in [c] %}{% endif %}"),
    BIG "{% set c='a'*3000000 %}{% set d={c: 1} %}" LOOP("{% if d[b] %}{% endif %}"),
    BIG "{% set c='a'*3000000 %}{% set d={c: 1} %}" LOOP("{% if b in d %}{% endif %}"),
    BIG "{% set c='a'*3000000 %}{% set n=namespace({c: 1}) %}" LOOP("{% if n[b] %}{% endif %}"),
    BIG "{% set c='a'*3000000 %}{% set l=[b, c]*50000 %}"
        "{% for i in l %}{% if loop.changed(i) %}{% endif %}{% endfor %}",
    BIG "{% set l=[b]*100000 %}{% set c='a'*2999999~'b' %}{{ c in l }}",
    BIG "{% set c='a'*3000000 %}{% set l=[{c: 1}]*100000 %}{{ l|map(attribute=b)|list|length }}",
    "{% set r=range(100000)|list %}" LOOP("{{ r|sum }}"),
    BIG "{% set l=('b'*2000000)~'a' %}{{ b.strip(l)|length }}",
    BIG "{% set l=('a'*1500000)~'b' %}{{ b.rfind(l) }}",
    BIG "{% set l=('a'*1500000)~'b' %}{{ b.rsplit(l)|length }}",
    BIG "{% set l=(('a'*2999999)~'b',)*100000 %}{{ b.startswith(l) }}",
    BIG LOOP("{{ b|length }}"),
    BIG LOOP("{{ b[2999999] }}"),
};

static void work_is_limited(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        sl_error err;
        const double start = cpu_seconds();
        if (render(endless[i], NULL, &err) == SL_OK) fail_msg("rendered: %s", endless[i]);
        if (!strstr(err.message, "evaluation steps") && !strstr(err.message, "bytes of values"))
            fail_msg("%s: %s", endless[i], err.message);
        const double seconds = cpu_seconds() - start;
        if (seconds > 20) fail_msg("%s: %.1f s", endless[i], seconds);
    }
}

/* Names in the template itself may be many, or long. */
static void names_are_charged(void **state) {
    (void)state;
    enum { NAMES = 20000, LONG = 1000000 };
    char *text = malloc(NAMES * 24 + 4 * LONG + 400), *at = text;
    sl_error err;
    assert_non_null(text);
    for (int i = 0; i < NAMES; i++) at += sprintf(at, "{%% set v%d=1 %%}", i);
    (void)strcpy(at, LOOP("{% if v0 %}{% endif %}"));
    double start = cpu_seconds();
    assert_int_not_equal(render(text, NULL, &err), SL_OK);
    assert_non_null(strstr(err.message, "evaluation steps"));
    assert_true(cpu_seconds() - start < 20);
    at = text + sprintf(text, "{%% set ");
    memset(at, 'n', LONG);
    at += LONG + sprintf(at + LONG, "=1 %%}{%% for i in range(100000) %%}{%% if ");
    memset(at, 'n', LONG);
    (void)strcpy(at + LONG, " %}{% endif %}{% endfor %}");
    start = cpu_seconds();
    assert_int_not_equal(render(text, NULL, &err), SL_OK);
    assert_non_null(strstr(err.message, "evaluation steps"));
    assert_true(cpu_seconds() - start < 20);
    free(text);
}

static void rendering_can_be_cancelled(void **state) {
    (void)state;
    static const char loops[] = LOOP("{{ i + j }}");
    sl_error err;
    caller never = {0, 0}, third = {0, 3}, unasked = {0, 1};
    assert_int_not_equal(render(loops, &never, &err), SL_OK);
    assert_true(never.calls > 20);
    assert_int_equal(render(loops, &third, &err), SL_CANCELLED);
    assert_int_equal(third.calls, 3);
    assert_string_equal(err.message, "rendering the chat template was cancelled");
    assert_int_equal(render("{{ x }}", &unasked, &err), SL_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_is_limited),
        cmocka_unit_test(names_are_charged),
        cmocka_unit_test(rendering_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
