/* pace.h - How much a scheduler does in one step, from what earlier steps took.
 *
 * While sequences decode, the rows of prompts beside them are as many as keep a step below a time.
 * Where the least part of a prompt takes longer, steps without prompts follow until the mean of the
 * steps is below it again.  (A smaller part would change bits in models with recurrent layers,
 * whose kernels divide a sequence at multiples of 64 tokens.)
 *
 * And another sequence is admitted while that does not raise the experts that are read again per
 * token: then the working sets of the live sequences fit the expert slots, or have none in common
 * with what the slots keep anyway. */
#ifndef SL_ENGINE_SESSION_PACE_H
#define SL_ENGINE_SESSION_PACE_H
#include "engine/session/model.h"

typedef struct {
    double reads;    /* experts read again per token, a moving mean */
    uint32_t steps;  /* that it is known from */
    uint64_t latest; /* of these */
} sl_pace_reads;

typedef struct {
    double target;         /* seconds of a step */
    uint32_t unit, most;   /* rows of prompts: a multiple of unit, at most most */
    bool streams;          /* not all experts fit */
    double decode_seconds; /* of steps without rows of prompts, a moving mean; 0: not known */
    double row_seconds;    /* more for each row of a prompt; 0: not known */
    uint32_t chunk;        /* rows of prompts in the next step while others decode */
    double owed;           /* seconds by which steps took longer than the target together; below 0:
                            * shorter */
    uint32_t skipped;      /* steps without prompts since the last part of one */
    uint64_t steps;
    sl_pace_reads by_count[SL_MAX_SESSIONS + 2]; /* [sequences that decode] */
} sl_pace;

/* A step as it was. */
typedef struct {
    uint32_t decoded;         /* sequences */
    uint32_t rows, prefilled; /* rows of these, and of prompts */
    double seconds;
    double compile_seconds; /* of these, which the next step does not take */
    uint64_t read_again;    /* experts, that were in memory before */
} sl_pace_step;

void sl_pace_init(sl_pace *pace, double target, uint32_t unit, uint32_t most, bool streams);
void sl_pace_note(sl_pace *pace, const sl_pace_step *step);
/* Rows of prompts in the next step. */
uint32_t sl_pace_rows(const sl_pace *pace, bool others_decode);
/* Whether another sequence may begin beside `live` ones. */
bool sl_pace_admits(const sl_pace *pace, uint32_t live);
#endif
