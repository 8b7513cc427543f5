/* chat.c - Interactive chat: messages of one or more lines, commands, answers that can be stopped.
 */
#include "apps/cli/calls.h"
#include "apps/cli/conversation.h"
#include "apps/cli/line.h"
#include "apps/cli/profile.h"
#include <stdlib.h>
#include <string.h>

#define PROMPT          "> "
#define CONTINUE_PROMPT ". "
#define FENCE           "\"\"\""
enum { FENCE_LENGTH = 3 };

static cli_conversation talk;
/* ---- Reading a message ---- */

typedef struct {
    char *text;
    size_t bytes;
} message;

/* Adds text and a newline before it if there is something already. */
static bool add_line(message *m, const char *text, size_t bytes) {
    const size_t newline = m->text != NULL;
    char *larger = realloc(m->text, m->bytes + newline + bytes + 1);
    if (!larger) return false;
    m->text = larger;
    if (newline) m->text[m->bytes++] = '\n';
    memcpy(m->text + m->bytes, text, bytes);
    m->bytes += bytes;
    m->text[m->bytes] = '\0';
    return true;
}

static bool ends_in(const char *text, size_t bytes, const char *end) {
    const size_t length = strlen(end);
    return bytes >= length && memcmp(text + bytes - length, end, length) == 0;
}

/* Takes one line into the message; true while more of them belong to it. */
static bool take_line(message *m, const char *line, bool *fenced) {
    size_t bytes = strlen(line);
    if (!m->text && !*fenced && strncmp(line, FENCE, FENCE_LENGTH) == 0) {
        *fenced = true;
        line += FENCE_LENGTH;
        bytes -= FENCE_LENGTH;
        if (bytes == 0) return true;
    }
    if (*fenced && ends_in(line, bytes, FENCE)) {
        *fenced = false;
        bytes -= FENCE_LENGTH;
        if (bytes) (void)add_line(m, line, bytes);
        return false;
    }
    const bool continues = !*fenced && ends_in(line, bytes, "\\");
    return add_line(m, line, bytes - continues) && (continues || *fenced);
}

/* A line that ends in \ continues on the next; """ begins and ends a block of lines. */
static cli_line read_message(message *m) {
    bool fenced = false, more = true;
    *m = (message){0};
    for (const char *prompt = PROMPT; more; prompt = CONTINUE_PROMPT) {
        char *line;
        const cli_line result = cli_line_read(prompt, &line);
        if (result == CLI_LINE_END && m->text) return CLI_LINE;
        if (result != CLI_LINE) {
            free(m->text);
            m->text = NULL;
            return result;
        }
        more = take_line(m, line, &fenced);
        free(line);
    }
    return CLI_LINE;
}

/* ---- Answers and commands ---- */

/* False if the model could not answer; the last message is then removed. */
static bool answer(void) {
    cli_answer reply = cli_conversation_answer(&talk, NULL);
    const bool answered = reply.ending != CLI_REPLY_FAILED;
    if (answered) {
        (void)putchar('\n');
        (void)fflush(stdout);
        cli_answer_note(&reply, "/reset starts a new conversation");
        cli_conversation_keep(&talk, &reply);
        (void)cli_conversation_save(&talk); /* said, and tried again after the next answer */
        cli_calls_note(&talk);
    } else {
        cli_conversation_take_back(&talk);
    }
    cli_answer_free(&reply);
    return answered;
}

typedef enum { MESSAGE, GO_ON, DONE, EXIT } command_result;

static command_result start_over(const char *argument) {
    (void)argument;
    cli_conversation_reset(&talk, talk.system);
    cli_note("a new conversation");
    return DONE;
}

static command_result set_system(const char *argument) {
    cli_conversation_reset(&talk, argument);
    cli_note("a new conversation, with this system message");
    return DONE;
}

static command_result take_result(const char *argument) {
    return cli_calls_take_result(&talk, argument) ? GO_ON : DONE;
}

static command_result retry(const char *argument) {
    (void)argument;
    if (cli_conversation_rewind(&talk, true)) return GO_ON;
    cli_note("there is no message to answer");
    return DONE;
}

static command_result undo(const char *argument) {
    (void)argument;
    cli_note(cli_conversation_rewind(&talk, false)
                 ? "the last message and its answer are taken back"
                 : "there is no message to take back");
    return DONE;
}

static command_result print_stats(const char *argument) {
    (void)argument;
    cli_conversation_print_stats(&talk);
    return DONE;
}

static command_result leave(const char *argument) {
    (void)argument;
    return EXIT;
}

