/* values.c - Values of parameters that stand between tags, as JSON. */
#include "engine/choose/message/parser_state.h"
#include "engine/choose/message/schemas.h"
#include <string.h>

static void put_string(sl_message_parser *p, sl_slice text) {
    sl_parser_arguments(p, "\"", 1);
    for (size_t i = 0; i < text.bytes; i++) sl_parser_arguments_escaped(p, text.text[i]);
    sl_parser_arguments(p, "\"", 1);
}

void sl_parser_begin_value(sl_message_parser *p, sl_call_step_kind kind) {
    sl_parser_arguments(p, p->parameters++ ? "," : "{", 1);
    put_string(p, (sl_slice){p->word.text, p->word.bytes});
    sl_parser_arguments(p, ":", 1);
    p->types = 0;
    if (kind == SL_STEP_VALUE && p->open)
        p->types =
            sl_schemas_types(p->schemas, p->calls[p->call_count - 1].name.text, p->word.text);
    p->strings = kind == SL_STEP_TEXT || p->types == SL_TYPE_STRING;
    p->value_begun = p->newline = false;
    sl_text_buffer_clear(&p->value);
    if (p->strings) sl_parser_arguments(p, "\"", 1);
}

bool sl_parser_value_byte(sl_message_parser *p, char byte) {
    const bool strips = p->family->traits & SL_FAMILY_STRIPS, first = !p->value_begun;
    p->value_begun = true;
    if (!p->strings) {
        sl_parser_put(p, &p->value, &byte, 1);
        return true;
    }
    if (strips && first && byte == '\n') return true;
    if (p->newline) sl_parser_arguments_escaped(p, '\n');
    p->newline = strips && byte == '\n';
    if (!p->newline) sl_parser_arguments_escaped(p, byte);
    return true;
}

static bool is(sl_slice text, const char *wanted) {
    return strlen(wanted) == text.bytes && memcmp(text.text, wanted, text.bytes) == 0;
}

static sl_slice strip_line(sl_slice text) {
    if (text.bytes && text.text[0] == '\n') text = sl_slice_part(text, 1, text.bytes);
    if (text.bytes && text.text[text.bytes - 1] == '\n') text.bytes--;
    return text;
}

static sl_slice strip_blanks(sl_slice text) {
    while (text.bytes && sl_is_blank(text.text[0])) text = sl_slice_part(text, 1, text.bytes);
    while (text.bytes && sl_is_blank(text.text[text.bytes - 1])) text.bytes--;
    return text;
}

/* The constants as Python writes them, which templates do. */
static const char *constant(unsigned types, sl_slice text) {
    if (types & SL_TYPE_NULL && (is(text, "None") || is(text, "null"))) return "null";
    if (types & SL_TYPE_BOOLEAN && is(text, "True")) return "true";
    return types & SL_TYPE_BOOLEAN && is(text, "False") ? "false" : NULL;
}

void sl_parser_end_value(sl_message_parser *p) {
    if (p->strings) {
        sl_parser_arguments(p, "\"", 1);
        return;
    }
    sl_slice text = {p->value.bytes ? p->value.text : "", p->value.bytes};
    if (p->family->traits & SL_FAMILY_STRIPS) text = strip_line(text);
    const sl_slice bare = strip_blanks(text);
    const char *known = constant(p->types, bare);
    p->work += p->value.bytes;
    if (known)
        sl_parser_arguments(p, known, strlen(known));
    else if (p->types != (SL_TYPE_STRING | SL_TYPE_NULL) && sl_json_bytes_valid(bare))
        sl_parser_arguments(p, bare.text, bare.bytes);
    else
        put_string(p, text);
}
