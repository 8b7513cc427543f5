/* analysis.h - Included before every library file that clang-tidy reads: what its analyser cannot
 * see from one file alone.  A failure is never SL_OK, so nothing after it uses what was not set. */
#include "base/memory.h"

#define sl_fail(err, status, ...)      ((void)sl_fail(err, status, __VA_ARGS__), (status))
#define sl_fail_in(err, status, ...)   ((void)sl_fail_in(err, status, __VA_ARGS__), (status))
#define sl_no_memory(err, what, bytes) ((void)sl_no_memory(err, what, bytes), SL_NO_MEMORY)
