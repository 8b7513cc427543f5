/* helper.h - A thread that runs one function at a time beside the thread that owns it. */
#ifndef SL_BASE_HELPER_H
#define SL_BASE_HELPER_H
#include "base/memory.h"

typedef struct sl_helper sl_helper;
typedef void sl_helper_fn(void *ctx);

SL_CHECKED sl_status sl_helper_create(const sl_allocator *allocator, sl_helper **out,
                                      sl_error *err);
void sl_helper_destroy(sl_helper *helper); /* waits; NULL is allowed */
/* Begins to run a function; the one before has been waited for.  The function sees all that was
 * written before, and who waits all that it wrote. */
void sl_helper_begin(sl_helper *helper, sl_helper_fn *fn, void *ctx);
/* Returns when the function has returned; at once if none was begun. */
void sl_helper_wait(sl_helper *helper);
#endif
