/* writing.h - What commands that write a model share. */
#ifndef SL_APPS_CLI_WRITING_H
#define SL_APPS_CLI_WRITING_H
#include "apps/cli/cli.h"

/* From now on interrupting only asks cli_writing_progress to stop the work. */
void cli_writing_start(void);
sl_progress_fn cli_writing_progress;
#endif
