/* session.c - Sessions (sluice/sluice.h): checks what it is given and takes the model's lock. */
#include "api/needs.h"
#include "api/sampling.h"
#include "base/clock.h"
#include "base/structs.h"
#include "engine/inspect/watch.h"
#include "engine/session/batch.h"
#include "engine/session/choose_by.h"
#include "engine/session/draft.h"
#include "engine/session/keeper.h"
#include "sluice/inspect.h"
#include "sluice/sessions.h"
#include <string.h>

static sl_status allocate(sl_session *session, uint32_t checkpoints, sl_error *err) {
    const sl_model *model = session->model;
    sl_arena *arena = &session->arena;
    session->tokens = SL_ARENA_NEW_ARRAY(arena, sl_token, session->context);
    session->logits = SL_ARENA_NEW_ARRAY(arena, float, model->config.vocab);
    session->candidates =
        SL_ARENA_NEW_ARRAY(arena, sl_candidate, sl_choose_candidates(model->config.vocab));
    session->slots = SL_ARENA_NEW_ARRAY(arena, int32_t, session->chunk);
    session->positions = SL_ARENA_NEW_ARRAY(arena, int32_t, session->chunk);
    if (!session->tokens || !session->logits || !session->candidates || !session->slots ||
        !session->positions)
        return sl_no_memory(err, "a session", session->context);
    return sl_checkpoints_init(&session->checkpoints, model->forward, session->slot, checkpoints,
                               err);
}

static sl_status take_slot(sl_model *model, uint32_t *out, sl_error *err) {
    sl_status status = SL_OK;
    (void)pthread_mutex_lock(&model->lock);
    uint32_t slot = 0;
    while (slot < model->slots && model->slot_taken[slot]) slot++;
    if (slot < model->slots)
        model->slot_taken[slot] = true;
    else
        status = sl_fail(err, SL_INVALID,
                         "all %u sessions of this model are in use; open it with a larger "
                         "max_sessions",
                         model->slots);
    (void)pthread_mutex_unlock(&model->lock);
    *out = slot;
    return status;
}

sl_status sl_session_create(sl_model *model, const sl_session_options *given, sl_session **out,
                            sl_error *err) {
    SL_NEED(model && out);
    sl_session_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_session_options, &options, given, err));
    const uint32_t chunk = options.chunk_tokens ? options.chunk_tokens : model->chunk_tokens;
    if (chunk > SL_MAX_FORWARD_ROWS)
        return sl_fail(err, SL_INVALID, "a chunk of %u tokens, wanted at most %d", chunk,
                       SL_MAX_FORWARD_ROWS);
    if (options.context_tokens > model->context_tokens)
        return sl_fail(err, SL_INVALID, "a context of %u tokens, the model was opened with %u",
                       options.context_tokens, model->context_tokens);
    uint32_t slot;
    SL_TRY(take_slot(model, &slot, err));
    sl_arena arena;
    sl_arena_init(&arena, &model->allocator);
    sl_session *session = SL_ARENA_NEW(&arena, sl_session);
    if (!session) {
        (void)pthread_mutex_lock(&model->lock);
        model->slot_taken[slot] = false;
        (void)pthread_mutex_unlock(&model->lock);
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a session", sizeof *session);
    }
    session->arena = arena;
    session->model = model;
    session->slot = slot;
    session->chunk = chunk;
    session->context = options.context_tokens ? options.context_tokens : model->context_tokens;
    const sl_status status = allocate(session, options.checkpoints, err);
    if (status == SL_OK)
        *out = session;
    else
        sl_session_destroy(session);
    return status;
}

void sl_session_destroy(sl_session *session) {
    if (!session) return;
    sl_error of_none;
    (void)pthread_mutex_lock(&session->model->lock);
    (void)sl_session_drain(session, &of_none);
    sl_batch_leave(session);
    sl_keeper_leave(session->model->keeper, session);
    sl_watcher_destroy(sl_watcher_of(session));
    sl_checkpoints_deinit(&session->checkpoints);
    sl_kv_pages_truncate(sl_forward_kv_pages(session->model->forward), session->slot, 0);
    session->model->slot_taken[session->slot] = false;
    if (session->model->waiting == session) session->model->waiting = NULL;
    if (session->model->drafted == session) session->model->drafted = NULL;
    (void)pthread_mutex_unlock(&session->model->lock);
    sl_arena arena = session->arena; /* the session itself lives in it */
    sl_arena_deinit(&arena);
}

/* Calls that compute hold the model's lock, so that all experts used meanwhile are the session's.
 */
static void begin_call(sl_session *session) {
    (void)pthread_mutex_lock(&session->model->lock);
    session->experts_before = sl_expert_store_stats(session->model->store);
}

