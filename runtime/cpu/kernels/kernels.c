/* kernels.c - The kernels of one instruction set as a table. */
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernel_set.h"

#define KERNEL(OP, WEIGHT, FN)                                                                     \
    sl_split_fn SL_KERNEL(sl_split_##FN);                                                          \
    sl_kernel_fn SL_KERNEL(sl_run_##FN);
#define PREPARED_KERNEL(OP, WEIGHT, FN)                                                            \
    KERNEL(OP, WEIGHT, FN) sl_prepare_fn SL_KERNEL(sl_prepare_##FN);
#include "runtime/cpu/kernels.def"

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

enum { SL_DTYPE_any = SL_ANY_WEIGHT };

static const sl_kernel kernels[] = {
#define KERNEL(OP, WEIGHT, FN)                                                                     \
    {SL_OP_##OP, SL_DTYPE_##WEIGHT, #FN, SL_KERNEL(sl_split_##FN), SL_KERNEL(sl_run_##FN), NULL},
#define PREPARED_KERNEL(OP, WEIGHT, FN)                                                            \
    {SL_OP_##OP,                                                                                   \
     SL_DTYPE_##WEIGHT,                                                                            \
     #FN,                                                                                          \
     SL_KERNEL(sl_split_##FN),                                                                     \
     SL_KERNEL(sl_run_##FN),                                                                       \
     SL_KERNEL(sl_prepare_##FN)},
#include "runtime/cpu/kernels.def"
};

extern const sl_kernel_set SL_KERNEL(sl_kernel_set);
const sl_kernel_set SL_KERNEL(sl_kernel_set) = {
    .isa = TEXT(SL_ISA),
    .kernels = kernels,
    .count = sizeof kernels / sizeof kernels[0],
    .read = SL_KERNEL(sl_loop_read),
    .fma = SL_KERNEL(sl_loop_fma),
    .dot = SL_KERNEL(sl_loop_dot),
};
