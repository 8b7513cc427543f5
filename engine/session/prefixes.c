#include "engine/session/prefixes.h"
#include "engine/session/draft.h"
#include "engine/session/keeper.h"
#include "engine/session/snapshot.h"
#include <stdio.h>
#include <string.h>

enum {
    STOP_TOKENS = 4096,    /* between stops without another reason */
    STOP_DISTANCE = 32,    /* at least, between two stops, and after what is reused */
    WORTH_READING = 32,    /* tokens that an entry on disk has more than what is in memory */
    STOPS_AT_MESSAGES = 4, /* at the ends of the first and of the last ones */
};
#define DEFAULT_DISK_BYTES 8000000000ull

/* While the keeper has the folder locked, what it waits for could not be copied. */
static bool can_write(const sl_model *model) {
    return model->prefixes_on_disk && !sl_keeper_is_busy(model->keeper);
}

static void on_dropped(void *ctx, const sl_state_content *content) {
    const sl_model *model = ctx;
    if (can_write(model)) sl_prefix_disk_add(model->prefixes_on_disk, content);
}

static bool give_up(void *ctx) {
    return sl_prefix_tree_give_up(ctx);
}

sl_status sl_prefixes_create(sl_model *model, sl_error *err) {
    const sl_prefix_tree_options options = {.forward = model->forward,
                                            .fingerprint = &model->fingerprint,
                                            .vocab = model->config.vocab,
                                            .most_pages = model->prefix_pages,
                                            .most_bytes = model->prefix_host_bytes,
                                            .allocator = &model->allocator,
                                            .dropped = on_dropped,
                                            .dropped_ctx = model};
    if (model->prefix_bytes == 0) return SL_OK;
    SL_TRY(sl_prefix_tree_create(&options, &model->prefixes, err));
    sl_kv_pages_set_reclaim(sl_forward_kv_pages(model->forward), give_up, model->prefixes);
    return SL_OK;
}

sl_status sl_prefixes_open_disk(sl_model *model, const sl_disk_cache_options *options,
                                sl_error *err) {
    const sl_prefix_disk_options given = {.folder = options->folder,
                                          .bytes =
                                              options->bytes ? options->bytes : DEFAULT_DISK_BYTES,
                                          .forward = model->forward,
                                          .fingerprint = &model->fingerprint,
                                          .vocab = model->config.vocab,
                                          .allocator = &model->allocator,
                                          .note = options->note,
                                          .note_ctx = options->note_ctx};
    if (!options->folder) return sl_fail(err, SL_INVALID, "a cache on disk without a folder");
    if (model->prefixes_on_disk)
        return sl_fail(err, SL_INVALID, "%s: the model has a cache on disk already",
                       options->folder);
    return sl_prefix_disk_create(&given, &model->prefixes_on_disk, err);
}

void sl_prefixes_destroy(sl_model *model) {
    sl_keeper_destroy(model->keeper);
    sl_prefix_tree_destroy(model->prefixes);
    sl_prefix_disk_destroy(model->prefixes_on_disk);
}

void sl_prefixes_keep(const sl_session *session, bool ends) {
    const sl_model *model = session->model;
    uint64_t lengths[SL_MAX_CHECKPOINTS + 1];
    if (session->computed == 0) return;
    const sl_state_content content = sl_session_content(session, lengths);
    if (ends && can_write(model)) sl_prefix_disk_add(model->prefixes_on_disk, &content);
    if (model->prefixes) sl_prefix_tree_add(model->prefixes, &content);
}

/* ---- what there is ---- */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Tokens that the session itself can continue after. */
static size_t usable_here(const sl_session *session, size_t common, size_t limit) {
    const sl_checkpoints *checkpoints = &session->checkpoints;
    const size_t most = least(common, limit);
    if (session->computed <= most) return session->computed;
    if (checkpoints->capacity == 0) return most;
    uint32_t i = checkpoints->count;
    while (i && checkpoints->kept[i - 1].length > most) i--;
    return i ? checkpoints->kept[i - 1].length : 0;
}

typedef struct {
    const sl_token *tokens;
    size_t count, limit;
    size_t common, here; /* with the session's tokens; of them usable */
    sl_prefix_match memory, disk;
} found;

static void find_in_memory(const sl_model *model, found *f) {
    if (model->prefixes)
        f->memory = sl_prefix_tree_find(model->prefixes, f->tokens, f->count, f->limit);
}

