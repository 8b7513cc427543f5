/* prepare.c - A request becomes a job: its prompt is rendered and tokenized, and what chooses and
 * takes apart its tokens is created. */
#include "apps/server/engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS_OF_BIAS = 64 }; /* further ones of a text are left out */

/* ---- The prompt ---- */

static void set_variables(const server_request *r, json_t *variables) {
    /* An answer that has begun is not a thought. */
    const server_think think =
        r->think == SERVER_THINK_DEFAULT && r->continues ? SERVER_THINK_OFF : r->think;
    if (think != SERVER_THINK_DEFAULT) {
        /* The names that templates have for it. */
        (void)json_object_set_new(variables, "enable_thinking",
                                  json_boolean(think == SERVER_THINK_ON));
        (void)json_object_set_new(variables, "thinking", json_boolean(think == SERVER_THINK_ON));
    }
    if (r->tools && r->choice != SERVER_TOOLS_NONE)
        (void)json_object_set(variables, "tools", r->tools);
    (void)json_object_set_new(variables, "add_generation_prompt", json_true());
}

/* The messages as the template wants them, without the last if it is continued. */
static json_t *fit_messages(const server_model *model, const server_request *r, server_error *err) {
    json_t *messages = json_copy(r->messages);
    sl_error cause;
    char *fit = NULL;
    if (r->continues) (void)json_array_remove(messages, json_array_size(messages) - 1);
    char *given = server_json_dump(messages);
    json_decref(messages);
    json_t *made = NULL;
    if (!given)
        (void)server_refuse(err, 500, NULL, "no memory for the messages");
    else if (sl_messages_for_template(model->model, given, &fit, &cause) != SL_OK)
        (void)server_refuse_status(err, &cause, "messages");
    else if (!(made = json_loads(fit, 0, NULL)))
        (void)server_refuse(err, 400, "messages",
                            "messages: a call's arguments are nested too deep");
    free(given);
    sl_free(fit);
    return made;
}

/* Templates refuse a system message that is not the first: its text comes from the user then. */
static bool demote_system(json_t *messages) {
    size_t index;
    json_t *message;
    bool changed = false;
    json_array_foreach(messages, index, message) {
        const char *role = server_json_string(message, "role");
        if (index == 0 || !role || strcmp(role, "system") != 0) continue;
        (void)json_object_set_new(message, "role", json_string("user"));
        changed = true;
    }
    return changed;
}

static bool render(const server_model *model, json_t *variables, server_tokens *out,
                   sl_error *cause) {
    const size_t capacity = model->info.context_tokens + 1;
    char *text = server_json_dump(variables);
    *cause = (sl_error){SL_NO_MEMORY, "no memory for the messages"};
    out->ids = malloc(capacity * sizeof *out->ids);
    const bool good =
        text && out->ids &&
        sl_model_tokenize_chat(model->model, text, out->ids, capacity, &out->count, cause) == SL_OK;
    free(text);
    if (good) return true;
    free(out->ids);
    *out = (server_tokens){0};
    return false;
}

static bool render_messages(const server_model *model, const server_request *r, server_tokens *out,
                            server_error *err) {
    sl_error cause;
    json_t *messages = fit_messages(model, r, err);
    if (!messages) return false;
    json_t *variables = json_copy(r->variables);
    (void)json_object_set(variables, "messages", messages);
    set_variables(r, variables);
    const bool good = render(model, variables, out, &cause) ||
                      (demote_system(messages) && render(model, variables, out, &cause)) ||
                      server_refuse_status(err, &cause, "messages");
    json_decref(variables);
    json_decref(messages);
    return good;
}

static bool too_long(const server_model *model, size_t count, server_error *err) {
    (void)server_refuse(err, 400, "messages",
                        "the prompt has %zu tokens, the context holds %u (sluice serve --context)",
                        count, model->info.context_tokens);
    err->code = "context_length_exceeded";
    return true;
}

/* Appends the text of the message that is continued. */
static bool add_continued(const server_model *model, const server_request *r, server_tokens *tokens,
                          server_error *err) {
    const json_t *last = json_array_get(r->messages, json_array_size(r->messages) - 1);
    const json_t *text = json_object_get(last, "content");
    server_tokens more;
    if (!r->continues || json_string_length(text) == 0) return true;
    if (!server_model_tokenize(model, json_string_value(text), json_string_length(text), false,
                               &more, err))
        return false;
    sl_token *larger = realloc(tokens->ids, (tokens->count + more.count + 1) * sizeof *larger);
    if (larger) {
        memcpy(larger + tokens->count, more.ids, more.count * sizeof *larger);
        tokens->ids = larger;
        tokens->count += more.count;
    }
    free(more.ids);
    return larger || server_refuse(err, 500, NULL, "no memory for the prompt");
}

