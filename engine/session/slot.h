/* slot.h - The state of one sequence in host memory: keys and values by blocks, recurrent state as
 * a whole.
 *
 * A block is what the states of a slot hold of SL_KV_LANES positions: for each state of the KV
 * cache in order, for each head, the bytes of these positions (core/kv.h).  Recurrent state is one
 * range of bytes, as in a checkpoint. */
#ifndef SL_ENGINE_SESSION_SLOT_H
#define SL_ENGINE_SESSION_SLOT_H
#include "core/kv.h"
#include "engine/session/forward.h"

/* What one state has of a block. */
typedef struct {
    uint64_t heads, blocks; /* of a page */
    uint64_t bytes;         /* of one head and one block */
    int64_t dim;
    bool keys; /* in the layout of keys, else of values */
} sl_block_shape;
sl_block_shape sl_block_shape_of(const sl_forward_state *state);

static inline uint64_t sl_blocks_of(uint64_t positions) {
    return (positions + SL_KV_LANES - 1) / SL_KV_LANES;
}
/* Bytes of one block, of all states. */
uint64_t sl_slot_block_bytes(const sl_forward *forward);
/* Copies `count` blocks from `first` on.  A slot that is read has them; what is written replaces
 * everything from there on. */
SL_CHECKED sl_status sl_slot_read_blocks(const sl_forward *forward, uint32_t slot, uint64_t first,
                                         uint64_t count, void *out, sl_error *err);
SL_CHECKED sl_status sl_slot_write_blocks(sl_forward *forward, uint32_t slot, uint64_t first,
                                          uint64_t count, const void *from, sl_error *err);
/* Of pages in order, whose first block is block 0. */
SL_CHECKED sl_status sl_pages_read_blocks(const sl_forward *forward, const int32_t *pages,
                                          uint64_t first, uint64_t count, void *out, sl_error *err);
/* Makes the positions of a block from `used` on zero: what they hold is undefined, or was rewound.
 */
void sl_block_clear(const sl_forward *forward, void *block, uint32_t used);

/* The recurrent state of a slot, or of a checkpoint (sl_forward_checkpoint_create). */
SL_CHECKED sl_status sl_slot_read_recurrent(const sl_forward *forward, uint32_t slot, void *out,
                                            sl_error *err);
SL_CHECKED sl_status sl_slot_write_recurrent(sl_forward *forward, uint32_t slot, const void *from,
                                             sl_error *err);
SL_CHECKED sl_status sl_checkpoint_read(const sl_forward *forward, const void *checkpoint,
                                        void *out, sl_error *err);
SL_CHECKED sl_status sl_checkpoint_write(sl_forward *forward, void *checkpoint, const void *from,
                                         sl_error *err);

/* Gives another slot what a slot has of the first positions, in the same pages, and copies its
 * recurrent state. */
SL_CHECKED sl_status sl_slot_share(sl_forward *forward, uint32_t from, uint32_t to,
                                   uint64_t positions, sl_error *err);
#endif
