#include "engine/session/snapshot.h"
#include "engine/session/forward_states.h"
#include "engine/session/keeper.h"
#include <stdlib.h>
#include <string.h>

void sl_session_clear(sl_session *session) {
    sl_keeper_leave(session->model->keeper, session);
    if (session->model->waiting == session) session->model->waiting = NULL;
    session->length = session->computed = session->known = 0;
    session->draft_rows = 0;
    sl_kv_pages_truncate(sl_forward_kv_pages(session->model->forward), session->slot, 0);
    session->checkpoints.count = 0;
    session->has_logits = false;
    session->found = session->logits;
}

uint32_t sl_session_lengths(const sl_session *session, uint64_t *out) {
    const sl_checkpoints *checkpoints = &session->checkpoints;
    uint32_t count = 0;
    if (checkpoints->capacity == 0) return 0;
    for (uint32_t i = 0; i < checkpoints->count; i++)
        if (checkpoints->kept[i].length < session->computed)
            out[count++] = checkpoints->kept[i].length;
    if (session->computed) out[count++] = session->computed;
    return count;
}

/* ---- writing ---- */

static sl_status give_recurrent(void *ctx, uint32_t index, void *out, sl_error *err) {
    const sl_session *session = ctx;
    const sl_checkpoints *checkpoints = &session->checkpoints;
    const sl_forward *forward = session->model->forward;
    if (index < checkpoints->count && checkpoints->kept[index].length < session->computed)
        return sl_checkpoint_read(forward, checkpoints->kept[index].data, out, err);
    return sl_slot_read_recurrent(forward, session->slot, out, err);
}

static sl_status give_blocks(void *ctx, uint64_t first, uint64_t count, void *out, sl_error *err) {
    const sl_session *session = ctx;
    return sl_slot_read_blocks(session->model->forward, session->slot, first, count, out, err);
}

sl_state_content sl_session_content(const sl_session *session,
                                    uint64_t lengths[SL_MAX_CHECKPOINTS + 1]) {
    const sl_model *model = session->model;
    return (sl_state_content){
        .forward = model->forward,
        .fingerprint = &model->fingerprint,
        .vocab = model->config.vocab,
        .to = session->computed,
        .token_count = session->length,
        .tokens = session->tokens,
        .lengths = lengths,
        .length_count = sl_session_lengths(session, lengths),
        .pages = sl_kv_pages_of(sl_forward_kv_pages(model->forward), session->slot, NULL),
        .recurrent = give_recurrent,
        .blocks = give_blocks,
        .ctx = (sl_session *)(uintptr_t)session, /* only read */
    };
}

sl_status sl_session_write(const sl_session *session, const char *path, const void *note,
                           size_t note_bytes, sl_error *err) {
    uint64_t lengths[SL_MAX_CHECKPOINTS + 1];
    sl_state_content content = sl_session_content(session, lengths);
    if (note_bytes > SL_STATE_MOST_NOTE)
        return sl_fail(err, SL_INVALID, "a note of %zu bytes, wanted at most %d", note_bytes,
                       SL_STATE_MOST_NOTE);
    content.note = note;
    content.note_bytes = note_bytes;
    content.logits = session->has_logits ? session->found : NULL;
    return sl_state_file_write(path, &content, &session->model->allocator, err);
}

/* ---- reading ---- */

static sl_status check_file(const sl_session *session, const sl_state_file *file, sl_error *err) {
    const sl_model *model = session->model;
    const sl_state_header *h = &file->header;
    SL_TRY(sl_state_file_check(file, model->forward, &model->fingerprint, err));
    if (h->vocab != model->config.vocab)
        return sl_fail(err, SL_FORMAT, "%s: a vocabulary of %u, wanted %u", file->path, h->vocab,
                       model->config.vocab);
    if (h->from)
        return sl_fail(err, SL_FORMAT, "%s: a part of a conversation, wanted a whole one",
                       file->path);
    if (h->tokens > session->context)
        return sl_fail(err, SL_INVALID,
                       "%s: %llu tokens do not fit the context of %u; open the model with a larger "
                       "one",
                       file->path, (unsigned long long)h->tokens, session->context);
    if (h->recurrent_bytes && h->to &&
        (h->length_count == 0 || file->lengths[h->length_count - 1] != h->to))
        return sl_fail(err, SL_FORMAT, "%s: damaged: it lacks the state after %llu tokens",
                       file->path, (unsigned long long)h->to);
    return SL_OK;
}

/* The last ones become checkpoints, as many as there is room for, and the very last the state. */
static sl_status load_recurrent(sl_session *session, const sl_state_file *file, void *buffer,
                                sl_error *err) {
    sl_checkpoints *checkpoints = &session->checkpoints;
    const uint32_t count = file->header.length_count;
    const uint32_t room = checkpoints->capacity;
    for (uint32_t i = count > room ? count - room : 0; i < count; i++) {
        sl_checkpoint *next = &checkpoints->kept[checkpoints->count];
        SL_TRY(sl_state_file_recurrent(file, i, buffer, err));
        SL_TRY(sl_checkpoint_write(checkpoints->forward, next->data, buffer, err));
        next->length = file->lengths[i];
        checkpoints->count++;
        if (i + 1 == count)
            SL_TRY(sl_slot_write_recurrent(checkpoints->forward, session->slot, buffer, err));
    }
    return SL_OK;
}