bool server_prompt_chat(const server_model *model, const server_request *r, server_tokens *out,
                        server_error *err) {
    if (!sl_model_has_chat_template(model->model))
        return server_refuse(err, 400, "messages",
                             "the model has no chat template; use /v1/completions");
    *out = (server_tokens){0};
    if (!render_messages(model, r, out, err)) return false;
    const bool fits = out->count <= model->info.context_tokens;
    if (fits && add_continued(model, r, out, err) && out->count < model->info.context_tokens)
        return true;
    if (!fits || out->count >= model->info.context_tokens) (void)too_long(model, out->count, err);
    free(out->ids);
    *out = (server_tokens){0};
    return false;
}

static bool ids_prompt(const server_model *model, const json_t *list, server_tokens *out,
                       server_error *err) {
    size_t index;
    const json_t *id;
    out->count = json_array_size(list);
    out->ids = calloc(out->count, sizeof *out->ids);
    if (!out->ids) return server_refuse(err, 500, NULL, "no memory for the prompt");
    json_array_foreach(list, index, id) {
        const json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || value >= model->info.vocab)
            return server_refuse(err, 400, "prompt", "prompt: its item %zu is not a token id",
                                 index);
        out->ids[index] = (sl_token)value;
    }
    return true;
}

/* A text begins as the model's own do. */
static bool text_prompt(const server_model *model, const json_t *text, server_tokens *out,
                        server_error *err) {
    const sl_token *begin = NULL;
    const size_t before = sl_model_begin_tokens(model->model, &begin);
    if (!server_model_tokenize(model, json_string_value(text), json_string_length(text), true, out,
                               err))
        return false;
    if (before == 0 || (out->count && out->ids[0] == begin[0])) return true;
    sl_token *larger = realloc(out->ids, (out->count + before) * sizeof *larger);
    if (!larger) return server_refuse(err, 500, NULL, "no memory for the prompt");
    memmove(larger + before, larger, out->count * sizeof *larger);
    memcpy(larger, begin, before * sizeof *larger);
    out->ids = larger;
    out->count += before;
    return true;
}

bool server_prompt_text(const server_model *model, const json_t *prompt, server_tokens *out,
                        server_error *err) {
    *out = (server_tokens){0};
    bool good = json_is_string(prompt) ? text_prompt(model, prompt, out, err)
                                       : ids_prompt(model, prompt, out, err);
    if (good && out->count == 0) good = server_refuse(err, 400, "prompt", "prompt: it is empty");
    if (good && out->count >= model->info.context_tokens) good = !too_long(model, out->count, err);
    if (good) return true;
    free(out->ids);
    *out = (server_tokens){0};
    return false;
}

/* ---- Sampling ---- */

/* The biases that a request has: of ids, or of all tokens of a text. */
static bool add_biases(const server_model *model, const json_t *item, sl_logit_bias *biases,
                       uint32_t *count, server_error *err) {
    const json_t *what = json_array_get(item, 0), *value = json_array_get(item, 1);
    const float bias = json_is_false(value) ? -INFINITY : (float)json_number_value(value);
    server_tokens tokens = {0};
    if (json_is_integer(what)) {
        const json_int_t id = json_integer_value(what);
        if (id < 0 || id >= model->info.vocab)
            return server_refuse(err, 400, "logit_bias", "logit_bias: %lld is not a token id",
                                 (long long)id);
        biases[(*count)++] = (sl_logit_bias){(sl_token)id, bias};
        return true;
    }
    if (!server_model_tokenize(model, json_string_value(what), json_string_length(what), true,
                               &tokens, err))
        return false;
    for (size_t i = 0; i < tokens.count && i < MOST_TOKENS_OF_BIAS; i++)
        biases[(*count)++] = (sl_logit_bias){tokens.ids[i], bias};
    free(tokens.ids);
    return true;
}

