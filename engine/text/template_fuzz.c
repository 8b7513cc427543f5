/* template_fuzz.c - Any text as a template: it renders or fails, within the limits. */
#include "engine/text/template.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
        sl_template_render(tmpl, json, sizeof json - 1, &arena, &text, &bytes, &err) == SL_OK &&
        strnlen(text, bytes + 1) > bytes)
        __builtin_trap();
    sl_template_destroy(tmpl);
    sl_arena_deinit(&arena);
    return 0;
}
