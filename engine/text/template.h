/* template.h - Chat templates: a Jinja interpreter without access to files or clocks, and with
 * bounded work. */
#ifndef SL_ENGINE_TEXT_TEMPLATE_H
#define SL_ENGINE_TEXT_TEMPLATE_H
#include "base/memory.h"

typedef struct sl_template sl_template; /* immutable once created; shared by threads */

/* Error messages give the line. */
SL_CHECKED sl_status sl_template_create(const char *text, size_t bytes,
                                        const sl_allocator *allocator, sl_template **out,
                                        sl_error *err);
void sl_template_destroy(sl_template *tmpl);
/* variables: a JSON object, e.g. {"messages": [...], "add_generation_prompt": true,
 * "bos_token": "...", "tools": [...]}.  The result lives in arena, NUL-terminated. */
SL_CHECKED sl_status sl_template_render(const sl_template *tmpl, const char *variables_json,
                                        size_t bytes, sl_arena *arena, char **out_text,
                                        size_t *out_bytes, sl_error *err);
#endif
