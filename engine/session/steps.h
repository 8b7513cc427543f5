/* steps.h - A model's step, compiled per shape and kept.
 *
 * A step takes some rows (tokens of any sequences) through the model.  Programs are compiled when a
 * shape is first asked for and replayed afterwards; a few shapes are kept, the least recently used
 * one makes room. */
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
    const double *how; /* [count][SL_CHOOSE_COLUMNS] of a step that is started (core/choose.h) */
} sl_step_rows;

typedef struct {
    const float *logits, *hidden; /* [wanted, vocab], [wanted, hidden]; until the next run */
} sl_step_result;

typedef struct {
    const sl_architecture *architecture;
    sl_step_shape shape; /* rows and wanted are set per step */
    sl_device *device;   /* NULL: the reference evaluator */
    sl_expert_source *experts_source;
    sl_compile_how how; /* for devices */
    const sl_allocator *allocator;
} sl_steps_options;

typedef struct {
    uint64_t compiled;
    double compile_seconds; /* of all programs: what follows, and binding */
    double build_seconds, fuse_seconds, lower_seconds, schedule_seconds, plan_seconds, load_seconds;
    uint64_t state_bytes;
    uint32_t step_count, level_count; /* of the program compiled last */
    uint64_t arena_bytes, unshared_bytes;
} sl_steps_stats;

typedef struct sl_steps sl_steps;
/* Compiles the one-row step, which finds and checks every weight and allocates the states. */
SL_CHECKED sl_status sl_steps_create(const sl_steps_options *options, sl_steps **out,
                                     sl_error *err);
void sl_steps_destroy(sl_steps *steps);
SL_CHECKED sl_status sl_steps_run(sl_steps *steps, const sl_step_rows *rows, sl_step_result *out,
                                  sl_error *err);

/* Whether steps can be started that choose a token for each of their rows, all of which are wanted,
 * and need not be waited for: their successors take a token of -1 for what was chosen.  Two may be
 * under way at once, of one shape; no other may run before they are finished. */
bool sl_steps_can_choose(const sl_steps *steps);
SL_CHECKED sl_status sl_steps_start(sl_steps *steps, const sl_step_rows *rows, sl_error *err);
/* Waits for the earlier of those under way: the tokens it chose, [count]. */
SL_CHECKED sl_status sl_steps_finish(sl_steps *steps, const int32_t **out_tokens, sl_error *err);
/* The other results of the step that was finished last, when none is under way. */
SL_CHECKED sl_status sl_steps_fetch(sl_steps *steps, sl_step_result *out, sl_error *err);

/* The rows of a step that sl_steps_prepare made ready, for running it step by step. */
SL_CHECKED sl_status sl_steps_set_rows(sl_steps *steps, const sl_step_rows *rows, sl_error *err);
sl_steps_stats sl_steps_describe(const sl_steps *steps);
const sl_steps_options *sl_steps_given(const sl_steps *steps);

/* The step of a shape, compiled now unless it is kept; to look at, until the next call. */
typedef struct {
    const sl_program *program;
    sl_executable *executable;
} sl_prepared_step;
SL_CHECKED sl_status sl_steps_prepare(sl_steps *steps, uint32_t rows, uint32_t wanted,
                                      sl_prepared_step *out, sl_error *err);

/* The recurrent part of a slot's state (conv windows and delta memories), which unlike KV cannot be
 * cut back.  bytes is the same for every slot.  A checkpoint holds it, in the device's memory. */
uint64_t sl_steps_recurrent_bytes(const sl_steps *steps);
void *sl_steps_checkpoint_create(sl_steps *steps); /* NULL: no memory */
void sl_steps_checkpoint_destroy(sl_steps *steps, void *checkpoint);
SL_CHECKED sl_status sl_steps_save_recurrent(sl_steps *steps, uint32_t slot, void *checkpoint,
                                             sl_error *err);
SL_CHECKED sl_status sl_steps_load_recurrent(sl_steps *steps, uint32_t slot, void *checkpoint,
                                             sl_error *err);

/* The other part, which grows with the context: bytes of one slot at its full length. */
uint64_t sl_steps_kv_bytes(const sl_steps *steps);
/* Fills it with noise, as if all positions of the slot had been computed. */
SL_CHECKED sl_status sl_steps_imagine_kv(sl_steps *steps, uint32_t slot, sl_error *err);
#endif
