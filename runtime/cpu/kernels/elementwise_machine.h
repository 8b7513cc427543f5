/* elementwise_machine.h - An interpreter that runs elementwise steps over tensors, strip by strip.
 *
 * Operands broadcast through their strides.  A contiguous input is read in place, any other is
 * gathered into a strip, and a scalar is broadcast once.  Intermediate results are kept in strips,
 * which are reused when their value is no longer needed. */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_MACHINE_H
#define SL_RUNTIME_CPU_ELEMENTWISE_MACHINE_H
#include "runtime/cpu/kernels/elementwise_strips.h"

enum { WALK_RANK = SL_MAX_RANK + 2, NO_SLOT = -1 };

typedef struct {
    const void *data;
    sl_dtype dtype;
    int32_t slot;
    bool is_single;             /* a scalar, broadcast to all elements */
    bool is_flat;               /* contiguous, with the shape of the output */
    int64_t strides[WALK_RANK]; /* in elements, along machine.dims; 0 where broadcast */
} machine_input;

typedef struct {
    sl_op op;
    strip_fn *fn;
    uint32_t operands, attribute;
    uint32_t registers[3]; /* unused operands repeat the first */
    uint32_t link;         /* number of the step's function in a chain (elementwise_strips.h) */
    uint32_t chain; /* at the last step of a chain: how many earlier steps belong to it; else 0 */
    bool goes_on;   /* the result is used only by the next step of the chain, in registers */
    sl_dtype from, to;
    bool saturate;
    int32_t slot; /* of the result; NO_SLOT: written directly to the output */
} machine_step;

typedef struct {
    uint32_t input_count, step_count;
    uint32_t slot_count;
    int64_t fetched; /* elements that each step prefetches */
    uint32_t rank; /* dims: the output's, with neighbouring dims merged where all inputs allow it */
    int64_t dims[WALK_RANK];
    int64_t elements;
    sl_view out;
    machine_input inputs[SL_ELEMENTWISE_MAX_INPUTS];
    machine_step steps[SL_ELEMENTWISE_MAX_STEPS];
    sl_dtype dtypes[SL_ELEMENTWISE_MAX_INPUTS + SL_ELEMENTWISE_MAX_STEPS];
} machine;

/* Sets the inputs and the output; input `enlarged` (-1: none) is upsampled 2x along its last two
 * dims. */
void SL_KERNEL(sl_machine_init)(machine *m, const sl_cview *inputs, uint32_t count,
                                const sl_view *out, int64_t enlarged);
/* Appends a step. */
void SL_KERNEL(sl_machine_add)(machine *m, const sl_elementwise_step *step);
/* Assigns scratch slots; call after the last step and before running. */
void SL_KERNEL(sl_machine_place)(machine *m);
void SL_KERNEL(sl_machine_run)(const machine *m, int64_t begin, int64_t end, void *scratch);

static inline sl_split machine_split(const machine *m) {
    return (sl_split){parts_of(m->elements, STRIP), grain_of((int64_t)STRIP * 4 * m->step_count),
                      (size_t)m->slot_count * STRIP_BYTES};
}
#endif
