/* device.h - What a backend implements: take a program, bind memory, run it. */
#ifndef SL_RUNTIME_DEVICE_H
#define SL_RUNTIME_DEVICE_H
#include "core/program.h"
#include "runtime/trace.h"

typedef struct sl_device sl_device;
typedef struct sl_executable sl_executable; /* a program made ready on a device */

typedef struct {
    const char *name;
    void (*destroy)(sl_device *device);
    /* Resolves every step to a kernel; an op, shape or type without one fails and names the step.
     * The program is borrowed and must outlive the executable. */
    sl_status (*load)(sl_device *device, const sl_program *program, sl_executable **out,
                      sl_error *err);
    void (*unload)(sl_executable *executable);
    /* INPUT, WEIGHT and STATE buffers: at least buffer.bytes, borrowed.  States are memory of the
     * device (allocate); the others are the host's: inputs are read in each run, weights may be
     * copied at the first binding and never again. */
    sl_status (*bind)(sl_executable *executable, sl_buffer_id buffer, void *data, sl_error *err);
    sl_status (*bind_experts)(sl_executable *executable, sl_buffer_id buffer,
                              sl_expert_source *source, sl_error *err);
    /* Runs all steps; allocates nothing. */
    sl_status (*run)(sl_executable *executable, sl_error *err);
    /* The same without waiting, NULL where a device cannot: two runs of an executable may be under
     * way, and finish waits for the earlier one.  Of its results the small ones are there then; a
     * large one is there once nothing is under way and fetch was called, until the next run. */
    sl_status (*start)(sl_executable *executable, sl_error *err);
    sl_status (*finish)(sl_executable *executable, sl_error *err);
    sl_status (*fetch)(sl_executable *executable, uint32_t output, sl_error *err);
    /* The same one step after another on the calling thread, in the given order of steps (NULL: the
     * program's): for debugging and for checking that any legal order gives the same bytes. */
    sl_status (*run_serially)(sl_executable *executable, const uint32_t *order, sl_error *err);
    /* Records when steps run from now on; NULL stops.  The trace is borrowed. */
    void (*attach)(sl_executable *executable, sl_trace *trace);
    /* Where an output lies after a run, in the host's memory. */
    const void *(*output)(const sl_executable *executable, uint32_t index);

    /* Memory of the device, undefined at first; NULL when there is none left.  Copies wait until
     * they are done. */
    void *(*allocate)(sl_device *device, uint64_t bytes);
    void (*release)(sl_device *device, void *memory, uint64_t bytes);
    sl_status (*copy_in)(sl_device *device, void *to, const void *from, uint64_t bytes,
                         sl_error *err);
    sl_status (*copy_out)(sl_device *device, void *to, const void *from, uint64_t bytes,
                          sl_error *err);
    sl_status (*copy_within)(sl_device *device, void *to, const void *from, uint64_t bytes,
                             sl_error *err);
    /* The bytes of a weight that is bound to host memory are others now. */
    sl_status (*weight_changed)(sl_device *device, const void *host, sl_error *err);

    /* For looking at a program step by step: one step alone, and the bytes of an operand (not of
     * experts) before or after it. */
    sl_status (*run_step)(sl_executable *executable, uint32_t step, sl_error *err);
    sl_status (*read)(sl_executable *executable, const sl_operand *operand, void *to,
                      sl_error *err);
    sl_status (*write)(sl_executable *executable, const sl_operand *operand, const void *from,
                       sl_error *err);
} sl_device_ops;

struct sl_device {
    const sl_device_ops *ops;
};

#endif
