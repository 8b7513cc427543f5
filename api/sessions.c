/* sessions.c - Sessions in files and their copies (sluice/sessions.h). */
#include "sluice/sessions.h"
#include "api/needs.h"
#include "engine/session/snapshot.h"

size_t sl_session_tokens(const sl_session *session, const sl_token **out) {
    SL_NEED_OR(0, session);
    if (out) *out = session->tokens;
    return session->length;
}

sl_status sl_session_save(sl_session *session, const char *path, const void *note,
                          size_t note_bytes, sl_error *err) {
    SL_NEED(session && path && (note || !note_bytes));
    (void)pthread_mutex_lock(&session->model->lock);
    sl_status status = sl_session_drain(session, err);
    if (status == SL_OK) status = sl_session_write(session, path, note, note_bytes, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

sl_status sl_session_load(sl_session *session, const char *path, char **out_note,
                          size_t *out_note_bytes, sl_error *err) {
    SL_NEED(session && path);
    (void)pthread_mutex_lock(&session->model->lock);
    sl_status status = sl_session_drain(session, err);
    if (status == SL_OK) status = sl_session_read(session, path, out_note, out_note_bytes, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}
