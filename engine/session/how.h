/* how.h - Toggles of the compiler, by name. */
#ifndef SL_ENGINE_SESSION_HOW_H
#define SL_ENGINE_SESSION_HOW_H
#include "compiler/compile.h"

/* Words separated by commas: no-simplify, no-fusion, no-reordering, no-sharing, no-in-place,
 * two-submits, and one of levels, groups, edges.  NULL and "": the defaults.  Another word fails
 * and is named. */
SL_CHECKED sl_status sl_how_parse(const char *words, sl_compile_how *out, sl_error *err);
const char *sl_schedule_name(sl_schedule_model model);
#endif
