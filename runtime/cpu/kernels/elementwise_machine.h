/* elementwise_machine.h - Runs elementwise instructions over tensors, strip by strip.
 *
 * Operands broadcast through their strides.  A contiguous input is read in place, any other is
 * gathered into a strip, and a scalar is broadcast once.  Results of steps stay
 * in strips, in as few as live at one time. */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_MACHINE_H
#define SL_RUNTIME_CPU_ELEMENTWISE_MACHINE_H
#include "runtime/cpu/kernels/elementwise_strips.h"

enum { WALK_RANK = SL_MAX_RANK + 2, NO_SLOT = -1 };

typedef struct {
    const void *data;
    sl_dtype dtype;
    int32_t slot;
    bool is_single;             /* one element for all */
    bool is_flat;               /* lies as the output does */
    int64_t strides[WALK_RANK]; /* in elements, as the walk's dims; 0 where broadcast */
} machine_input;

typedef struct {
    sl_op op;
    strip_fn *fn;
    uint32_t operands, attribute;
    uint32_t registers[3]; /* the first again, where the op has fewer operands */
    uint32_t link;         /* in a chain (elementwise_strips.h), */
    uint32_t chain; /* which this step ends, and so many before it belong to; 0: there is none */
    bool goes_on;   /* its result goes into the next step of a chain, and nowhere else */
    sl_dtype from, to;
    bool saturate;
    int32_t slot; /* NO_SLOT: straight to the output */
} machine_step;

typedef struct {
    uint32_t input_count, step_count;
    uint32_t slot_count;
    int64_t fetched; /* elements that each step asks for ahead */
    uint32_t rank;   /* of the walk: the output's dims, those joined that all inputs pass alike */
    int64_t dims[WALK_RANK];
    int64_t elements;
    sl_view out;
    machine_input inputs[SL_ELEMENTWISE_MAX_INPUTS];
    machine_step steps[SL_ELEMENTWISE_MAX_STEPS];
    sl_dtype dtypes[SL_ELEMENTWISE_MAX_INPUTS + SL_ELEMENTWISE_MAX_STEPS];
} machine;

/* The inputs of one element each, `enlarged` (or -1) as a prologue has it. */
void SL_KERNEL(sl_machine_init)(machine *m, const sl_cview *inputs, uint32_t count,
                                const sl_view *out, int64_t enlarged);
/* One step more; steps come in order. */
void SL_KERNEL(sl_machine_add)(machine *m, const sl_elementwise_step *step);
/* Before running: where strips lie. */
void SL_KERNEL(sl_machine_place)(machine *m);
void SL_KERNEL(sl_machine_run)(const machine *m, int64_t begin, int64_t end, void *scratch);

static inline sl_split machine_split(const machine *m) {
    return (sl_split){parts_of(m->elements, STRIP), grain_of((int64_t)STRIP * 4 * m->step_count),
                      (size_t)m->slot_count * STRIP_BYTES};
}
#endif
