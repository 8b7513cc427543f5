#include "engine/session/batch.h"
#include "base/clock.h"
#include <stdio.h>
#include <string.h>

uint32_t sl_batch_unit(const sl_model *model) {
    return sl_forward_recurrent_bytes(model->forward) ? SL_DELTA_CHUNK : 1;
}

static sl_status allocate(sl_batch *batch, sl_error *err) {
    sl_arena *arena = &batch->arena;
    batch->entries = SL_ARENA_NEW_ARRAY(arena, sl_batch_entry, batch->capacity);
    batch->tokens = SL_ARENA_NEW_ARRAY(arena, int32_t, batch->most_rows);
    batch->slots = SL_ARENA_NEW_ARRAY(arena, int32_t, batch->most_rows);
    batch->positions = SL_ARENA_NEW_ARRAY(arena, int32_t, batch->most_rows);
    batch->wanted = SL_ARENA_NEW_ARRAY(arena, int32_t, batch->most_rows);
    if (batch->entries && batch->tokens && batch->slots && batch->positions && batch->wanted)
        return SL_OK;
    return sl_no_memory(err, "a batch", batch->most_rows);
}

sl_status sl_batch_make(sl_model *model, uint32_t most_rows, sl_batch **out, sl_error *err) {
    const uint32_t usual = model->chunk_tokens > model->slots ? model->chunk_tokens : model->slots;
    if (most_rows > SL_MAX_FORWARD_ROWS)
        return sl_fail(err, SL_INVALID, "a batch of %u rows, wanted at most %d", most_rows,
                       SL_MAX_FORWARD_ROWS);
    sl_arena arena;
    sl_arena_init(&arena, &model->allocator);
    sl_batch *batch = SL_ARENA_NEW(&arena, sl_batch);
    if (!batch) {
        sl_arena_deinit(&arena);
        return sl_no_memory(err, "a batch", sizeof *batch);
    }
    batch->model = model;
    batch->arena = arena;
    batch->capacity = model->slots;
    batch->most_rows = most_rows ? most_rows : usual;
    batch->stats.struct_size = sizeof batch->stats;
    const sl_status status = allocate(batch, err);
    if (status == SL_OK)
        *out = batch;
    else
        sl_batch_release(batch);
    return status;
}

static void clear(sl_batch *batch) {
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->entries[i].session) batch->entries[i].session->batch = NULL;
    batch->count = batch->rows = 0;
    batch->has_run = false;
}

void sl_batch_release(sl_batch *batch) {
    if (!batch) return;
    clear(batch);
    sl_arena arena = batch->arena; /* the batch itself lives in it */
    sl_arena_deinit(&arena);
}

sl_batch_entry *sl_batch_entry_of(const sl_batch *batch, const sl_session *session) {
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->entries[i].session == session) return &batch->entries[i];
    return NULL;
}

void sl_batch_leave(sl_session *session) {
    sl_batch *batch = session->batch;
    if (!batch) return;
    sl_batch_entry *entry = sl_batch_entry_of(batch, session);
    if (!batch->has_run) batch->rows -= entry->rows;
    entry->session = NULL;
    entry->rows = 0;
    session->batch = NULL;
}

/* ---- adding ---- */

static sl_status check_session(const sl_batch *batch, const sl_session *session, sl_error *err) {
    if (session->model != batch->model)
        return sl_fail(err, SL_INVALID, "the session is of another model than the batch");
    if (session->batch && !session->batch->has_run)
        return sl_fail(err, SL_INVALID, "the session is in a batch that has not run yet");
    return SL_OK;
}

/* Rows for a session that has so many tokens to compute; 0: there is no room. */
static uint32_t grant(const sl_batch *batch, size_t pending, uint32_t most) {
    const uint32_t room = batch->most_rows - batch->rows;
    const uint32_t limit = most && most < room ? most : room;
    if (pending <= limit) return (uint32_t)pending;
    return limit - limit % sl_batch_unit(batch->model);
}

