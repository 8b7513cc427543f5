#include "base/sizes.h"
#include "engine/session/state_parts.h"
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

/* ---- the header ---- */

static sl_status damaged(const sl_state_file *f, const char *what, uint64_t found, sl_error *err) {
    return sl_fail(err, SL_FORMAT, "%s: the header is damaged: %s is %llu", f->path, what,
                   (unsigned long long)found);
}

static sl_status check_begin(const sl_state_file *f, sl_error *err) {
    const sl_state_header *h = &f->header;
    if (memcmp(h->magic, SL_STATE_MAGIC, sizeof h->magic) != 0)
        return sl_fail(err, SL_FORMAT, "%s: not a saved session", f->path);
    if (h->version != SL_STATE_VERSION)
        return sl_fail(err, SL_FORMAT, "%s: version %u of saved sessions, wanted %d", f->path,
                       h->version, SL_STATE_VERSION);
    if (h->file_bytes != f->file.bytes)
        return sl_fail(err, SL_FORMAT, "%s: truncated or damaged: %llu bytes, wanted %llu", f->path,
                       (unsigned long long)f->file.bytes, (unsigned long long)h->file_bytes);
    if (h->header_bytes < sizeof *h || h->header_bytes > f->file.bytes)
        return damaged(f, "its size", h->header_bytes, err);
    return SL_OK;
}

/* Everything that sizes are computed from. */
static sl_status check_limits(const sl_state_file *f, sl_error *err) {
    const sl_state_header *h = &f->header;
    const uint64_t bytes = f->file.bytes;
    if (h->tokens > SL_STATE_MOST_POSITIONS)
        return damaged(f, "its count of tokens", h->tokens, err);
    if (h->to > h->tokens) return damaged(f, "the end of its positions", h->to, err);
    if (h->from > h->to || h->from % SL_KV_LANES)
        return damaged(f, "its first position", h->from, err);
    if (h->note_bytes > SL_STATE_MOST_NOTE)
        return damaged(f, "the size of its note", h->note_bytes, err);
    if (h->block_bytes > bytes && h->to > h->from)
        return damaged(f, "the size of a block", h->block_bytes, err);
    if (h->recurrent_bytes > bytes && h->length_count)
        return damaged(f, "the size of a recurrent state", h->recurrent_bytes, err);
    if (h->vocab > INT32_MAX / sizeof(float)) return damaged(f, "its vocabulary", h->vocab, err);
    if (h->row_count > SL_STATE_MOST_ROWS)
        return damaged(f, "its count of states", h->row_count, err);
    if (h->length_count > SL_STATE_MOST_LENGTHS)
        return damaged(f, "its count of recurrent states", h->length_count, err);
    if (h->piece_blocks == 0 || h->piece_blocks > SL_STATE_MOST_PIECE)
        return damaged(f, "the blocks of a piece", h->piece_blocks, err);
    if (h->part_count != sl_state_part_count(h))
        return damaged(f, "its count of parts", h->part_count, err);
    if (h->header_bytes != sl_state_header_bytes(h))
        return damaged(f, "its size", h->header_bytes, err);
    return SL_OK;
}

static bool is_text(const char *text, size_t capacity) {
    const size_t bytes = strnlen(text, capacity);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < ' ' || text[i] > '~') return false;
    return bytes < capacity;
}

static sl_status check_tables(sl_state_file *f, sl_error *err) {
    const sl_state_header *h = &f->header;
    uint64_t offset = h->header_bytes;
    if (!is_text(h->fingerprint.numerics, sizeof h->fingerprint.numerics))
        return damaged(f, "the text of its numerics", 0, err);
    for (uint32_t i = 0; i < h->length_count; i++) {
        const bool ascends = i == 0 || f->lengths[i] > f->lengths[i - 1];
        if (!ascends || f->lengths[i] == 0 || f->lengths[i] > h->to)
            return damaged(f, "the length of a recurrent state", f->lengths[i], err);
    }
    for (uint32_t i = 0; i < h->part_count; i++) {
        if (f->parts[i].bytes != sl_state_part_bytes(h, i))
            return damaged(f, "the size of a part", f->parts[i].bytes, err);
        f->offsets[i] = offset;
        if (!sl_add(offset, f->parts[i].bytes, &offset))
            return damaged(f, "the size of a part", f->parts[i].bytes, err);
    }
    return offset == h->file_bytes ? SL_OK : damaged(f, "the size of the file", h->file_bytes, err);
}

