/* target.h - What a device supports.  The compiler asks before a program exists, to decide which
 * ops to keep, rewrite or refuse. */
#ifndef SL_CORE_TARGET_H
#define SL_CORE_TARGET_H
#include "core/program.h"

/* A row of a device's kernel table. */
typedef struct {
    sl_op op;
    const char *types; /* in words: the element type that chooses the kernel, "any", .. */
} sl_target_kernel;

typedef struct {
    const char *name;
    sl_schedule_model schedule; /* of programs for it; LEVELS: or groups */
    bool hosts_bodies;          /* the host runs bodies, so that they are rewritten if possible */
    const sl_target_kernel *kernels; /* for listings; ends with types NULL */
    /* SL_OK if the device supports such a step; else SL_UNSUPPORTED and the reason.  Only op,
     * label, attributes and operand types of the step need to be set. */
    sl_status (*accepts)(const sl_step *step, sl_error *err);
} sl_target;
#endif
