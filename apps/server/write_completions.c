/* write_completions.c - Responses of /v1/completions. */
#include "apps/server/writer.h"
#include <string.h>

/* Lists of a choice: tokens, their log-probabilities, the most likely ones, places in the text,
 * which are counted in characters. */
typedef struct {
    json_t *tokens, *probs, *top, *offsets;
    size_t offset;
} lists;

static size_t characters(const json_t *text) {
    const char *at = json_string_value(text);
    size_t count = 0;
    for (; at && *at; at++) count += ((unsigned char)*at & 0xc0) != 0x80;
    return count;
}

static void lists_add(lists *to, const json_t *token) {
    const json_t *text = json_object_get(token, "token");
    json_t *top = json_object();
    size_t index;
    const json_t *item;
    json_array_foreach(json_object_get(token, "top_logprobs"), index, item) {
        (void)json_object_set(top, json_string_value(json_object_get(item, "token")),
                              json_object_get(item, "logprob"));
    }
    (void)json_array_append(to->tokens, (json_t *)text);
    (void)json_array_append(to->probs, json_object_get(token, "logprob"));
    (void)json_array_append_new(to->top, top);
    (void)json_array_append_new(to->offsets, json_integer((json_int_t)to->offset));
    to->offset += characters(text);
}

static lists lists_begin(size_t offset) {
    return (lists){json_array(), json_array(), json_array(), json_array(), offset};
}

static json_t *lists_json(const lists *from) {
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", from->tokens, "token_logprobs", from->probs,
                     "top_logprobs", from->top, "text_offset", from->offsets);
}

static json_t *prompt_text(const server_writer *w, uint32_t answer) {
    server_text text = {0};
    const server_answer *a = w->job ? &w->job->answers[answer] : NULL;
    for (size_t i = 0; a && i < a->prompt_count; i++) {
        size_t bytes = 0;
        const char *token = sl_model_token_text(w->model->model, a->prompt[i], &bytes);
        server_text_add(&text, token, bytes);
    }
    json_t *made = server_json_text(text.bytes ? text.bytes : "", text.length);
    server_text_free(&text);
    return made;
}

/* The prompt's tokens, of which the first has no probability. */
static void lists_add_prompt(const server_writer *w, uint32_t answer, lists *to) {
    const server_answer *a = w->job ? &w->job->answers[answer] : NULL;
    size_t index, bytes = 0;
    const json_t *token;
    if (!a || a->prompt_count == 0) return;
    const char *text = sl_model_token_text(w->model->model, a->prompt[0], &bytes);
    json_t *first = json_pack("{s:o, s:n}", "token", server_json_text(text, bytes), "logprob");
    lists_add(to, first);
    (void)json_array_set_new(to->top, 0, json_null());
    json_decref(first);
    json_array_foreach(w->messages[answer].prompt_probs, index, token) lists_add(to, token);
}

static json_t *envelope(const server_writer *w, json_t *choices) {
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", w->id, "object", "text_completion",
                     "created", (json_int_t)w->created, "model", w->model->id, "system_fingerprint",
                     "sluice", "choices", choices);
}

static json_t *choice(uint32_t answer, json_t *text, json_t *logprobs, const char *finish) {
    return json_pack("{s:s#, s:i, s:o?, s:s?}", "text", json_string_value(text),
                     (int)json_string_length(text), "index", (int)answer, "logprobs", logprobs,
                     "finish_reason", finish);
}

static void send(server_writer *w, uint32_t answer, json_t *text, json_t *logprobs,
                 const char *finish) {
    server_writer_send(w, NULL,
                       envelope(w, json_pack("[o]", choice(answer, text, logprobs, finish))));
}

/* The prompt, before the first text of an answer: its log-probabilities are known then. */
static void echo(server_writer *w, uint32_t answer) {
    server_message *message = &w->messages[answer];
    json_t *logprobs = NULL;
    if (!w->request->echo || message->echoed) return;
    json_t *text = prompt_text(w, answer);
    message->echoed = true;
    message->characters = characters(text);
    if (w->request->logprobs) {
        lists prompt = lists_begin(0);
        lists_add_prompt(w, answer, &prompt);
        logprobs = lists_json(&prompt);
    }
    send(w, answer, text, logprobs, NULL);
    json_decref(text);
}

static void more(server_writer *w, uint32_t answer, server_part *part, const json_t *text) {
    const json_t *fresh = w->messages[answer].fresh, *token;
    json_t *logprobs = NULL;
    size_t index;
    (void)part;
    echo(w, answer);
    if (json_array_size(fresh)) {
        lists new = lists_begin(w->messages[answer].characters);
        json_array_foreach(fresh, index, token) lists_add(&new, token);
        logprobs = lists_json(&new);
    }
    w->messages[answer].characters += characters(text);
    send(w, answer, (json_t *)text, logprobs, NULL);
}

static void end(server_writer *w, uint32_t answer) {
    json_t *empty = json_string("");
    echo(w, answer);
    send(w, answer, empty, NULL, server_finish_reason(w->messages[answer].result->finish));
    json_decref(empty);
}

static void finish(server_writer *w) {
    if (w->request->include_usage) {
        json_t *last = envelope(w, json_array());
        (void)json_object_set_new(last, "usage", server_chat_usage(w));
        server_add_timings(w, last);
        server_writer_send(w, NULL, last);
    }
    server_text_print(&w->out, "data: [DONE]\n\n");
}

static void progress(server_writer *w, json_t *progress) {
    json_t *made = envelope(w, json_array());
    (void)json_object_set_new(made, "prompt_progress", progress);
    server_writer_send(w, NULL, made);
}

static void fail(server_writer *w, const server_error *err) {
    server_writer_send(w, NULL, server_error_json(err, SERVER_OPENAI, w->id));
    server_text_print(&w->out, "data: [DONE]\n\n");
}

static json_t *choice_json(server_writer *w, uint32_t answer) {
    const server_message *message = &w->messages[answer];
    server_text text = {0};
    json_t *logprobs = NULL, *prompt = w->request->echo ? prompt_text(w, answer) : NULL, *token;
    size_t index;
    lists all = {0};
    if (prompt) server_text_add(&text, json_string_value(prompt), json_string_length(prompt));
    if (w->request->logprobs) all = lists_begin(0);
    if (w->request->logprobs && prompt) lists_add_prompt(w, answer, &all);
    for (uint32_t i = 0; i < message->count; i++) {
        const server_part *part = &message->parts[i];
        server_text_add(&text, part->text.bytes, part->text.length);
        json_array_foreach(w->request->logprobs ? part->logprobs : NULL, index, token)
            lists_add(&all, token);
    }
    if (w->request->logprobs) logprobs = lists_json(&all);
    json_t *both = server_json_text(text.bytes ? text.bytes : "", text.length);
    json_t *made = choice(answer, both, logprobs, server_finish_reason(message->result->finish));
    json_decref(both);
    json_decref(prompt);
    server_text_free(&text);
    return made;
}

static json_t *whole(server_writer *w) {
    json_t *choices = json_array();
    for (uint32_t i = 0; i < w->count; i++) (void)json_array_append_new(choices, choice_json(w, i));
    json_t *made = envelope(w, choices);
    (void)json_object_set_new(made, "usage", server_chat_usage(w));
    server_add_timings(w, made);
    return made;
}

const server_form server_completions_form = {"cmpl-", NULL, NULL, more,     NULL, end,
                                             finish,  fail, NULL, progress, whole};
