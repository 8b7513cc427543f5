/* snapshot.h - Sessions in files, and copies of sessions.
 *
 * All functions are called with the model's lock held, and nothing in flight. */
#ifndef SL_ENGINE_SESSION_SNAPSHOT_H
#define SL_ENGINE_SESSION_SNAPSHOT_H
#include "engine/session/session.h"
#include "engine/session/slot.h"
#include "engine/session/state_file.h"

/* Empties a session: what its slot holds is not used any more. */
void sl_session_clear(sl_session *session);
/* The tokens that each kept recurrent state of a session includes, ascending: its checkpoints, and
 * the state as it is; returns how many, at most SL_MAX_CHECKPOINTS + 1. */
uint32_t sl_session_lengths(const sl_session *session, uint64_t *out);
/* A session as content of files and caches; borrowed, with `lengths`, from the session. */
sl_state_content sl_session_content(const sl_session *session,
                                    uint64_t lengths[SL_MAX_CHECKPOINTS + 1]);

/* Writes all of a session, with bytes of the caller. */
SL_CHECKED sl_status sl_session_write(const sl_session *session, const char *path, const void *note,
                                      size_t note_bytes, sl_error *err);
/* Replaces a session by that of a file.  If it is refused before anything was replaced, the session
 * is as before, and after that, empty.  out_note: released with free; may be NULL. */
SL_CHECKED sl_status sl_session_read(sl_session *session, const char *path, char **out_note,
                                     size_t *out_note_bytes, sl_error *err);
/* Makes a session a copy of another one of the same model. */
SL_CHECKED sl_status sl_session_copy(sl_session *session, const sl_session *from, sl_error *err);
#endif
