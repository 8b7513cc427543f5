#include "engine/session/state_parts.h"
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

sl_tokens_hash sl_tokens_hash_of(const sl_token *tokens, size_t count) {
    const XXH128_hash_t hash = XXH3_128bits(tokens, count * sizeof *tokens);
    return (sl_tokens_hash){hash.low64, hash.high64};
}

bool sl_state_row_of(const sl_forward_state *state, sl_state_row *out) {
    *out = (sl_state_row){.kind = (uint32_t)state->kind,
                          .dtype = (uint32_t)state->type->dtype,
                          .heads = 1,
                          .bytes = state->bytes_each};
    const size_t bytes = strnlen(state->name, sizeof out->name - 1);
    memcpy(out->name, state->name, bytes);
    if (state->kind == SL_STATE_KV) {
        const sl_block_shape shape = sl_block_shape_of(state);
        out->heads = shape.heads;
        out->bytes = shape.bytes;
    }
    return state->kind == SL_STATE_KV || state->kind == SL_STATE_RECURRENT;
}

typedef struct {
    const sl_state_content *content;
    sl_file_writer file;
    sl_arena arena;
    sl_state_header *header; /* with rows, lengths and parts behind it */
    sl_state_part *parts;
    uint8_t *buffer;
} writer;

static sl_state_header describe(const sl_state_content *content) {
    sl_state_header h = {.magic = SL_STATE_MAGIC,
                         .version = SL_STATE_VERSION,
                         .fingerprint = *content->fingerprint,
                         .from = content->from,
                         .to = content->to,
                         .tokens = content->token_count,
                         .note_bytes = content->note_bytes,
                         .block_bytes = sl_slot_block_bytes(content->forward),
                         .recurrent_bytes = sl_forward_recurrent_bytes(content->forward),
                         .vocab = content->vocab,
                         .flags = content->logits ? SL_STATE_LOGITS : 0,
                         .length_count = content->length_count};
    const uint64_t fitting = h.block_bytes ? SL_STATE_PIECE_BYTES / h.block_bytes : 1;
    h.piece_blocks = fitting > SL_STATE_MOST_PIECE ? SL_STATE_MOST_PIECE
                     : fitting                     ? (uint32_t)fitting
                                                   : 1;
    sl_forward_state state;
    sl_state_row row;
    for (uint32_t i = 0; sl_forward_state_at(content->forward, i, &state); i++)
        h.row_count += sl_state_row_of(&state, &row);
    h.part_count = (uint32_t)sl_state_part_count(&h);
    h.header_bytes = (uint32_t)sl_state_header_bytes(&h);
    h.file_bytes = h.header_bytes;
    for (uint64_t i = 0; i < h.part_count; i++) h.file_bytes += sl_state_part_bytes(&h, i);
    return h;
}

uint64_t sl_state_file_bytes(const sl_state_content *content) {
    return describe(content).file_bytes;
}

static sl_status make_header(writer *w, sl_error *err) {
    const sl_state_content *content = w->content;
    const sl_state_header h = describe(content);
    char *at = sl_arena_alloc(&w->arena, h.header_bytes, _Alignof(sl_state_header));
    if (!at) return sl_no_memory(err, "the header of a session", h.header_bytes);
    w->header = (sl_state_header *)(void *)at;
    *w->header = h;
    w->header->before = sl_tokens_hash_of(content->tokens, h.from);
    sl_state_row *row = (sl_state_row *)(void *)(at + sizeof h);
    sl_forward_state state;
    for (uint32_t i = 0; sl_forward_state_at(content->forward, i, &state); i++) {
        sl_state_row found;
        if (sl_state_row_of(&state, &found)) *row++ = found;
    }
    uint64_t *lengths = (uint64_t *)(void *)row;
    for (uint32_t i = 0; i < h.length_count; i++) lengths[i] = content->lengths[i];
    w->parts = (sl_state_part *)(void *)(lengths + h.length_count);
    for (uint64_t i = 0; i < h.part_count; i++) w->parts[i].bytes = sl_state_part_bytes(&h, i);
    uint64_t largest = h.recurrent_bytes;
    if (h.piece_blocks * h.block_bytes > largest) largest = h.piece_blocks * h.block_bytes;
    w->buffer = sl_arena_alloc(&w->arena, largest, 64);
    return w->buffer ? SL_OK : sl_no_memory(err, "a part of a session", largest);
}

static sl_status put(writer *w, uint64_t part, const void *data, sl_error *err) {
    w->parts[part].checksum = XXH3_64bits(data, w->parts[part].bytes);
    return sl_file_writer_append(&w->file, data, w->parts[part].bytes, err);
}

static sl_status put_parts(writer *w, sl_error *err) {
    const sl_state_header *h = w->header;
    const sl_state_content *content = w->content;
    uint64_t part = SL_STATE_FIRST_RECURRENT;
    SL_TRY(put(w, SL_STATE_TOKENS, content->tokens + h->from, err));
    SL_TRY(put(w, SL_STATE_NOTE, content->note ? content->note : "", err));
    SL_TRY(put(w, SL_STATE_LOGIT_PART, content->logits ? (const void *)content->logits : "", err));
    for (uint32_t i = 0; i < h->length_count; i++, part++) {
        SL_TRY(content->recurrent(content->ctx, i, w->buffer, err));
        SL_TRY(put(w, part, w->buffer, err));
    }
    const uint32_t used = h->to % SL_KV_LANES;
    for (uint64_t i = 0; i < sl_state_pieces(h); i++, part++) {
        const uint64_t count = sl_state_blocks_in(h, i);
        const uint64_t first = h->from / SL_KV_LANES + i * h->piece_blocks;
        SL_TRY(content->blocks(content->ctx, first, count, w->buffer, err));
        if (used && i + 1 == sl_state_pieces(h))
            sl_block_clear(content->forward, w->buffer + (count - 1) * h->block_bytes, used);
        SL_TRY(put(w, part, w->buffer, err));
    }
    return SL_OK;
}

static sl_status write_file(writer *w, const char *path, const sl_allocator *allocator,
                            sl_error *err) {
    SL_TRY(make_header(w, err));
    SL_TRY(sl_file_writer_open(&w->file, path, allocator, err));
    SL_TRY(sl_file_writer_append(&w->file, w->header, w->header->header_bytes, err));
    SL_TRY(put_parts(w, err));
    const size_t before = offsetof(sl_state_header, file_bytes);
    w->header->checksum =
        XXH3_64bits((const char *)w->header + before, w->header->header_bytes - before);
    SL_TRY(sl_file_writer_patch(&w->file, w->header, w->header->header_bytes, err));
    return sl_file_writer_commit(&w->file, err);
}

sl_status sl_state_file_write(const char *path, const sl_state_content *content,
                              const sl_allocator *allocator, sl_error *err) {
    writer w = {.content = content, .file = {.fd = -1}};
    sl_arena_init(&w.arena, allocator);
    sl_arena_init(&w.file.arena, allocator);
    const sl_status status = write_file(&w, path, allocator, err);
    sl_file_writer_close(&w.file);
    sl_arena_deinit(&w.arena);
    return status;
}
