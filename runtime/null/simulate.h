/* simulate.h - Runs a program on a simulated machine that uses every freedom the schedule allows.
 *
 * Nothing is computed.  Every byte remembers which step wrote it last, and every read knows which
 * step's write it must see; anything else is an error.  Between barriers steps run in a random
 * order, and each write is seen at once or not before the barrier, as it falls.  With edges, steps
 * run in a random order that the edges allow.
 *
 * Levels and groups are handed over in submits, one or two as the program says.  What is before the
 * last barrier of a submit has run when the submit returns.  What is after it may have run, or may
 * wait: the end of a submit is no barrier, and steps of the next one may belong to the same group.
 */
#ifndef SL_RUNTIME_NULL_SIMULATE_H
#define SL_RUNTIME_NULL_SIMULATE_H
#include "core/check/spans.h"
#include "core/check/touches.h"

typedef struct {
    const sl_program *program;
    sl_touches touches;
    sl_spans seen;          /* of every address: 1 + the step that wrote what is there; 0: none */
    sl_spans_item *wanted;  /* what reads are meant to see, by step; then what must be left */
    uint32_t *first_wanted; /* [step_count + 2] */
    uint32_t *order;        /* [step_count]: of the run in progress */
    uint32_t *waiting;      /* [step_count]: for how many others */
    uint32_t *delayed;      /* touches whose writes wait for the barrier */
    uint32_t delayed_count;
    uint32_t handed; /* steps that were handed over in this run */
    uint32_t group;  /* the first of those that no barrier has followed yet; */
    uint32_t ran;    /* those from here on have not run */
    uint64_t random;
} sl_simulation;

/* The program has passed sl_check_bounds; it is borrowed.  Memory comes from arena. */
SL_CHECKED sl_status sl_simulation_init(sl_simulation *simulation, const sl_program *program,
                                        sl_arena *arena, sl_error *err);
/* Other choices each time; the same in each program's first run, second run, and so on. */
SL_CHECKED sl_status sl_simulation_run(sl_simulation *simulation, sl_error *err);
/* The same by submits: begin, submit the steps up to `end` with ascending ends, finish.  For levels
 * and groups. */
void sl_simulation_begin(sl_simulation *simulation);
SL_CHECKED sl_status sl_simulation_submit(sl_simulation *simulation, uint32_t end, sl_error *err);
SL_CHECKED sl_status sl_simulation_finish(sl_simulation *simulation, sl_error *err);
/* In the given order, each write seen at once; NULL: the program's order. */
SL_CHECKED sl_status sl_simulation_run_serially(sl_simulation *simulation, const uint32_t *order,
                                                sl_error *err);
#endif