static void end_call(sl_session *session) {
    const sl_expert_stats now = sl_expert_store_stats(session->model->store);
    const sl_expert_stats *before = &session->experts_before;
    sl_stats *stats = &session->stats;
    stats->expert_hits += now.hits - before->hits;
    stats->expert_misses += now.misses - before->misses;
    stats->expert_first_reads += now.first_reads - before->first_reads;
    stats->bytes_read += now.bytes_read - before->bytes_read;
    stats->read_seconds += now.read_seconds - before->read_seconds;
    stats->stall_seconds += now.stall_seconds - before->stall_seconds;
    (void)pthread_mutex_unlock(&session->model->lock);
}

/* The call has added `count` tokens and computed those again that it had to. */
static void account(sl_session *session, size_t count, uint64_t recomputed_before, double start) {
    const uint64_t recomputed = session->stats.recomputed_tokens - recomputed_before;
    sl_session_account(session, count + recomputed, sl_clock_seconds() - start);
}

static sl_status extend(sl_session *session, const sl_token *tokens, size_t count,
                        sl_wanted_rows all, sl_error *err) {
    const double start = sl_clock_seconds();
    const size_t before = session->length;
    const uint64_t recomputed = session->stats.recomputed_tokens;
    all.from = before;
    begin_call(session);
    sl_status status = sl_session_drain(session, err);
    if (status == SL_OK) status = sl_session_append(session, tokens, count, err);
    if (status == SL_OK) status = sl_session_advance(session, &all, count > 1, err);
    end_call(session);
    if (session->length > before) account(session, session->length - before, recomputed, start);
    return status;
}

sl_status sl_session_extend(sl_session *session, const sl_token *tokens, size_t count,
                            sl_error *err) {
    SL_NEED(session && (tokens || !count));
    return extend(session, tokens, count, (sl_wanted_rows){0}, err);
}

sl_status sl_session_extend_all(sl_session *session, const sl_token *tokens, size_t count,
                                float *out_logits, float *out_hidden, sl_error *err) {
    SL_NEED(session && (tokens || !count));
    if (!out_logits) return sl_fail(err, SL_INVALID, "no room for the logits");
    return extend(session, tokens, count,
                  (sl_wanted_rows){.logits = out_logits, .hidden = out_hidden}, err);
}

sl_status sl_session_draft(sl_session *session, const sl_token *tokens, size_t count,
                           float *out_logits, sl_error *err) {
    SL_NEED(session && (tokens || !count) && out_logits);
    const double start = sl_clock_seconds();
    begin_call(session);
    const sl_status status = sl_draft_run(session, tokens, count, out_logits, err);
    end_call(session);
    if (status == SL_OK) sl_session_account(session, count, sl_clock_seconds() - start);
    return status;
}

sl_status sl_session_extend_layers(sl_session *session, const sl_token *tokens, size_t count,
                                   const sl_layer_options *given, sl_error *err) {
    SL_NEED(session && (tokens || !count) && given);
    sl_layer_options options = {0};
    SL_TRY(SL_STRUCT_TAKE(sl_layer_options, &options, given, err));
    if (!options.layers) return sl_fail(err, SL_INVALID, "no callback for the values of layers");
    if (options.hidden && !options.logits)
        return sl_fail(err, SL_INVALID, "hidden states without room for the logits");
    const sl_wanted_rows all = {.logits = options.logits,
                                .hidden = options.hidden,
                                .layers = options.layers,
                                .layers_ctx = options.ctx};
    return extend(session, tokens, count, all, err);
}

const float *sl_session_logits(const sl_session *session, size_t *out_count) {
    SL_NEED_OR(NULL, session);
    sl_model *model = session->model;
    if (out_count) *out_count = session->has_logits ? model->config.vocab : 0;
    if (!session->has_logits) return NULL;
    (void)pthread_mutex_lock(&model->lock);
    if (model->waiting == session) sl_session_keep_logits(model, NULL);
    (void)pthread_mutex_unlock(&model->lock);
    return session->logits;
}

size_t sl_session_length(const sl_session *session) {
    SL_NEED_OR(0, session);
    return session->length;
}

