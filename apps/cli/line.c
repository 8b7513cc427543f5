/* line.c - libedit on a terminal, getline for the rest. */
#include "apps/cli/line.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool interactive;

/* Without the line's end: LF or CRLF. */
static void chop(char *line, size_t length) {
    if (length && line[length - 1] == '\n') line[--length] = '\0';
    if (length && line[length - 1] == '\r') line[--length] = '\0';
}

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
        chop(*out, (size_t)length);
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
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_MESSAGES = 1000, PASTE_BYTES = 4096 };
#define PASTE_ON    "\033[?2004h"
#define PASTE_OFF   "\033[?2004l"
#define PASTE_START "\033[200~"
#define PASTE_END   "\033[201~"

static EditLine *editor;
static History *history_of_messages;
static const char *current_prompt;
static bool abandoned;

static char *prompt_of(EditLine *line) {
    (void)line;
    return (char *)(uintptr_t)current_prompt;
}

static unsigned char abandon_line(EditLine *line, wint_t key) {
    (void)line, (void)key;
    abandoned = true;
    return CC_EOF;
}

/* Inserts what a terminal puts between the marks of a paste, as it is: newlines do not send it. */
static unsigned char paste(EditLine *line, wint_t key) {
    enum { END_BYTES = sizeof PASTE_END - 1 };
    (void)key;
    size_t bytes = 0, room = 0;
    char *text = NULL;
    bool ended = false;
    while (!ended) {
        if (bytes + 1 >= room) {
            char *larger = realloc(text, room + PASTE_BYTES);
            if (!larger) break;
            text = larger;
            room += PASTE_BYTES;
        }
        if (read(STDIN_FILENO, text + bytes, 1) != 1) break;
        if (text[bytes] == '\r') text[bytes] = '\n';
        bytes++;
        ended = bytes >= END_BYTES && memcmp(text + bytes - END_BYTES, PASTE_END, END_BYTES) == 0;
    }
    if (ended) {
        text[bytes - END_BYTES] = '\0';
        (void)el_insertstr(line, text);
    }
    free(text);
    return CC_REDISPLAY;
}

static const char *history_path(void) {
    static char path[PATH_MAX];
    const char *home = getenv("HOME");
    if (!home) return NULL;
    (void)snprintf(path, sizeof path, "%s/.sluice_history", home);
    return path;
}

static void begin_history(void) {
    HistEvent event;
    history_of_messages = history_init();
    if (!history_of_messages) return;
    (void)history(history_of_messages, &event, H_SETSIZE, HISTORY_MESSAGES);
    if (history_path()) (void)history(history_of_messages, &event, H_LOAD, history_path());
    (void)el_set(editor, EL_HIST, history, history_of_messages);
}

/* False if the terminal cannot be edited on. */
static bool begin_editing(void) {
    (void)setlocale(LC_CTYPE, ""); /* for characters of several bytes */
    if (MB_CUR_MAX == 1) (void)setlocale(LC_CTYPE, "C.UTF-8");
    editor = el_init("sluice", stdin, stderr, stderr);
    if (!editor) return false;
    (void)el_set(editor, EL_PROMPT, prompt_of);
    (void)el_set(editor, EL_EDITOR, "emacs");
    (void)el_set(editor, EL_SIGNAL, 0);
    /* The other form of el_set copies the names and never releases them. */
    (void)el_wset(editor, EL_ADDFN, L"sluice-abandon-line", L"Give up the line", abandon_line);
    (void)el_wset(editor, EL_ADDFN, L"sluice-paste", L"Insert pasted text", paste);
    (void)el_set(editor, EL_BIND, "^C", "sluice-abandon-line", NULL);
    (void)el_set(editor, EL_BIND, PASTE_START, "sluice-paste", NULL);
    (void)el_set(editor, EL_BIND, "\t", "ed-insert", NULL);
    begin_history();
    return true;
}

/* While a line is edited Ctrl-C is a key like any other, so that no signal has to find its way out
 * of the editor. */
static const char *edit(int *out_count) {
    struct termios before = {0}, while_editing;
    const bool known = tcgetattr(STDIN_FILENO, &before) == 0;
    while_editing = before;
    while_editing.c_cc[VINTR] = _POSIX_VDISABLE;
    if (known) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &while_editing);
    (void)fputs(PASTE_ON, stderr);
    (void)fflush(stderr);
    const char *line = el_gets(editor, out_count);
    (void)fputs(PASTE_OFF, stderr);
    (void)fflush(stderr);
    if (known) (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    return line;
}

static cli_line read_edited(const char *prompt, char **out) {
    int count = 0;
    abandoned = false;
    current_prompt = prompt;
    const char *line = edit(&count);
    *out = line && count > 0 && !abandoned ? strndup(line, (size_t)count) : NULL;
    if (*out) {
        chop(*out, strlen(*out));
        return CLI_LINE;
    }
    (void)fputc('\n', stderr);
    return abandoned ? CLI_LINE_ABANDONED : CLI_LINE_END;
}

void cli_lines_begin(bool is_interactive) {
    interactive = is_interactive;
    if (interactive) (void)begin_editing();
}

void cli_lines_end(void) {
    if (!editor) return;
    if (history_of_messages) history_end(history_of_messages);
    el_end(editor);
    editor = NULL;
}

/* Saved at once: a program that is killed loses nothing. */
void cli_line_remember(const char *message) {
    HistEvent event;
    if (!editor || !history_of_messages) return;
    (void)history(history_of_messages, &event, H_ENTER, message);
    if (history_path()) (void)history(history_of_messages, &event, H_SAVE, history_path());
}

cli_line cli_line_read(const char *prompt, char **out) {
    return editor ? read_edited(prompt, out) : read_plain(prompt, out);
}
#else
void cli_lines_begin(bool is_interactive) {
    interactive = is_interactive;
}

void cli_lines_end(void) {}

void cli_line_remember(const char *message) {
    (void)message;
}

cli_line cli_line_read(const char *prompt, char **out) {
    return read_plain(prompt, out);
}
#endif
