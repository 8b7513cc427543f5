/* calls.h - Calls of tools, answered by a person. */
#ifndef SL_APPS_CALLS_H
#define SL_APPS_CALLS_H
#include "apps/cli/conversation.h"

/* Says on stderr how to answer the calls of the last message, if it has any. */
void cli_calls_note(const cli_conversation *conversation);
/* text: a number of a call, then its result or @FILE.  True if no call waits any more; otherwise a
 * note says what is missing or wrong. */
bool cli_calls_take_result(cli_conversation *conversation, const char *text);
/* Calls that still wait get a result that says so. */
void cli_calls_close(cli_conversation *conversation);
#endif
