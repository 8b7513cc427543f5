/* sessions.c - Sessions in files and their copies (sluice/sessions.h). */
#include "sluice/sessions.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/choose/history.h"
#include "engine/session/prefixes.h"
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

/* ---- copies ---- */

sl_status sl_session_fork(sl_session *session, sl_session **out, sl_error *err) {
    SL_NEED(session && out);
    const sl_session_options options = {.struct_size = sizeof options,
                                        .chunk_tokens = session->chunk,
                                        .checkpoints = session->checkpoints.capacity,
                                        .context_tokens = session->context};
    sl_session *fork = NULL;
    SL_TRY(sl_session_create(session->model, &options, &fork, err));
    (void)pthread_mutex_lock(&session->model->lock);
    sl_status status = sl_session_drain(session, err);
    if (status == SL_OK) status = sl_session_copy(fork, session, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    if (status == SL_OK)
        *out = fork;
    else
        sl_session_destroy(fork);
    return status;
}

/* ---- reuse ---- */

static sl_status check_tokens(const sl_session *session, const sl_token *tokens, size_t count,
                              sl_error *err) {
    if (count == 0 || count > session->context)
        return sl_fail(err, SL_INVALID, "%zu tokens, wanted 1 to the context of %u", count,
                       session->context);
    return sl_tokens_check(tokens, count, session->model->config.vocab, err);
}

static void keep(sl_session *session, bool ends) {
    (void)pthread_mutex_lock(&session->model->lock);
    sl_prefixes_keep(session, ends);
    (void)pthread_mutex_unlock(&session->model->lock);
}

/* Computes what is missing before `end`; a single token at the end would count as decoded. */
static sl_status extend_to(sl_session *session, const sl_token *tokens, size_t end,
                           const sl_sync_options *options, size_t reused, sl_error *err) {
    while (session->length < end) {
        const size_t left = end - session->length;
        const size_t count = options->progress && left > session->chunk + 1 ? session->chunk : left;
        if (options->progress && options->progress(options->progress_ctx, "reading",
                                                   session->length - reused, end - reused))
            return sl_fail(err, SL_CANCELLED, "stopped after %zu of %zu tokens", session->length,
                           end);
        SL_TRY(sl_session_extend(session, tokens + session->length, count, err));
    }
    return SL_OK;
}

static sl_status reuse(sl_session *session, const sl_token *tokens, size_t count, sl_reuse *out,
                       sl_error *err) {
    (void)pthread_mutex_lock(&session->model->lock);
    sl_reuse_plan plan = {.most = count};
    sl_status status = sl_session_drain(session, err);
    if (status == SL_OK) status = sl_session_reuse(session, tokens, count, &plan, out, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

sl_status sl_session_sync(sl_session *session, const sl_token *tokens, size_t count,
                          const sl_sync_options *given, sl_sync_report *report, sl_error *err) {
    SL_NEED(session && (tokens || !count));
    sl_sync_options options = {0};
    sl_sync_report found = {.source = "nothing"};
    sl_reuse reused;
    SL_TRY(SL_STRUCT_TAKE(sl_sync_options, &options, given, err));
    if (report) SL_TRY(SL_STRUCT_CHECK(sl_sync_report, report, err));
    SL_TRY(check_tokens(session, tokens, count, err));
    SL_TRY(reuse(session, tokens, count, &reused, err));
    sl_reuse_describe(&reused, count, &found);
    if (report) SL_STRUCT_GIVE(sl_sync_report, report, &found);
    for (uint32_t i = 0; i < reused.stop_count; i++) {
        SL_TRY(extend_to(session, tokens, reused.stops[i], &options, reused.reused, err));
        keep(session, false);
    }
    SL_TRY(extend_to(session, tokens, count, &options, reused.reused, err));
    if (reused.reused < count) keep(session, false);
    return SL_OK;
}

sl_status sl_session_end_turn(sl_session *session, sl_error *err) {
    SL_NEED(session);
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_status status = sl_session_drain(session, err);
    if (status == SL_OK) sl_prefixes_keep(session, true);
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

sl_status sl_model_cache_on_disk(sl_model *model, const sl_disk_cache_options *given,
                                 sl_error *err) {
    SL_NEED(model);
    sl_disk_cache_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_disk_cache_options, &options, given, err));
    (void)pthread_mutex_lock(&model->lock);
    const sl_status status = sl_prefixes_open_disk(model, &options, err);
    (void)pthread_mutex_unlock(&model->lock);
    return status;
}
