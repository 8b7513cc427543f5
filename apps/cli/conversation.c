/* conversation.c - Prefills the new tokens, then samples until the answer ends. */
#include "apps/cli/conversation.h"
#include "apps/cli/thinking.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_PREDICT = 1024 };

/* Set by cli_conversation_stop.  A cancel may also arrive just after the last step of an answer and
 * hit the next one; that one knows by this flag that it was not meant. */
static volatile sig_atomic_t stop_requested;

void cli_conversation_stop(cli_conversation *conversation) {
    stop_requested = 1;
    sl_session_cancel(conversation->session);
}

/* Ctrl-C also ends a chat template that takes long. */
static int is_stopped(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)ctx, (void)what, (void)done, (void)total;
    return stop_requested != 0;
}

/* The list of tools that the options name; false after a message. */
static bool load_tools(const cli_options *options, json_t **out) {
    json_error_t problem;
    *out = NULL;
    if (!options->tools) return true;
    *out = json_load_file(options->tools, 0, &problem);
    if (json_is_array(*out)) return true;
    if (*out)
        (void)cli_fail_text("%s: expected a JSON list of tools", options->tools);
    else if (problem.line > 0)
        (void)cli_fail_text("%s line %d: %s", options->tools, problem.line, problem.text);
    else
        (void)cli_fail_text("--tools: %s", problem.text);
    return false;
}

bool cli_conversation_open(const cli_options *options, cli_conversation *out) {
    *out = (cli_conversation){.options = options, .messages = json_array(), .streams = true};
    if (!load_tools(options, &out->tools)) return false;
    if (!cli_open_model(options, 0, &out->model)) return false;
    if (!cli_open_session(out->model, options, &out->session)) return false;
    out->tokens =
        calloc((size_t)sl_model_describe(out->model).context_tokens + 1, sizeof *out->tokens);
    if (!out->tokens || !out->messages) {
        (void)cli_fail_text("no memory for a conversation");
        return false;
    }
    out->sampling = cli_sampling(out->model, options);
    cli_conversation_reset(out, options->system);
    return true;
}

void cli_conversation_close(cli_conversation *conversation) {
    sl_session_destroy(conversation->session);
    sl_model_close(conversation->model);
    json_decref(conversation->messages);
    json_decref(conversation->tools);
    free(conversation->tokens);
}

void cli_conversation_reset(cli_conversation *conversation, const char *system) {
    (void)json_array_clear(conversation->messages);
    if (system) cli_conversation_say(conversation, "system", system, strlen(system));
}

void cli_conversation_say(cli_conversation *conversation, const char *role, const char *text,
                          size_t bytes) {
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", cli_json_text(text, bytes));
    cli_json_append(conversation->messages, message);
}

void cli_conversation_take_back(cli_conversation *conversation) {
    const size_t count = json_array_size(conversation->messages);
    if (count) (void)json_array_remove(conversation->messages, count - 1);
}

/* Templates may use the date. */
static void set_now(json_t *variables) {
    char text[32];
    const time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local))
        cli_json_set(variables, "now", json_string(text));
}

sl_status cli_conversation_render(const cli_conversation *conversation, char **out, sl_error *err) {
    stop_requested = 0;
    json_t *variables =
        json_pack("{s:O, s:b}", "messages", conversation->messages, "add_generation_prompt", 1);
    if (conversation->tools) cli_json_set(variables, "tools", json_incref(conversation->tools));
    set_now(variables);
    char *json = cli_json_dump(variables, JSON_COMPACT);
    json_decref(variables);
    if (!json || cli_json_failed()) {
        free(json);
        *err = (sl_error){SL_NO_MEMORY, "no memory for the messages of a conversation"};
        return SL_NO_MEMORY;
    }
    const sl_render_options options = {.struct_size = sizeof options, .progress = is_stopped};
    const sl_status status = sl_model_render_chat(conversation->model, json, &options, out, err);
    free(json);
    return status;
}

/* ---- Prefill ---- */

static bool report(const sl_error *err) {
    (void)cli_fail(err);
    return false;
}