static command_result print_commands(const char *argument);

/* argument: what the help calls it, NULL if there is none. */
static const struct {
    const char *name, *argument, *help;
    command_result (*obey)(const char *argument);
} chat_commands[] = {
    {"/reset", NULL, "start a new conversation", start_over},
    {"/system", "TEXT", "start a new conversation with this system message", set_system},
    {"/retry", NULL, "answer the last message again", retry},
    {"/undo", NULL, "take back the last message and its answer", undo},
    {"/tool", "N TEXT",
     "send the result of tool call N; @FILE instead of TEXT: what the file holds.\n"
     "               The model goes on when all of its calls have one",
     take_result},
    {"/stats", NULL, "speed, expert cache and memory so far", print_stats},
    {"/help", NULL, "list the commands", print_commands},
    {"/exit", NULL, "quit (also /quit, /bye, Ctrl-D)", leave},
    {"/quit", NULL, NULL, leave},
    {"/bye", NULL, NULL, leave},
};
enum { CHAT_COMMANDS = sizeof chat_commands / sizeof chat_commands[0] };

static command_result print_commands(const char *argument) {
    (void)argument;
    for (int i = 0; i < CHAT_COMMANDS; i++) {
        char left[32];
        (void)snprintf(left, sizeof left, "%s %s", chat_commands[i].name,
                       chat_commands[i].argument ? chat_commands[i].argument : "");
        if (chat_commands[i].help) (void)fprintf(stderr, "%-14s %s\n", left, chat_commands[i].help);
    }
    (void)fputs("A line that ends in \\ continues on the next; \"\"\" begins and ends a block of "
                "lines.\nCtrl-C stops an answer.\n",
                stderr);
    return DONE;
}

static command_result obey(const char *text) {
    for (int i = 0; i < CHAT_COMMANDS; i++) {
        const size_t bytes = strlen(chat_commands[i].name);
        if (strncmp(text, chat_commands[i].name, bytes) != 0) continue;
        if (chat_commands[i].argument ? text[bytes] == ' ' : text[bytes] == '\0')
            return chat_commands[i].obey(text + bytes + (text[bytes] == ' '));
    }
    if (text[0] != '/' || strchr(text, '\n')) return MESSAGE;
    cli_note("unknown command '%s'; /help lists the commands", text);
    return DONE;
}

/* A person may try again after an error; a script must get an exit code. */
static int converse(bool interactive) {
    int result = CLI_OK;
    bool done = false;
    while (!done && !ferror(stdout)) {
        message m = {0};
        const cli_line line = read_message(&m);
        if (line == CLI_LINE_ABANDONED) cli_note("Ctrl-D or /exit leaves");
        if (line == CLI_LINE_END) break;
        if (line == CLI_LINE && m.text && m.text[0]) {
            cli_line_remember(m.text);
            const command_result command = obey(m.text);
            done = command == EXIT;
            if (command == MESSAGE) {
                cli_calls_close(&talk);
                cli_conversation_say(&talk, "user", m.text);
            }
            if ((command == MESSAGE || command == GO_ON) && !answer() && !interactive) {
                result = CLI_FAILED;
                done = true;
            }
        }
        free(m.text);
    }
    return result;
}

static void greet(void) {
    const sl_model_info info = cli_model_info(talk.model);
    char size[32];
    cli_note("%s: %s, %s parameters; /help lists the commands, Ctrl-D leaves",
             cli_model_path(talk.options), info.architecture,
             cli_count(info.parameters, size, sizeof size));
}

int cli_run_chat(const cli_options *options) {
    const bool interactive = cli_is_terminal(stdin) && cli_is_terminal(stderr);
    int result = CLI_FAILED;
    if (options->system && options->system_file)
        return cli_misuse(CLI_chat, "--system and --system-file: give only one of them");
    if (cli_profile_check(CLI_chat, options) != CLI_OK) return CLI_USAGE;
    if (cli_conversation_open(options, &talk)) {
        if (sl_model_has_chat_template(talk.model)) {
            cli_conversation_catch_interrupts(&talk);
            cli_lines_begin(interactive);
            if (interactive) greet();
            result = converse(interactive);
            if (options->stats) cli_conversation_print_stats(&talk);
            if (cli_profile_is_wanted(options) && !cli_profile_print(options, talk.session))
                result = CLI_FAILED;
            cli_lines_end();
        } else {
            (void)cli_fail_text("the model has no chat template; sluice run continues plain text");
        }
    }
    cli_conversation_close(&talk);
    return result;
}
