/* inspect.h - What `sluice inspect` and `sluice ir inspect` share. */
#ifndef SL_APPS_INSPECT_H
#define SL_APPS_INSPECT_H
#include "apps/cli/cli.h"
#include "sluice/inspect.h"

json_t *cli_rows_json(const sl_inspect_row *rows, uint32_t count);
/* The options that models and graphs have. */
sl_inspect_options cli_inspect_options(const cli_options *options);
int cli_inspect_print(const cli_options *options, const sl_inspect_report *report);
#endif
