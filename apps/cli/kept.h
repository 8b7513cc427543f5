/* kept.h - Conversations in files (--session): the session with the messages as its note. */
#ifndef SL_APPS_KEPT_H
#define SL_APPS_KEPT_H
#include "apps/cli/conversation.h"

/* Continues what the file of the options has, if it is there; false after a message. */
bool cli_kept_load(cli_conversation *conversation);
#endif
