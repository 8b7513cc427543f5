/* kernel.h - The interface of CPU kernels.
 *
 * A kernel computes items [begin, end) of a step, where items are independent parts of the output
 * (rows, heads, panels).  The result of an item never depends on how items are divided, so results
 * do not depend on the number of threads.
 *
 * Each kernel file is compiled once per instruction set, named by SL_ISA; SL_KERNEL(f) appends its
 * suffix to a name.  kernels.def lists which kernel serves which op and weight type. */
#ifndef SL_RUNTIME_CPU_KERNEL_H
#define SL_RUNTIME_CPU_KERNEL_H
#include "core/model_ops.h"

typedef struct {
    int64_t items;        /* number of items */
    int64_t grain;        /* minimum number of items per chunk */
    size_t scratch_bytes; /* per worker, 64-byte aligned */
} sl_split;

/* A body of the current step: a program with its own memory, which runs on the calling thread and
 * allocates nothing. */
typedef struct sl_body sl_body;
struct sl_body {
    /* Binds an input, in order of declaration; data is borrowed until the next run has ended. */
    void (*bind)(sl_body *body, uint32_t input, const void *data);
    sl_status (*run)(sl_body *body, sl_error *err);
    /* Valid until the next run; may alias the data of a bound input. */
    const void *(*output)(const sl_body *body, uint32_t index);
};

typedef struct {
    void *scratch;
    sl_error *err;
    const void *prepared;   /* from sl_prepare_<fn>, for kernels that have one */
    sl_body *const *bodies; /* in the order of the attributes; NULL if omitted */
    const char *label;      /* of the step */
} sl_worker;

/* args is the op's sl_<op>_args. */
typedef sl_split sl_split_fn(const void *args);
typedef sl_status sl_kernel_fn(const void *args, int64_t begin, int64_t end, sl_worker *worker);
/* Builds tables that depend only on types and attributes, once, when a program is loaded.  Returns
 * their size in bytes, and fills them unless memory (64-byte aligned) is NULL. */
typedef size_t sl_prepare_fn(const void *args, void *memory);

/* Loops that measure the limits of the machine; their results are only used to prevent
 * optimisation. read: every byte of a block once, as four streams.  fma: multiply and add floats in
 * registers. dot: the same with bytes, by the instructions that int8 kernels use. */
typedef float sl_read_loop(const void *block, size_t bytes);
typedef float sl_compute_loop(uint64_t rounds, uint64_t *out_operations);

/* All instruction sets, of all machines. */
#define SL_ISA_NAMES "baseline", "avx2", "avx512", "neon"

#ifndef SL_ISA
#define SL_ISA baseline
#endif
#define SL_PASTE_(a, b) a##_##b
#define SL_PASTE(a, b)  SL_PASTE_(a, b)
#define SL_KERNEL(name) SL_PASTE(name, SL_ISA)

#endif