sl_status sl_session_rewind(sl_session *session, size_t length, sl_error *err) {
    SL_NEED(session);
    if (length > session->length)
        return sl_fail(err, SL_INVALID, "cannot rewind to %zu tokens: the session has %zu", length,
                       session->length);
    if (length == session->length) return SL_OK;
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_status status = sl_session_drain(session, err);
    session->length = length;
    if (session->computed > length) sl_session_restore(session, length);
    if (session->known > length) session->known = length;
    session->has_logits = false;
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

sl_status sl_session_fake_context(sl_session *session, size_t length, sl_error *err) {
    SL_NEED(session);
    const uint32_t context = session->context;
    const size_t before = session->length;
    if (before == 0 || session->computed != before || length < before || length > context)
        return sl_fail(err, SL_INVALID,
                       "cannot simulate %zu tokens after %zu: wanted at least one, and no more "
                       "than the context of %u",
                       length, before, context);
    (void)pthread_mutex_lock(&session->model->lock);
    sl_status status = sl_session_drain(session, err);
    if (status == SL_OK)
        status = sl_forward_fake_kv(session->model->forward, session->slot, (uint32_t)length, err);
    if (status == SL_OK) {
        for (size_t i = before; i < length; i++) session->tokens[i] = session->tokens[before - 1];
        session->length = session->computed = session->known = length;
        status = sl_checkpoints_save(&session->checkpoints, length, err);
    }
    session->has_logits = false;
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

void sl_session_cancel(sl_session *session) {
    if (!session) return;
    atomic_store(&session->cancelled, true);
}

static sl_status take_sampling(const sl_sampling *given, sl_sampling *sampling, sl_error *err) {
    *sampling = (sl_sampling){0};
    SL_TRY(SL_STRUCT_TAKE(sl_sampling, sampling, given, err));
    if (sampling->temperature >= 0 && sampling->top_p >= 0 && sampling->top_p <= 1 &&
        sampling->min_p >= 0 && sampling->min_p <= 1)
        return SL_OK;
    if (!(sampling->temperature >= 0))
        return sl_fail(err, SL_INVALID, "sampling: temperature %g, wanted at least 0",
                       (double)sampling->temperature);
    const bool top = !(sampling->top_p >= 0 && sampling->top_p <= 1);
    return sl_fail(err, SL_INVALID, "sampling: %s %g, wanted 0 to 1", top ? "top-p" : "min-p",
                   (double)(top ? sampling->top_p : sampling->min_p));
}

sl_status sl_session_sample(sl_session *session, const sl_sampling *given, sl_token *out,
                            sl_error *err) {
    SL_NEED(session && given && out);
    sl_sampling sampling;
    SL_TRY(take_sampling(given, &sampling, err));
    begin_call(session);
    const sl_status status = sl_session_choose(session, &sampling, out, err);
    end_call(session);
    return status;
}

sl_status sl_session_next(sl_session *session, const sl_sampling *given, sl_token *out,
                          sl_error *err) {
    SL_NEED(session && given && out);
    sl_sampling sampling;
    const double start = sl_clock_seconds();
    const uint64_t recomputed = session->stats.recomputed_tokens;
    SL_TRY(take_sampling(given, &sampling, err));
    begin_call(session);
    const sl_status status = sl_session_generate(session, &sampling, out, err);
    end_call(session);
    if (status == SL_OK) account(session, 1, recomputed, start);
    return status;
}

sl_status sl_session_sample_by(sl_session *session, sl_sampler *sampler, const uint32_t *allowed,
                               sl_token *out, sl_error *err) {
    SL_NEED(session && sampler && out);
    begin_call(session);
    const sl_status status = sl_session_choose_by(session, sampler, allowed, out, err);
    end_call(session);
    return status;
}

sl_status sl_session_next_by(sl_session *session, sl_sampler *sampler, const uint32_t *allowed,
                             sl_token *out, sl_error *err) {
    SL_NEED(session && sampler && out);
    const double start = sl_clock_seconds();
    const uint64_t recomputed = session->stats.recomputed_tokens;
    begin_call(session);
    const sl_status status = sl_session_generate_by(session, sampler, allowed, out, err);
    end_call(session);
    if (status == SL_OK) account(session, 1, recomputed, start);
    return status;
}

/* With the model's lock held. */
static sl_stats read_stats(const sl_session *session) {
    sl_stats stats = session->stats;
    const sl_forward_stats steps = sl_forward_describe(session->model->forward);
    stats.programs_compiled = steps.compiled;
    stats.compile_seconds = steps.compile_seconds;
    stats.build_seconds = steps.build_seconds;
    stats.fuse_seconds = steps.fuse_seconds;
    stats.lower_seconds = steps.lower_seconds;
    stats.schedule_seconds = steps.schedule_seconds;
    stats.plan_seconds = steps.plan_seconds;
    stats.load_seconds = steps.load_seconds;
    const sl_device_stats device = sl_device_stats_of(session->model->device);
    stats.device_hits = device.expert_hits;
    stats.device_misses = device.expert_misses;
    stats.device_bytes_copied = device.expert_bytes_copied;
    stats.device_runs = device.runs;
    stats.launch_seconds = device.launch_seconds;
    return stats;
}

sl_status sl_session_stats(const sl_session *session, sl_stats *out, sl_error *err) {
    SL_NEED(session && out);
    SL_TRY(SL_STRUCT_CHECK(sl_stats, out, err));
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_stats stats = read_stats(session);
    (void)pthread_mutex_unlock(&session->model->lock);
    SL_STRUCT_GIVE(sl_stats, out, &stats);
    return SL_OK;
}

sl_status sl_sampling_take(const sl_sampling *given, sl_sampling *out, sl_error *err) {
    return take_sampling(given, out, err);
}
