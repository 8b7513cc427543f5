/* run.c - Answer one prompt. */
#include "apps/cli/conversation.h"
#include "apps/cli/profile.h"
#include "apps/cli/sampling.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A pipe or a file, and not a terminal or a device such as /dev/null. */
static bool has_piped_input(void) {
    struct stat info;
    return fstat(fileno(stdin), &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode));
}

/* A pipe that nobody closes looks as if the program hung. */
static void note_waiting(void) {
    struct pollfd input = {.fd = fileno(stdin), .events = POLLIN};
    if (poll(&input, 1, 2000) == 0)
        cli_note("waiting for standard input, which comes after the prompt (</dev/null: nothing)");
}

/* Where the rest of the prompt is to be read from; NULL: nowhere. */
static const char *source_of(const cli_options *options) {
    if (options->file) return options->file;
    if (!options->prompt) return "-";
    return has_piped_input() ? "-" : NULL;
}

/* Two texts with an empty line between them where both have something; released with free. */
static char *join(const char *first, const char *second) {
    const size_t bytes = strlen(first) + strlen(second) + 3;
    char *text = malloc(bytes);
    if (text)
        (void)snprintf(text, bytes, "%s%s%s", first, first[0] && second[0] ? "\n\n" : "", second);
    else
        (void)cli_fail_text("no memory for the prompt");
    return text;
}

/* The prompt of the options, followed by that of a file or standard input, released with free; NULL
 * after a message. */
static char *read_prompt(const cli_options *options) {
    const char *source = source_of(options), *given = options->prompt ? options->prompt : "";
    if (!source) return join(given, "");
    if (strcmp(source, "-") == 0 && cli_is_terminal(stdin))
        cli_note("type the prompt, then Ctrl-D (or give it as an argument)");
    else if (strcmp(source, "-") == 0)
        note_waiting();
    char *text = cli_read_text(source);
    if (!text) return NULL;
    const size_t bytes = strlen(text);
    if (bytes && !options->raw && text[bytes - 1] == '\n') text[bytes - 1] = '\0';
    char *whole = join(given, text);
    free(text);
    return whole;
}

/* What would be ignored is refused before anything is read. */
static int check(const cli_options *options) {
    if (options->raw && (options->system || options->system_file || options->tools))
        return cli_misuse(CLI_run, "--raw uses no chat template, which --system and --tools need");
    if (options->raw && (options->template_args.count || options->think))
        return cli_misuse(CLI_run,
                          "--raw uses no chat template, which --think and --template-arg need");
    if (options->system && options->system_file)
        return cli_misuse(CLI_run, "--system and --system-file: give only one of them");
    if (options->logprobs_given && !options->json)
        return cli_misuse(CLI_run, "--logprobs needs --json");
    if (options->prompt_logprobs_given && !options->json)
        return cli_misuse(CLI_run, "--prompt-logprobs needs --json");
    const int result = cli_constraint_check(options);
    return result == CLI_OK ? cli_profile_check(CLI_run, options) : result;
}

static const char *ending_name(cli_ending ending) {
    static const char *const names[] = {"end", "limit", "context", "stopped", "failed", "stop"};
    return names[ending];
}

/* A text of the message, "" where it has none. */
static json_t *text_of(const cli_answer *answer, const char *key) {
    json_t *text = json_object_get(answer->message, key);
    return json_is_string(text) ? json_incref(text) : json_string("");
}

static json_t *calls_of(const cli_answer *answer) {
    json_t *calls = json_object_get(answer->message, "tool_calls");
    return calls ? json_incref(calls) : json_array();
}

/* False after a message. */
static bool print_answer_json(const cli_conversation *c, const char *prompt,
                              const cli_answer *answer) {
    json_t *profile = NULL;
    if (c->options->profile && !(profile = cli_profile_json(c->session))) return false;
    if (c->options->trace && !profile && !cli_profile_print(c->options, c->session)) return false;
    const cli_report report = cli_conversation_report(c);
    json_t *tokens = json_array(), *sampling = cli_sampling_json(&c->sampling);
    for (size_t i = 0; i < answer->token_count; i++)
        cli_json_append(tokens, json_integer(answer->tokens[i]));
    cli_samplers_json(&c->sampler_options, sampling);
    cli_json_set(sampling, "seed", json_integer((json_int_t)c->sampling.seed));
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:s, s:o, s:o}", "prompt",
        cli_json_text(prompt, strlen(prompt)), "thinking", text_of(answer, "reasoning_content"),
        "answer", text_of(answer, "content"), "tool_calls", calls_of(answer), "tokens", tokens,
        "prompt_tokens", (json_int_t)answer->prompt_tokens, "thinking_tokens",
        (json_int_t)answer->reasoning_tokens, "ended", ending_name(answer->ending), "sampling",
        sampling, "stats", cli_stats_json(&report));
    if (profile) cli_json_set(json, "profile", profile);
    if (answer->logprobs_each)
        cli_json_set(json, "logprobs",
                     cli_logprobs_json(c->model, answer->logprobs, answer->logprobs_each,
                                       answer->token_count));
    if (answer->prompt_logprobs) /* the list begins with the second token */
        cli_json_set(json, "prompt_logprobs",
                     cli_logprobs_json(c->model, answer->prompt_logprobs,
                                       answer->prompt_logprobs_each, answer->prompt_tokens - 1));
    return cli_print_json(json) == CLI_OK;
}

static int answer_prompt(cli_conversation *c, const char *prompt) {
    const bool plain = c->options->raw || !sl_model_has_chat_template(c->model);
    if (plain && !c->options->raw)
        cli_note("the model has no chat template; the prompt is used verbatim");
    cli_conversation_say(c, "user", prompt);
    c->streams = !c->options->json;
    cli_conversation_catch_interrupts(c);
    cli_answer answer = cli_conversation_answer(c, plain ? prompt : NULL);
    if (answer.ending == CLI_REPLY_FAILED) {
        cli_answer_free(&answer);
        return CLI_FAILED;
    }
    bool good = true;
    if (c->options->json)
        good = print_answer_json(c, prompt, &answer);
    else if (cli_is_terminal(stdout) || answer.token_count == 0 || !answer.newline)
        (void)putchar('\n');
    cli_answer_note(&answer, "-c N makes it larger");
    if (c->options->stats) cli_conversation_print_stats(c);
    if (!c->options->json && cli_profile_is_wanted(c->options))
        good = cli_profile_print(c->options, c->session);
    cli_conversation_keep(c, &answer);
    good &= cli_conversation_save(c);
    cli_answer_free(&answer);
    if (!good) return CLI_FAILED;
    return answer.ending == CLI_STOPPED && !ferror(stdout) ? CLI_INTERRUPTED : CLI_OK;
}

int cli_run_run(const cli_options *options) {
    int result = check(options);
    if (result != CLI_OK) return result;
    char *prompt = read_prompt(options);
    if (!prompt) return CLI_FAILED;
    cli_conversation conversation;
    if (prompt[0] == '\0')
        result = cli_misuse(CLI_run, "the prompt is empty");
    else {
        result = cli_conversation_open(options, &conversation)
                     ? answer_prompt(&conversation, prompt)
                     : CLI_FAILED;
        cli_conversation_close(&conversation);
    }
    free(prompt);
    return result;
}
