/* kernel.h - The interface of CPU kernels.
 *
 * A kernel computes items [begin, end) of a step, where items are independent parts of the output
 * (rows, heads, panels).  The result of an item never depends on how items are divided, so results
 * do not depend on the number of threads.
 *
 * Each file of kernels is compiled once per instruction set, with SL_ISA naming it; SL_KERNEL(f)
 * gives the name its own suffix.  kernels.def lists which kernel serves which op and weight type.
 */
#ifndef SL_RUNTIME_CPU_KERNEL_H
#define SL_RUNTIME_CPU_KERNEL_H
#include "core/model_ops.h"

typedef struct {
    int64_t items;        /* number of items */
    int64_t grain;        /* minimum number of items per chunk */
    size_t scratch_bytes; /* per worker, 64-byte aligned */
} sl_split;

/* A body of the step at hand: a program with memory of its own, which runs on the calling thread
 * and allocates nothing. */
typedef struct sl_body sl_body;
struct sl_body {
    /* Inputs in order of declaration; data is borrowed until the next run has ended. */
    void (*bind)(sl_body *body, uint32_t input, const void *data);
    sl_status (*run)(sl_body *body, sl_error *err);
    /* Good until the next run; may be what an input is bound to. */
    const void *(*output)(const sl_body *body, uint32_t index);
};

typedef struct {
    void *scratch;
    sl_error *err;
    const void *prepared;   /* by sl_prepare_<fn>, of kernels that have one */
    sl_body *const *bodies; /* in the order of the attributes; NULL where none is run */
    const char *label;      /* of the step */
} sl_worker;

/* args is the op's sl_<op>_args. */
typedef sl_split sl_split_fn(const void *args);
typedef sl_status sl_kernel_fn(const void *args, int64_t begin, int64_t end, sl_worker *worker);
/* Tables that follow from types and attributes: made once, when a program is loaded.  Returns how
 * many bytes they take, and fills them unless memory (64-byte aligned) is NULL. */
typedef size_t sl_prepare_fn(const void *args, void *memory);

/* Loops that measure the limits of the machine; their results are only used to prevent
 * optimisation. read: every byte of a block once, as four streams.  fma: multiply and add floats in
 * registers. dot: the same with bytes, by the instructions that int8 kernels use. */
typedef float sl_read_loop(const void *block, size_t bytes);
typedef float sl_compute_loop(uint64_t rounds, uint64_t *out_operations);

/* All there are, for any machine. */
#define SL_ISA_NAMES "baseline", "avx2", "avx512", "neon"

#ifndef SL_ISA
#define SL_ISA baseline
#endif
#define SL_PASTE_(a, b) a##_##b
#define SL_PASTE(a, b)  SL_PASTE_(a, b)
#define SL_KERNEL(name) SL_PASTE(name, SL_ISA)

#endif
