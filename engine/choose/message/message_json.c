/* message_json.c - What was parsed, as one message. */
#include "engine/choose/message/parser_state.h"
#include "engine/formats/json.h"

static json_t *text_json(const sl_text_buffer *text) {
    return json_stringn(text->bytes ? text->text : "", text->bytes);
}

static json_t *call_json(const sl_parsed_call *call) {
    return json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", call->id, "type", "function", "function",
                     "name", text_json(&call->name), "arguments", text_json(&call->arguments));
}

sl_status sl_parser_json(const sl_message_parser *p, char **out, sl_error *err) {
    json_t *message = json_pack("{s:s}", "role", "assistant"), *calls = json_array();
    const bool empty = p->content.bytes == 0 && p->complete_count;
    sl_json_set(&message, "content", empty ? json_null() : text_json(&p->content));
    if (p->reasoning.bytes) sl_json_set(&message, "reasoning_content", text_json(&p->reasoning));
    for (size_t i = 0; i < p->call_count; i++)
        if (p->calls[i].complete) sl_json_append(&calls, call_json(&p->calls[i]));
    if (!calls || p->complete_count)
        sl_json_set(&message, "tool_calls", calls);
    else
        json_decref(calls);
    *out = message ? sl_json_dump(message, JSON_COMPACT) : NULL;
    json_decref(message);
    return *out ? SL_OK : sl_no_memory(err, "a message", p->content.bytes);
}
