/* text.c - Tokens, chat templates and text streams of a model (sluice/sluice.h). */
#include "api/needs.h"
#include "base/structs.h"
#include "base/utf8.h"
#include "engine/formats/json.h"
#include "engine/session/model.h"
#include "engine/text/protect.h"
#include <stdlib.h>
#include <string.h>

static sl_status need_tokenizer(const sl_model *model, sl_error *err) {
    if (model->text.tokenizer) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "the model has no tokenizer.json");
}

sl_status sl_model_tokenize(const sl_model *model, const char *text, size_t bytes, sl_token *tokens,
                            size_t capacity, size_t *out_count, sl_error *err) {
    SL_NEED(model && (text || !bytes) && (tokens || !capacity) && out_count);
    SL_TRY(need_tokenizer(model, err));
    return sl_tokenizer_encode(model->text.tokenizer, text, bytes, tokens, capacity, out_count,
                               err);
}

int sl_model_has_tokenizer(const sl_model *model) {
    SL_NEED_OR(0, model);
    return model->text.tokenizer != NULL;
}

int sl_model_has_chat_template(const sl_model *model) {
    SL_NEED_OR(0, model);
    return model->text.chat != NULL || model->text.chat_problem.status != SL_OK;
}

const char *sl_model_token_text(const sl_model *model, sl_token token, size_t *out_bytes) {
    SL_NEED_OR("", model && out_bytes);
    if (model->text.tokenizer) return sl_tokenizer_text(model->text.tokenizer, token, out_bytes);
    *out_bytes = 0;
    return "";
}

size_t sl_model_strip_start(const sl_model *model) {
    SL_NEED_OR(0, model);
    return model->text.tokenizer ? sl_tokenizer_strip_start(model->text.tokenizer) : 0;
}

size_t sl_model_begin_tokens(const sl_model *model, const sl_token **out) {
    SL_NEED_OR(0, model && out);
    *out = NULL;
    return model->text.tokenizer ? sl_tokenizer_before(model->text.tokenizer, out) : 0;
}

int sl_model_token_ends(const sl_model *model, sl_token token) {
    SL_NEED_OR(0, model);
    for (uint32_t i = 0; i < model->text.end_count; i++)
        if (model->text.end_tokens[i] == token) return 1;
    return 0;
}

int sl_model_token_special(const sl_model *model, sl_token token) {
    SL_NEED_OR(0, model);
    return model->text.tokenizer && sl_tokenizer_is_special(model->text.tokenizer, token);
}

sl_status sl_model_sampling(const sl_model *model, sl_sampling *out, sl_error *err) {
    SL_NEED(model && out);
    SL_TRY(SL_STRUCT_CHECK(sl_sampling, out, err));
    SL_STRUCT_GIVE(sl_sampling, out, &model->text.sampling);
    return SL_OK;
}

static void set_missing(json_t **object, const char *key, const char *text) {
    if (!json_object_get(*object, key)) sl_json_set(object, key, json_string(text));
}

/* Variables of a chat template as the caller gives them. */
typedef struct {
    const char *json;
    bool protects; /* the texts of messages are marked (protect.h) */
    sl_render_options options;
} chat_input;

/* The caller's variables with the model's own special tokens beside them. */
static sl_status complete_variables(const sl_model *model, const chat_input *chat, char **out,
                                    sl_error *err) {
    const size_t bytes = strlen(chat->json);
    sl_json_problem problem;
    json_t *object = sl_json_parse(chat->json, bytes, 0, &problem);
    if (!object && problem.no_memory) return sl_no_memory(err, "chat variables", bytes);
    if (!json_is_object(object)) {
        json_decref(object);
        return sl_fail(err, SL_INVALID, "chat variables: %s",
                       object ? "expected an object" : problem.text);
    }
    json_t *messages = json_object_get(object, "messages");
    if (chat->protects && messages)
        sl_json_set(&object, "messages", sl_protect_value(model->text.tokenizer, messages));
    set_missing(&object, "bos_token", model->text.bos);
    set_missing(&object, "eos_token", model->text.eos);
    *out = sl_json_dump(object, JSON_COMPACT);
    json_decref(object);
    return *out ? SL_OK : sl_no_memory(err, "chat variables", bytes);
}

static sl_status check_template(const sl_model *model, sl_error *err) {
    const sl_error *problem = &model->text.chat_problem;
    if (model->text.chat) return SL_OK;
    if (problem->status != SL_OK) return sl_fail(err, SL_FORMAT, "%s", problem->message);
    return sl_fail(err, SL_UNSUPPORTED, "the model has no chat template");
}

static sl_status render(const sl_model *model, const chat_input *chat, sl_arena *arena,
                        sl_slice *out, sl_error *err) {
    char *variables = NULL, *rendered = NULL;
    SL_TRY(check_template(model, err));
    SL_TRY(complete_variables(model, chat, &variables, err));
    const sl_template_input input = {variables, strlen(variables), chat->options.progress,
                                     chat->options.progress_ctx};
    const sl_status status =
        sl_template_render(model->text.chat, &input, arena, &rendered, &out->bytes, err);
    out->text = rendered;
    free(variables);
    return status;
}

sl_status sl_model_render_chat(const sl_model *model, const char *variables_json,
                               const sl_render_options *given, char **out_text, sl_error *err) {
    SL_NEED(model && variables_json && out_text);
    chat_input chat = {.json = variables_json};
    SL_TRY(SL_STRUCT_TAKE(sl_render_options, &chat.options, given, err));
    sl_status status = SL_OK;
    sl_slice rendered = {0};
    sl_arena arena;
    sl_arena_init(&arena, &model->allocator);
    SL_TRY_ELSE(done, render(model, &chat, &arena, &rendered, err));
    *out_text = rendered.text ? malloc(rendered.bytes + 1) : NULL;
    if (*out_text)
        memcpy(*out_text, rendered.text, rendered.bytes + 1);
    else
        status = sl_no_memory(err, "rendered chat", rendered.bytes);
done:
    sl_arena_deinit(&arena);
    return status;
}

sl_status sl_model_tokenize_chat(const sl_model *model, const char *variables_json,
                                 sl_token *tokens, size_t capacity, size_t *out_count,
                                 sl_error *err) {
    SL_NEED(model && variables_json && (tokens || !capacity) && out_count);
    const chat_input chat = {.json = variables_json, .protects = true};
    sl_status status = SL_OK;
    sl_slice rendered = {0};
    sl_arena arena;
    SL_TRY(need_tokenizer(model, err));
    sl_arena_init(&arena, &model->allocator);
    SL_TRY_ELSE(done, render(model, &chat, &arena, &rendered, err));
    sl_tokenizer_input input = {rendered.text, rendered.bytes, {0}};
    SL_TRY_ELSE(done, sl_protect_strip((char *)(uintptr_t)rendered.text, &input.bytes, &arena,
                                       &input.plain, err));
    status =
        sl_tokenizer_encode_input(model->text.tokenizer, &input, tokens, capacity, out_count, err);
done:
    sl_arena_deinit(&arena);
    return status;
}

size_t sl_text_stream_push(sl_text_stream *stream, const char *bytes, size_t count, char *out) {
    SL_NEED_OR(0, stream && (bytes || !count) && out);
    return sl_utf8_stream_push(stream, bytes, count, out);
}

size_t sl_text_stream_finish(sl_text_stream *stream, char *out) {
    SL_NEED_OR(0, stream && out);
    return sl_utf8_stream_finish(stream, out);
}
