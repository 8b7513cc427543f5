/* session.c - One conversation: its tokens, and how many of them the model's state includes.
 *
 * tokens[0 .. length) is the conversation; the slot's state stands after tokens[0 .. computed).
 * Recurrent state cannot be truncated, so rewinding restores the last checkpoint or starts over,
 * and the next extend recomputes the missing tokens.  The same recovers from a failed forward pass.
 *
 * A session that generates one token after another (sl_session_next) runs one pass ahead if the
 * device samples by itself: when a token is returned, its forward pass is already in flight, and
 * the next pass is started before the host knows its token.  Any other operation drains these
 * passes first. */
#include "base/clock.h"
#include "core/choose.h"
#include "engine/model.h"
#include "engine/session/sample.h"
#include "sluice/inspect.h"
#include <stdatomic.h>
#include <string.h>

struct sl_session {
    sl_model *model;
    sl_arena arena;
    uint32_t slot, chunk;
    sl_token *tokens; /* [context] */
    size_t length, computed;
    float *logits;      /* [vocab], after the last token */
    const float *found; /* where they are: there, or still in a step's result */
    bool has_logits;
    sl_candidate *candidates;   /* of sl_sample */
    int32_t *slots, *positions; /* [chunk] */
    void *checkpoint;           /* recurrent state after checkpoint_length tokens */
    size_t checkpoint_length;
    atomic_bool cancelled;
    sl_stats stats;
    sl_expert_stats experts_before;
    sl_sampling ahead; /* how the next token is being chosen, where model->ahead is this session */
};

