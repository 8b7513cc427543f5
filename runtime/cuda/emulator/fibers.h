/* fibers.h - Running a kernel's blocks, for the emulated driver. */
#ifndef SL_RUNTIME_CUDA_EMULATOR_FIBERS_H
#define SL_RUNTIME_CUDA_EMULATOR_FIBERS_H
#include "runtime/cuda/emulator/emulator.h"

namespace emulated {
struct launch {
    const kernel *what;
    dim3 grid, block;
    void *dynamic_shared;
    const void *args;
};
/* Whether a thread called follow(), and whether a block let successors start only after that. */
struct outcome {
    bool followed, led_late;
};
/* False when no device could run a block of that size. */
bool run(const launch &l, outcome *out);
/* kernels.cpp: nullptr when there is no such kernel. */
const kernel *find(const char *name);
} // namespace emulated
#endif
