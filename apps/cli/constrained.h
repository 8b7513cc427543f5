/* constrained.h - Answers that follow a grammar: --json-schema, --grammar, --regex, --choice. */
#ifndef SL_APPS_CONSTRAINED_H
#define SL_APPS_CONSTRAINED_H
#include "apps/cli/cli.h"
#include "sluice/grammar.h"

typedef struct {
    sl_grammar *grammar; /* NULL: answers are free */
    sl_grammar_vocabulary *vocabulary;
    sl_grammar_state *state; /* of the answer in progress */
    uint32_t *allowed;       /* [words] */
    size_t words;
} cli_constraint;

/* CLI_OK, or after a message CLI_MISUSE: more than one of the options is given. */
int cli_constraint_check(const cli_options *options);
/* Compiles the grammar that the options name; false after a message.  Close it in either case. */
bool cli_constraint_open(const cli_options *options, const sl_model *model, cli_constraint *out);
void cli_constraint_close(cli_constraint *constraint);
/* Begins an answer. */
SL_CHECKED sl_status cli_constraint_begin(cli_constraint *constraint, sl_error *err);
/* The tokens that may come next, as sl_sampler_choose takes them; borrowed until the next call. */
SL_CHECKED sl_status cli_constraint_mask(cli_constraint *constraint, const uint32_t **out,
                                         sl_error *err);
/* Takes the token that was chosen, and gives those that must follow it, which it takes too; at most
 * `capacity`. */
SL_CHECKED sl_status cli_constraint_take(cli_constraint *constraint, sl_token token,
                                         cli_tokens *forced, size_t capacity, sl_error *err);
#endif
