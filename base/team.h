/* team.h - A fixed team of threads that runs one job at a time.
 *
 * The calling thread is member 0.  Waiting members spin briefly and then sleep, so that a team
 * neither burns idle cores nor collapses when another process shares them. */
#ifndef SL_BASE_TEAM_H
#define SL_BASE_TEAM_H
#include "base/memory.h"

typedef struct sl_team sl_team;
typedef void sl_team_job(void *ctx, uint32_t member);

/* members >= 1; 0 means one per online core. */
SL_CHECKED sl_status sl_team_create(uint32_t members, const sl_allocator *allocator, sl_team **out,
                                    sl_error *err);
void sl_team_destroy(sl_team *team); /* NULL is fine */
uint32_t sl_team_size(const sl_team *team);
/* Keeps member m on the m-th core of those the process may use, starting over when there are fewer.
 * Member 0 is the caller's own thread and stays free to move. */
SL_CHECKED sl_status sl_team_pin(sl_team *team, sl_error *err);

/* Calls job(ctx, m) once on every member and returns when all have returned. */
void sl_team_run(sl_team *team, sl_team_job *job, void *ctx);

/* Inside a job: waits until every member has arrived.  All writes before are visible after. */
void sl_team_barrier(sl_team *team);
#endif