static bool fits(const cli_conversation *c, size_t count) {
    const sl_model_info info = sl_model_describe(c->model);
    if (count == 0)
        (void)cli_fail_text("the prompt is empty");
    else if (count > info.context_tokens)
        (void)cli_fail_text("the prompt has %zu tokens, the context holds %u (-c N: at most %u)",
                            count, info.context_tokens, info.max_context_tokens);
    return count > 0 && count <= info.context_tokens;
}

/* The tokens of text, at least one and no more than the context holds.  Plain text begins as the
 * model's own do, unless it says so itself. */
static bool tokenize(const cli_conversation *c, const char *text, sl_token **out,
                     size_t *out_count) {
    const size_t bytes = strlen(text);
    const sl_token *begin = NULL;
    size_t before = c->plain ? sl_model_begin_tokens(c->model, &begin) : 0, count = 0;
    sl_error err;
    if (sl_model_tokenize(c->model, text, bytes, NULL, 0, &count, &err) != SL_OK)
        return report(&err);
    if (!fits(c, count)) return false;
    *out = malloc((before + count) * sizeof **out);
    if (!*out) {
        (void)cli_fail_text("no memory for %zu tokens", count);
        return false;
    }
    if (sl_model_tokenize(c->model, text, bytes, *out + before, count, &count, &err) != SL_OK) {
        free(*out);
        return report(&err);
    }
    if (before && (*out)[before] == begin[0]) {
        memmove(*out, *out + before, count * sizeof **out);
        before = 0;
    }
    if (before) memcpy(*out, begin, before * sizeof **out);
    *out_count = before + count;
    if (fits(c, *out_count)) return true;
    free(*out);
    return false;
}

/* Extends the session by the next count tokens of the list. */
static sl_status extend(cli_conversation *c, size_t count, sl_error *err) {
    const size_t end = sl_session_length(c->session) + count;
    for (;;) {
        const size_t length = sl_session_length(c->session);
        const sl_status status =
            sl_session_extend(c->session, c->tokens + length, end - length, err);
        if (status != SL_CANCELLED || stop_requested) return status;
    }
}

/* Makes the session consist of exactly these tokens, with the logits after the last one. */
static sl_status prefill(cli_conversation *c, const sl_token *tokens, size_t count, sl_error *err) {
    size_t same = 0;
    const size_t seen = sl_session_length(c->session);
    while (same < seen && same + 1 < count && tokens[same] == c->tokens[same]) same++;
    memcpy(c->tokens + same, tokens + same, (count - same) * sizeof *tokens);
    sl_status status = sl_session_rewind(c->session, same, err);
    for (size_t at = same; at < count && status == SL_OK;) {
        const size_t piece = cli_next_piece(c->model, c->options, count - at);
        (void)cli_progress(NULL, "reading", at - same, count - same);
        status = extend(c, piece, err);
        at += piece;
    }
    cli_progress_end();
    return status;
}

/* ---- Generation ---- */

typedef struct {
    cli_conversation *conversation;
    cli_answer *answer;
    sl_text_stream stream;
    size_t room; /* of answer->text */
    cli_thinking thinking;
    bool dim; /* as the terminal writes now */
} writer;

/* Thoughts are dimmed on a terminal. */
static void set_dim(writer *w, bool dim) {
    if (w->dim == dim || !w->conversation->streams || !cli_is_terminal(stdout)) return;
    (void)fputs(dim ? "\033[2m" : "\033[0m", stdout);
    w->dim = dim;
}

/* Appends a token's bytes, or with none what is left of a broken character. */
static bool write_text(writer *w, const char *bytes, size_t count) {
    cli_answer *answer = w->answer;
    const size_t needed = answer->bytes + 3 * (count + 4) + 1;
    if (needed > w->room) {
        char *larger = realloc(answer->text, 2 * needed);
        if (!larger) return false;
        answer->text = larger;
        w->room = 2 * needed;
    }
    char *out = answer->text + answer->bytes;
    const size_t length = bytes ? sl_text_stream_push(&w->stream, bytes, count, out)
                                : sl_text_stream_finish(&w->stream, out);
    if (length && w->conversation->streams) {
        (void)fwrite(out, 1, length, stdout);
        (void)fflush(stdout);
    }
    const bool kept = !(w->thinking.thinking && w->thinking.channels);
    if (kept) answer->bytes += length;
    answer->text[answer->bytes] = '\0';
    return true;
}

