/* prefixes.h - What sessions of a model have computed, kept for others in memory and on disk.
 *
 * All functions but create and destroy are called with the model's lock held. */
#ifndef SL_ENGINE_SESSION_PREFIXES_H
#define SL_ENGINE_SESSION_PREFIXES_H
#include "engine/session/prefix_disk.h"
#include "engine/session/session.h"
#include "sluice/sessions.h"

/* The cache in memory, if the model has a budget for it. */
SL_CHECKED sl_status sl_prefixes_create(sl_model *model, sl_error *err);
SL_CHECKED sl_status sl_prefixes_open_disk(sl_model *model, const sl_disk_cache_options *options,
                                           sl_error *err);
void sl_prefixes_destroy(sl_model *model);

/* Puts what a session has computed into the cache in memory, and with `ends` on disk. */
void sl_prefixes_keep(const sl_session *session, bool ends);

/* How a session comes to some tokens. */
enum { SL_MAX_STOPS = 80 };
typedef struct {
    size_t reused, same;
    const char *source;
    /* Where recurrent state is worth keeping on the way, ascending. */
    size_t stops[SL_MAX_STOPS];
    uint32_t stop_count;
    sl_reuse_reason reason;
} sl_reuse;
/* How it is done. */
typedef struct {
    size_t most;     /* tokens are reused */
    double seconds;  /* for reading from disk in one call; 0: any number */
    uint64_t loaded; /* blocks of the slot that calls before have read */
    bool unfinished; /* call it again, with the session as it is, or sl_session_restore, which gives
                      * up the pages of what was read */
} sl_reuse_plan;
/* Makes the session consist of the longest prefix of the tokens that needs no computation.  If that
 * is all of them, it has their logits. */
SL_CHECKED sl_status sl_session_reuse(sl_session *session, const sl_token *tokens, size_t count,
                                      sl_reuse_plan *plan, sl_reuse *out, sl_error *err);
/* As a report of sl_session_sync. */
void sl_reuse_describe(const sl_reuse *reuse, size_t count, sl_sync_report *out);
#endif
