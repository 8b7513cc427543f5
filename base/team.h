/* team.h - A fixed team of threads that does one job at a time.
 *
 * A job is a sequence of turns, and a turn a number of chunks, which members claim one by one.  A
 * turn is over when its chunks are done, not when all members have come: one that has lost its core
 * to another process holds up nobody unless it has a chunk in hand, and joins where the others are
 * when it is back.  The calling thread is member 0.  Waiting members spin briefly and then sleep,
 * so that a team neither burns idle cores nor collapses when another process shares them. */
#ifndef SL_BASE_TEAM_H
#define SL_BASE_TEAM_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct sl_team sl_team;

/* Does one chunk; different ones at the same time. */
typedef void sl_team_chunk(void *ctx, uint32_t member, uint32_t chunk);

typedef struct {
    /* How many chunks come next, 0 at the end.  Called by one member, whichever it is, at the start
     * and each time all chunks are done; nothing else runs meanwhile. */
    uint32_t (*next)(void *ctx, uint32_t member);
    sl_team_chunk *chunk;
    /* Chunks of a turn, as many as there are members, may wait for each other.  Otherwise member 0
     * does short jobs alone for a while when others keep losing their cores. */
    bool together;
} sl_team_job;
enum { SL_TEAM_MOST_CHUNKS = 1 << 15 }; /* of a turn */

/* members >= 1; 0 means one per online core. */
SL_CHECKED sl_status sl_team_create(uint32_t members, const sl_allocator *allocator, sl_team **out,
                                    sl_error *err);
void sl_team_destroy(sl_team *team); /* NULL is fine */
uint32_t sl_team_size(const sl_team *team);
/* Keeps member m on the m-th core of those the process may use, starting over when there are fewer.
 * Member 0 is the caller's own thread and stays free to move. */
SL_CHECKED sl_status sl_team_pin(sl_team *team, sl_error *err);

/* Returns when next has returned 0; then nobody uses job and ctx any more.  All writes of a turn
 * are visible in the next one and after the end. */
void sl_team_run(sl_team *team, const sl_team_job *job, void *ctx);
/* A job of one turn, together. */
void sl_team_share(sl_team *team, uint32_t chunks, sl_team_chunk *chunk, void *ctx);
#endif
