/* line.h - Lines typed by a person, with editing and history where libedit is there, or piped in.
 */
#ifndef SL_APPS_LINE_H
#define SL_APPS_LINE_H
#include <stdbool.h>

typedef enum {
    CLI_LINE,
    CLI_LINE_ABANDONED, /* Ctrl-C */
    CLI_LINE_END,       /* Ctrl-D, or the end of a pipe */
} cli_line;

void cli_lines_begin(bool interactive);
void cli_lines_end(void);
/* *out has no newline at its end, but where text was pasted it may have some inside.  It is
 * released with free; NULL unless CLI_LINE. */
cli_line cli_line_read(const char *prompt, char **out);
/* Adds a message, of one or more lines, to the history. */
void cli_line_remember(const char *message);
#endif
