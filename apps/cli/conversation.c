/* conversation.c - Prefills the new tokens, then samples until the answer ends. */
#include "apps/cli/conversation.h"
#include "apps/cli/kept.h"
#include "apps/cli/profile.h"
#include "apps/cli/sampling.h"
#include "apps/cli/scores.h"
#include "apps/cli/variables.h"
#include "apps/cli/writer.h"
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
        !cli_open_session(out->model, options, &out->session) ||
        !cli_constraint_open(options, out->model, &out->constraint) || !allocate(out))
        return false;
    out->sampling = cli_sampling(out->model, options);
    if (!cli_open_sampler(out)) return false;
    cli_note_idle_variables(out->model, options);
    if (options->tools && strcmp(sl_message_family_of(out->model), "none") == 0)
        cli_note("the chat template has no known form of tool calls: they are printed as text");
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
    sl_stops_destroy(conversation->stops);
    sl_sampler_destroy(conversation->sampler);
    cli_constraint_close(&conversation->constraint);
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

void cli_conversation_keep(cli_conversation *conversation, const cli_answer *answer) {
    cli_json_append(conversation->messages, json_incref(answer->message));
}

void cli_conversation_take_back(cli_conversation *conversation) {
    const size_t count = json_array_size(conversation->messages);
    if (count) (void)json_array_remove(conversation->messages, count - 1);
}

static bool is_of_user(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "user") == 0;
}

bool cli_conversation_rewind(cli_conversation *conversation, bool keep_message) {
    const json_t *messages = conversation->messages;
    size_t count = json_array_size(messages);
    while (count && !is_of_user(json_array_get(messages, count - 1))) count--;
    if (count == 0) return false;
    if (!keep_message) count--;
    while (json_array_size(messages) > count) cli_conversation_take_back(conversation);
    return true;
}

/* ---- Prefill ---- */

typedef struct {
    sl_token *tokens; /* released with free */
    size_t count;
    char *text; /* rendered; released with sl_free; NULL: it was given as text */
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
    return fits(c, p->count);
}

/* The variables of the template, with the messages as it wants them; NULL after filling err. */
static char *make_variables(const cli_conversation *c, sl_error *err) {
    char *given = cli_json_dump(c->messages, JSON_COMPACT), *fit = NULL, *variables = NULL;
    *err = (sl_error){SL_NO_MEMORY, "no memory for the messages"};
    if (given && sl_messages_for_template(c->model, given, &fit, err) == SL_OK) {
        json_t *messages = json_loads(fit, JSON_ALLOW_NUL, NULL);
        if (messages) variables = cli_template_variables(c->options, messages, c->tools);
        json_decref(messages);
    }
    free(given);
    sl_free(fit);
    return variables;
}

