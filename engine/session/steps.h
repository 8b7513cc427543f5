/* steps.h - The forward pass of a model, compiled per shape and cached.
 *
 * A forward pass processes some rows (tokens of any sequences).  A program is compiled when its
 * shape is first used and replayed afterwards; a few programs are kept, and the least recently used
 * one is evicted. */
#ifndef SL_ENGINE_SESSION_STEPS_H
#define SL_ENGINE_SESSION_STEPS_H
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "engine/models/architecture.h"
#include "runtime/device.h"

enum { SL_MAX_STEP_ROWS = 4096, SL_KEPT_STEPS = 16 };

typedef struct {
    uint32_t count, wanted;
    const int32_t *tokens, *slots, *positions; /* [count] */
    const int32_t *wanted_rows;                /* [wanted]; NULL when wanted is 0 or count */
    const double
        *how; /* [count][SL_CHOOSE_COLUMNS] sampling parameters of sl_steps_start (core/choose.h) */
} sl_step_rows;

typedef struct {
    const float *logits, *hidden; /* [wanted, vocab], [wanted, hidden]; valid until the next run */
} sl_step_result;

typedef struct {
    const sl_architecture *architecture;
    sl_step_shape shape; /* rows and wanted are set per forward pass */
    sl_device *device;   /* NULL: the reference evaluator */
    sl_expert_source *experts_source;
    sl_compile_how how; /* for devices */
    const sl_allocator *allocator;
} sl_steps_options;

typedef struct {
    uint64_t compiled;
    double compile_seconds; /* of all programs: the times below, and binding */
    double build_seconds, fuse_seconds, lower_seconds, schedule_seconds, plan_seconds, load_seconds;
    uint64_t state_bytes;
    uint32_t step_count, level_count; /* of the last compiled program */
    uint64_t arena_bytes, unshared_bytes;
} sl_steps_stats;

typedef struct sl_steps sl_steps;
/* Compiles the forward pass of one row, which finds and checks every weight and allocates the
 * states. */
SL_CHECKED sl_status sl_steps_create(const sl_steps_options *options, sl_steps **out,
                                     sl_error *err);
void sl_steps_destroy(sl_steps *steps);
SL_CHECKED sl_status sl_steps_run(sl_steps *steps, const sl_step_rows *rows, sl_step_result *out,
                                  sl_error *err);

/* Whether the device can sample by itself.  A started forward pass samples a token for each of its
 * rows (all must be wanted) and need not be waited for: pass -1 as token to continue from the
 * sampled one.  Two passes of one shape may be in flight; no other may run before they are
 * finished. */
bool sl_steps_can_choose(const sl_steps *steps);
SL_CHECKED sl_status sl_steps_start(sl_steps *steps, const sl_step_rows *rows, sl_error *err);
/* Waits for the earliest pass in flight and returns the tokens that it sampled, [count]. */
SL_CHECKED sl_status sl_steps_finish(sl_steps *steps, const int32_t **out_tokens, sl_error *err);
/* The other results of the pass that was finished last; none may be in flight. */
SL_CHECKED sl_status sl_steps_fetch(sl_steps *steps, sl_step_result *out, sl_error *err);

/* Sets the rows of a pass prepared by sl_steps_prepare, for running it step by step. */
SL_CHECKED sl_status sl_steps_set_rows(sl_steps *steps, const sl_step_rows *rows, sl_error *err);
sl_steps_stats sl_steps_describe(const sl_steps *steps);
const sl_steps_options *sl_steps_given(const sl_steps *steps);

/* The compiled forward pass of a shape, compiled now unless it is cached; valid until the next
 * call. */
typedef struct {
    const sl_program *program;
    sl_executable *executable;
} sl_prepared_step;
SL_CHECKED sl_status sl_steps_prepare(sl_steps *steps, uint32_t rows, uint32_t wanted,
                                      sl_prepared_step *out, sl_error *err);

/* The recurrent part of a slot's state (convolution windows and delta-net memories), which unlike
 * the KV cache cannot be truncated.  Its size is the same for every slot.  A checkpoint is a copy
 * of it in device memory. */
uint64_t sl_steps_recurrent_bytes(const sl_steps *steps);
void *sl_steps_checkpoint_create(sl_steps *steps); /* NULL: no memory */
void sl_steps_checkpoint_destroy(sl_steps *steps, void *checkpoint);
SL_CHECKED sl_status sl_steps_save_recurrent(sl_steps *steps, uint32_t slot, void *checkpoint,
                                             sl_error *err);
SL_CHECKED sl_status sl_steps_load_recurrent(sl_steps *steps, uint32_t slot, void *checkpoint,
                                             sl_error *err);

/* The KV cache: bytes of one slot at full context length. */
uint64_t sl_steps_kv_bytes(const sl_steps *steps);
/* Fills the KV cache of the slot with noise, as if all its positions had been computed. */
SL_CHECKED sl_status sl_steps_imagine_kv(sl_steps *steps, uint32_t slot, sl_error *err);
#endif
