/* bound_program.h - A program on a device with memory bound to it: run it, and compare what it
 * leaves to the last bit. */
#ifndef SL_TESTS_SUPPORT_BOUND_PROGRAM_H
#define SL_TESTS_SUPPORT_BOUND_PROGRAM_H
#include "engine/session/model.h"
#include "runtime/device.h"

typedef struct {
    const sl_program *program;
    sl_device *device;
    sl_executable *executable;
    void **memory; /* [buffer]: ours, or NULL; of states what they begin with, and end with */
    void **states; /* [buffer]: the device's memory of states, or NULL */
} bound_program;

/* Inputs, weights and states are filled at random, by name; weights and experts come from the model
 * when there is one.  "slots" are 0 and "positions" count from 5 on, so that states are read. */
void bound_program_init(bound_program *bound, const sl_program *program, sl_device *device,
                        sl_model *model);
void bound_program_deinit(bound_program *bound);
/* Puts the states back to their beginning and runs; order NULL: by run(), else by run_serially().
 * Returns a digest of all outputs and states. */
uint64_t bound_program_run(bound_program *bound, const uint32_t *order);
#endif