/* Special tokens in messages are ordinary text. */
static bool read_messages(const cli_conversation *c, prompt *p) {
    sl_error err;
    char *variables = make_variables(c, &err);
    const sl_render_options options = {.struct_size = sizeof options, .progress = is_stopped};
    sl_status status = SL_NO_MEMORY;
    if (variables && !cli_json_failed())
        status = sl_model_render_chat(c->model, variables, &options, &p->text, &err);
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

/* A token of the answer, at the end of the list.  The session has it too, unless it is full. */
static sl_status next_token(cli_conversation *c, const uint32_t *allowed, bool full, sl_token *out,
                            sl_error *err) {
    for (;;) {
        const sl_status status =
            full ? sl_session_sample_by(c->session, c->sampler, allowed, out, err)
                 : sl_session_next_by(c->session, c->sampler, allowed, out, err);
        if (status != SL_CANCELLED || stop_requested) return status;
    }
}

/* Tokens at the end of the list: one that is chosen, and after the thoughts those that the grammar
 * of the options leaves no choice about.  Log-probabilities are of chosen tokens, so that nothing
 * is appended without a choice where they are wanted. */
static sl_status next_tokens(cli_writer *w, size_t room, size_t most, cli_tokens *out,
                             sl_error *err) {
    cli_conversation *c = w->conversation;
    const bool constrained = c->constraint.grammar && !sl_message_parser_is_reasoning(w->parser);
    const uint32_t *allowed = NULL;
    sl_status status = SL_OK;
    *out = (cli_tokens){.ids = &c->tokens[sl_session_length(c->session)], .count = 1};
    if (constrained) status = cli_constraint_mask(&c->constraint, &allowed, err);
    if (status == SL_OK) status = next_token(c, allowed, room == 0, out->ids, err);
    if (status != SL_OK || !constrained) return status;
    const size_t left = room < most ? room : most;
    const size_t capacity = left > 1 && !c->options->logprobs_given ? left - 1 : 0;
    cli_tokens forced = {.ids = out->ids + 1};
    status = cli_constraint_take(&c->constraint, out->ids[0], &forced, capacity, err);
    if (status != SL_OK || forced.count == 0) return status;
    out->count += forced.count;
    status = sl_sampler_accept(c->sampler, forced.ids, forced.count, err);
    return status == SL_OK ? extend(c, forced.count, err) : status;
}

/* Keeps the log-probabilities of the token that was chosen last. */
static bool keep_logprobs(const cli_conversation *c, cli_answer *answer) {
    uint32_t count = 0;
    const sl_logprob *found = sl_sampler_logprobs(c->sampler, &count);
    if (!found) return true;
    const size_t before = (answer->token_count - 1) * count;
    sl_logprob *larger = realloc(answer->logprobs, (before + count) * sizeof *larger);
    if (!larger) return false;
    memcpy(larger + before, found, count * sizeof *found);
    answer->logprobs = larger;
    answer->logprobs_each = count;
    return true;
}

static bool take_token(cli_writer *w, sl_token token, sl_error *err) {
    w->answer->token_count++;
    if (keep_logprobs(w->conversation, w->answer)) return cli_writer_feed(w, token, err);
    *err = (sl_error){SL_NO_MEMORY, "no memory for the answer"};
    return false;
}

/* Until something ends the answer. */
static cli_ending generate(cli_writer *w, sl_error *err) {
    cli_conversation *c = w->conversation;
    cli_answer *answer = w->answer;
    const uint32_t context = cli_model_info(c->model).context_tokens;
    const size_t limit = c->options->predict_given ? c->options->predict : SIZE_MAX;
    if (c->constraint.grammar && cli_constraint_begin(&c->constraint, err) != SL_OK)
        return CLI_REPLY_FAILED;
    while (answer->token_count < limit) {
        const size_t room = context - sl_session_length(c->session);
        cli_tokens made;
        const sl_status status = next_tokens(w, room, limit - answer->token_count, &made, err);
        if (status != SL_OK) return status == SL_CANCELLED ? CLI_STOPPED : CLI_REPLY_FAILED;
        if (sl_model_token_ends(c->model, made.ids[0])) {
            c->end_tokens += room > 0; /* the session has it */
            return CLI_ENDED;
        }
        for (size_t i = 0; i < made.count; i++) {
            if (!take_token(w, made.ids[i], err)) return CLI_REPLY_FAILED;
            if (w->stops.found) return CLI_STOP_TEXT;
        }
        if (stop_requested || (c->streams && ferror(stdout))) return CLI_STOPPED;
        if (room == 0) return CLI_FULL;
    }
    return CLI_LIMITED;
}

static void continue_prompt(cli_conversation *c, const prompt *p, const char *text,
                            cli_answer *answer) {
    sl_error err;
    cli_writer w = {.conversation = c, .answer = answer};
    answer->prompt_tokens = p->count;
    answer->tokens = c->tokens + p->count;
    const bool begun = cli_writer_open(&w, text, &err);
    sl_status status = SL_NO_MEMORY;
    if (begun && c->options->prompt_logprobs_given)
        status = cli_score_prompt(c, p->tokens, p->count, answer, &err);
    else if (begun)
        status = prefill(c, p->tokens, p->count, &err);
    answer->ending = status == SL_OK          ? generate(&w, &err)
                     : status == SL_CANCELLED ? CLI_STOPPED
                                              : CLI_REPLY_FAILED;
    cli_kept_end_turn(c);
    if (answer->ending != CLI_REPLY_FAILED && !cli_writer_finish(&w, &err))
        answer->ending = CLI_REPLY_FAILED;
    cli_writer_close(&w);
    if (answer->ending == CLI_REPLY_FAILED) (void)cli_fail(&err);
}

cli_answer cli_conversation_answer(cli_conversation *c, const char *plain) {
    cli_answer answer = {.ending = CLI_REPLY_FAILED, .newline = true};
    prompt p = {0};
    stop_requested = 0;
    if (plain ? read_plain(c, plain, &p) : read_messages(c, &p))
        continue_prompt(c, &p, plain ? plain : p.text, &answer);
    free(p.tokens);
    sl_free(p.text);
    return answer;
}

cli_report cli_conversation_report(const cli_conversation *c) {
    return (cli_report){c->model,      c->session,          &c->sampling,
                        c->end_tokens, &c->sampler_options, c->sampler};
}

void cli_conversation_print_stats(const cli_conversation *conversation) {
    const cli_report report = cli_conversation_report(conversation);
    cli_print_stats(stderr, &report);
}

void cli_answer_free(cli_answer *answer) {
    json_decref(answer->message);
    free(answer->logprobs);
    free(answer->prompt_logprobs);
    answer->message = NULL;
    answer->logprobs = answer->prompt_logprobs = NULL;
}

void cli_answer_note(const cli_answer *answer, const char *when_full) {
    if (answer->ending == CLI_FULL) cli_note("the context is full; %s", when_full);
    if (answer->ending == CLI_LIMITED)
        cli_note("the answer was cut after %zu tokens (-n)", answer->token_count);
    if (answer->ending == CLI_STOPPED) cli_note("stopped");
}
