/* elementwise_region.h - The code of elementwise regions.
 *
 * A step is five numbers: an op's number from the list below, three registers, and an attribute.
 * Registers are the inputs in order, then the results of earlier steps; what an op does not take is
 * 0.  The attribute is that of mod, is_inf, or of cast and bitcast: twice the number of the target
 * type, plus saturate.  The last step's result is the region's:
 *
 *   [3,0,1,0,0, 39,2,0,0,0]   silu(a * b) of two inputs: mul of 0 and 1, then silu of 2
 *
 * Numbers are those of elementwise_steps.h. */
#ifndef SL_CORE_ELEMENTWISE_REGION_H
#define SL_CORE_ELEMENTWISE_REGION_H
#include "core/elementwise_steps.h"
#include "core/ops.h"

enum {
    SL_ELEMENTWISE_OPS = 72,
    SL_ELEMENTWISE_MAX_STEPS = 64,
    SL_ELEMENTWISE_MAX_INPUTS = 64,
    SL_ELEMENTWISE_STEP_NUMBERS = 5
};
typedef enum { SL_PROLOGUE_NONE, SL_PROLOGUE_RESIZE_NEAREST_2X, SL_PROLOGUE_COUNT } sl_prologue;

typedef struct {
    uint32_t number;
    sl_op op;
    uint32_t operands;     /* 0: no such step */
    uint32_t registers[3]; /* all within bounds */
    uint32_t attribute;
} sl_elementwise_step;

/* Step `index` of any code of a region of so many inputs; operands are 0 when it is none. */
sl_elementwise_step sl_elementwise_decode(const sl_integers *code, uint32_t index, uint32_t inputs);
/* The op as a step on registers 0, 1 and 2. */
sl_elementwise_step sl_elementwise_step_of(sl_op op, const void *attrs);
/* What a cast or bitcast gives. */
sl_dtype sl_elementwise_target(const sl_elementwise_step *step);
/* Its numbers; false when the op has none or its attributes do not fit. */
bool sl_elementwise_encode(sl_op op, const void *attrs, const uint32_t registers[3],
                           int64_t out[SL_ELEMENTWISE_STEP_NUMBERS]);
/* The op's attributes, in SL_MAX_ATTRS_BYTES zeroed bytes. */
void sl_elementwise_attrs(const sl_elementwise_step *step, void *attrs);
/* The number of an op in the list; 0 when it is not there. */
uint32_t sl_elementwise_number(sl_op op);
/* The number of an element type; SL_TYPE_NUMBERS when it has none. */
uint32_t sl_elementwise_type(sl_dtype dtype);
#endif
