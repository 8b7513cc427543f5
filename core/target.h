/* target.h - What a device supports.  The compiler asks before a program exists, to decide which
 * ops to keep, rewrite or refuse. */
#ifndef SL_CORE_TARGET_H
#define SL_CORE_TARGET_H
#include "core/program.h"

/* A row of a device's kernel table. */
typedef struct {
    sl_op op;
    const char *types; /* for listings: the element type that selects the kernel, "any", .. */
} sl_target_kernel;

typedef struct {
    const char *name;
    sl_schedule_model schedule; /* the form of its programs; a LEVELS device also accepts groups */
    /* The host runs bodies, so they are rewritten to plain ops if possible. */
    bool hosts_bodies;
    const sl_target_kernel *kernels; /* for listings; ends with types NULL */
    /* SL_OK if the device supports such a step; else SL_UNSUPPORTED and the reason.  Only op,
     * label, attributes and operand types of the step need to be set. */
    sl_status (*accepts)(const sl_step *step, sl_error *err);
} sl_target;
#endif
