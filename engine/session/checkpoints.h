/* checkpoints.h - Copies of a session's recurrent state after some of its tokens.
 *
 * A KV cache is truncated by ignoring its last rows.  Recurrent state (convolution windows and
 * delta-net memories) cannot be truncated: going back restores the last checkpoint before the
 * target, and the tokens after it are computed again.  A model without recurrent state has no
 * checkpoints. */
#ifndef SL_ENGINE_SESSION_CHECKPOINTS_H
#define SL_ENGINE_SESSION_CHECKPOINTS_H
#include "engine/session/forward.h"

enum {
    SL_DEFAULT_CHECKPOINTS = 4,
    SL_MAX_CHECKPOINTS = 64,
    SL_CHECKPOINT_TOKENS = 256, /* another checkpoint is due after this many tokens */
};

/* The memory of one session's checkpoints: bytes of each, and how many are kept. */
typedef struct {
    uint64_t bytes_each;
    uint32_t count; /* 0: the model has no recurrent state */
} sl_checkpoint_memory;
sl_checkpoint_memory sl_checkpoints_memory(const sl_forward *forward, uint32_t wanted);

typedef struct {
    size_t length; /* tokens that the state includes */
    void *data;    /* device memory */
} sl_checkpoint;

typedef struct {
    sl_forward *forward;
    uint32_t slot;
    uint32_t count, capacity;
    sl_checkpoint kept[SL_MAX_CHECKPOINTS]; /* the first `count` by ascending length; the others
                                             * own memory that is free */
} sl_checkpoints;

/* Allocates them all, so that saving allocates nothing; deinit after a failure too. */
SL_CHECKED sl_status sl_checkpoints_init(sl_checkpoints *checkpoints, sl_forward *forward,
                                         uint32_t slot, uint32_t wanted, sl_error *err);
void sl_checkpoints_deinit(sl_checkpoints *checkpoints);

/* Tokens of the last one; 0: there is none. */
size_t sl_checkpoints_last(const sl_checkpoints *checkpoints);
/* Saves the state after `length` tokens, which no checkpoint may exceed.  If all are in use, the
 * one whose loss costs least is overwritten. */
SL_CHECKED sl_status sl_checkpoints_save(sl_checkpoints *checkpoints, size_t length, sl_error *err);
/* Makes the state valid again at or before `length`, up to where its KV rows are valid, and forgets
 * the checkpoints after that.  Returns the number of tokens that the state includes. */
size_t sl_checkpoints_restore(sl_checkpoints *checkpoints, size_t length);
#endif