/* The lists belong to the options afterwards, also if it fails. */
static bool set_lists(const server_model *model, const server_request *r,
                      sl_sampler_options *options, server_error *err) {
    size_t index;
    json_t *item;
    bool good = true;
    if (json_array_size(r->bias) > model->info.vocab)
        return server_refuse(err, 400, "logit_bias", "logit_bias: it has more items than tokens");
    const size_t breakers = json_array_size(r->breakers);
    const char **texts = r->breakers ? calloc(breakers + 1, sizeof *texts) : NULL;
    sl_logit_bias *biases =
        calloc(MOST_TOKENS_OF_BIAS * json_array_size(r->bias) + 1, sizeof *biases);
    options->logit_bias = biases;
    options->dry_breakers = texts;
    options->dry_breaker_count = (uint32_t)breakers;
    if ((r->breakers && !texts) || !biases)
        return server_refuse(err, 500, NULL, "no memory for the sampler");
    json_array_foreach(r->bias, index, item) {
        good = good && add_biases(model, item, biases, &options->logit_bias_count, err);
    }
    for (size_t i = 0; texts && i < breakers; i++) {
        texts[i] = json_string_value(json_array_get(r->breakers, i));
        if (!texts[i])
            good =
                server_refuse(err, 400, "dry_breakers", "dry_breakers: expected a list of texts");
    }
    return good;
}

static uint64_t random_seed(void) {
    uint64_t seed = 0;
    FILE *file = fopen("/dev/urandom", "rb");
    if (file) {
        if (fread(&seed, sizeof seed, 1, file) != 1) seed = (uint64_t)(server_seconds() * 1e9);
        (void)fclose(file);
    }
    return seed >> 1;
}

static bool set_options(const server_model *model, const server_request *r,
                        sl_sampler_options *options, server_error *err) {
    const char *name;
    json_t *value;
    sl_error cause;
    options->struct_size = sizeof *options;
    if (sl_sampler_defaults(model->model, options, &cause) != SL_OK)
        return server_refuse_status(err, &cause, NULL);
    options->seed = random_seed();
    /* A penalty of the request is for the usual number of tokens. */
    if (json_object_get(r->sampling, "repeat_penalty")) options->repeat_last_n = 0;
    json_object_foreach(r->sampling, name, value) {
        if (sl_sampler_set(options, name, json_string_value(value), &cause) != SL_OK)
            return server_refuse_status(err, &cause, name);
    }
    options->logprobs = r->logprobs ? 1 + r->top_logprobs : 0;
    return true;
}

/* Each answer to a prompt has a seed of its own. */
static bool create_samplers(const server_model *model, server_job *job, server_error *err) {
    sl_sampler_options options = {0};
    sl_error cause;
    bool good = set_options(model, job->request, &options, err) &&
                set_lists(model, job->request, &options, err);
    const uint64_t seed = options.seed;
    for (uint32_t i = 0; good && i < job->count; i++) {
        options.seed = (seed + i % job->request->n) & INT64_MAX;
        good =
            sl_sampler_create(model->model, &options, &job->answers[i].sampler, &cause) == SL_OK ||
            server_refuse_status(err, &cause, NULL);
    }
    free((void *)options.logit_bias);
    free((void *)options.dry_breakers);
    return good;
}

static bool create_stops(server_job *job, server_error *err) {
    const json_t *stops = job->request->stops;
    const char *texts[SERVER_MOST_STOPS];
    size_t index;
    const json_t *text;
    sl_error cause;
    if (json_array_size(stops) == 0) return true;
    json_array_foreach(stops, index, text) texts[index] = json_string_value(text);
    return sl_stops_create(texts, (uint32_t)index, &job->stops, &cause) == SL_OK ||
           server_refuse_status(err, &cause, "stop");
}

/* ---- Taking answers apart ---- */

/* The end of the prompt as text, from which the parser sees whether a thought is open. */
static char *end_of_prompt(const server_model *model, const server_answer *a) {
    enum { LAST = 64 };
    server_text text = {0};
    const size_t first = a->prompt_count > LAST ? a->prompt_count - LAST : 0;
    for (size_t i = first; i < a->prompt_count; i++) {
        size_t bytes = 0;
        const char *token = sl_model_token_text(model->model, a->prompt[i], &bytes);
        server_text_add(&text, token, bytes);
    }
    return text.bytes;
}

static bool create_parser(const server_model *model, server_answer *a, const char *family,
                          const char *tools, server_error *err) {
    const server_request *r = a->job->request;
    char *prompt = r->raw_reasoning ? NULL : end_of_prompt(model, a);
    sl_error cause;
    const sl_message_parser_options options = {
        .struct_size = sizeof options,
        .family = family,
        .tools_json = tools,
        .prompt = prompt,
        .reasoning = r->raw_reasoning ? SL_REASONING_NONE : SL_REASONING_SEPARATE,
        .whole_calls = !r->stream,
    };
    const sl_status status = sl_message_parser_create(&options, &a->parser, &cause);
    free(prompt);
    return status == SL_OK || server_refuse_status(err, &cause, NULL);
}