/* A place for one more; those of sessions that left are used again. */
static sl_batch_entry *next_entry(sl_batch *batch) {
    sl_batch_entry *free = sl_batch_entry_of(batch, NULL);
    if (free || batch->count == batch->capacity) return free;
    return &batch->entries[batch->count++];
}

sl_status sl_batch_take(sl_batch *batch, sl_session *session, const sl_token *tokens, size_t count,
                        uint32_t most, uint32_t *out_rows, sl_error *err) {
    SL_TRY(check_session(batch, session, err));
    if (batch->has_run) clear(batch);
    sl_batch_leave(session); /* another batch, which has run */
    SL_TRY(sl_session_drain(session, err));
    const size_t before = session->length, waiting = before - session->computed;
    if (waiting + count == 0)
        return sl_fail(err, SL_INVALID, "a session without tokens to compute");
    if (count) SL_TRY(sl_session_append(session, tokens, count, err));
    const uint32_t rows = grant(batch, waiting + count, most);
    sl_batch_entry *entry = rows ? next_entry(batch) : NULL;
    if (!entry) {
        session->length = before;
        return sl_fail(err, SL_INVALID,
                       "no room for %zu tokens: %u of %u rows are taken, by %u sessions",
                       waiting + count, batch->rows, batch->most_rows, batch->count);
    }
    if (count) session->has_logits = false;
    *entry = (sl_batch_entry){.session = session, .rows = rows, .before = before};
    session->batch = batch;
    batch->rows += rows;
    if (out_rows) *out_rows = rows;
    return SL_OK;
}

/* ---- the pass ---- */

/* The tokens that came with this pass are taken back, as far as they are not computed. */
static void take_back(sl_batch_entry *entry) {
    sl_session *session = entry->session;
    const size_t least = entry->before > session->computed ? entry->before : session->computed;
    if (session->length > least) session->length = least;
    session->has_logits = false;
}

static void cancel(sl_batch_entry *entry) {
    take_back(entry);
    entry->error.status = SL_CANCELLED;
    (void)snprintf(entry->error.message, sizeof entry->error.message, "stopped after %zu tokens",
                   entry->session->length);
}

/* Makes room in the KV cache; without it the session takes no part, and the others do. */
static bool take_pages(sl_batch_entry *entry) {
    const sl_session *session = entry->session;
    sl_kv_pages *pages = sl_forward_kv_pages(session->model->forward);
    entry->takes_part = sl_kv_pages_write(pages, session->slot, session->computed,
                                          session->computed + entry->rows, &entry->error) == SL_OK;
    if (!entry->takes_part) {
        take_back(entry);
        entry->completes = false;
    }
    return entry->takes_part;
}

static void fill_rows(sl_batch *batch, sl_batch_entry *entry, sl_forward_rows *pass) {
    const sl_session *session = entry->session;
    entry->first = pass->count;
    for (uint32_t i = 0; i < entry->rows; i++) {
        const size_t position = session->computed + i;
        const bool is_last = entry->completes && i + 1 == entry->rows;
        if (is_last || entry->wants_all) batch->wanted[pass->wanted++] = (int32_t)pass->count;
        batch->tokens[pass->count] = session->tokens[position];
        batch->slots[pass->count] = (int32_t)session->slot;
        batch->positions[pass->count] = (int32_t)position;
        pass->count++;
    }
}

/* What each session takes part with, from what it is now. */
static void fill_pass(sl_batch *batch, sl_forward_rows *pass) {
    for (uint32_t i = 0; i < batch->count; i++) {
        sl_batch_entry *entry = &batch->entries[i];
        sl_session *session = entry->session;
        if (!session) continue;
        if (atomic_exchange(&session->cancelled, false)) {
            cancel(entry);
            continue;
        }
        const size_t pending = session->length - session->computed;
        if (entry->rows > pending) entry->rows = (uint32_t)pending;
        entry->takes_part = entry->rows > 0;
        entry->completes = entry->takes_part && entry->rows == pending;
        if (entry->takes_part && take_pages(entry)) fill_rows(batch, entry, pass);
    }
    pass->tokens = batch->tokens;
    pass->slots = batch->slots;
    pass->positions = batch->positions;
    pass->wanted_rows = pass->wanted && pass->wanted < pass->count ? batch->wanted : NULL;
}

