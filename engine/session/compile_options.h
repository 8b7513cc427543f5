/* compile_options.h - Compile options and launch options, parsed from words. */
#ifndef SL_ENGINE_SESSION_COMPILE_OPTIONS_H
#define SL_ENGINE_SESSION_COMPILE_OPTIONS_H
#include "compiler/compile.h"
#include "runtime/device.h"

/* The defaults of models on a target: those of other graphs (sl_compiler_options_for), with int8
 * activations. */
sl_compiler_options sl_compiler_options_for_model(const sl_target *target);
/* Words separated by commas: no-simplify, no-fusion, no-reordering, no-sharing, no-in-place, exact,
 * two-submits, lookahead=N, and one of levels, groups, edges.  They change *out, which holds the
 * defaults; NULL and "" change nothing.  Unknown words are errors, except those of
 * sl_launch_options_parse. */
SL_CHECKED sl_status sl_compiler_options_parse(const char *words, sl_compiler_options *out,
                                               sl_error *err);
/* The launch options among these words: eager, chained, apart. */
void sl_launch_options_parse(const char *words, sl_device_options *out);
const char *sl_schedule_name(sl_schedule_model model);
#endif
