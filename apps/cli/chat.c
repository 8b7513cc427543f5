/* chat.c - Interactive chat: messages of one or more lines, commands, answers that can be stopped.
 */
#include "apps/cli/conversation.h"
#include "apps/cli/line.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT          "> "
#define CONTINUE_PROMPT ". "
#define FENCE           "\"\"\""
enum { FENCE_LENGTH = 3 };

static cli_conversation talk;
static volatile sig_atomic_t answering;

static void on_interrupt(int number) {
    (void)number;
    if (answering) cli_conversation_stop(&talk);
}

static void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL); /* no SA_RESTART: a plain read of a line ends too */
}

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

static void print_note(const char *text) {
    const bool colour = cli_is_terminal(stderr);
    (void)fprintf(stderr, "%s%s%s\n", colour ? "\033[2m" : "", text, colour ? "\033[0m" : "");
}

/* False if the model could not answer; the message is then removed. */
static bool answer(const message *m) {
    char *rendered;
    sl_error err;
    cli_conversation_say(&talk, "user", m->text, m->bytes);
    answering = 1;
    if (cli_conversation_render(&talk, &rendered, &err) != SL_OK) {
        answering = 0;
        cli_conversation_take_back(&talk);
        (void)cli_fail(&err);
        return false;
    }
    cli_answer reply = cli_conversation_answer(&talk, rendered);
    answering = 0;
    sl_text_free(rendered);
    if (reply.ending == CLI_REPLY_FAILED) {
        cli_conversation_take_back(&talk);
        return false;
    }
    (void)putchar('\n');
    (void)fflush(stdout);
    if (reply.ending == CLI_FULL)
        print_note("the context is full; /reset starts a new conversation");
    if (reply.ending == CLI_LIMITED) print_note("stopped at the token limit (-n)");
    if (reply.ending == CLI_STOPPED) print_note("stopped");
    cli_conversation_say(&talk, "assistant", reply.text, reply.bytes);
    cli_answer_free(&reply);
    return true;
}

typedef enum { NO_COMMAND, DONE, EXIT } command_result;

static command_result obey(const char *text) {
    if (text[0] != '/' || strchr(text, '\n')) return NO_COMMAND;
    if (strcmp(text, "/exit") == 0) return EXIT;
    if (strcmp(text, "/help") == 0)
        print_note("/reset         start a new conversation\n"
                   "/system TEXT   start a new conversation with this system message\n"
                   "/stats         speed, expert cache and memory so far\n"
                   "/exit          quit (or Ctrl-D)\n"
                   "A line that ends in \\ continues on the next; \"\"\" begins and ends a block "
                   "of lines.\n"
                   "Ctrl-C stops an answer.");
    else if (strcmp(text, "/reset") == 0)
        cli_conversation_reset(&talk, talk.options->system);
    else if (strncmp(text, "/system ", 8) == 0)
        cli_conversation_reset(&talk, text + 8);
    else if (strcmp(text, "/stats") == 0)
        cli_print_stats(stderr, talk.model, talk.session);
    else
        print_note("unknown command; /help lists the commands");
    return DONE;
}

/* A person may try again after an error; a script must get an exit code. */
static int converse(bool interactive) {
    int result = CLI_OK;
    bool leave = false;
    while (!leave && !ferror(stdout)) {
        message m = {0};
        const cli_line line = read_message(&m);
        if (line == CLI_LINE_ABANDONED) continue;
        if (line == CLI_LINE_END) break;
        if (m.text && m.text[0]) {
            const command_result command = obey(m.text);
            leave = command == EXIT;
            if (command == NO_COMMAND && !answer(&m) && !interactive) {
                result = CLI_FAILED;
                leave = true;
            }
        }
        free(m.text);
    }
    return result;
}

int cli_run_chat(const cli_options *options) {
    const bool interactive = cli_is_terminal(stdin) && cli_is_terminal(stderr);
    int result = CLI_FAILED;
    if (cli_conversation_open(options, &talk)) {
        catch_interrupts();
        cli_lines_begin(interactive);
        if (interactive) print_note("/help lists the commands, Ctrl-D quits");
        result = converse(interactive);
        if (options->stats) cli_print_stats(stderr, talk.model, talk.session);
        cli_lines_end();
    }
    cli_conversation_close(&talk);
    return result;
}
