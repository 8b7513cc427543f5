/* variables.h - The variables of chat templates. */
#ifndef SL_APPS_VARIABLES_H
#define SL_APPS_VARIABLES_H
#include "apps/cli/cli.h"

/* JSON for sl_model_render_chat, released with free; NULL: no memory.  tools may be NULL. */
char *cli_template_variables(const cli_options *options, json_t *messages, json_t *tools);
/* Notes options that set a variable which the model's template does not use. */
void cli_note_idle_variables(const sl_model *model, const cli_options *options);
#endif