/* Where a grammar writes the call, it is JSON whatever the family. */
static bool create_parsers(const server_model *model, server_job *job, server_error *err) {
    const server_request *r = job->request;
    const bool calls = r->tools && r->choice != SERVER_TOOLS_NONE;
    char *tools = calls ? server_json_dump(r->tools) : NULL;
    const bool json = calls && job->grammar && r->choice != SERVER_TOOLS_AUTO;
    const char *family = json || (calls && r->schema) ? "json" : calls ? model->family : "none";
    bool good = true;
    if (!calls && r->messages) family = model->family; /* its reasoning */
    for (uint32_t i = 0; good && i < job->count; i++)
        good = create_parser(model, &job->answers[i], family, tools, err);
    free(tools);
    return good;
}

/* ---- Jobs ---- */

static bool create_grammars(server_model *model, server_job *job, server_error *err) {
    sl_error cause;
    for (uint32_t i = 0; job->grammar && i < job->count; i++) {
        server_answer *a = &job->answers[i];
        if (sl_grammar_state_create(job->grammar, model->grammar_vocabulary, &a->grammar, &cause) !=
            SL_OK)
            return server_refuse_status(err, &cause, NULL);
        a->grammar_waits = sl_message_parser_is_reasoning(a->parser);
    }
    return true;
}

static bool allocate(server_job *job, uint32_t count) {
    pthread_condattr_t clock;
    job->answers = calloc(count, sizeof *job->answers);
    if (!job->answers) return false;
    job->count = count;
    for (uint32_t i = 0; i < count; i++) {
        server_answer *a = &job->answers[i];
        *a = (server_answer){.job = job, .index = i};
        if (i % job->request->n) a->first = &job->answers[i - i % job->request->n];
    }
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&job->lock, NULL);
    (void)pthread_cond_init(&job->wake, &clock);
    (void)pthread_condattr_destroy(&clock);
    return true;
}

static bool set_prompts(const server_model *model, server_job *job, server_error *err) {
    const server_request *r = job->request;
    for (uint32_t i = 0; i < job->count; i++) {
        server_answer *a = &job->answers[i];
        server_tokens tokens = {0};
        if (a->first) {
            a->prompt = a->first->prompt;
            a->prompt_count = a->first->prompt_count;
            continue;
        }
        if (r->messages
                ? !server_prompt_chat(model, r, &tokens, err)
                : !server_prompt_text(model, json_array_get(r->prompts, i / r->n), &tokens, err))
            return false;
        a->prompt = tokens.ids;
        a->prompt_count = tokens.count;
    }
    return true;
}

static void release(server_job *job) {
    for (uint32_t i = 0; i < job->count; i++) {
        server_answer *a = &job->answers[i];
        sl_sampler_destroy(a->sampler);
        sl_grammar_state_destroy(a->grammar);
        sl_message_parser_destroy(a->parser);
        if (!a->first) free(a->prompt);
    }
    sl_stops_destroy(job->stops);
    sl_grammar_close(job->grammar);
    server_events_free(job->events);
    if (job->answers) {
        (void)pthread_mutex_destroy(&job->lock);
        (void)pthread_cond_destroy(&job->wake);
    }
    free(job->answers);
    free(job);
}

bool server_job_create(server_engine *engine, const server_request *r, uint64_t owner,
                       server_job **out, server_error *err) {
    server_model *model = server_engine_model(engine);
    server_job *job = calloc(1, sizeof *job);
    const size_t prompts = r->messages ? 1 : json_array_size(r->prompts);
    *out = NULL;
    if (!job) return server_refuse(err, 500, NULL, "no memory for the request");
    *job = (server_job){.engine = engine, .request = r, .owner = owner};
    if (!sl_model_has_tokenizer(model->model)) {
        release(job);
        return server_refuse(err, 400, NULL, "the model has no tokenizer");
    }
    if (!allocate(job, (uint32_t)prompts * r->n)) {
        release(job);
        return server_refuse(err, 500, NULL, "no memory for the request");
    }
    if (!set_prompts(model, job, err) || !create_samplers(model, job, err) ||
        !create_stops(job, err) || !server_grammar_of(model, r, &job->grammar, err) ||
        !create_parsers(model, job, err) || !create_grammars(model, job, err)) {
        release(job);
        return false;
    }
    *out = job;
    return true;
}

void server_job_end(server_job *job) {
    if (!job->submitted) return;
    server_job_cancel(job);
    while (!server_job_wait(job, 3600)) continue;
}

void server_job_destroy(server_job *job) {
    if (!job) return;
    server_job_end(job);
    release(job);
}
