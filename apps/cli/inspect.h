/* inspect.h - What `sluice inspect` and `sluice ir inspect` share. */
#ifndef SL_APPS_INSPECT_H
#define SL_APPS_INSPECT_H
#include "apps/cli/cli.h"
#include "sluice/inspect.h"

/* The options that models and graphs have. */
sl_inspect_options cli_inspect_options(const cli_options *options);
int cli_inspect_print(const cli_options *options, const sl_inspect_report *report);
#endif
