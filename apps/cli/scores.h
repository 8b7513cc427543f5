/* scores.h - Log-probabilities of the prompt: --prompt-logprobs. */
#ifndef SL_APPS_SCORES_H
#define SL_APPS_SCORES_H
#include "apps/cli/conversation.h"

/* Makes the session consist of these tokens, all of them computed, with the logits after the last
 * one; the answer gets the log-probabilities of all but the first. */
SL_CHECKED sl_status cli_score_prompt(cli_conversation *conversation, const sl_token *tokens,
                                      size_t count, cli_answer *answer, sl_error *err);
#endif