static bool write_token(writer *w, sl_token token) {
    const sl_model *model = w->conversation->model;
    size_t bytes = 0;
    const char *text = sl_model_token_text(model, token, &bytes);
    const bool was_thinking = w->thinking.thinking;
    if (w->answer->token_count == 1) {
        const size_t strip = sl_model_strip_start(model);
        for (size_t i = 0; i < strip && bytes && *text == ' '; i++, text++) bytes--;
    }
    cli_thinking_feed(&w->thinking, text, bytes);
    set_dim(w, was_thinking || w->thinking.thinking);
    const bool hidden = sl_model_token_special(model, token) || w->thinking.heading;
    const bool written = hidden || write_text(w, text, bytes);
    set_dim(w, w->thinking.thinking);
    return written;
}

/* A token of the answer, at the end of the list.  The session has it too, unless it is full. */
static sl_status next_token(cli_conversation *c, bool full, sl_token *out, sl_error *err) {
    for (;;) {
        const sl_status status = full ? sl_session_sample(c->session, &c->sampling, out, err)
                                      : sl_session_next(c->session, &c->sampling, out, err);
        if (status != SL_CANCELLED || stop_requested) return status;
    }
}

/* Until something ends the answer. */
static cli_ending generate(writer *w, sl_error *err) {
    cli_conversation *c = w->conversation;
    cli_answer *answer = w->answer;
    const uint32_t context = sl_model_describe(c->model).context_tokens;
    const size_t limit = c->options->predict_given ? c->options->predict : DEFAULT_PREDICT;
    while (answer->token_count < limit) {
        const size_t length = sl_session_length(c->session);
        sl_token *token = &c->tokens[length];
        const sl_status status = next_token(c, length == context, token, err);
        if (status != SL_OK) return status == SL_CANCELLED ? CLI_STOPPED : CLI_REPLY_FAILED;
        if (sl_model_token_ends(c->model, *token)) return CLI_ENDED;
        answer->token_count++;
        if (!write_token(w, *token)) {
            *err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
            return CLI_REPLY_FAILED;
        }
        if (stop_requested || (c->streams && ferror(stdout))) return CLI_STOPPED;
        if (length == context) return CLI_FULL;
    }
    return CLI_LIMITED;
}

static void fail(cli_answer *answer, const sl_error *err) {
    cli_answer_free(answer);
    answer->ending = CLI_REPLY_FAILED;
    (void)cli_fail(err);
}

cli_answer cli_conversation_answer(cli_conversation *c, const char *text) {
    cli_answer answer = {.ending = CLI_REPLY_FAILED};
    sl_token *prompt;
    sl_error err;
    stop_requested = 0;
    if (!tokenize(c, text, &prompt, &answer.prompt_tokens)) return answer;
    const sl_status status = prefill(c, prompt, answer.prompt_tokens, &err);
    free(prompt);
    writer w = {.conversation = c, .answer = &answer, .thinking = cli_thinking_begin(text)};
    answer.tokens = c->tokens + answer.prompt_tokens;
    answer.ending = status == SL_OK          ? generate(&w, &err)
                    : status == SL_CANCELLED ? CLI_STOPPED
                                             : CLI_REPLY_FAILED;
    const bool unspoken = answer.ending == CLI_REPLY_FAILED;
    set_dim(&w, false);
    if (unspoken) {
        fail(&answer, &err);
    } else if (!write_text(&w, NULL, 0)) {
        err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
        fail(&answer, &err);
    }
    return answer;
}

void cli_answer_free(cli_answer *answer) {
    free(answer->text);
    answer->text = NULL;
}
