/* forward.h - The forward pass of a model, compiled per shape and cached.
 *
 * A forward pass processes some rows (tokens of any sequences).  A program is compiled when its
 * shape is first used and replayed afterwards; a few programs are kept, and the least recently used
 * one is evicted.
 *
 * Where the model has several sequences and the device can resize programs, two programs that are
 * compiled for the largest sizes serve all passes of several rows, and stay.  On a device that
 * cannot, such a pass is run by the program of the next larger of a few sizes: rows that are added
 * are a sequence of their own, in a slot that no other has. */
#ifndef SL_ENGINE_SESSION_FORWARD_H
#define SL_ENGINE_SESSION_FORWARD_H
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "engine/models/architecture.h"
#include "engine/session/kv_pages.h"
#include "runtime/device.h"

enum { SL_MAX_FORWARD_ROWS = 4096, SL_KEPT_FORWARDS = 8, SL_KEPT_SIZES = 24 };
/* Wanted rows that a pass may have besides most_wanted without a program of its own: the first such
 * pass compiles one for all of them. */
enum { SL_SCORED_ROWS = 64 };

/* Is called before and after a forward pass of the rows that it is given with, with the model's
 * lock held. */
typedef struct {
    const sl_program *program;
    sl_executable *executable;
    sl_device *device;
    uint32_t rows;
    double compile_seconds; /* which the pass took before it; 0: it was compiled already */
} sl_watched_forward;
typedef struct {
    void (*begin)(void *ctx, const sl_watched_forward *pass);
    void (*end)(void *ctx, const sl_watched_forward *pass);
    void *ctx;
} sl_forward_watch;

typedef struct {
    uint32_t count, wanted;
    const int32_t *tokens, *slots, *positions; /* [count] */
    const int32_t *wanted_rows; /* [wanted], ascending; NULL when wanted is 0 or count */
    const double *sampling; /* [count][SL_CHOOSE_COLUMNS] sampling parameters of sl_forward_start
                               (core/choose.h) */
    bool reveals;           /* sl_forward_run: the layers, for sl_forward_revealed */
    bool keeps;             /* sl_forward_run: what sl_forward_replay needs, for sl_forward_keep */
    bool exact;             /* sl_forward_run: by a program of exactly this size */
    const sl_forward_watch *watch; /* of sl_forward_run on a device; NULL: none */
} sl_forward_rows;

typedef struct {
    const float *logits, *hidden; /* [wanted, vocab], [wanted, hidden]; valid until the next run */
} sl_forward_result;

typedef struct {
    const sl_architecture *architecture;
    sl_forward_shape shape; /* rows and wanted are set per forward pass */
    uint32_t chunk_rows;    /* rows of the largest usual pass, compiled at once; 0 or 1: none */
    uint32_t most_wanted;   /* wanted rows of passes of any size; 0: each size has its program */
    uint32_t draft_rows;    /* most rows of a pass that keeps; 0: there are none */
    sl_device *device;      /* NULL: the reference evaluator */
    sl_expert_source *experts_source; /* set before the passes are bound */
    sl_compiler_options compile;      /* for devices */
    const sl_allocator *allocator;
} sl_forward_options;

typedef struct {
    uint64_t compiled;
    double compile_seconds; /* of all programs: the times below, and binding; the first program
                             * finds the weights, whose reading is not included */
    double build_seconds, fuse_seconds, lower_seconds, schedule_seconds, plan_seconds, load_seconds;
    uint64_t state_bytes;
    uint32_t step_count, level_count; /* of the last compiled program */
    uint64_t arena_bytes, unshared_bytes;
} sl_forward_stats;

typedef struct sl_forward sl_forward;
/* Compiles the forward passes of one row and of chunk_rows, which finds and checks every weight. */
SL_CHECKED sl_status sl_forward_create(const sl_forward_options *options, sl_forward **out,
                                       sl_error *err);
void sl_forward_destroy(sl_forward *forward);
/* Whether passes of 2 to chunk_rows rows, with up to most_wanted of them wanted, need no program of
 * their own. */
bool sl_forward_is_sized(const sl_forward *forward);
/* Programs that are kept at most. */
uint32_t sl_forward_most_kept(const sl_forward *forward);
/* Allocates the states and binds everything; the weights have been read.  Nothing runs before.  A
 * pass makes the positions of its rows writable in the pages of the KV cache, and fails if there is
 * none left. */
SL_CHECKED sl_status sl_forward_bind(sl_forward *forward, sl_expert_source *experts, sl_error *err);
SL_CHECKED sl_status sl_forward_run(sl_forward *forward, const sl_forward_rows *rows,
                                    sl_forward_result *out, sl_error *err);

