/* kernels.cpp - The table of all kernels, made from functions.def and order_kernels.def.
 *
 * It does not link where a row has no kernel ("undefined reference to entry_<name>"), nor where a
 * kernel has no row or one with another struct ("name_of_<name>(<struct> const*)"). */
#include "core/splat.c" /* what its header declares is defined in each file of C++ */
#include "runtime/cuda/emulator/fibers.h"
#include "runtime/cuda/emulator/order_kernels.h"
#include "runtime/cuda/kernels/arguments.h"

#define DECLARE(NAME, ARGS)                                                                        \
    extern emulated::kernel entry_##NAME;                                                          \
    const char *name_of_##NAME(const ARGS *);                                                      \
    const char *name_of_##NAME(const ARGS *) {                                                     \
        return #NAME;                                                                              \
    }
#define FUNCTION DECLARE
#include "runtime/cuda/functions.def"
#define FUNCTION DECLARE
#include "runtime/cuda/emulator/order_kernels.def"

namespace emulated {
static const kernel *const kernels[] = {
#define ENTRY(NAME, ARGS) &entry_##NAME,
#define FUNCTION          ENTRY
#include "runtime/cuda/functions.def"
#define FUNCTION ENTRY
#include "runtime/cuda/emulator/order_kernels.def"
};

const kernel *find(const char *name) {
    for (const kernel *k : kernels)
        if (std::strcmp(k->name, name) == 0) return k;
    return nullptr;
}
} // namespace emulated
