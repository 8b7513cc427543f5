/* template_fuzz.c - Any text as a template: it renders or fails, within the limits. */
#include "engine/text/jinja/jinja.h"
#include "engine/text/template.h"
#include "tests/support/mutate_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *builtin_name(const jinja_builtin *table, uint32_t pick) {
    uint32_t count = 0;
    while (table[count].name) count++;
    return table[pick % count].name;
}

/* Tags, variables, operators and literals. */
static const char *const words[] = {"{% if x %}",
                                    "{% elif s %}",
                                    "{% else %}",
                                    "{% endif %}",
                                    "{% for m in messages %}",
                                    "{% for k, v in d.items() recursive if v %}",
                                    "{% endfor %}",
                                    "{% set x = 1 %}",
                                    "{% set x %}",
                                    "{% endset %}",
                                    "{% macro f(a, b=2) %}",
                                    "{% endmacro %}",
                                    "{% call(a) f(1) %}",
                                    "{% endcall %}",
                                    "{% filter upper %}",
                                    "{% endfilter %}",
                                    "{% generation %}",
                                    "{% endgeneration %}",
                                    "{% break %}",
                                    "{% continue %}",
                                    "{% set ns = namespace(a=1) %}",
                                    "{% set ns.a = 2 %}",
                                    "{% raw %}",
                                    "{% endraw %}",
                                    "{{",
                                    "}}",
                                    "{%-",
                                    "-%}",
                                    "{#",
                                    "#}",
                                    "messages",
                                    "messages[0].content",
                                    "m['role']",
                                    "d",
                                    "n",
                                    "f",
                                    "s",
                                    "now",
                                    "x",
                                    "loop.index0",
                                    "loop.changed(n)",
                                    "loop.cycle(1, 2)",
                                    "loop(d)",
                                    "self",
                                    "+",
                                    "-",
                                    "*",
                                    "/",
                                    "//",
                                    "%",
                                    "**",
                                    "~",
                                    "==",
                                    "<",
                                    "and",
                                    "or",
                                    "not",
                                    "in",
                                    "is",
                                    "is not",
                                    "if 1 else 2",
                                    "none",
                                    "true",
                                    "|",
                                    ".",
                                    "[",
                                    "]",
                                    "[::-1]",
                                    "[1:n]",
                                    "(",
                                    ")",
                                    ",",
                                    ":",
                                    "{",
                                    "}",
                                    "'a'",
                                    "\"\\n\"",
                                    "1e300",
                                    "range(n)",
                                    "dict(a=1)",
                                    "*messages",
                                    "**d",
                                    "raise_exception('x')",
                                    "strftime_now('%d %b %Y')",
                                    "is defined",
                                    "is divisibleby 2",
                                    "is sameas x",
                                    "is mapping"};

static const char *mutation_word(uint32_t pick) {
    enum { WORDS = sizeof words / sizeof words[0] };
    switch (pick % 6) {
    case 0:
        return builtin_name(sl_jinja_scalar_filters, pick / 6);
    case 1:
        return builtin_name(sl_jinja_sequence_filters, pick / 6);
    case 2:
        return builtin_name(sl_jinja_string_methods, pick / 6);
    default:
        return words[pick / 6 % WORDS];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\u00e9\"},"
        " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"name\": \"f\"}]}],"
        " \"add_generation_prompt\": true, \"n\": 3, \"f\": 2.5, \"s\": \"a b,c\","
        " \"d\": {\"a\": 1, \"b\": [2]}, \"now\": \"2024-07-26\"}";
    sl_template *tmpl = NULL;
    sl_arena arena;
    sl_error err;
    char *text;
    size_t bytes;
    sl_arena_init(&arena, NULL);
    if (sl_template_create((const char *)data, size, NULL, &tmpl, &err) == SL_OK &&
        sl_template_render(tmpl, &(sl_template_input){json, sizeof json - 1, NULL, NULL}, &arena,
                           &text, &bytes, &err) == SL_OK &&
        strnlen(text, bytes + 1) > bytes)
        __builtin_trap();
    sl_template_destroy(tmpl);
    sl_arena_deinit(&arena);
    return 0;
}
