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
/* False when no device could run a block of that size. */
bool run(const launch &l);
/* kernels.cpp: nullptr when there is no such kernel. */
const kernel *find(const char *name);
} // namespace emulated
#endif
