/* team.h - A fixed pool of threads that runs one job at a time.
 *
 * A job is a sequence of turns (parallel loops); a turn is a number of chunks that members claim
 * one by one.  A turn ends when its chunks are done, not when all members have arrived: a member
 * that was preempted delays nobody unless it holds a chunk, and joins the current turn when it runs
 * again.  The calling thread is member 0.  Waiting members spin briefly and then sleep, so that a
 * team neither wastes idle cores nor collapses when other processes share them. */
#ifndef SL_BASE_TEAM_H
#define SL_BASE_TEAM_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct sl_team sl_team;

/* Runs one chunk; called concurrently for different chunks. */
typedef void sl_team_chunk(void *ctx, uint32_t member, uint32_t chunk);

typedef struct {
    /* Returns the number of chunks of the next turn, 0 at the end of the job.  Called by any one
     * member at the start and each time all chunks are done; nothing else runs meanwhile. */
    uint32_t (*next)(void *ctx, uint32_t member);
    sl_team_chunk *chunk;
    /* Chunks of a turn, at most as many as there are members, may wait for each other.  Otherwise
     * member 0 runs short jobs alone for a while if the others keep being preempted. */
    bool together;
} sl_team_job;
enum { SL_TEAM_MOST_CHUNKS = 1 << 15 }; /* per turn */

/* members >= 1; 0 means one per online core. */
SL_CHECKED sl_status sl_team_create(uint32_t members, const sl_allocator *allocator, sl_team **out,
                                    sl_error *err);
void sl_team_destroy(sl_team *team); /* NULL is allowed */
uint32_t sl_team_size(const sl_team *team);
/* Pins member m to the m-th core that the process may use, wrapping around if there are fewer.
 * Member 0 is the calling thread and is not pinned. */
SL_CHECKED sl_status sl_team_pin(sl_team *team, sl_error *err);

/* Returns after next has returned 0; job and ctx are not used any more.  All writes of a turn are
 * visible in the next turn and after the end. */
void sl_team_run(sl_team *team, const sl_team_job *job, void *ctx);
/* Runs a job of one turn with `together` set. */
void sl_team_share(sl_team *team, uint32_t chunks, sl_team_chunk *chunk, void *ctx);
#endif
