/* conversation.h - Answering: from messages or plain text to streamed tokens, for run and chat. */
#ifndef SL_APPS_CONVERSATION_H
#define SL_APPS_CONVERSATION_H
#include "apps/cli/cli.h"

typedef struct {
    const cli_options *options;
    sl_model *model;
    sl_session *session;
    json_t *messages; /* [{"role", "content"}...] */
    json_t *tools;    /* of --tools, or NULL */
    sl_token *tokens; /* [context + 1]: what the session has seen, then what comes next */
    sl_sampling sampling;
    bool plain;   /* what is continued came through no template */
    bool streams; /* answers go to standard output as they come */
} cli_conversation;

typedef enum {
    CLI_ENDED,        /* by the model */
    CLI_LIMITED,      /* by -n */
    CLI_FULL,         /* the context is used up */
    CLI_STOPPED,      /* by cli_conversation_stop or a closed output */
    CLI_REPLY_FAILED, /* an error, already reported */
} cli_ending;

typedef struct {
    cli_ending ending;
    char *text; /* valid UTF-8, NUL-terminated; NULL if it failed */
    size_t bytes;
    sl_token *tokens; /* borrowed until the next answer */
    size_t token_count, prompt_tokens;
} cli_answer;

/* Opens model and session; false after a message.  Close it in either case. */
bool cli_conversation_open(const cli_options *options, cli_conversation *out);
void cli_conversation_close(cli_conversation *conversation);

/* Starts over, with the system message of the options if there is one. */
void cli_conversation_reset(cli_conversation *conversation, const char *system);
/* Appends a message; bytes that are no UTF-8 are replaced. */
void cli_conversation_say(cli_conversation *conversation, const char *role, const char *text,
                          size_t bytes);
void cli_conversation_take_back(cli_conversation *conversation); /* the last message */

/* The messages as the model wants to read them, released with sl_text_free.  SL_UNSUPPORTED: the
 * model has no template. */
SL_CHECKED sl_status cli_conversation_render(const cli_conversation *conversation, char **out,
                                             sl_error *err);
/* Continues text.  What the session has already seen of it is not computed again. */
cli_answer cli_conversation_answer(cli_conversation *conversation, const char *text);
void cli_answer_free(cli_answer *answer);

/* Makes the running answer end.  May be called from a signal handler. */
void cli_conversation_stop(cli_conversation *conversation);
#endif
