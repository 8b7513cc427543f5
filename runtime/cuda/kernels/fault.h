/* fault.h - How kernels report what they may not index with.  The first report of a run is kept;
 * kernels go on with index 0. */
#ifndef SL_RUNTIME_CUDA_KERNELS_FAULT_H
#define SL_RUNTIME_CUDA_KERNELS_FAULT_H

/* FAULT(name, what is indexed) */
#define SL_FAULTS(FAULT)                                                                           \
    FAULT(NONE, "")                                                                                \
    FAULT(TOKEN, "embed: id")                                                                      \
    FAULT(INDEX, "gather: index")                                                                  \
    FAULT(PLACE, "an index")                                                                       \
    FAULT(LENGTH, "the length")                                                                    \
    FAULT(SLOT, "slot")                                                                            \
    FAULT(POSITION, "position")                                                                    \
    FAULT(EXPERT, "moe_group: expert")                                                             \
    FAULT(ROUTE, "route: too few logits are numbers; the first choice")                            \
    FAULT(PAIR, "moe_ffn: pair")                                                                   \
    FAULT(RUN, "moe_ffn: end of the pairs")                                                        \
    FAULT(LOGITS, "sample: logits without a finite largest; the choice")                           \
    FAULT(PIVOT, "dense_solve: a is singular; its pivot")
#define SL_FAULT_ENUM(name, text) SL_FAULT_##name,
enum { SL_FAULTS(SL_FAULT_ENUM) SL_FAULT_COUNT };

typedef struct {
    int kind, row, value, limit;
} sl_fault;
#endif
