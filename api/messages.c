/* messages.c - Messages of models and of clients (sluice/messages.h). */
#include "api/needs.h"
#include "base/structs.h"
#include "engine/choose/message/history.h"
#include "engine/choose/message/parser.h"
#include "engine/formats/json.h"
#include "engine/session/model.h"
#include <string.h>

const char *sl_message_family_at(uint32_t index) {
    return index < sl_message_family_count ? sl_message_families[index].name : NULL;
}

const char *sl_message_family_of(const sl_model *model) {
    SL_NEED_OR("none", model);
    return sl_message_family_detect(model->text.chat_text)->name;
}

sl_status sl_message_parser_create(const sl_message_parser_options *options,
                                   sl_message_parser **out, sl_error *err) {
    SL_NEED(out);
    sl_message_parser_options complete = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_message_parser_options, &complete, options, err));
    return sl_parser_create(&complete, out, err);
}

void sl_message_parser_destroy(sl_message_parser *parser) {
    sl_parser_destroy(parser);
}

sl_status sl_message_parser_feed(sl_message_parser *parser, const char *text, size_t bytes,
                                 sl_error *err) {
    SL_NEED(parser && (text || !bytes));
    return sl_parser_feed(parser, (sl_slice){text, bytes}, true, err);
}

sl_status sl_message_parser_feed_token(sl_message_parser *parser, const sl_model *model,
                                       sl_token token, sl_error *err) {
    SL_NEED(parser && model);
    sl_slice text;
    text.text = sl_model_token_text(model, token, &text.bytes);
    const bool marker = sl_message_family_marks(sl_parser_family(parser), text);
    if (sl_model_token_special(model, token) && !marker) {
        sl_parser_skip(parser);
        return SL_OK;
    }
    size_t strip = sl_parser_pieces(parser) ? 0 : sl_model_strip_start(model);
    for (; strip && text.bytes && text.text[0] == ' '; strip--)
        text = sl_slice_part(text, 1, text.bytes);
    return sl_parser_feed(parser, text, marker, err);
}

sl_status sl_message_parser_finish(sl_message_parser *parser, sl_error *err) {
    SL_NEED(parser);
    return sl_parser_finish(parser, err);
}

int sl_message_parser_next(sl_message_parser *parser, sl_message_event *out) {
    sl_message_event event;
    SL_NEED_OR(0, parser && out);
    if (SL_STRUCT_CHECK(sl_message_event, out, NULL) != SL_OK) return 0;
    if (!sl_parser_next(parser, &event)) return 0;
    SL_STRUCT_GIVE(sl_message_event, out, &event);
    return 1;
}

int sl_message_parser_is_reasoning(const sl_message_parser *parser) {
    SL_NEED_OR(0, parser);
    return sl_parser_is_reasoning(parser);
}

size_t sl_message_parser_reasoning_pieces(const sl_message_parser *parser) {
    SL_NEED_OR(0, parser);
    return sl_parser_reasoning_pieces(parser);
}

size_t sl_message_parser_calls(const sl_message_parser *parser) {
    SL_NEED_OR(0, parser);
    return sl_parser_calls(parser);
}

sl_status sl_message_parser_json(const sl_message_parser *parser, char **out_json, sl_error *err) {
    SL_NEED(parser && out_json);
    return sl_parser_json(parser, out_json, err);
}

static sl_status probe(const sl_model *model, sl_history_style *out, sl_error *err) {
    json_t *variables =
        json_pack("{s:b, s:s, s:s, s:s}", "add_generation_prompt", 1, "bos_token", model->text.bos,
                  "eos_token", model->text.eos, "now", "2025-01-01T00:00:00");
    if (!variables) return sl_no_memory(err, "messages", 0);
    const sl_status status = sl_history_probe(model->text.chat, variables, out, err);
    json_decref(variables);
    return status;
}

/* Only calls and reasoning are rendered differently by different templates. */
static bool needs_probe(const json_t *messages) {
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (json_array_size(json_object_get(json_array_get(messages, i), "tool_calls")))
            return true;
    return false;
}

sl_status sl_messages_for_template(const sl_model *model, const char *messages_json,
                                   char **out_json, sl_error *err) {
    SL_NEED(model && messages_json && out_json);
    sl_json_problem problem;
    sl_history_style style = {0};
    sl_status status = SL_OK;
    json_t *made = NULL;
    const size_t bytes = strlen(messages_json);
    json_t *messages = sl_json_parse(messages_json, bytes, SL_JSON_ALLOW_NUL, &problem);
    if (!messages) return sl_json_refuse("messages", bytes, &problem, err);
    if (model->text.chat && needs_probe(messages)) SL_TRY_ELSE(done, probe(model, &style, err));
    SL_TRY_ELSE(done, sl_history_normalise(messages, &style, &made, err));
    *out_json = sl_json_dump(made, JSON_COMPACT);
    if (!*out_json) status = sl_no_memory(err, "messages", bytes);
done:
    json_decref(messages);
    json_decref(made);
    return status;
}
