/* kernel_set.h - The kernels of an instruction set, and their lookup. */
#ifndef SL_RUNTIME_CPU_KERNEL_SET_H
#define SL_RUNTIME_CPU_KERNEL_SET_H
#include "core/ops.h"
#include "runtime/cpu/kernel.h"

typedef struct {
    sl_op op;
    int weight; /* required sl_dtype of the second input (or of the only one), or SL_ANY_WEIGHT */
    const char *name;
    sl_split_fn *split;
    sl_kernel_fn *run;
    sl_prepare_fn *prepare; /* NULL: nothing to prepare */
} sl_kernel;
enum { SL_ANY_WEIGHT = -1 };

typedef struct {
    const char *isa;
    const sl_kernel *kernels;
    uint32_t count;
    sl_read_loop *read;
    sl_compute_loop *fma, *dot;
} sl_kernel_set;

/* The best set that this machine supports, or the one called isa; NULL if the machine lacks it. */
const sl_kernel_set *sl_cpu_kernel_set(const char *isa);
/* NULL if there is no kernel.  Only the first two types matter. */
const sl_kernel *sl_cpu_kernel_find(const sl_kernel_set *set, sl_op op, const sl_type *input_types);
#endif
