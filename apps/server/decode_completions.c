/* decode_completions.c - Bodies of /v1/completions. */
#include "apps/server/request.h"

enum { MOST_PROMPTS = 64 };

static bool is_ids(const json_t *list) {
    size_t index;
    const json_t *id;
    json_array_foreach(list, index, id) {
        if (!json_is_integer(id)) return false;
    }
    return json_array_size(list) > 0;
}

/* A text, ids, a list of texts, or a list of lists of ids. */
static bool decode_prompts(server_request *r, server_error *err) {
    json_t *prompt = server_json_get(r->body, "prompt"), *item;
    size_t index;
    if (json_is_string(prompt) || is_ids(prompt)) {
        r->prompts = json_pack("[O]", prompt);
        return true;
    }
    bool good = json_array_size(prompt) > 0 && json_array_size(prompt) <= MOST_PROMPTS;
    json_array_foreach(prompt, index, item) good = good && (json_is_string(item) || is_ids(item));
    if (!good)
        return server_refuse(err, 400, "prompt",
                             "prompt: expected a text, a list of ids, or at most %d of them",
                             MOST_PROMPTS);
    r->prompts = json_incref(prompt);
    return true;
}

static bool decode_logprobs(server_request *r, server_error *err) {
    int64_t top = -1;
    /* true of clients that take this for the member of the chat */
    if (json_is_boolean(json_object_get(r->body, "logprobs"))) {
        r->logprobs = json_is_true(json_object_get(r->body, "logprobs"));
        return true;
    }
    if (!server_json_whole(r->body, "logprobs", 0, SERVER_MOST_TOP, &top, err)) return false;
    r->logprobs = top >= 0;
    r->top_logprobs = top > 0 ? (uint32_t)top : 0;
    return true;
}

bool server_decode_completions(server_request *r, server_error *err) {
    const json_t *options = server_json_get(r->body, "stream_options");
    const json_t *suffix = server_json_get(r->body, "suffix");
    int64_t best = 1;
    r->most_tokens = 16;
    if (json_string_length(suffix) > 0)
        return server_refuse(err, 400, "suffix", "suffix: this model does not fill in the middle");
    if (!decode_prompts(r, err) || !decode_logprobs(r, err) || !server_decode_choices(r, err) ||
        !server_json_whole(r->body, "best_of", 1, SERVER_MOST_CHOICES, &best, err))
        return false;
    if (json_array_size(r->prompts) * r->n > SERVER_MOST_CHOICES)
        return server_refuse(err, 400, "n", "n: at most %d answers to all prompts together",
                             SERVER_MOST_CHOICES);
    if (best > (int64_t)r->n)
        return server_refuse(err, 400, "best_of", "best_of: more than n is not supported");
    r->raw_reasoning = true;
    r->choice = SERVER_TOOLS_NONE;
    return server_decode_grammar(r, err) && server_decode_stops(r, "stop", err) &&
           server_json_flag(r->body, "echo", &r->echo, err) &&
           server_json_flag(options, "include_usage", &r->include_usage, err) &&
           server_decode_limit(r, "max_tokens", err);
}
