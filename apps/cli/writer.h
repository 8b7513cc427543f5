/* writer.h - Prints an answer as its tokens come: thoughts, what is said, calls of tools. */
#ifndef SL_APPS_WRITER_H
#define SL_APPS_WRITER_H
#include "apps/cli/conversation.h"
#include "sluice/messages.h"

typedef struct {
    cli_conversation *conversation;
    cli_answer *answer;
    sl_message_parser *parser;
    sl_stop_stream stops;
    char *said; /* with --stop: what the stop texts let through */
    size_t said_bytes, said_room;
    bool hides;    /* thoughts */
    bool thinking; /* as was printed last */
    bool dim;      /* as the terminal writes now */
    unsigned calls;
} cli_writer;

/* prompt: the text that the model continues.  All of these are false after filling err. */
bool cli_writer_open(cli_writer *writer, const char *prompt, sl_error *err);
bool cli_writer_feed(cli_writer *writer, sl_token token, sl_error *err);
/* Writes what was held back, and makes the message of the answer. */
bool cli_writer_finish(cli_writer *writer, sl_error *err);
void cli_writer_close(cli_writer *writer);
#endif