/* Rows of a result that are an entry's. */
static uint32_t wanted_rows(const sl_batch_entry *entry) {
    return entry->wants_all ? entry->rows : entry->completes;
}

static void finish_entry(sl_batch_entry *entry, const float *logits, double seconds) {
    sl_session *session = entry->session;
    sl_checkpoints *checkpoints = &session->checkpoints;
    sl_session_computed(session, entry->rows);
    sl_session_account(session, entry->rows, seconds);
    session->has_logits = entry->completes;
    entry->logits = logits;
    if (entry->completes) {
        const uint32_t vocab = session->model->config.vocab;
        logits += (size_t)(wanted_rows(entry) - 1) * vocab;
        memcpy(session->logits, logits, vocab * sizeof *logits);
        session->found = session->logits;
    }
    const bool due = session->computed - sl_checkpoints_last(checkpoints) >= SL_CHECKPOINT_TOKENS ||
                     (entry->completes && entry->rows > 1);
    if (due && sl_checkpoints_save(checkpoints, session->computed, &entry->error) != SL_OK)
        sl_session_restore(session, session->computed);
}

/* Counts the pass; experts are those that the model used meanwhile. */
static void count_pass(sl_batch *batch, const sl_forward_rows *pass, double seconds,
                       const sl_expert_stats *before) {
    const sl_expert_stats now = sl_expert_store_stats(batch->model->store);
    sl_batch_stats *stats = &batch->stats;
    stats->passes++;
    stats->rows += pass->count;
    stats->logits += pass->wanted;
    stats->seconds += seconds;
    stats->expert_hits += now.hits - before->hits;
    stats->expert_misses += now.misses - before->misses;
    stats->expert_first_reads += now.first_reads - before->first_reads;
    stats->bytes_read += now.bytes_read - before->bytes_read;
    stats->stall_seconds += now.stall_seconds - before->stall_seconds;
}

/* The state of every session may have changed halfway. */
static void fail_all(sl_batch *batch, const sl_error *error) {
    for (uint32_t i = 0; i < batch->count; i++) {
        sl_batch_entry *entry = &batch->entries[i];
        if (!entry->session || !entry->takes_part) continue;
        take_back(entry);
        sl_session_restore(entry->session, entry->session->computed);
        entry->error = *error;
        entry->completes = false;
    }
}

sl_status sl_batch_pass(sl_batch *batch, sl_error *err) {
    sl_model *model = batch->model;
    sl_forward_rows pass = {0};
    sl_forward_result result;
    sl_error error = {0};
    if (batch->has_run || batch->count == 0)
        return sl_fail(err, SL_INVALID, "a batch without sessions");
    sl_session_drain_any(model);
    batch->has_run = true;
    fill_pass(batch, &pass);
    if (pass.count == 0) return SL_OK;
    sl_session_keep_logits(model, NULL);
    const sl_expert_stats before = sl_expert_store_stats(model->store);
    const double compiled = sl_forward_describe(model->forward).compile_seconds;
    const double start = sl_clock_seconds();
    const sl_status status = sl_forward_run(model->forward, &pass, &result, &error);
    const double seconds = sl_clock_seconds() - start;
    count_pass(batch, &pass, seconds, &before);
    batch->stats.compile_seconds += sl_forward_describe(model->forward).compile_seconds - compiled;
    if (status != SL_OK) {
        fail_all(batch, &error);
        if (err) *err = error;
        return status;
    }
    const float *logits = result.logits;
    for (uint32_t i = 0; i < batch->count; i++) {
        sl_batch_entry *entry = &batch->entries[i];
        if (!entry->session || !entry->takes_part) continue;
        finish_entry(entry, logits, seconds);
        if (logits) logits += (size_t)wanted_rows(entry) * model->config.vocab;
    }
    return SL_OK;
}
