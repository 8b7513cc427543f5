/* state_parts.h - The parts of a file of a sequence's state, as its header implies them. */
#ifndef SL_ENGINE_SESSION_STATE_PARTS_H
#define SL_ENGINE_SESSION_STATE_PARTS_H
#include "engine/session/slot.h"
#include "engine/session/state_file.h"

enum { SL_STATE_PIECE_BYTES = 8 << 20, SL_STATE_MOST_PIECE = 64 };
/* The first parts; recurrent states follow, then pieces. */
enum { SL_STATE_TOKENS, SL_STATE_NOTE, SL_STATE_LOGIT_PART, SL_STATE_FIRST_RECURRENT };

static inline uint64_t sl_state_blocks(const sl_state_header *h) {
    return sl_blocks_of(h->to - h->from);
}
static inline uint64_t sl_state_pieces(const sl_state_header *h) {
    return (sl_state_blocks(h) + h->piece_blocks - 1) / h->piece_blocks;
}
static inline uint64_t sl_state_blocks_in(const sl_state_header *h, uint64_t piece) {
    const uint64_t left = sl_state_blocks(h) - piece * h->piece_blocks;
    return left < h->piece_blocks ? left : h->piece_blocks;
}
static inline uint64_t sl_state_part_count(const sl_state_header *h) {
    return SL_STATE_FIRST_RECURRENT + h->length_count + sl_state_pieces(h);
}
/* Bytes of part i.  The numbers of the header are within their limits. */
static inline uint64_t sl_state_part_bytes(const sl_state_header *h, uint64_t i) {
    if (i == SL_STATE_TOKENS) return (h->tokens - h->from) * sizeof(sl_token);
    if (i == SL_STATE_NOTE) return h->note_bytes;
    if (i == SL_STATE_LOGIT_PART) return h->flags & SL_STATE_LOGITS ? h->vocab * sizeof(float) : 0;
    i -= SL_STATE_FIRST_RECURRENT;
    if (i < h->length_count) return h->recurrent_bytes;
    return sl_state_blocks_in(h, i - h->length_count) * h->block_bytes;
}
static inline uint64_t sl_state_header_bytes(const sl_state_header *h) {
    return sizeof *h + h->row_count * sizeof(sl_state_row) + h->length_count * sizeof(uint64_t) +
           h->part_count * sizeof(sl_state_part);
}
/* Fills in the row of a state; false: the state is not kept. */
bool sl_state_row_of(const sl_forward_state *state, sl_state_row *out);
#endif
