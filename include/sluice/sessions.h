/* sessions.h - Sessions that outlive a process, copies of sessions, and reuse of what was computed.
 *
 * Functions that compute or copy take as long as that; sl_session_cancel ends what computes.  What
 * is declared here may still change. */
#ifndef SLUICE_SESSIONS_H
#define SLUICE_SESSIONS_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The tokens of a session, borrowed until the next call that changes them. */
SL_API size_t sl_session_tokens(const sl_session *session, const sl_token **out);

/* Writes a session to a file: its tokens, their keys and values, recurrent states, the logits, and
 * `note`, bytes of the caller's own (NULL with 0 bytes: none).  The file is written under another
 * name, synced and renamed, so that it is complete or as it was. */
SL_API SL_CHECKED sl_status sl_session_save(sl_session *session, const char *path, const void *note,
                                            size_t note_bytes, sl_error *err);
/* Replaces what a session holds by what a file has; the next logits have the same bits as those of
 * the session that was saved.  SL_FORMAT: the file is damaged, of another version, of another model
 * (weights, config, tokenizer or chat template), or of one that was opened so that it computes other
 * bits: on another device or instruction set, with another type of keys and values, or with exact
 * activations instead of 8-bit ones.  SL_INVALID: it has more tokens than the context.  A refused
 * file leaves the session as it was, a damaged one may leave it empty.  out_note may be NULL;
 * otherwise it gets the note, released with sl_free, with a NUL after its last byte. */
SL_API SL_CHECKED sl_status sl_session_load(sl_session *session, const char *path, char **out_note,
                                            size_t *out_note_bytes, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
