/* session.c - The forward passes of a session.
 *
 * A session that generates one token after another (sl_session_next) runs one pass ahead if the
 * device samples by itself: when a token is returned, its forward pass is already in flight, and
 * the next pass is started before the host knows its token.  Any other operation drains these
 * passes first. */
#include "engine/session/session.h"
#include "core/choose.h"
#include "engine/choose/history.h"
#include "engine/session/draft.h"
#include "engine/session/keeper.h"
#include <string.h>

void sl_session_restore(sl_session *session, size_t length) {
    sl_keeper_leave(session->model->keeper, session);
    if (length > session->computed) length = session->computed;
    session->computed = sl_checkpoints_restore(&session->checkpoints, length);
    session->has_logits = false;
    sl_draft_replay(session, length);
    sl_kv_pages_truncate(sl_forward_kv_pages(session->model->forward), session->slot,
                         session->computed);
}

void sl_session_keep_logits(sl_model *model, const sl_session *next) {
    sl_session *waiting = model->waiting;
    model->waiting = NULL;
    if (!waiting || waiting == next) return;
    memcpy(waiting->logits, waiting->found, model->config.vocab * sizeof(float));
    waiting->found = waiting->logits;
}

/* Logits are large and often read only once, so they are copied only where the device may overwrite
 * them; else keep_logits copies them before the next run. */
static void take_logits(sl_session *session, const float *logits) {
    sl_model *model = session->model;
    session->found = logits;
    if (model->device_info.own_outputs) {
        model->waiting = session;
        return;
    }
    memcpy(session->logits, logits, model->config.vocab * sizeof(float));
    session->found = session->logits;
}

/* ---- passes in flight ---- */

/* Drains the passes that a session has in flight.  If this fails, its tokens must be recomputed. */
static sl_status drain(sl_model *model, sl_error *err) {
    sl_session *session = model->ahead;
    if (!session) return SL_OK;
    const int32_t *token;
    sl_forward_result result;
    model->ahead = NULL;
    sl_status status = sl_forward_finish(model->forward, &token, err);
    if (status == SL_OK) status = sl_forward_fetch(model->forward, &result, err);
    session->has_logits = status == SL_OK;
    if (status == SL_OK)
        take_logits(session, result.logits);
    else
        sl_session_restore(session, session->length - 1); /* the pass was that of the last token */
    return status;
}

void sl_session_drain_any(sl_model *model) {
    sl_error of_other;
    (void)drain(model, &of_other);
}

sl_status sl_session_drain(sl_session *session, sl_error *err) {
    sl_model *model = session->model;
    if (model->ahead == session) return drain(model, err);
    sl_session_drain_any(model);
    return SL_OK;
}

static void count_recomputed(sl_session *session, uint32_t rows) {
    if (session->computed >= session->known) return;
    const size_t again = session->known - session->computed;
    session->stats.recomputed_tokens += again < rows ? again : rows;
}

void sl_session_computed(sl_session *session, uint32_t rows) {
    count_recomputed(session, rows);
    session->computed += rows;
    if (session->computed > session->known) session->known = session->computed;
}

/* Rows from here on are wanted apart from those before. */
static bool has_begin(const sl_wanted_rows *all) {
    return all->logits || all->layers;
}

static sl_status give_layers(sl_session *session, const sl_wanted_rows *all, sl_error *err) {
    for (uint32_t i = 0;; i++) {
        sl_revealed found;
        bool any;
        SL_TRY(sl_forward_revealed(session->model->forward, i, &found, &any, err));
        if (!any) return SL_OK;
        const sl_layer_item item = {.struct_size = sizeof item,
                                    .name = found.name,
                                    .dtype = sl_dtype_infos[found.type.dtype].name,
                                    .first_token = session->computed,
                                    .rows = (uint32_t)found.type.shape.dims[0],
                                    .columns = (uint32_t)found.type.shape.dims[1],
                                    .data = found.data};
        sl_error why = {0};
        const sl_status status = all->layers(all->layers_ctx, &item, &why);
        if (status != SL_OK)
            return sl_fail(err, status, "%s",
                           why.message[0] ? why.message : "the callback for layers failed");
    }
}

