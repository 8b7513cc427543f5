/* devices.h - The table of devices.
 *
 * Code that needs a device looks up its row here and queries its capabilities (runtime/device.h);
 * no other code compares device names or includes a device's folder. */
#ifndef SL_RUNTIME_DEVICES_H
#define SL_RUNTIME_DEVICES_H
#include "core/target.h"
#include "runtime/device.h"

/* On failure err says why: no driver, no hardware, no kernels built. */
typedef sl_status sl_device_create_fn(const sl_device_options *options,
                                      const sl_allocator *allocator, sl_device **out,
                                      sl_error *err);

typedef struct {
    const char *name;            /* as users write it */
    const char *summary;         /* what it is, in one line */
    const sl_target *target;     /* supported steps; NULL: all */
    sl_device_create_fn *create; /* NULL: no device, graphs are evaluated (compiler/eval.h) */
    bool (*present)(void);       /* for an accelerator: whether this machine seems to have one */
    bool accelerator;            /* preferred if no device is named */
    bool checks_only;            /* computes nothing, so models cannot run on it */
} sl_device_row;

/* NULL past the end. */
const sl_device_row *sl_device_row_at(uint32_t index);
/* name NULL: the CPU.  The error message lists the known names. */
SL_CHECKED sl_status sl_device_find(const char *name, const sl_device_row **out, sl_error *err);

/* Opens the first accelerator that works, else the CPU.  passed_over says why an accelerator that
 * is present was not used; its status is SL_OK if there is none. */
typedef struct {
    const sl_device_row *row;
    sl_device *device;
    sl_error passed_over;
} sl_best_device;
SL_CHECKED sl_status sl_device_open_best(const sl_device_options *options,
                                         const sl_allocator *allocator, sl_best_device *out,
                                         sl_error *err);

/* NULL: the reference evaluator. */
sl_device_info sl_device_describe(const sl_device *device);
sl_device_stats sl_device_stats_of(const sl_device *device);
#endif
