/* conversation.c - Prefills the new tokens, then samples until the answer ends. */
#include "apps/cli/conversation.h"
#include "apps/cli/kept.h"
#include "apps/cli/profile.h"
#include "apps/cli/thinking.h"
#include "apps/cli/variables.h"
#include "sluice/sessions.h"
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Set by cli_conversation_stop.  A cancel may also arrive just after the last step of an answer and
 * hit the next one; that one knows by this flag that it was not meant. */
static volatile sig_atomic_t stop_requested;

static cli_conversation *interrupted; /* by Ctrl-C */

void cli_conversation_stop(cli_conversation *conversation) {
    stop_requested = 1;
    sl_session_cancel(conversation->session);
}

/* Ctrl-C also ends a chat template that takes long. */
static int is_stopped(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)ctx, (void)what, (void)done, (void)total;
    return stop_requested != 0;
}

static void on_interrupt(int number) {
    (void)number;
    cli_conversation_stop(interrupted);
}

/* No SA_RESTART: a plain read of a line ends too. */
void cli_conversation_catch_interrupts(cli_conversation *conversation) {
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigemptyset(&action.sa_mask);
    interrupted = conversation;
    (void)sigaction(SIGINT, &action, NULL);
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

/* The system message of the options; false after a message. */
static bool load_system(const cli_options *options, char **out) {
    *out = NULL;
    if (options->system) *out = cli_copy(options->system);
    if (options->system_file) *out = cli_read_text(options->system_file);
    return *out || (!options->system && !options->system_file);
}

static bool allocate(cli_conversation *c) {
    const size_t context = cli_model_info(c->model).context_tokens;
    c->tokens = calloc(context + 1, sizeof *c->tokens);
    if (c->tokens && c->messages) return true;
    (void)cli_fail_text("no memory for a conversation");
    return false;
}

bool cli_conversation_open(const cli_options *options, cli_conversation *out) {
    *out = (cli_conversation){.options = options, .messages = json_array(), .streams = true};
    if (!load_system(options, &out->system) || !load_tools(options, &out->tools) ||
        !cli_open_model(options, 0, &out->model) || !cli_kept_open(out) ||
        !cli_open_session(out->model, options, &out->session) || !allocate(out))
        return false;
    out->sampling = cli_sampling(out->model, options);
    cli_note_idle_variables(out->model, options);
    if (out->sampling.temperature <= 0 &&
        (options->top_k_given || options->top_p_given || options->min_p_given))
        cli_note("--top-k, --top-p and --min-p have no effect with temperature 0; give --temp");
    cli_conversation_reset(out, out->system);
    if (!cli_kept_load(out)) return false;
    sl_error err;
    if (!cli_profile_is_wanted(options) || cli_profile_start(options, out->session, &err) == SL_OK)
        return true;
    (void)cli_fail(&err);
    return false;
}

void cli_conversation_close(cli_conversation *conversation) {
    sl_session_destroy(conversation->session);
    sl_model_close(conversation->model);
    json_decref(conversation->messages);
    json_decref(conversation->tools);
    free(conversation->tokens);
    free(conversation->system);
}

void cli_conversation_reset(cli_conversation *conversation, const char *system) {
    (void)json_array_clear(conversation->messages);
    if (system) cli_conversation_say(conversation, "system", system);
}

void cli_conversation_say(cli_conversation *conversation, const char *role, const char *text) {
    json_t *message =
        json_pack("{s:s, s:o}", "role", role, "content", cli_json_text(text, strlen(text)));
    cli_json_append(conversation->messages, message);
}

/* Templates put thoughts where they belong, or leave them out. */
void cli_conversation_keep(cli_conversation *conversation, const cli_answer *answer) {
    const size_t last = json_array_size(conversation->messages);
    cli_conversation_say(conversation, "assistant", answer->said.text ? answer->said.text : "");
    if (answer->thought.bytes)
        cli_json_set(json_array_get(conversation->messages, last), "reasoning_content",
                     json_string(answer->thought.text));
}

void cli_conversation_take_back(cli_conversation *conversation) {
    const size_t count = json_array_size(conversation->messages);
    if (count) (void)json_array_remove(conversation->messages, count - 1);
}

/* ---- Prefill ---- */

typedef struct {
    sl_token *tokens; /* released with free */
    size_t count;
    cli_thinking thinking; /* as it ends */
} prompt;

static bool report(const sl_error *err) {
    (void)cli_fail(err);
    return false;
}

static bool fits(const cli_conversation *c, size_t count) {
    const sl_model_info info = cli_model_info(c->model);
    if (count == 0)
        (void)cli_fail_text("the prompt is empty");
    else if (count > info.context_tokens)
        (void)cli_fail_text("the prompt has %zu tokens, the context holds %u (-c N: at most %u)",
                            count, info.context_tokens, info.max_context_tokens);
    return count > 0 && count <= info.context_tokens;
}

static bool make_room(prompt *p, size_t count) {
    p->tokens = malloc(count * sizeof *p->tokens);
    if (!p->tokens) (void)cli_fail_text("no memory for %zu tokens", count);
    return p->tokens != NULL;
}

/* Plain text begins as the model's own do, unless it says so itself. */
static bool read_plain(const cli_conversation *c, const char *text, prompt *p) {
    const size_t bytes = strlen(text);
    const sl_token *begin = NULL;
    size_t before = sl_model_begin_tokens(c->model, &begin), count = 0;
    sl_error err;
    if (sl_model_tokenize(c->model, text, bytes, NULL, 0, &count, &err) != SL_OK)
        return report(&err);
    if (!fits(c, count) || !make_room(p, before + count)) return false;
    if (sl_model_tokenize(c->model, text, bytes, p->tokens + before, count, &count, &err) != SL_OK)
        return report(&err);
    if (before && p->tokens[before] == begin[0]) {
        memmove(p->tokens, p->tokens + before, count * sizeof *p->tokens);
        before = 0;
    }
    if (before) memcpy(p->tokens, begin, before * sizeof *p->tokens);
    p->count = before + count;
    p->thinking = cli_thinking_begin(text);
    return fits(c, p->count);
}

/* Special tokens in messages are ordinary text. */
static bool read_messages(const cli_conversation *c, prompt *p) {
    char *variables = cli_template_variables(c->options, c->messages, c->tools), *text = NULL;
    sl_error err = {SL_NO_MEMORY, "no memory for the messages"};
    const sl_render_options options = {.struct_size = sizeof options, .progress = is_stopped};
    sl_status status = SL_NO_MEMORY;
    if (variables && !cli_json_failed())
        status = sl_model_render_chat(c->model, variables, &options, &text, &err);
    if (status == SL_OK) p->thinking = cli_thinking_begin(text);
    sl_free(text);
    size_t count = 0;
    if (status == SL_OK)
        status = sl_model_tokenize_chat(c->model, variables, NULL, 0, &count, &err);
    const bool good = status == SL_OK ? fits(c, count) && make_room(p, count) : report(&err);
    if (good)
        status = sl_model_tokenize_chat(c->model, variables, p->tokens, count, &p->count, &err);
    free(variables);
    return good && (status == SL_OK || report(&err));
}

/* Makes the session consist of exactly these tokens, with the logits after the last one. */
static sl_status prefill(cli_conversation *c, const sl_token *tokens, size_t count, sl_error *err) {
    const sl_sync_options options = {.struct_size = sizeof options, .progress = cli_progress};
    sl_sync_report report = {.struct_size = sizeof report};
    sl_status status = SL_OK;
    memcpy(c->tokens, tokens, count * sizeof *tokens);
    cli_progress_stage("reading the prompt");
    do status = sl_session_sync(c->session, tokens, count, &options, &report, err);
    while (status == SL_CANCELLED && !stop_requested);
    cli_progress_end();
    if (status == SL_OK && cli_is_verbose())
        cli_note("%zu of %zu tokens are reused (%s): %s", report.reused, report.tokens,
                 report.source, report.text);
    return status;
}

/* ---- Generation ---- */

typedef struct {
    cli_conversation *conversation;
    cli_answer *answer;
    sl_text_stream stream;
    cli_thinking thinking;
    bool hides; /* thoughts */
    bool trims; /* newlines between a thought and what is said */
    bool dim;   /* as the terminal writes now */
} writer;

/* Thoughts are dimmed on a terminal. */
static void set_dim(writer *w, bool dim) {
    if (w->dim == dim || !w->conversation->streams || !cli_has_colours(stdout)) return;
    (void)fputs(dim ? "\033[2m" : "\033[0m", stdout);
    w->dim = dim;
}

static void print(writer *w, const char *text, size_t bytes) {
    if (bytes == 0 || !w->conversation->streams) return;
    w->answer->newline = text[bytes - 1] == '\n';
    (void)fwrite(text, 1, bytes, stdout);
    (void)fflush(stdout);
}

/* Room for so many bytes more, and a NUL. */
static bool grow(cli_growing *to, size_t bytes) {
    const size_t needed = to->bytes + bytes + 1;
    if (needed <= to->room) return true;
    char *larger = realloc(to->text, 2 * needed);
    if (!larger) return false;
    to->text = larger;
    to->room = 2 * needed;
    return true;
}

/* Appends a token's bytes, or with none what is left of a broken character, to what is thought or
 * said. */
static bool write_text(writer *w, const char *bytes, size_t count) {
    const bool thought = w->thinking.thinking;
    cli_growing *to = thought ? &w->answer->thought : &w->answer->said;
    if (!grow(to, 3 * (count + 4))) return false;
    char *out = to->text + to->bytes;
    size_t length = bytes ? sl_text_stream_push(&w->stream, bytes, count, out)
                          : sl_text_stream_finish(&w->stream, out);
    if (!(thought && w->hides) && !(w->trims && w->hides)) print(w, out, length);
    out[length] = '\0';
    if (!thought && w->trims) {
        const size_t newlines = strspn(out, "\n");
        length -= newlines;
        memmove(out, out + newlines, length);
        w->trims = length == 0;
        if (w->hides) print(w, out, length);
    }
    to->bytes += length;
    to->text[to->bytes] = '\0';
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
    if (was_thinking && !w->thinking.thinking) w->trims = true;
    bool written = true;
    if (w->thinking.tag && !w->hides)
        print(w, text, bytes);
    else if (!w->thinking.tag && !w->thinking.heading && !sl_model_token_special(model, token))
        written = write_text(w, text, bytes);
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
    const uint32_t context = cli_model_info(c->model).context_tokens;
    const size_t limit = c->options->predict_given ? c->options->predict : SIZE_MAX;
    while (answer->token_count < limit) {
        const size_t length = sl_session_length(c->session);
        sl_token *token = &c->tokens[length];
        const sl_status status = next_token(c, length == context, token, err);
        if (status != SL_OK) return status == SL_CANCELLED ? CLI_STOPPED : CLI_REPLY_FAILED;
        if (sl_model_token_ends(c->model, *token)) {
            c->end_tokens += length < context; /* the session has it */
            return CLI_ENDED;
        }
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

static void continue_prompt(cli_conversation *c, const prompt *p, cli_answer *answer) {
    sl_error err;
    const char *think = c->options->think;
    writer w = {.conversation = c,
                .answer = answer,
                .thinking = p->thinking,
                .hides = think && strcmp(think, "hide") == 0};
    answer->prompt_tokens = p->count;
    answer->tokens = c->tokens + p->count;
    const sl_status status = prefill(c, p->tokens, p->count, &err);
    answer->ending = status == SL_OK          ? generate(&w, &err)
                     : status == SL_CANCELLED ? CLI_STOPPED
                                              : CLI_REPLY_FAILED;
    set_dim(&w, false);
    (void)fflush(stdout);
    cli_kept_end_turn(c);
    if (answer->ending != CLI_REPLY_FAILED && !write_text(&w, NULL, 0)) {
        err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
        answer->ending = CLI_REPLY_FAILED;
    }
    if (answer->ending == CLI_REPLY_FAILED) (void)cli_fail(&err);
}

cli_answer cli_conversation_answer(cli_conversation *c, const char *plain) {
    cli_answer answer = {.ending = CLI_REPLY_FAILED, .newline = true};
    prompt p = {0};
    stop_requested = 0;
    if (plain ? read_plain(c, plain, &p) : read_messages(c, &p)) continue_prompt(c, &p, &answer);
    free(p.tokens);
    return answer;
}

cli_report cli_conversation_report(const cli_conversation *c) {
    return (cli_report){c->model, c->session, &c->sampling, c->end_tokens};
}

void cli_conversation_print_stats(const cli_conversation *conversation) {
    const cli_report report = cli_conversation_report(conversation);
    cli_print_stats(stderr, &report);
}

void cli_answer_free(cli_answer *answer) {
    free(answer->said.text);
    free(answer->thought.text);
    answer->said.text = answer->thought.text = NULL;
}

void cli_answer_note(const cli_answer *answer, const char *when_full) {
    if (answer->ending == CLI_FULL) cli_note("the context is full; %s", when_full);
    if (answer->ending == CLI_LIMITED)
        cli_note("the answer was cut after %zu tokens (-n)", answer->token_count);
    if (answer->ending == CLI_STOPPED) cli_note("stopped");
}