/* Runs a forward pass over the next `rows` tokens. */
static sl_status run_chunk(sl_session *session, uint32_t rows, bool last, const sl_wanted_rows *all,
                           sl_error *err) {
    const sl_model_config *config = &session->model->config;
    for (uint32_t i = 0; i < rows; i++) {
        session->slots[i] = (int32_t)session->slot;
        session->positions[i] = (int32_t)(session->computed + i);
    }
    const bool wants_all = all->logits && session->computed >= all->from;
    const int32_t final_row = (int32_t)rows - 1;
    const sl_forward_rows step = {
        .count = rows,
        .wanted = wants_all ? rows : last,
        .tokens = session->tokens + session->computed,
        .slots = session->slots,
        .positions = session->positions,
        .wanted_rows = !wants_all && last && rows > 1 ? &final_row : NULL,
        .reveals = all->layers && session->computed >= all->from,
        .watch = session->watch,
    };
    sl_forward_result result;
    sl_session_keep_logits(session->model, session);
    SL_TRY(sl_forward_run(session->model->forward, &step, &result, err));
    if (wants_all) {
        const size_t row = session->computed - all->from;
        memcpy(all->logits + row * config->vocab, result.logits,
               (size_t)rows * config->vocab * sizeof(float));
        if (all->hidden)
            memcpy(all->hidden + row * config->hidden, result.hidden,
                   (size_t)rows * config->hidden * sizeof(float));
    }
    if (last) take_logits(session, result.logits + (size_t)(step.wanted - 1) * config->vocab);
    if (step.reveals) SL_TRY(give_layers(session, all, err)); /* may take the place of the logits */
    sl_session_computed(session, rows);
    return SL_OK;
}

/* Computes everything up to length; rows that are not wanted apart from those that all are. */
static sl_status catch_up(sl_session *session, const sl_wanted_rows *all, sl_error *err) {
    while (session->computed < session->length) {
        if (atomic_load(&session->cancelled))
            return sl_fail(err, SL_CANCELLED, "stopped after %zu of %zu tokens", session->computed,
                           session->length);
        size_t end = session->length;
        if (has_begin(all) && session->computed < all->from && all->from < end) end = all->from;
        size_t rows = end - session->computed;
        if (rows > session->chunk) rows = session->chunk;
        SL_TRY(run_chunk(session, (uint32_t)rows, session->computed + rows == session->length, all,
                         err));
        if (session->computed - sl_checkpoints_last(&session->checkpoints) >= SL_CHECKPOINT_TOKENS)
            SL_TRY(sl_checkpoints_save(&session->checkpoints, session->computed, err));
    }
    return SL_OK;
}

void sl_session_account(sl_session *session, uint64_t tokens, double seconds) {
    sl_stats *stats = &session->stats;
    if (!stats->decode_tokens && !stats->prefill_tokens) stats->first_seconds = seconds;
    if (tokens == 1) {
        stats->decode_tokens++;
        stats->decode_seconds += seconds;
    } else {
        stats->prefill_tokens += tokens;
        stats->prefill_seconds += seconds;
    }
}

sl_status sl_session_append(sl_session *session, const sl_token *tokens, size_t count,
                            sl_error *err) {
    const sl_model *model = session->model;
    if (count == 0) return sl_fail(err, SL_INVALID, "no tokens to extend with");
    if (count > session->context - session->length)
        return sl_fail(err, SL_INVALID,
                       "%zu tokens after %zu do not fit the context of %u; open the %s with a "
                       "larger one",
                       count, session->length, session->context,
                       session->context < model->context_tokens ? "session" : "model");
    SL_TRY(sl_tokens_check(tokens, count, model->config.vocab, err));
    sl_draft_truncate(session, session->length);
    sl_keeper_leave(session->model->keeper, session);
    memcpy(session->tokens + session->length, tokens, count * sizeof *tokens);
    session->length += count;
    return SL_OK;
}

sl_status sl_session_advance(sl_session *session, const sl_wanted_rows *all, bool save,
                             sl_error *err) {
    session->has_logits = false;
    sl_status status = catch_up(session, all, err);
    if (status == SL_OK && save)
        status = sl_checkpoints_save(&session->checkpoints, session->computed, err);
    /* Of the tokens that this call brought, those that are computed stay; the others wait. */
    if (status != SL_OK)
        session->length = all->from > session->computed ? all->from : session->computed;
    if (status != SL_OK && status != SL_CANCELLED)
        sl_session_restore(
            session, session->length); /* the failed step may have changed the state halfway */
    const bool cancelled = atomic_exchange(&session->cancelled, false);
    session->has_logits = status == SL_OK;
    if (status == SL_OK && cancelled) /* in the last pass, whose tokens stay */
        return sl_fail(err, SL_CANCELLED, "stopped after %zu tokens", session->length);
    return status;
}

/* ---- sampling ---- */

static sl_status check_sampled(const sl_session *session, sl_token token, sl_error *err) {
    if (token >= 0) return SL_OK;
    return sl_fail(err, SL_FORMAT,
                   "no logit after %zu tokens is a number: the weights of the model are damaged",
                   session->length);
}