/* A value of a layer, of the pass that ran last; data is valid until the next one. */
typedef struct {
    const char *name; /* "layers.3.output" */
    sl_type type;     /* f32 or i32, [rows, columns] */
    const void *data;
} sl_revealed;
/* Those of the pass that ran last, in order, if its rows asked for them; *out_found: whether there
 * is one at the index. */
SL_CHECKED sl_status sl_forward_revealed(sl_forward *forward, uint32_t index, sl_revealed *out,
                                         bool *out_found, sl_error *err);

/* ---- Drafts, in models with recurrent state ---- */

/* A pass that keeps wants all its rows, which belong to one sequence.  Its recurrent layers compute
 * row by row.  sl_forward_keep copies what it kept, before another pass runs. */
SL_CHECKED sl_status sl_forward_keep(sl_forward *forward, sl_error *err);
/* Advances recurrent state by the first rows of the pass that was kept last, to the same bits, from
 * the state before it.  Of the rows, slots and positions count; none are wanted. */
SL_CHECKED sl_status sl_forward_replay(sl_forward *forward, const sl_forward_rows *rows,
                                       sl_error *err);

/* Whether the device can sample by itself.  A started forward pass samples a token for each of its
 * rows (all must be wanted) and need not be waited for: pass -1 as token to continue from the
 * sampled one.  Two passes of one shape may be in flight; no other may run before they are
 * finished. */
bool sl_forward_can_choose(const sl_forward *forward);
SL_CHECKED sl_status sl_forward_start(sl_forward *forward, const sl_forward_rows *rows,
                                      sl_error *err);
/* Waits for the earliest pass in flight and returns the tokens that it sampled, [count]. */
SL_CHECKED sl_status sl_forward_finish(sl_forward *forward, const int32_t **out_tokens,
                                       sl_error *err);
/* The other results of the pass that was finished last; none may be in flight. */
SL_CHECKED sl_status sl_forward_fetch(sl_forward *forward, sl_forward_result *out, sl_error *err);

/* Sets the rows of a pass prepared by sl_forward_prepare, for running it step by step. */
SL_CHECKED sl_status sl_forward_set_rows(sl_forward *forward, const sl_forward_rows *rows,
                                         sl_error *err);
sl_forward_stats sl_forward_describe(const sl_forward *forward);
const sl_forward_options *sl_forward_options_of(const sl_forward *forward);

/* The compiled forward pass of a shape, compiled now unless it is cached; valid until the next
 * call. */
typedef struct {
    const sl_program *program;
    sl_executable *executable;
} sl_prepared_forward;
SL_CHECKED sl_status sl_forward_prepare(sl_forward *forward, uint32_t rows, uint32_t wanted,
                                        sl_prepared_forward *out, sl_error *err);

/* The recurrent part of a slot's state (convolution windows and delta-net memories), which unlike
 * the KV cache cannot be truncated.  Its size is the same for every slot, and 0 if the model has
 * none.  A checkpoint is a copy of it in device memory; there are none where the size is 0. */
uint64_t sl_forward_recurrent_bytes(const sl_forward *forward);
void *sl_forward_checkpoint_create(sl_forward *forward); /* NULL: no memory */
void sl_forward_checkpoint_destroy(sl_forward *forward, void *checkpoint);
SL_CHECKED sl_status sl_forward_save_recurrent(sl_forward *forward, uint32_t slot, void *checkpoint,
                                               sl_error *err);
SL_CHECKED sl_status sl_forward_load_recurrent(sl_forward *forward, uint32_t slot, void *checkpoint,
                                               sl_error *err);

/* A state, by index: what all slots, or pages of the KV cache, have of it, one after another
 * (engine/session/slot.h). */
typedef struct {
    const char *name;
    char *data;          /* device memory; NULL before sl_forward_bind */
    uint64_t bytes_each; /* of one slot or page */
    sl_state_kind kind;
    const sl_type *type; /* as declared; without a device, elements are doubles */
} sl_forward_state;
/* False: there is none at the index. */
bool sl_forward_state_at(const sl_forward *forward, uint32_t index, sl_forward_state *out);
/* Bytes that a state of a type takes. */
uint64_t sl_forward_state_bytes(const sl_forward_options *options, const sl_type *type);

/* The KV cache: bytes of one page, and its pages (NULL before sl_forward_bind). */
uint64_t sl_forward_page_bytes(const sl_forward *forward);
sl_kv_pages *sl_forward_kv_pages(const sl_forward *forward);
/* Memory of the tables that say which pages there are, in passes of as many rows as usual. */
uint64_t sl_forward_table_bytes(const sl_forward *forward);
/* Fills the first positions of a slot in the KV cache with noise, as if they had been computed. */
SL_CHECKED sl_status sl_forward_fake_kv(sl_forward *forward, uint32_t slot, uint32_t positions,
                                        sl_error *err);
#endif
