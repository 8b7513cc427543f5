/* limits.h - How much memory this process may still take. */
#ifndef SL_BASE_LIMITS_H
#define SL_BASE_LIMITS_H
#include <stdint.h>

/* What the machine and the control groups of the process leave, in bytes: page cache that can be
 * dropped counts as free.  UINT64_MAX when nothing says. */
uint64_t sl_memory_left(void);
#endif