sl_status sl_session_need_logits(sl_session *session, sl_error *err) {
    const sl_wanted_rows none = {.from = session->length};
    SL_TRY(sl_session_drain(session, err));
    if (session->length == 0)
        return sl_fail(err, SL_INVALID, "nothing to sample from: extend the session first");
    if (session->has_logits) return SL_OK;
    if (session->computed == session->length) sl_session_restore(session, session->length - 1);
    return sl_session_advance(session, &none, false, err);
}

sl_status sl_session_choose(sl_session *session, const sl_sampling *sampling, sl_token *out,
                            sl_error *err) {
    SL_TRY(sl_session_need_logits(session, err));
    *out = sl_sample(session->found, session->model->config.vocab, sampling, session->length,
                     session->candidates);
    return check_sampled(session, *out, err);
}

/* ---- sampling on the device, one pass ahead ---- */

static bool is_same(const sl_sampling *a, const sl_sampling *b) {
    return a->temperature == b->temperature && a->top_k == b->top_k && a->top_p == b->top_p &&
           a->min_p == b->min_p && a->seed == b->seed;
}

/* Starts the forward pass of the token at `position`; -1: of the token that is being sampled. */
static sl_status start_step(sl_session *session, size_t position, sl_token token,
                            const sl_sampling *sampling, sl_error *err) {
    const sl_choice choice = sl_sample_choice(sampling, position + 1);
    const double columns[] = {[SL_CHOOSE_TEMPERATURE] = (double)choice.temperature,
                              [SL_CHOOSE_TOP_K] = choice.top_k,
                              [SL_CHOOSE_TOP_P] = (double)choice.top_p,
                              [SL_CHOOSE_MIN_P] = (double)choice.min_p,
                              [SL_CHOOSE_SHARE] = choice.share};
    const int32_t slot = (int32_t)session->slot, at = (int32_t)position;
    const sl_forward_rows step = {.count = 1,
                                  .wanted = 1,
                                  .tokens = &token,
                                  .slots = &slot,
                                  .positions = &at,
                                  .sampling = columns};
    sl_session_keep_logits(session->model, session);
    return sl_forward_start(session->model->forward, &step, err);
}

/* The first token is sampled on the host, then its forward pass is started. */
static sl_status start_pipeline(sl_session *session, const sl_sampling *sampling, sl_token *out,
                                sl_error *err) {
    sl_model *model = session->model;
    SL_TRY(sl_session_choose(session, sampling, out, err));
    SL_TRY(sl_session_append(session, out, 1, err));
    session->has_logits = false;
    if (session->watch || !sl_forward_can_choose(model->forward))
        return SL_OK; /* computed when the next is asked for */
    const sl_status status = start_step(session, session->length - 1, *out, sampling, err);
    if (status != SL_OK) {
        session->length--;
        sl_session_restore(session, session->length);
        return status;
    }
    session->computed = session->known = session->length;
    session->ahead = *sampling;
    model->ahead = session;
    return SL_OK;
}

/* The token that the pass in flight samples; its own pass is started first. */
static sl_status continue_pipeline(sl_session *session, const sl_sampling *sampling, sl_token *out,
                                   sl_error *err) {
    sl_model *model = session->model;
    const int32_t *chosen;
    SL_TRY(start_step(session, session->length, -1, sampling, err));
    sl_status status = sl_forward_finish(model->forward, &chosen, err);
    if (status == SL_OK) {
        *out = *chosen;
        status = check_sampled(session, *out, err);
        if (status == SL_OK) status = sl_session_append(session, out, 1, err);
    }
    if (status == SL_OK) {
        session->computed = session->known = session->length;
        return SL_OK;
    }
    sl_error of_next;
    (void)drain(model, &of_next);
    sl_session_restore(session, session->length - 1);
    return status;
}

sl_status sl_session_need_room(sl_session *session, sl_error *err) {
    if (session->length == session->context)
        return sl_fail(err, SL_INVALID,
                       "the context of %u tokens is full; open the %s with a larger one",
                       session->context,
                       session->context < session->model->context_tokens ? "session" : "model");
    if (atomic_exchange(&session->cancelled, false))
        return sl_fail(err, SL_CANCELLED, "stopped after %zu tokens", session->length);
    return SL_OK;
}

sl_status sl_session_generate(sl_session *session, const sl_sampling *sampling, sl_token *out,
                              sl_error *err) {
    SL_TRY(sl_session_need_room(session, err));
    return session->model->ahead == session && is_same(sampling, &session->ahead)
               ? continue_pipeline(session, sampling, out, err)
               : start_pipeline(session, sampling, out, err);
}
