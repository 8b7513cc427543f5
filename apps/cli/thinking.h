/* thinking.h - Which parts of an answer are thought and which are said.
 *
 * Models write <think> ... </think>, or name a channel before each message (gpt-oss):
 * <|channel|>analysis<|message|>...; tags and names of channels are neither. */
#ifndef SL_APPS_THINKING_H
#define SL_APPS_THINKING_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    bool thinking; /* what comes now is thought */
    bool heading;  /* what comes now names a role or a channel */
    bool tag;      /* what came last was <think> or </think> */
    char name[32]; /* of the channel, so far */
    size_t name_bytes;
} cli_thinking;

/* prompt: what the answer continues; it may have begun a thought. */
cli_thinking cli_thinking_begin(const char *prompt);
/* Takes note of the next token's text. */
void cli_thinking_feed(cli_thinking *state, const char *text, size_t bytes);
#endif
