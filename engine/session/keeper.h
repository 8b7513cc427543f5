/* keeper.h - Writes what sessions have computed into the folder of prefixes, on a thread of its
 * own, because a disk may take seconds.
 *
 * The thread asks for the parts of a sequence one after another, at most 8 MiB or one recurrent
 * state each; they are copied by who holds the model's lock, between passes.  A session that
 * changes before all of it is copied is not written.  All functions but create and destroy are
 * called with the model's lock held. */
#ifndef SL_ENGINE_SESSION_KEEPER_H
#define SL_ENGINE_SESSION_KEEPER_H
#include "engine/session/session.h"

typedef struct sl_keeper sl_keeper;
/* Of a model that has such a folder. */
SL_CHECKED sl_status sl_keeper_create(sl_model *model, sl_keeper **out, sl_error *err);
/* What is not copied yet is not written.  NULL is allowed, also below. */
void sl_keeper_destroy(sl_keeper *keeper);

/* Puts a session at the end of those to be written; without memory it does nothing. */
void sl_keeper_add(sl_keeper *keeper, const sl_session *session);
/* Whether a session waits until it is copied. */
bool sl_keeper_has(sl_keeper *keeper, const sl_session *session);
/* A session is about to change. */
void sl_keeper_leave(sl_keeper *keeper, const sl_session *session);
/* Copies the part that is asked for; `waits`: for a moment for it to be asked for.  Returns how
 * many sessions are not copied yet. */
uint32_t sl_keeper_serve(sl_keeper *keeper, bool waits);
/* Whether something is being written, or waits for it: the folder is locked. */
bool sl_keeper_is_busy(sl_keeper *keeper);
#endif
