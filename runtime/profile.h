/* profile.h - Time of traced runs by op and by label. */
#ifndef SL_RUNTIME_PROFILE_H
#define SL_RUNTIME_PROFILE_H
#include "runtime/trace.h"

typedef struct {
    const char *name; /* of an op, or a label of the program */
    uint64_t calls;   /* steps run, however many chunks each was cut into */
    double seconds;   /* of all members together */
    double share;     /* of the seconds of all rows, 0 to 1 */
} sl_profile_row;

typedef struct {
    sl_profile_row *ops, *labels; /* most seconds first */
    uint32_t op_count, label_count;
    uint32_t runs;
    double busy_seconds; /* sum over all events */
    double wall_seconds; /* sum over runs of first begin to last end */
} sl_profile;

/* An empty trace with room for so many runs, in arena. */
SL_CHECKED sl_status sl_trace_create(const sl_program *program, uint32_t runs, sl_arena *arena,
                                     sl_trace *out, sl_error *err);
/* Rows live in arena, names in the program. */
SL_CHECKED sl_status sl_profile_build(const sl_program *program, const sl_trace *trace,
                                      sl_arena *arena, sl_profile *out, sl_error *err);
#endif