static void find(sl_session *session, found *f) {
    sl_model *model = session->model;
    const size_t most = least(f->count, session->length);
    while (f->common < most && session->tokens[f->common] == f->tokens[f->common]) f->common++;
    f->here = usable_here(session, f->common, f->limit);
    find_in_memory(model, f);
    const size_t best = f->here > f->memory.usable ? f->here : f->memory.usable;
    if (model->prefixes_on_disk && best + WORTH_READING < f->count)
        f->disk = sl_prefix_disk_find(model->prefixes_on_disk, f->tokens, f->count, f->limit);
}

/* ---- taking it ---- */

/* The slot has the keys and values of the first `length` tokens; its recurrent state is `state`, or
 * was written already. */
static sl_status stand_at(sl_session *session, const found *f, size_t length, const void *state,
                          sl_error *err) {
    sl_checkpoints *checkpoints = &session->checkpoints;
    const size_t valid = least(f->common, length);
    if (state) SL_TRY(sl_slot_write_recurrent(session->model->forward, session->slot, state, err));
    while (sl_checkpoints_last(checkpoints) > valid) checkpoints->count--;
    SL_TRY(sl_checkpoints_save(checkpoints, length, err));
    session->computed = length;
    return SL_OK;
}

static sl_status take_memory(sl_session *session, const found *f, sl_error *err) {
    sl_prefix_tree *tree = session->model->prefixes;
    const size_t length = f->memory.usable;
    SL_TRY(sl_prefix_tree_load(tree, f->tokens, length, session->slot, err));
    return stand_at(session, f, length, sl_prefix_tree_recurrent(tree, f->tokens, length), err);
}

/* The session goes back to where it can continue before anything is read: what calls before have
 * read lies in pages beyond that, which going back would give up. */
static bool take_disk(sl_session *session, const found *f, sl_reuse_plan *plan) {
    if (session->computed > f->here) sl_session_restore(session, f->here);
    const uint64_t first = session->computed / SL_KV_LANES;
    sl_error err;
    if (plan->loaded < first) plan->loaded = first;
    const sl_disk_loaded loaded =
        sl_prefix_disk_load(session->model->prefixes_on_disk, f->disk.usable, &plan->loaded,
                            session->slot, plan->seconds);
    plan->unfinished = loaded == SL_DISK_PART;
    return loaded == SL_DISK_ALL && stand_at(session, f, f->disk.usable, NULL, &err) == SL_OK;
}

/* The best that works. */
static sl_status take(sl_session *session, found *f, sl_reuse_plan *plan, sl_reuse *out,
                      sl_error *err) {
    const size_t near = f->here > f->memory.usable ? f->here : f->memory.usable;
    if (f->disk.usable > near + WORTH_READING) {
        out->source = "disk";
        if (take_disk(session, f, plan) || plan->unfinished) return SL_OK;
        sl_session_restore(session, f->here); /* the state may be written halfway */
        f->here = session->computed;
        find_in_memory(session->model, f); /* which may have made room for what was read */
    }
    if (f->memory.usable > f->here) {
        out->source = "memory";
        return take_memory(session, f, err);
    }
    if (session->computed > f->here) sl_session_restore(session, f->here);
    out->source = session->computed ? "session" : "nothing";
    return SL_OK;
}

/* ---- stops ---- */

static bool ends_message(const sl_model *model, sl_token token) {
    for (uint32_t i = 0; i < model->text.end_count; i++)
        if (model->text.end_tokens[i] == token) return true;
    return false;
}

static void add_stop(sl_reuse *r, size_t at, size_t count) {
    uint32_t i = r->stop_count;
    if (at < r->reused + STOP_DISTANCE || at >= count || r->stop_count == SL_MAX_STOPS) return;
    while (i && r->stops[i - 1] > at) i--;
    if (i && at - r->stops[i - 1] < STOP_DISTANCE) return;
    if (i < r->stop_count && r->stops[i] - at < STOP_DISTANCE) return;
    for (uint32_t j = r->stop_count; j > i; j--) r->stops[j] = r->stops[j - 1];
    r->stops[i] = at;
    r->stop_count++;
}

