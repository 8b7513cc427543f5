/* fault.h - How kernels report errors, such as an index out of bounds.  The first report of a run
 * is kept; the kernel continues with index 0. */
#ifndef SL_RUNTIME_GPU_FAULT_H
#define SL_RUNTIME_GPU_FAULT_H

/* FAULT(name, what it is about, whether it is a number that must be in a range) */
#define SL_FAULTS(FAULT)                                                                           \
    FAULT(NONE, "", 0)                                                                             \
    FAULT(TOKEN, "embed: id", 1)                                                                   \
    FAULT(INDEX, "gather: index", 1)                                                               \
    FAULT(PLACE, "an index", 1)                                                                    \
    FAULT(LENGTH, "the length", 1)                                                                 \
    FAULT(SLOT, "slot", 1)                                                                         \
    FAULT(POSITION, "position", 1)                                                                 \
    FAULT(EXPERT, "moe_group: expert", 1)                                                          \
    FAULT(ROUTE, "route: too few logits that are not NaN in row", 0)                               \
    FAULT(PAIR, "moe_ffn: pair", 1)                                                                \
    FAULT(RUN, "moe_ffn: end of the pairs", 1)                                                     \
    FAULT(LOGITS, "sample: the largest logit is not finite in row", 0)                             \
    FAULT(PIVOT, "dense_solve: a is singular: matrix", 0)
#define SL_FAULT_ENUM(NAME, WHAT, RANGED) SL_FAULT_##NAME,
enum { SL_FAULTS(SL_FAULT_ENUM) SL_FAULT_COUNT };

typedef struct {
    int kind, row, value, limit;
} sl_fault;
#endif
