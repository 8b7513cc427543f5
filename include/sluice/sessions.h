/* sessions.h - Sessions that outlive a process, copies of sessions, and reuse of what was computed.
 *
 * Functions that compute or copy take as long as that; sl_session_cancel ends what computes.  Those
 * that read and write files take memory for a part of a file meanwhile, at most 8 MiB or one
 * recurrent state, which sl_model_memory does not count.  What is declared here may still change.
 */
#ifndef SLUICE_SESSIONS_H
#define SLUICE_SESSIONS_H
#include "sluice/sluice.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The tokens of a session, borrowed until the next call that changes them. */
SL_API size_t sl_session_tokens(const sl_session *session, const sl_token **out);

/* Writes a session to a file: its tokens, their keys and values, recurrent states, the logits, and
 * `note`, bytes of the caller's own (NULL with 0 bytes: none).  The file is written under another
 * name, synced and renamed, so that it is complete or as it was. */
SL_API SL_CHECKED sl_status sl_session_save(sl_session *session, const char *path, const void *note,
                                            size_t note_bytes, sl_error *err);
/* Replaces what a session holds by what a file has; the next logits have the same bits as those of
 * the session that was saved.  SL_FORMAT: the file is damaged, of another version, of another model
 * (weights, config, tokenizer or chat template), or of one that was opened so that it computes
 * other bits: on another device or instruction set, with another type of keys and values, or with
 * exact activations instead of 8-bit ones.  SL_INVALID: it has more tokens than the context.  A
 * refused file leaves the session as it was, a damaged one may leave it empty.  out_note may be
 * NULL; otherwise it gets the note, released with sl_free, with a NUL after its last byte. */
SL_API SL_CHECKED sl_status sl_session_load(sl_session *session, const char *path, char **out_note,
                                            size_t *out_note_bytes, sl_error *err);

/* ---- Copies ---- */

/* Another session of the same model, in the same state: both can go on from there.  Its statistics
 * begin anew. */
SL_API SL_CHECKED sl_status sl_session_fork(sl_session *session, sl_session **out, sl_error *err);

/* ---- Drafts ---- */

/* Appends tokens that may turn out to be wrong, with the logits after each: out_logits[count *
 * vocab].  Afterwards sl_session_rewind to any place among them needs no forward pass: recurrent
 * state is computed from what this pass kept, until another session of the model has a draft.
 * Tokens are computed as one by one: on a CPU, the logits are the same bits as those of
 * sl_session_extend with one token after the other.  At most sl_model_options.draft_tokens. */
SL_API SL_CHECKED sl_status sl_session_draft(sl_session *session, const sl_token *tokens,
                                             size_t count, float *out_logits, sl_error *err);

/* ---- Reuse ---- */

/* Why tokens could not be reused. */
typedef enum {
    SL_REUSE_ALL,           /* nothing was computed */
    SL_REUSE_NOTHING_KEPT,  /* neither the session nor a cache has the first token */
    SL_REUSE_NEW_TOKENS,    /* what is known ends there, all of it is reused */
    SL_REUSE_OTHER_TOKENS,  /* what is known goes on with other tokens */
    SL_REUSE_LAST_TOKEN,    /* is computed again for its logits */
    SL_REUSE_NO_CHECKPOINT, /* recurrent state is kept after fewer tokens than are the same */
    SL_REUSE_LOGITS,        /* all tokens are computed for their logits (sl_request) */
} sl_reuse_reason;

typedef struct {
    size_t struct_size;     /* set by the caller */
    size_t tokens;          /* that the session was brought to */
    size_t reused;          /* of them; the others were computed */
    size_t same;            /* the longest prefix of them that was found anywhere */
    const char *source;     /* of what was reused: "session", "memory", "disk" or "nothing" */
    sl_reuse_reason reason; /* why not more was reused */
    char text[160];         /* the same in words, with numbers */
} sl_sync_report;

typedef struct {
    size_t struct_size;
    sl_progress_fn *progress; /* called between forward passes, in tokens */
    void *progress_ctx;
} sl_sync_options;

/* Makes a session consist of exactly these tokens, with the logits after the last one, by the
 * cheapest way: it keeps what it has of them, or takes a longer prefix of them from the caches, and
 * computes the rest.  Of models with recurrent state, copies are kept where a later conversation
 * may turn away: at the ends of the last messages, where an earlier one did, near the end, and
 * every 4096 tokens.  What is no longer part of the session goes into the cache in memory.  After
 * an error or sl_session_cancel, the session has the tokens that were finished.  options and report
 * may be NULL. */
SL_API SL_CHECKED sl_status sl_session_sync(sl_session *session, const sl_token *tokens,
                                            size_t count, const sl_sync_options *options,
                                            sl_sync_report *report, sl_error *err);
/* An answer is complete: what the session has computed goes into the caches, on disk too. */
SL_API SL_CHECKED sl_status sl_session_end_turn(sl_session *session, sl_error *err);

/* One line about something that went wrong and only costs time. */
typedef void sl_note_fn(void *ctx, const char *line);
typedef struct {
    size_t struct_size;
    const char *folder; /* is made if it is not there */
    uint64_t bytes;     /* that its entries may have together; default 8 GB */
    sl_note_fn *note;   /* called during calls of sessions of the model, and of schedulers by a
                         * thread of the library */
    void *note_ctx;
} sl_disk_cache_options;
/* From now on prefixes that leave the cache in memory (sl_model_options.prefix_cache_bytes), and
 * those of turns that end, are written to a folder, where this and other processes find them.  The
 * folder has what was said in it: only its owner can read a folder that is made here.  Call this
 * once, before the model has sessions. */
SL_API SL_CHECKED sl_status sl_model_cache_on_disk(sl_model *model,
                                                   const sl_disk_cache_options *options,
                                                   sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
