/* watch.h - Records the forward passes of a session: the time of each op and label, expert reads
 * and waits, and a trace.  Holds the events of one pass at a time. */
#ifndef SL_ENGINE_INSPECT_WATCH_H
#define SL_ENGINE_INSPECT_WATCH_H
#include "engine/session/session.h"
#include "sluice/inspect.h"

typedef struct sl_watcher sl_watcher;
/* With the model's lock held, for all four.  The session must have a device and no watcher. */
SL_CHECKED sl_status sl_watcher_create(sl_session *session,
                                       const sl_session_profile_options *options, sl_watcher **out,
                                       sl_error *err);
/* Writes the trace and hands out the profile unless `out` is NULL; destroys the watcher also if it
 * fails, which it does if recording has failed before. */
SL_CHECKED sl_status sl_watcher_finish(sl_watcher *watcher, sl_session_profile *out, sl_error *err);
void sl_watcher_destroy(sl_watcher *watcher); /* writes no file */
/* The watcher of a session; NULL: none. */
sl_watcher *sl_watcher_of(const sl_session *session);
#endif
