/* profile.h - Recording a conversation, for run, chat and bench. */
#ifndef SL_APPS_PROFILE_H
#define SL_APPS_PROFILE_H
#include "apps/cli/cli.h"
#include "sluice/inspect.h"

/* Whether the options want one. */
bool cli_profile_is_wanted(const cli_options *options);
/* CLI_USAGE after a message if the options contradict each other. */
int cli_profile_check(cli_command command, const cli_options *options);
SL_CHECKED sl_status cli_profile_start(const cli_options *options, sl_session *session,
                                       sl_error *err);
/* Ends the recording, and with --profile prints it to stderr; false after a message. */
bool cli_profile_print(const cli_options *options, sl_session *session);
/* Ends the recording; NULL after a message. */
json_t *cli_profile_json(sl_session *session);
json_t *cli_phase_json(const sl_session_phase *phase);
#endif
