/* batch.c - Batches (sluice/batch.h): checks what it is given and takes the model's lock. */
#include "engine/session/batch.h"
#include "api/needs.h"
#include "base/structs.h"

sl_status sl_batch_create(sl_model *model, const sl_batch_options *given, sl_batch **out,
                          sl_error *err) {
    SL_NEED(model && out);
    sl_batch_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_batch_options, &options, given, err));
    return sl_batch_make(model, options.most_rows, out, err);
}

void sl_batch_destroy(sl_batch *batch) {
    if (!batch) return;
    sl_model *model = batch->model;
    (void)pthread_mutex_lock(&model->lock);
    sl_batch_release(batch);
    (void)pthread_mutex_unlock(&model->lock);
}

sl_status sl_batch_add(sl_batch *batch, sl_session *session, const sl_token *tokens, size_t count,
                       uint32_t most_rows, uint32_t *out_rows, sl_error *err) {
    SL_NEED(batch && session && (tokens || !count));
    (void)pthread_mutex_lock(&batch->model->lock);
    const sl_status status = sl_batch_take(batch, session, tokens, count, most_rows, out_rows, err);
    (void)pthread_mutex_unlock(&batch->model->lock);
    return status;
}

sl_status sl_batch_run(sl_batch *batch, sl_error *err) {
    SL_NEED(batch);
    (void)pthread_mutex_lock(&batch->model->lock);
    const sl_status status = sl_batch_pass(batch, err);
    (void)pthread_mutex_unlock(&batch->model->lock);
    return status;
}

sl_status sl_batch_session_status(const sl_batch *batch, const sl_session *session, sl_error *err) {
    SL_NEED(batch && session);
    (void)pthread_mutex_lock(&batch->model->lock);
    const sl_batch_entry *entry = sl_batch_entry_of(batch, session);
    const sl_error found = entry ? entry->error : (sl_error){0};
    const bool known = entry && batch->has_run;
    (void)pthread_mutex_unlock(&batch->model->lock);
    if (!known) return sl_fail(err, SL_INVALID, "the session was not in the last pass");
    if (found.status != SL_OK && err) *err = found;
    return found.status;
}

sl_status sl_batch_describe(const sl_batch *batch, sl_batch_stats *out, sl_error *err) {
    SL_NEED(batch && out);
    SL_TRY(SL_STRUCT_CHECK(sl_batch_stats, out, err));
    (void)pthread_mutex_lock(&batch->model->lock);
    const sl_batch_stats stats = batch->stats;
    (void)pthread_mutex_unlock(&batch->model->lock);
    SL_STRUCT_GIVE(sl_batch_stats, out, &stats);
    return SL_OK;
}
