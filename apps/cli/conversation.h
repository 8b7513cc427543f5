/* conversation.h - Answering: from messages or plain text to streamed tokens, for run and chat. */
#ifndef SL_APPS_CONVERSATION_H
#define SL_APPS_CONVERSATION_H
#include "apps/cli/constrained.h"
#include "sluice/sampling.h"

typedef struct {
    const cli_options *options;
    sl_model *model;
    sl_session *session;
    char *system;     /* message of the options, or NULL */
    json_t *messages; /* [{"role", "content"}...], as the OpenAI API has them */
    json_t *tools;    /* of --tools, or NULL */
    sl_token *tokens; /* [context + 1]: what the session has seen, then what comes next */
    sl_sampling sampling;
    sl_sampler_options sampler_options; /* sampling, and what else is set */
    sl_sampler *sampler;
    sl_stops *stops;     /* of --stop, or NULL */
    uint64_t end_tokens; /* that ended answers so far */
    cli_constraint constraint;
    bool streams; /* answers go to standard output as they come */
} cli_conversation;

typedef enum {
    CLI_ENDED,        /* by the model */
    CLI_LIMITED,      /* by -n */
    CLI_FULL,         /* the context is used up */
    CLI_STOPPED,      /* by cli_conversation_stop or a closed output */
    CLI_REPLY_FAILED, /* an error, already reported */
    CLI_STOP_TEXT,    /* one of --stop came */
} cli_ending;

typedef struct {
    cli_ending ending;
    json_t *message;  /* with what was thought apart from what was said, and calls of tools */
    bool newline;     /* what was printed last ended a line */
    sl_token *tokens; /* borrowed until the next answer */
    size_t token_count, prompt_tokens, reasoning_tokens;
    sl_logprob *logprobs; /* with --logprobs N, as sl_sampler_logprobs, of each token */
    uint32_t logprobs_each;
    sl_logprob *prompt_logprobs; /* with --prompt-logprobs N, of each token of the prompt but the
                                  * first */
    uint32_t prompt_logprobs_each;
} cli_answer;

/* Opens model and session; false after a message.  Close it in either case. */
bool cli_conversation_open(const cli_options *options, cli_conversation *out);
void cli_conversation_close(cli_conversation *conversation);

/* Starts over, with a system message unless it is NULL. */
void cli_conversation_reset(cli_conversation *conversation, const char *system);
/* Appends a message; bytes that are no UTF-8 are replaced. */
void cli_conversation_say(cli_conversation *conversation, const char *role, const char *text);
/* Appends an answer. */
void cli_conversation_keep(cli_conversation *conversation, const cli_answer *answer);
/* Saves the conversation where --session says, if it is given; false after a message. */
bool cli_conversation_save(const cli_conversation *conversation);
void cli_conversation_take_back(cli_conversation *conversation); /* the last message */
/* Takes back what came after the last message of the user, and that message too unless it is kept;
 * false if there is none. */
bool cli_conversation_rewind(cli_conversation *conversation, bool keep_message);

/* Continues the messages as the model's template has them, or, unless it is NULL, plain text.  What
 * the session has already seen is not computed again. */
cli_answer cli_conversation_answer(cli_conversation *conversation, const char *plain);
void cli_answer_free(cli_answer *answer);
/* Tells on stderr, unless the model ended the answer itself. */
void cli_answer_note(const cli_answer *answer, const char *when_full);

cli_report cli_conversation_report(const cli_conversation *conversation);
void cli_conversation_print_stats(const cli_conversation *conversation); /* to stderr */

/* Makes the running answer end.  May be called from a signal handler. */
void cli_conversation_stop(cli_conversation *conversation);
/* From now on Ctrl-C ends the running answer instead of the program. */
void cli_conversation_catch_interrupts(cli_conversation *conversation);
#endif