static sl_status load_blocks(sl_session *session, const sl_state_file *file, void *buffer,
                             sl_error *err) {
    uint64_t first = 0;
    for (uint32_t i = 0; i < sl_state_file_pieces(file); i++) {
        const uint64_t count = sl_state_file_piece_blocks(file, i);
        SL_TRY(sl_state_file_piece(file, i, buffer, err));
        SL_TRY(sl_slot_write_blocks(session->model->forward, session->slot, first, count, buffer,
                                    err));
        first += count;
    }
    return SL_OK;
}

static sl_status load(sl_session *session, const sl_state_file *file, void *buffer, sl_error *err) {
    const sl_state_header *h = &file->header;
    SL_TRY(sl_state_file_tokens(file, session->tokens, err));
    SL_TRY(load_recurrent(session, file, buffer, err));
    SL_TRY(load_blocks(session, file, buffer, err));
    if (h->flags & SL_STATE_LOGITS) SL_TRY(sl_state_file_logits(file, session->logits, err));
    session->length = h->tokens;
    session->computed = session->known = h->to;
    session->has_logits = h->flags & SL_STATE_LOGITS;
    return SL_OK;
}

static sl_status load_with_buffer(sl_session *session, const sl_state_file *file, sl_error *err) {
    enum { ALIGN = 64 };
    const sl_allocator *allocator = &session->model->allocator;
    const sl_state_header *h = &file->header;
    const uint64_t piece = h->piece_blocks * h->block_bytes; /* of this model: of sane size */
    const uint64_t bytes = piece > h->recurrent_bytes ? piece : h->recurrent_bytes;
    void *buffer = bytes ? sl_resize(allocator, NULL, 0, bytes, ALIGN) : NULL;
    if (bytes && !buffer) return sl_no_memory(err, file->path, bytes);
    sl_session_clear(session);
    const sl_status status = load(session, file, buffer, err);
    if (status != SL_OK) sl_session_clear(session);
    sl_release(allocator, buffer, bytes, ALIGN);
    return status;
}

static sl_status read_file(sl_session *session, const sl_state_file *file, char **out_note,
                           size_t *out_note_bytes, sl_error *err) {
    SL_TRY(check_file(session, file, err));
    const size_t bytes = file->header.note_bytes;
    char *note = malloc(bytes + 1);
    if (!note) return sl_no_memory(err, file->path, bytes);
    sl_status status = sl_state_file_note(file, note, err);
    if (status == SL_OK) status = load_with_buffer(session, file, err);
    if (status != SL_OK || !out_note) {
        free(note);
        return status;
    }
    note[bytes] = '\0';
    *out_note = note;
    if (out_note_bytes) *out_note_bytes = bytes;
    return SL_OK;
}

sl_status sl_session_read(sl_session *session, const char *path, char **out_note,
                          size_t *out_note_bytes, sl_error *err) {
    sl_state_file file;
    sl_status status = sl_state_file_open(&file, path, &session->model->allocator, err);
    if (status == SL_OK) status = read_file(session, &file, out_note, out_note_bytes, err);
    sl_state_file_close(&file);
    return status;
}

/* ---- copies ---- */

static sl_status copy_checkpoints(sl_session *session, const sl_session *from, sl_error *err) {
    sl_forward *forward = session->model->forward;
    const uint64_t bytes = sl_forward_recurrent_bytes(forward);
    const sl_checkpoints *source = &from->checkpoints;
    sl_checkpoints *target = &session->checkpoints;
    uint32_t i = source->count > target->capacity ? source->count - target->capacity : 0;
    for (; i < source->count; i++) {
        sl_checkpoint *next = &target->kept[target->count];
        SL_TRY(sl_state_copy(forward, next->data, source->kept[i].data, bytes, err));
        next->length = source->kept[i].length;
        target->count++;
    }
    return SL_OK;
}

sl_status sl_session_copy(sl_session *session, const sl_session *from, sl_error *err) {
    sl_session_clear(session);
    SL_TRY(sl_slot_share(session->model->forward, from->slot, session->slot, from->computed, err));
    const sl_status status = copy_checkpoints(session, from, err);
    if (status != SL_OK) {
        sl_session_clear(session);
        return status;
    }
    memcpy(session->tokens, from->tokens, from->length * sizeof *from->tokens);
    session->length = from->length;
    session->computed = session->known = from->computed;
    session->has_logits = from->has_logits;
    if (from->has_logits)
        memcpy(session->logits, from->found, session->model->config.vocab * sizeof(float));
    return SL_OK;
}
