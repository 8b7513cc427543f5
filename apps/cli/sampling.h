/* sampling.h - The options of samplers (sluice/samplers.def), log-probabilities and stop texts. */
#ifndef SL_APPS_SAMPLING_H
#define SL_APPS_SAMPLING_H
#include "apps/cli/conversation.h"

/* Whether a value is one of the option --flag; NULL: it has none.  False after a message. */
bool cli_sampler_check(cli_command command, const char *flag, const char *value);
/* Makes the sampler and the stop texts of the conversation's options; false after a message. */
bool cli_open_sampler(cli_conversation *conversation);
/* What is recommended for a model; zeros if it cannot be told. */
sl_sampler_options cli_model_samplers(const sl_model *model);
enum { CLI_SAMPLERS_TEXT = 512 };
/* ", repeat-penalty 1.1" for all that is set beyond sl_sampling; returns text. */
const char *cli_samplers_text(const sl_sampler_options *options, char text[CLI_SAMPLERS_TEXT]);
/* The same as members of an object. */
void cli_samplers_json(const sl_sampler_options *options, json_t *object);
/* [{"token", "id", "bytes", "logprob", "top_logprobs": [..]}..] */
json_t *cli_logprobs_json(const sl_model *model, const sl_logprob *items, uint32_t each,
                          size_t count);
#endif
