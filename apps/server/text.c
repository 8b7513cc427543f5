/* text.c - Endpoints about tokens and the chat template. */
#include "apps/server/server.h"
#include <stdlib.h>
#include <string.h>

static bool parse(server_exchange *x, json_t **out, server_error *err) {
    if (!server_exchange_parse(x, out, err)) return false;
    if (server_exchange_use(x, server_json_string(*out, "model"), err)) return true;
    json_decref(*out);
    return false;
}

static json_t *token_text(const server_model *model, sl_token token) {
    size_t bytes = 0;
    const char *text = sl_model_token_text(model->model, token, &bytes);
    return server_json_text(text, bytes);
}

/* {"content", "add_special", "parse_special", "with_pieces"} */
bool server_handle_tokenize(server_exchange *x, server_reply *reply, server_error *err) {
    const server_model *model = &x->server->model;
    bool add = false, special = true, pieces = false;
    server_tokens tokens = {0};
    json_t *body = NULL;
    const sl_token *begin = NULL;
    if (!parse(x, &body, err)) return false;
    const json_t *content = json_object_get(body, "content");
    if (!content) content = json_object_get(body, "prompt");
    bool good = server_json_flag(body, "add_special", &add, err) &&
                server_json_flag(body, "parse_special", &special, err) &&
                server_json_flag(body, "with_pieces", &pieces, err);
    if (good && !json_is_string(content))
        good = server_refuse(err, 400, "content", "content: expected a text");
    good = good && server_model_tokenize(model, json_string_value(content),
                                         json_string_length(content), special, &tokens, err);
    json_t *list = json_array();
    const size_t before = good && add ? sl_model_begin_tokens(model->model, &begin) : 0;
    for (size_t i = 0; good && i < before + tokens.count; i++) {
        const sl_token id = i < before ? begin[i] : tokens.ids[i - before];
        (void)json_array_append_new(
            list, pieces ? json_pack("{s:i, s:o}", "id", (int)id, "piece", token_text(model, id))
                         : json_integer(id));
    }
    if (good)
        reply->json =
            json_pack("{s:O, s:I}", "tokens", list, "count", (json_int_t)json_array_size(list));
    json_decref(list);
    json_decref(body);
    free(tokens.ids);
    return good;
}

bool server_handle_detokenize(server_exchange *x, server_reply *reply, server_error *err) {
    const server_model *model = &x->server->model;
    server_text text = {0};
    json_t *body = NULL;
    size_t index;
    const json_t *id;
    if (!parse(x, &body, err)) return false;
    const json_t *list = json_object_get(body, "tokens");
    bool good =
        json_is_array(list) || server_refuse(err, 400, "tokens", "tokens: expected a list of ids");
    json_array_foreach(good ? list : NULL, index, id) {
        const json_int_t token = json_is_integer(id) ? json_integer_value(id) : -1;
        if (token < 0 || token >= model->info.vocab)
            good = server_refuse(err, 400, "tokens", "tokens[%zu] is not a token id", index);
        size_t bytes = 0;
        const char *piece = good ? sl_model_token_text(model->model, (sl_token)token, &bytes) : "";
        server_text_add(&text, piece, bytes);
    }
    if (good) {
        json_t *content = server_json_text(text.bytes ? text.bytes : "", text.length);
        reply->json = json_pack("{s:O, s:o}", "content", content, "prompt", content);
    }
    server_text_free(&text);
    json_decref(body);
    return good;
}

/* The prompt of a chat, as text. */
bool server_handle_apply_template(server_exchange *x, server_reply *reply, server_error *err) {
    const server_model *model = &x->server->model;
    server_tokens tokens = {0};
    server_text text = {0};
    json_t *body = NULL;
    if (!parse(x, &body, err)) return false;
    x->decoded = true;
    if (!server_request_decode(SERVER_CHAT, body, &x->request, err) ||
        !server_prompt_chat(model, &x->request, &tokens, err))
        return false;
    for (size_t i = 0; i < tokens.count; i++) {
        size_t bytes = 0;
        const char *piece = sl_model_token_text(model->model, tokens.ids[i], &bytes);
        server_text_add(&text, piece, bytes);
    }
    reply->json = json_pack("{s:o, s:I}", "prompt",
                            server_json_text(text.bytes ? text.bytes : "", text.length),
                            "token_count", (json_int_t)tokens.count);
    server_text_free(&text);
    free(tokens.ids);
    return true;
}