static sl_status allocate(sl_session *session, sl_error *err) {
    const sl_model *model = session->model;
    const uint64_t recurrent = sl_steps_recurrent_bytes(model->steps);
    sl_arena *arena = &session->arena;
    session->tokens = SL_ARENA_NEW_ARRAY(arena, sl_token, model->context_tokens);
    session->logits = SL_ARENA_NEW_ARRAY(arena, float, model->config.vocab);
    session->candidates =
        SL_ARENA_NEW_ARRAY(arena, sl_candidate, sl_choose_candidates(model->config.vocab));
    session->slots = SL_ARENA_NEW_ARRAY(arena, int32_t, session->chunk);
    session->positions = SL_ARENA_NEW_ARRAY(arena, int32_t, session->chunk);
    session->checkpoint = sl_steps_checkpoint_create(model->steps);
    if (session->tokens && session->logits && session->candidates && session->slots &&
        session->positions && session->checkpoint)
        return SL_OK;
    return sl_no_memory(err, "a session", recurrent);
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

sl_status sl_session_create(sl_model *model, const sl_session_options *options, sl_session **out,
                            sl_error *err) {
    uint32_t chunk = options && options->chunk_tokens ? options->chunk_tokens : model->chunk_tokens;
    if (chunk > SL_MAX_STEP_ROWS)
        return sl_fail(err, SL_INVALID, "a chunk of %u tokens, wanted at most %d", chunk,
                       SL_MAX_STEP_ROWS);
    uint32_t slot;
    SL_TRY(take_slot(model, &slot, err));
    sl_arena arena;
    sl_arena_init(&arena, &model->allocator);
    sl_session *session = SL_ARENA_NEW(&arena, sl_session);
    if (!session) {
        model->slot_taken[slot] = false;
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a session", sizeof *session);
    }
    session->arena = arena;
    session->model = model;
    session->slot = slot;
    session->chunk = chunk;
    session->experts_before = sl_expert_store_stats(model->store);
    const sl_status status = allocate(session, err);
    if (status == SL_OK)
        *out = session;
    else
        sl_session_destroy(session);
    return status;
}

/* Restores a valid state at or before `length`. */
static void restore(sl_session *session, size_t length) {
    session->computed = 0;
    session->has_logits = false;
    if (session->checkpoint_length == 0 || session->checkpoint_length > length) return;
    if (sl_steps_load_recurrent(session->model->steps, session->slot, session->checkpoint, NULL) ==
        SL_OK)
        session->computed = session->checkpoint_length;
}

static sl_status save_checkpoint(sl_session *session, sl_error *err) {
    session->checkpoint_length = 0;
    SL_TRY(sl_steps_save_recurrent(session->model->steps, session->slot, session->checkpoint, err));
    session->checkpoint_length = session->computed;
    return SL_OK;
}

/* The result of the last forward pass is about to be overwritten: saves the logits of its session
 * unless that is `next`. */
static void keep_logits(sl_model *model, const sl_session *next) {
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
static sl_status settle(sl_model *model, sl_error *err) {
    sl_session *session = model->ahead;
    if (!session) return SL_OK;
    const int32_t *token;
    sl_step_result result;
    model->ahead = NULL;
    sl_status status = sl_steps_finish(model->steps, &token, err);
    if (status == SL_OK) status = sl_steps_fetch(model->steps, &result, err);
    session->has_logits = status == SL_OK;
    if (status == SL_OK)
        take_logits(session, result.logits);
    else
        restore(session, session->length);
    return status;
}

/* Drains pending work before other work for a session; an error of another session is reported on
 * its next call. */
static sl_status settle_for(sl_session *session, sl_error *err) {
    sl_error of_other;
    sl_model *model = session->model;
    if (model->ahead == session) return settle(model, err);
    (void)settle(model, &of_other);
    return SL_OK;
}

void sl_session_destroy(sl_session *session) {
    if (!session) return;
    sl_error of_none;
    (void)pthread_mutex_lock(&session->model->lock);
    (void)settle_for(session, &of_none);
    sl_steps_checkpoint_destroy(session->model->steps, session->checkpoint);
    session->model->slot_taken[session->slot] = false;
    if (session->model->waiting == session) session->model->waiting = NULL;
    (void)pthread_mutex_unlock(&session->model->lock);
    sl_arena arena = session->arena; /* the session itself lives in it */
    sl_arena_deinit(&arena);
}

typedef struct {
    float *logits, *hidden; /* NULL unless every row is wanted */
    size_t from;            /* the token of the first row in them */
} wanted_rows;

/* Runs a forward pass over the next `rows` tokens. */
static sl_status run_chunk(sl_session *session, uint32_t rows, bool last, const wanted_rows *all,
                           sl_error *err) {
    const sl_model_config *config = &session->model->config;
    for (uint32_t i = 0; i < rows; i++) {
        session->slots[i] = (int32_t)session->slot;
        session->positions[i] = (int32_t)(session->computed + i);
    }
    const bool wants_all = all->logits && session->computed >= all->from;
    const int32_t final_row = (int32_t)rows - 1;
    const sl_step_rows step = {
        .count = rows,
        .wanted = wants_all ? rows : last,
        .tokens = session->tokens + session->computed,
        .slots = session->slots,
        .positions = session->positions,
        .wanted_rows = !wants_all && last && rows > 1 ? &final_row : NULL,
    };
    sl_step_result result;
    keep_logits(session->model, session);
    SL_TRY(sl_steps_run(session->model->steps, &step, &result, err));
    if (wants_all) {
        const size_t row = session->computed - all->from;
        memcpy(all->logits + row * config->vocab, result.logits,
               (size_t)rows * config->vocab * sizeof(float));
        if (all->hidden)
            memcpy(all->hidden + row * config->hidden, result.hidden,
                   (size_t)rows * config->hidden * sizeof(float));
    }
    if (last) take_logits(session, result.logits + (size_t)(step.wanted - 1) * config->vocab);
    session->computed += rows;
    return SL_OK;
}

/* Computes everything up to length; rows that are not wanted apart from those that all are. */
static sl_status catch_up(sl_session *session, const wanted_rows *all, sl_error *err) {
    while (session->computed < session->length) {
        if (atomic_load(&session->cancelled))
            return sl_fail(err, SL_CANCELLED, "stopped after %zu of %zu tokens", session->computed,
                           session->length);
        size_t end = session->length;
        if (all->logits && session->computed < all->from && all->from < end) end = all->from;
        size_t rows = end - session->computed;
        if (rows > session->chunk) rows = session->chunk;
        SL_TRY(run_chunk(session, (uint32_t)rows, session->computed + rows == session->length, all,
                         err));
    }
    return SL_OK;
}

static sl_status append(sl_session *session, const sl_token *tokens, size_t count, sl_error *err) {
    const sl_model *model = session->model;
    if (count == 0) return sl_fail(err, SL_INVALID, "no tokens to extend with");
    if (count > model->context_tokens - session->length)
        return sl_fail(err, SL_INVALID,
                       "%zu tokens after %zu do not fit the context of %u; open the model with a "
                       "larger one",
                       count, session->length, model->context_tokens);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= model->config.vocab)
            return sl_fail(err, SL_INVALID, "token %zu is %d, the vocabulary has %u", i, tokens[i],
                           model->config.vocab);
    memcpy(session->tokens + session->length, tokens, count * sizeof *tokens);
    session->length += count;
    return SL_OK;
}

static void account(sl_session *session, size_t count, double start) {
    sl_stats *stats = &session->stats;
    const double seconds = sl_clock_seconds() - start;
    if (!stats->decode_tokens && !stats->prefill_tokens) stats->first_seconds = seconds;
    if (count == 1) {
        stats->decode_tokens++;
        stats->decode_seconds += seconds;
    } else {
        stats->prefill_tokens += count;
        stats->prefill_seconds += seconds;
    }
}

/* Computes all tokens; called with the lock.  On failure the session keeps the tokens computed so
 * far. */
static sl_status advance(sl_session *session, const wanted_rows *all, bool save, sl_error *err) {
    session->has_logits = false;
    sl_status status = catch_up(session, all, err);
    if (status == SL_OK && save) status = save_checkpoint(session, err);
    if (status != SL_OK) session->length = session->computed;
    if (status != SL_OK && status != SL_CANCELLED)
        restore(session, session->length); /* the failed step may have changed the state halfway */
    atomic_store(&session->cancelled, false);
    session->has_logits = status == SL_OK;
    return status;
}

static sl_status extend(sl_session *session, const sl_token *tokens, size_t count, float *logits,
                        float *hidden, sl_error *err) {
    const double start = sl_clock_seconds();
    const size_t before = session->length;
    const wanted_rows all = {logits, hidden, before};
    (void)pthread_mutex_lock(&session->model->lock);
    sl_status status = settle_for(session, err);
    if (status == SL_OK) status = append(session, tokens, count, err);
    if (status == SL_OK) status = advance(session, &all, count > 1, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    if (session->length > before) account(session, session->length - before, start);
    return status;
}

sl_status sl_session_extend(sl_session *session, const sl_token *tokens, size_t count,
                            sl_error *err) {
    return extend(session, tokens, count, NULL, NULL, err);
}

sl_status sl_session_extend_all(sl_session *session, const sl_token *tokens, size_t count,
                                float *out_logits, float *out_hidden, sl_error *err) {
    if (!out_logits) return sl_fail(err, SL_INVALID, "no room for the logits");
    return extend(session, tokens, count, out_logits, out_hidden, err);
}

const float *sl_session_logits(const sl_session *session, size_t *out_count) {
    sl_model *model = session->model;
    if (out_count) *out_count = session->has_logits ? model->config.vocab : 0;
    if (!session->has_logits) return NULL;
    (void)pthread_mutex_lock(&model->lock);
    if (model->waiting == session) keep_logits(model, NULL);
    (void)pthread_mutex_unlock(&model->lock);
    return session->logits;
}

size_t sl_session_length(const sl_session *session) {
    return session->length;
}

sl_status sl_session_rewind(sl_session *session, size_t length, sl_error *err) {
    if (length > session->length)
        return sl_fail(err, SL_INVALID, "cannot rewind to %zu tokens: the session has %zu", length,
                       session->length);
    if (length == session->length) return SL_OK;
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_status status = settle_for(session, err);
    session->length = length;
    if (session->checkpoint_length > length) session->checkpoint_length = 0;
    if (session->computed > length) restore(session, length);
    session->has_logits = false;
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

sl_status sl_session_imagine(sl_session *session, size_t length, sl_error *err) {
    const uint32_t context = session->model->context_tokens;
    const size_t before = session->length;
    if (before == 0 || session->computed != before || length < before || length > context)
        return sl_fail(err, SL_INVALID,
                       "cannot simulate %zu tokens after %zu: wanted at least one, and no more "
                       "than the context of %u",
                       length, before, context);
    (void)pthread_mutex_lock(&session->model->lock);
    sl_status status = settle_for(session, err);
    if (status == SL_OK) status = sl_steps_imagine_kv(session->model->steps, session->slot, err);
    if (status == SL_OK) {
        for (size_t i = before; i < length; i++) session->tokens[i] = session->tokens[before - 1];
        session->length = session->computed = length;
        status = save_checkpoint(session, err);
    }
    session->has_logits = false;
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

void sl_session_cancel(sl_session *session) {
    atomic_store(&session->cancelled, true);
}

/* ---- sampling ---- */

static sl_status check_sampling(const sl_sampling *how, sl_error *err) {
    if (how->temperature >= 0 && how->top_p >= 0 && how->top_p <= 1 && how->min_p >= 0 &&
        how->min_p <= 1)
        return SL_OK;
    return sl_fail(err, SL_INVALID,
                   "sampling: temperature %g must be >= 0, top-p %g and min-p %g in 0..1",
                   (double)how->temperature, (double)how->top_p, (double)how->min_p);
}

/* Samples from the logits after the last token, which are computed first if necessary; called with
 * the lock. */
static sl_status sample(sl_session *session, const sl_sampling *how, sl_token *out, sl_error *err) {
    const wanted_rows none = {0};
    SL_TRY(settle_for(session, err));
    if (session->computed < session->length) SL_TRY(advance(session, &none, false, err));
    if (!session->has_logits)
        return sl_fail(err, SL_INVALID, "nothing to sample from: extend the session first");
    *out = sl_sample(session->found, session->model->config.vocab, how, session->length,
                     session->candidates);
    return SL_OK;
}

sl_status sl_session_sample(sl_session *session, const sl_sampling *how, sl_token *out,
                            sl_error *err) {
    SL_TRY(check_sampling(how, err));
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_status status = sample(session, how, out, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    return status;
}

/* ---- sampling on the device, one pass ahead ---- */

static bool is_same(const sl_sampling *a, const sl_sampling *b) {
    return a->temperature == b->temperature && a->top_k == b->top_k && a->top_p == b->top_p &&
           a->min_p == b->min_p && a->seed == b->seed;
}

/* Starts the forward pass of the token at `position`; -1: of the token that is being sampled. */
static sl_status start_step(sl_session *session, size_t position, sl_token token,
                            const sl_sampling *how, sl_error *err) {
    const sl_choice choice = sl_sample_choice(how, position + 1);
    const double columns[] = {[SL_CHOOSE_TEMPERATURE] = (double)choice.temperature,
                              [SL_CHOOSE_TOP_K] = choice.top_k,
                              [SL_CHOOSE_TOP_P] = (double)choice.top_p,
                              [SL_CHOOSE_MIN_P] = (double)choice.min_p,
                              [SL_CHOOSE_SHARE] = choice.share};
    const int32_t slot = (int32_t)session->slot, at = (int32_t)position;
    const sl_step_rows step = {.count = 1,
                               .wanted = 1,
                               .tokens = &token,
                               .slots = &slot,
                               .positions = &at,
                               .how = columns};
    keep_logits(session->model, session);
    return sl_steps_start(session->model->steps, &step, err);
}

/* The first token is sampled on the host, then its forward pass is started. */
static sl_status get_ahead(sl_session *session, const sl_sampling *how, sl_token *out,
                           sl_error *err) {
    sl_model *model = session->model;
    SL_TRY(sample(session, how, out, err));
    SL_TRY(append(session, out, 1, err));
    session->has_logits = false;
    if (!sl_steps_can_choose(model->steps)) return SL_OK; /* computed when the next is asked for */
    const sl_status status = start_step(session, session->length - 1, *out, how, err);
    if (status != SL_OK) {
        session->length--;
        restore(session, session->length);
        return status;
    }
    session->computed = session->length;
    session->ahead = *how;
    model->ahead = session;
    return SL_OK;
}

/* The token that the pass in flight samples; its own pass is started first. */
static sl_status stay_ahead(sl_session *session, const sl_sampling *how, sl_token *out,
                            sl_error *err) {
    sl_model *model = session->model;
    const int32_t *chosen;
    SL_TRY(start_step(session, session->length, -1, how, err));
    sl_status status = sl_steps_finish(model->steps, &chosen, err);
    if (status == SL_OK) {
        *out = *chosen;
        status = append(session, out, 1, err);
    }
    if (status == SL_OK) {
        session->computed = session->length;
        return SL_OK;
    }
    sl_error of_next;
    (void)settle(model, &of_next);
    restore(session, session->length);
    return status;
}

static sl_status next(sl_session *session, const sl_sampling *how, sl_token *out, sl_error *err) {
    if (session->length == session->model->context_tokens)
        return sl_fail(err, SL_INVALID,
                       "the context of %u tokens is full; open the model with a "
                       "larger one",
                       session->model->context_tokens);
    if (atomic_exchange(&session->cancelled, false))
        return sl_fail(err, SL_CANCELLED, "stopped after %zu tokens", session->length);
    return session->model->ahead == session && is_same(how, &session->ahead)
               ? stay_ahead(session, how, out, err)
               : get_ahead(session, how, out, err);
}

sl_status sl_session_next(sl_session *session, const sl_sampling *how, sl_token *out,
                          sl_error *err) {
    const double start = sl_clock_seconds();
    SL_TRY(check_sampling(how, err));
    (void)pthread_mutex_lock(&session->model->lock);
    const sl_status status = next(session, how, out, err);
    (void)pthread_mutex_unlock(&session->model->lock);
    if (status == SL_OK) account(session, 1, start);
    return status;
}

sl_stats sl_session_stats(const sl_session *session) {
    sl_stats stats = session->stats;
    const sl_expert_stats now = sl_expert_store_stats(session->model->store);
    const sl_expert_stats *before = &session->experts_before;
    const sl_steps_stats steps = sl_steps_describe(session->model->steps);
    stats.expert_hits = now.hits - before->hits;
    stats.expert_misses = now.misses - before->misses;
    stats.bytes_read = now.bytes_read - before->bytes_read;
    stats.read_seconds = now.read_seconds - before->read_seconds;
    stats.stall_seconds = now.stall_seconds - before->stall_seconds;
    stats.programs_compiled = steps.compiled;
    stats.compile_seconds = steps.compile_seconds;
    stats.build_seconds = steps.build_seconds;
    stats.fuse_seconds = steps.fuse_seconds;
    stats.lower_seconds = steps.lower_seconds;
    stats.schedule_seconds = steps.schedule_seconds;
    stats.plan_seconds = steps.plan_seconds;
    stats.load_seconds = steps.load_seconds;
    const sl_device_stats device = sl_device_count(session->model->device);
    stats.device_hits = device.expert_hits;
    stats.device_misses = device.expert_misses;
    stats.device_bytes_copied = device.expert_bytes_copied;
    stats.device_runs = device.runs;
    stats.launch_seconds = device.launch_seconds;
    return stats;
}
