/* run.c - Answer one prompt. */
#include "apps/cli/conversation.h"
#include <stdlib.h>
#include <string.h>

/* The prompt of the options or of standard input, released with free; NULL after a message. */
static char *read_prompt(const cli_options *options) {
    size_t bytes;
    if (options->prompt) {
        char *copy = strdup(options->prompt);
        if (!copy) (void)cli_fail_text("no memory for the prompt");
        return copy;
    }
    if (cli_is_terminal(stdin))
        (void)fprintf(stderr, "sluice: type the prompt, then Ctrl-D (or use -p PROMPT)\n");
    char *text = cli_read_all("-", &bytes);
    if (text && strlen(text) != bytes) {
        (void)cli_fail_text("standard input: zero byte at offset %zu of %zu, expected text",
                            strlen(text), bytes);
        free(text);
        return NULL;
    }
    if (text && bytes && !options->raw && text[bytes - 1] == '\n') text[bytes - 1] = '\0';
    return text;
}

/* What the model is to continue, released with sl_text_free when it is not the prompt itself. */
static bool render(cli_conversation *c, const char *prompt, char **out) {
    sl_error err;
    *out = NULL;
    if (c->options->raw) return true;
    cli_conversation_say(c, "user", prompt, strlen(prompt));
    const sl_status status = cli_conversation_render(c, out, &err);
    if (status == SL_UNSUPPORTED)
        (void)fprintf(stderr, "sluice: %s; the prompt is used verbatim\n", err.message);
    else if (status != SL_OK)
        (void)cli_fail(&err);
    return status == SL_OK || status == SL_UNSUPPORTED;
}

static const char *ending_name(cli_ending ending) {
    static const char *const names[] = {"end", "limit", "context", "stopped", "failed"};
    return names[ending];
}

static void print_answer_json(const cli_conversation *c, const char *prompt,
                              const cli_answer *answer) {
    json_t *tokens = json_array();
    for (size_t i = 0; i < answer->token_count; i++)
        cli_json_append(tokens, json_integer(answer->tokens[i]));
    (void)cli_print_json(
        json_pack("{s:o, s:o, s:o, s:I, s:s, s:o}", "prompt", cli_json_text(prompt, strlen(prompt)),
                  "answer", cli_json_text(answer->text, answer->bytes), "tokens", tokens,
                  "prompt_tokens", (json_int_t)answer->prompt_tokens, "ended",
                  ending_name(answer->ending), "stats", cli_stats_json(c->model, c->session)));
}

static int answer_prompt(cli_conversation *c, const char *prompt) {
    char *rendered;
    if (!render(c, prompt, &rendered)) return CLI_FAILED;
    c->plain = !rendered;
    c->streams = !c->options->json;
    cli_answer answer = cli_conversation_answer(c, rendered ? rendered : prompt);
    sl_text_free(rendered);
    if (answer.ending == CLI_REPLY_FAILED) return CLI_FAILED;
    if (c->options->json)
        print_answer_json(c, prompt, &answer);
    else if (cli_is_terminal(stdout) || answer.bytes == 0 || answer.text[answer.bytes - 1] != '\n')
        (void)putchar('\n');
    if (answer.ending == CLI_FULL)
        (void)fprintf(stderr, "sluice: the context is full; -c N makes it larger\n");
    if (c->options->stats) cli_print_stats(stderr, c->model, c->session);
    cli_answer_free(&answer);
    return CLI_OK;
}

int cli_run_run(const cli_options *options) {
    char *prompt = read_prompt(options);
    if (!prompt) return CLI_FAILED;
    cli_conversation conversation;
    const int result = cli_conversation_open(options, &conversation)
                           ? answer_prompt(&conversation, prompt)
                           : CLI_FAILED;
    cli_conversation_close(&conversation);
    free(prompt);
    return result;
}
