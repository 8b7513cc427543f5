#include "engine/session/draft.h"
#include <string.h>

static void rows_of(const sl_session *session, size_t first, uint32_t count,
                    int32_t slots[SL_MOST_DRAFT_TOKENS], int32_t positions[SL_MOST_DRAFT_TOKENS]) {
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = (int32_t)session->slot;
        positions[i] = (int32_t)(first + i);
    }
}

static bool has_recurrent(const sl_model *model) {
    return sl_forward_recurrent_bytes(model->forward) > 0;
}

static sl_status run_pass(sl_session *session, uint32_t count, float *logits, sl_error *err) {
    sl_model *model = session->model;
    int32_t slots[SL_MOST_DRAFT_TOKENS], positions[SL_MOST_DRAFT_TOKENS];
    rows_of(session, session->computed, count, slots, positions);
    const sl_forward_rows rows = {.count = count,
                                  .wanted = count,
                                  .tokens = session->tokens + session->computed,
                                  .slots = slots,
                                  .positions = positions,
                                  .keeps = true};
    sl_forward_result result;
    const size_t vocab = model->config.vocab;
    sl_session_keep_logits(model, NULL);
    model->drafted = NULL;
    SL_TRY(sl_forward_run(model->forward, &rows, &result, err));
    memcpy(logits, result.logits, count * vocab * sizeof *logits);
    if (has_recurrent(model)) SL_TRY(sl_forward_keep(model->forward, err));
    memcpy(session->logits, logits + (count - 1) * vocab, vocab * sizeof *logits);
    session->found = session->logits;
    return SL_OK;
}

/* Everything before the draft is computed, and a checkpoint is there. */
static sl_status prepare(sl_session *session, sl_error *err) {
    const sl_wanted_rows none = {.from = session->length};
    SL_TRY(sl_session_drain(session, err));
    if (session->computed < session->length) SL_TRY(sl_session_advance(session, &none, false, err));
    return sl_checkpoints_save(&session->checkpoints, session->computed, err);
}

sl_status sl_draft_run(sl_session *session, const sl_token *tokens, size_t count, float *logits,
                       sl_error *err) {
    const uint32_t most = sl_forward_options_of(session->model->forward)->draft_rows;
    if (count > most)
        return sl_fail(err, SL_INVALID,
                       "a draft of %zu tokens, the model was opened for at most %u", count, most);
    SL_TRY(prepare(session, err));
    const size_t before = session->length;
    SL_TRY(sl_session_append(session, tokens, count, err));
    session->has_logits = false;
    const sl_status status = run_pass(session, (uint32_t)count, logits, err);
    if (status != SL_OK) {
        session->length = before;
        sl_session_restore(session, before);
        return status;
    }
    sl_session_computed(session, (uint32_t)count);
    session->has_logits = true;
    session->model->drafted = session;
    session->draft_from = before;
    session->draft_rows = (uint32_t)count;
    return SL_OK;
}

void sl_draft_replay(sl_session *session, size_t length) {
    sl_model *model = session->model;
    const size_t from = session->draft_from;
    if (model->drafted != session || session->computed != from || length <= from ||
        length > from + session->draft_rows || !has_recurrent(model))
        return;
    int32_t slots[SL_MOST_DRAFT_TOKENS], positions[SL_MOST_DRAFT_TOKENS];
    const uint32_t count = (uint32_t)(length - from);
    rows_of(session, from, count, slots, positions);
    const sl_forward_rows rows = {
        .count = count, .tokens = session->tokens + from, .slots = slots, .positions = positions};
    sl_error of_replay;
    if (sl_forward_replay(model->forward, &rows, &of_replay) == SL_OK)
        session->computed = length;
    else /* it may have changed the state halfway */
        session->computed = sl_checkpoints_restore(&session->checkpoints, from);
}

void sl_draft_truncate(sl_session *session, size_t length) {
    const size_t from = session->draft_from;
    if (length >= from + session->draft_rows) return;
    session->draft_rows = length > from ? (uint32_t)(length - from) : 0;
}
