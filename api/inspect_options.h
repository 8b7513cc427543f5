/* inspect_options.h - Options and reports that models and graphs share. */
#ifndef SL_API_INSPECT_OPTIONS_H
#define SL_API_INSPECT_OPTIONS_H
#include "engine/inspect/inspect.h"
#include <stdio.h>

/* inspect.c: the options with their defaults, but for those of models. */
SL_CHECKED sl_status sl_inspect_complete(const sl_inspect_options *given, sl_inspect_options *out,
                                         sl_error *err);
/* A struct that ends before its memory could not be released. */
SL_CHECKED sl_status sl_inspect_check_size(const sl_inspect_report *out, sl_error *err);
/* Hands a report to the caller, or releases it if status is not SL_OK; returns status. */
SL_CHECKED sl_status sl_inspect_hand_out(sl_status status, sl_inspect_report *report,
                                         sl_inspect_report *out);

/* inspect_text.c: text in memory of the caller, and a table of rows in it. */
SL_CHECKED sl_status sl_inspect_print_text(void (*print)(FILE *to, const void *what),
                                           const void *what, char **out_text, sl_error *err);
void sl_inspect_print_rows(FILE *to, const char *what, const sl_inspect_row *rows, uint32_t count);
#endif
