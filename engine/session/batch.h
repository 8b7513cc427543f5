/* batch.h - One forward pass over rows of several sessions.
 *
 * Sessions are added with the tokens that they are extended by; a pass computes a part of what each
 * has not computed yet.  Which rows these are is decided when it runs, from what the sessions are
 * then, so that sessions may be used by themselves in between.
 *
 * All functions are called with the model's lock held. */
#ifndef SL_ENGINE_SESSION_BATCH_H
#define SL_ENGINE_SESSION_BATCH_H
#include "engine/session/session.h"
#include "sluice/batch.h"

typedef struct {
    sl_session *session; /* NULL: it was destroyed */
    uint32_t rows;       /* granted, then computed */
    uint32_t first;      /* row in the pass */
    size_t before;       /* tokens of the session before it was added */
    bool takes_part;     /* in the pass */
    bool completes;      /* its last token is computed: there are logits */
    bool wants_all;      /* logits of all rows: set between sl_batch_take and the pass */
    const float *logits; /* with wants_all: of the first row, valid until the next pass */
    sl_error error;      /* status SL_OK: none */
} sl_batch_entry;

struct sl_batch {
    sl_model *model;
    sl_arena arena;
    sl_batch_entry *entries; /* [capacity] */
    uint32_t count, capacity;
    uint32_t rows, most_rows; /* granted, and at most */
    bool has_run;             /* the next session that is added begins another pass */
    int32_t *tokens, *slots, *positions, *wanted;
    sl_batch_stats stats;
};

/* most_rows 0: a chunk, and at least a row for each session that the model can have. */
SL_CHECKED sl_status sl_batch_make(sl_model *model, uint32_t most_rows, sl_batch **out,
                                   sl_error *err);
void sl_batch_release(sl_batch *batch);
/* Appends tokens to the session and grants it rows, at most `most` (0: any number); without an
 * error at least one. */
SL_CHECKED sl_status sl_batch_take(sl_batch *batch, sl_session *session, const sl_token *tokens,
                                   size_t count, uint32_t most, uint32_t *out_rows, sl_error *err);
/* Removes the session from the batch that it is in; its tokens stay. */
void sl_batch_leave(sl_session *session);
/* The pass.  An error of one session is in its entry only. */
SL_CHECKED sl_status sl_batch_pass(sl_batch *batch, sl_error *err);
sl_batch_entry *sl_batch_entry_of(const sl_batch *batch, const sl_session *session);
/* Rows of a session that are computed in one pass while more follow are a multiple of this, where
 * the division of rows into passes would change bits. */
uint32_t sl_batch_unit(const sl_model *model);
#endif