/* The most useful first: stops that are close to one before them are left out. */
static void choose_stops(const sl_model *model, const found *f, sl_reuse *r) {
    uint32_t ends = 0;
    if (sl_forward_recurrent_bytes(model->forward) == 0) return;
    for (size_t i = f->count; i-- > r->reused && ends < STOPS_AT_MESSAGES - 1;)
        if (ends_message(model, f->tokens[i])) {
            add_stop(r, i + 1, f->count);
            ends++;
        }
    for (size_t i = r->reused; i < f->count; i++)
        if (ends_message(model, f->tokens[i])) {
            add_stop(r, i + 1, f->count);
            break;
        }
    if (r->same < f->count) add_stop(r, r->same, f->count);
    if (f->count > 2) add_stop(r, f->count - 2, f->count); /* one token would count as decoded */
    for (size_t at = (r->reused / STOP_TOKENS + 1) * STOP_TOKENS; at < f->count; at += STOP_TOKENS)
        add_stop(r, at, f->count);
}

/* ---- all of it ---- */

static size_t most_same(const found *f) {
    size_t same = f->common;
    if (f->memory.same > same) same = f->memory.same;
    if (f->disk.same > same) same = f->disk.same;
    return same;
}

static sl_reuse_reason reason_of(const sl_session *session, const found *f, const sl_reuse *r) {
    if (r->same == 0) return SL_REUSE_NOTHING_KEPT;
    if (f->limit == 0 && f->count > 1) return SL_REUSE_LOGITS;
    if (r->reused + 1 == f->count && r->same == f->count) return SL_REUSE_LAST_TOKEN;
    if (r->reused < r->same) return SL_REUSE_NO_CHECKPOINT;
    return r->same == f->common && f->common == session->length ? SL_REUSE_NEW_TOKENS
                                                                : SL_REUSE_OTHER_TOKENS;
}

sl_status sl_session_reuse(sl_session *session, const sl_token *tokens, size_t count,
                           sl_reuse_plan *plan, sl_reuse *out, sl_error *err) {
    found f = {.tokens = tokens, .count = count, .limit = least(plan->most, count - 1)};
    plan->unfinished = false;
    *out = (sl_reuse){.source = "session"};
    sl_keeper_leave(session->model->keeper, session);
    find(session, &f);
    if (plan->most == count && f.common == count && session->length == count &&
        session->has_logits) {
        *out = (sl_reuse){.reused = count, .same = count, .source = "session"};
        return SL_OK;
    }
    out->same = most_same(&f);
    const bool leaves = session->computed > f.common;
    if (leaves && session->model->prefixes) {
        sl_prefixes_keep(session, false);
        f.common = 0;
        find(session, &f); /* what was found may have made room */
    }
    const sl_status status = take(session, &f, plan, out, err);
    if (status != SL_OK) {
        sl_session_clear(session);
        return status;
    }
    out->reused = session->computed;
    out->reason = reason_of(session, &f, out);
    sl_draft_truncate(session, 0);
    memcpy(session->tokens, tokens, session->computed * sizeof *tokens);
    session->length = session->known = session->computed; /* what follows counts as new */
    session->has_logits = false;
    choose_stops(session->model, &f, out);
    return SL_OK;
}

void sl_reuse_describe(const sl_reuse *reuse, size_t count, sl_sync_report *out) {
    const size_t same = reuse->same, reused = reuse->reused;
    char *text = out->text;
    const size_t room = sizeof out->text;
    *out = (sl_sync_report){.tokens = count,
                            .reused = reused,
                            .same = same,
                            .source = reuse->source,
                            .reason = reuse->reason};
    switch (reuse->reason) {
    case SL_REUSE_ALL:
        (void)snprintf(text, room, "the session has these tokens already");
        break;
    case SL_REUSE_NOTHING_KEPT:
        (void)snprintf(text, room, "nothing that is kept begins with these tokens");
        break;
    case SL_REUSE_NEW_TOKENS:
        (void)snprintf(text, room, "the tokens from %zu on are new", same);
        break;
    case SL_REUSE_OTHER_TOKENS:
        (void)snprintf(text, room, "what is kept goes on with other tokens from %zu on", same);
        break;
    case SL_REUSE_LAST_TOKEN:
        (void)snprintf(text, room, "the last token is computed for its logits");
        break;
    case SL_REUSE_NO_CHECKPOINT:
        (void)snprintf(text, room,
                       "%zu tokens are the same, but the last recurrent state that is kept of them "
                       "is that after %zu",
                       same, reused);
        break;
    case SL_REUSE_LOGITS:
        (void)snprintf(text, room, "all tokens are computed, because their logits are wanted");
        break;
    }
}
