/* line.c - libedit on a terminal, getline for the rest. */
#include "apps/cli/line.h"
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool interactive;

/* A signal handler without SA_RESTART makes getline fail with EINTR: Ctrl-C. */
static cli_line read_plain(const char *prompt, char **out) {
    size_t room = 0;
    *out = NULL;
    if (interactive) {
        (void)fputs(prompt, stderr);
        (void)fflush(stderr);
    }
    errno = 0;
    const ssize_t length = getline(out, &room, stdin);
    if (length >= 0) {
        if (length && (*out)[length - 1] == '\n') (*out)[length - 1] = '\0';
        return CLI_LINE;
    }
    const bool interrupted = errno == EINTR;
    free(*out);
    *out = NULL;
    if (!interrupted) return CLI_LINE_END;
    clearerr(stdin);
    return CLI_LINE_ABANDONED;
}

#ifdef SL_HAVE_EDIT
#include <editline/readline.h>
#include <termios.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000, CONTROL_C = 3 };
static bool abandoned;

static int abandon_line(int count, int key) {
    (void)count, (void)key;
    abandoned = true;
    rl_done = 1;
    return 0;
}

static const char *history_path(void) {
    static char path[PATH_MAX];
    const char *home = getenv("HOME");
    if (!home) return NULL;
    (void)snprintf(path, sizeof path, "%s/.sluice_history", home);
    return path;
}

static void begin_editing(void) {
    (void)setlocale(LC_CTYPE, ""); /* for characters of several bytes */
    rl_readline_name = "sluice";
    rl_outstream = stderr;
    (void)rl_initialize();
    (void)rl_add_defun("sluice-abandon-line", abandon_line, CONTROL_C);
    using_history();
    stifle_history(HISTORY_LINES);
    if (history_path()) (void)read_history(history_path());
}

/* While a line is edited Ctrl-C is a key like any other, so that no signal has to find its way out
 * of the editor. */
static char *edit(const char *prompt) {
    struct termios before = {0}, while_editing;
    const bool known = tcgetattr(STDIN_FILENO, &before) == 0;
    while_editing = before;
    while_editing.c_cc[VINTR] = _POSIX_VDISABLE;
    if (known) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &while_editing);
    char *line = readline(prompt);
    if (known) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    return line;
}

static cli_line read_edited(const char *prompt, char **out) {
    abandoned = false;
    *out = edit(prompt);
    if (*out) {
        if (**out) (void)add_history(*out);
        return CLI_LINE;
    }
    (void)fputc('\n', stderr);
    return abandoned ? CLI_LINE_ABANDONED : CLI_LINE_END;
}

void cli_lines_begin(bool is_interactive) {
    interactive = is_interactive;
    if (interactive) begin_editing();
}

void cli_lines_end(void) {
    if (interactive && history_path()) (void)write_history(history_path());
}

cli_line cli_line_read(const char *prompt, char **out) {
    return interactive ? read_edited(prompt, out) : read_plain(prompt, out);
}
#else
void cli_lines_begin(bool is_interactive) {
    interactive = is_interactive;
}

void cli_lines_end(void) {}

cli_line cli_line_read(const char *prompt, char **out) {
    return read_plain(prompt, out);
}
#endif
