/* access_truth.h - Do the steps of a program access what they declare, and nothing else?
 *
 * Every buffer lies in device memory of its own, between guards.  Before a step runs, every byte
 * that it does not declare to read is filled with poison, guards and scratch memory included.
 * Afterwards all bytes outside its declared writes must be as they were, and a second run with
 * other poison must write the same bytes.  The next step gets what the program gave it. */
#ifndef SL_TESTS_SUPPORT_ACCESS_TRUTH_H
#define SL_TESTS_SUPPORT_ACCESS_TRUTH_H
#include "core/target.h"
#include "runtime/device.h"

typedef struct {
    const char *name; /* an instruction set, or "cuda" */
    sl_device *device;
    const sl_target *target;
    bool gpu;
} truth_device;

/* The CPU with each instruction set of this machine, then the emulated CUDA device if there is one.
 * They stay open until the program ends. */
enum { TRUTH_MOST_DEVICES = 5 };
uint32_t truth_devices(truth_device out[TRUTH_MOST_DEVICES]);

/* What the program's inputs, weights and states hold to begin with. */
typedef struct truth_contents truth_contents;
struct truth_contents {
    void (*fill)(const truth_contents *contents, const sl_buffer *buffer, void *data);
    sl_expert_source *source; /* NULL: no step uses experts */
    uint32_t experts;         /* of each layer */
};

/* The program must have been compiled for the device.  What lies where is changed.  why is empty if
 * every step is as it declares. */
enum { TRUTH_WHY = 400 };
void truth_check(const truth_device *on, sl_program *program, const truth_contents *contents,
                 char why[TRUTH_WHY]);

/* The kernels of a device, by their rows. */
uint32_t truth_kernel_count(const truth_device *on);
sl_op truth_kernel_op(const truth_device *on, uint32_t kernel);
const char *truth_kernel_name(const truth_device *on, uint32_t kernel);
/* 1 + the kernel that runs a step; 0: it has none, as what the host runs for a GPU. */
uint32_t truth_kernel_of(const truth_device *on, const sl_step *step);
#endif
