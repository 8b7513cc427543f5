/* intervals.h - A line of bytes cut into intervals, each with its last writer and the readers
 * since.
 *
 * All positions at which an interval may ever begin are known in advance: intervals are named by
 * the index of their first position, and a bitmap (with a bitmap of its words above it) says which
 * positions begin one now. */
#ifndef SL_COMPILER_SCHEDULE_INTERVALS_H
#define SL_COMPILER_SCHEDULE_INTERVALS_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct sl_reader {
    const struct sl_reader *next; /* shared by the parts of an interval that was split */
    uint32_t step;
} sl_reader;

enum { SL_NO_STEP = UINT32_MAX };

typedef struct {
    uint64_t *positions; /* ascending, each once */
    uint32_t count;
    uint64_t *begins, *begin_words;
    uint32_t *writer;          /* [interval]: a step or SL_NO_STEP */
    const sl_reader **readers; /* [interval] */
} sl_intervals;

/* Takes over positions (in any order, repeated) and starts with one interval.  False: no memory. */
bool sl_intervals_init(sl_intervals *line, uint64_t *positions, uint32_t count, sl_arena *arena);
/* The interval that begins at a position, split off its neighbour where it did not. */
uint32_t sl_intervals_at(sl_intervals *line, uint64_t position);
/* The one after; line->count after the last. */
uint32_t sl_intervals_next(const sl_intervals *line, uint32_t interval);
/* The interval ends where the one after it ended. */
void sl_intervals_join_next(sl_intervals *line, uint32_t interval);
#endif
