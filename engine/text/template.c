/* template.c - Chat templates: parsed once, rendered often. */
#include "engine/text/template.h"
#include "engine/text/jinja/run.h"
#include "engine/text/jinja/utf8.h"

struct sl_template {
    sl_arena arena; /* the tree */
    jinja_node *body;
};

sl_status sl_template_create(const char *text, size_t bytes, const sl_allocator *allocator,
                             sl_template **out, sl_error *err) {
    *out = NULL;
    if (bytes > JINJA_MAX_TEMPLATE_BYTES)
        return sl_fail(err, SL_FORMAT, "chat template of %zu bytes, wanted at most %d", bytes,
                       JINJA_MAX_TEMPLATE_BYTES);
    const size_t valid = sl_utf8_valid_bytes((sl_slice){text, bytes});
    if (valid < bytes)
        return sl_fail(err, SL_FORMAT, "chat template is not UTF-8 at byte %zu", valid);
    sl_template *tmpl = sl_allocate(allocator, sizeof *tmpl, _Alignof(sl_template));
    if (!tmpl) return sl_no_memory(err, "chat template", sizeof *tmpl);
    sl_arena_init(&tmpl->arena, allocator);
    const sl_status status =
        sl_jinja_parse((jinja_text){text, bytes}, &tmpl->arena, &tmpl->body, err);
    if (status == SL_OK) {
        *out = tmpl;
    } else {
        sl_template_destroy(tmpl);
    }
    return status;
}

void sl_template_destroy(sl_template *tmpl) {
    if (!tmpl) return;
    const sl_allocator *allocator = tmpl->arena.allocator;
    sl_arena_deinit(&tmpl->arena);
    sl_release(allocator, tmpl, sizeof *tmpl, _Alignof(sl_template));
}

sl_status sl_template_render(const sl_template *tmpl, const char *variables_json, size_t bytes,
                             sl_arena *arena, char **out_text, size_t *out_bytes, sl_error *err) {
    sl_arena scratch;
    jinja_dict *variables = NULL;
    jinja_scope scope = {0};
    jinja_buffer text = {0};
    sl_status status = SL_OK;
    sl_arena_init(&scratch, arena->allocator);
    jinja_run run = {.place = {err, 1}, .arena = &scratch, .scope = &scope, .out = &text};
    SL_TRY_ELSE(done, sl_jinja_from_json(&run, variables_json, bytes, &variables));
    run.variables = variables;
    SL_TRY_ELSE(done, sl_jinja_exec(&run, tmpl->body));
    *out_text = sl_arena_copy_text(arena, text.data, text.bytes);
    *out_bytes = text.bytes;
    if (!*out_text) status = sl_no_memory(err, "chat template text", text.bytes);
done:
    sl_arena_deinit(&scratch);
    return status;
}
