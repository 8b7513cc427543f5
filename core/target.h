/* target.h - What a device runs, asked before there is a program for it: where the compiler learns
 * which ops to keep, to rewrite or to refuse. */
#ifndef SL_CORE_TARGET_H
#define SL_CORE_TARGET_H
#include "core/program.h"

typedef struct {
    const char *name;
    bool wide_regions; /* elementwise ops join as elementwise_region, else as region */
    bool hosts_bodies; /* has to ask the host for each body: what can be rewritten is */
    /* SL_OK where the device runs such a step; else SL_UNSUPPORTED and why.  Of the step its op,
     * label, attributes and types of operands count, nothing else need be set. */
    sl_status (*accepts)(const sl_step *step, sl_error *err);
} sl_target;
#endif