static sl_status read_header(sl_state_file *f, sl_error *err) {
    const size_t before = offsetof(sl_state_header, file_bytes);
    if (f->file.bytes < sizeof f->header)
        return sl_fail(err, SL_FORMAT, "%s: truncated, or not a saved session: %llu bytes", f->path,
                       (unsigned long long)f->file.bytes);
    SL_TRY(sl_file_read(&f->file, 0, &f->header, sizeof f->header, err));
    SL_TRY(check_begin(f, err));
    SL_TRY(check_limits(f, err));
    const sl_state_header *h = &f->header;
    char *all = sl_arena_alloc(&f->arena, h->header_bytes, _Alignof(sl_state_header));
    f->offsets = SL_ARENA_NEW_ARRAY(&f->arena, uint64_t, h->part_count);
    if (!all || !f->offsets) return sl_no_memory(err, f->path, h->header_bytes);
    SL_TRY(sl_file_read(&f->file, 0, all, h->header_bytes, err));
    if (XXH3_64bits(all + before, h->header_bytes - before) != h->checksum ||
        memcmp(all, h, sizeof *h) != 0)
        return sl_fail(err, SL_FORMAT, "%s: the header is damaged: its checksum differs", f->path);
    f->rows = (const sl_state_row *)(void *)(all + sizeof *h);
    f->lengths = (const uint64_t *)(const void *)(f->rows + h->row_count);
    f->parts = (const sl_state_part *)(const void *)(f->lengths + h->length_count);
    return check_tables(f, err);
}

sl_status sl_state_file_open(sl_state_file *file, const char *path, const sl_allocator *allocator,
                             sl_error *err) {
    *file = (sl_state_file){.path = path};
    sl_arena_init(&file->arena, allocator);
    SL_TRY(sl_file_open(path, &file->file, err));
    return read_header(file, err);
}

void sl_state_file_close(sl_state_file *file) {
    sl_file_close(&file->file);
    sl_arena_deinit(&file->arena);
}

sl_status sl_state_file_check(const sl_state_file *file, const sl_forward *forward,
                              const sl_fingerprint *fingerprint, sl_error *err) {
    const sl_state_header *h = &file->header;
    uint32_t count = 0;
    sl_forward_state state;
    SL_TRY(sl_fingerprint_check(file->path, &h->fingerprint, fingerprint, err));
    for (uint32_t i = 0; sl_forward_state_at(forward, i, &state); i++) {
        sl_state_row row;
        if (!sl_state_row_of(&state, &row)) continue;
        if (count >= h->row_count || memcmp(&row, &file->rows[count], sizeof row) != 0)
            return sl_fail(err, SL_FORMAT, "%s: saved with another model: the state '%s' differs",
                           file->path, state.name);
        count++;
    }
    if (count == h->row_count && h->block_bytes == sl_slot_block_bytes(forward) &&
        h->recurrent_bytes == sl_forward_recurrent_bytes(forward))
        return SL_OK;
    return sl_fail(err, SL_FORMAT, "%s: saved with another model: %u states, wanted %u", file->path,
                   h->row_count, count);
}

/* ---- the parts ---- */

static sl_status read_part(const sl_state_file *f, uint32_t part, const char *what, void *out,
                           sl_error *err) {
    const uint64_t bytes = f->parts[part].bytes;
    if (bytes) SL_TRY(sl_file_read(&f->file, f->offsets[part], out, bytes, err));
    if (XXH3_64bits(bytes ? out : "", bytes) == f->parts[part].checksum) return SL_OK;
    return sl_fail(err, SL_FORMAT, "%s: damaged: the checksum of %s differs", f->path, what);
}

sl_status sl_state_file_tokens(const sl_state_file *file, sl_token *out, sl_error *err) {
    const sl_state_header *h = &file->header;
    SL_TRY(read_part(file, SL_STATE_TOKENS, "its tokens", out, err));
    for (uint64_t i = 0; i < h->tokens - h->from; i++)
        if (out[i] < 0 || (uint32_t)out[i] >= h->vocab)
            return sl_fail(err, SL_FORMAT, "%s: damaged: token %llu is %d, the vocabulary has %u",
                           file->path, (unsigned long long)i, out[i], h->vocab);
    return SL_OK;
}

sl_status sl_state_file_note(const sl_state_file *file, void *out, sl_error *err) {
    return read_part(file, SL_STATE_NOTE, "its note", out, err);
}

sl_status sl_state_file_logits(const sl_state_file *file, float *out, sl_error *err) {
    return read_part(file, SL_STATE_LOGIT_PART, "its logits", out, err);
}

sl_status sl_state_file_recurrent(const sl_state_file *file, uint32_t index, void *out,
                                  sl_error *err) {
    return read_part(file, SL_STATE_FIRST_RECURRENT + index, "a recurrent state", out, err);
}

uint32_t sl_state_file_pieces(const sl_state_file *file) {
    return (uint32_t)sl_state_pieces(&file->header);
}

uint64_t sl_state_file_piece_blocks(const sl_state_file *file, uint32_t index) {
    return sl_state_blocks_in(&file->header, index);
}

sl_status sl_state_file_piece(const sl_state_file *file, uint32_t index, void *out, sl_error *err) {
    const uint32_t part = SL_STATE_FIRST_RECURRENT + file->header.length_count + index;
    return read_part(file, part, "keys and values", out, err);
}
