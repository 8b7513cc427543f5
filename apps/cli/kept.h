/* kept.h - Conversations in files (--session), with the messages as their note, and what was
 * computed of them in a folder (--kv-disk). */
#ifndef SL_APPS_KEPT_H
#define SL_APPS_KEPT_H
#include "apps/cli/conversation.h"

/* Opens the folder of the options (--kv-disk), if they name one; false after a message. */
bool cli_kept_open(cli_conversation *conversation);
/* An answer is complete: what was computed goes there. */
void cli_kept_end_turn(cli_conversation *conversation);
/* Continues what the file of the options has, if it is there; false after a message. */
bool cli_kept_load(cli_conversation *conversation);
#endif
