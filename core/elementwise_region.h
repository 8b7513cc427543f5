/* elementwise_region.h - The code of elementwise regions.
 *
 * An instruction (step) is five numbers: the number of an op, three registers, and an attribute.
 * Registers are the inputs in order, then the results of earlier instructions; unused registers are
 * 0.  The attribute is that of mod or is_inf, or for cast and bitcast twice the number of the
 * target type, plus saturate.  The result of the last instruction is the result of the region:
 *
 *   [3,0,1,0,0, 39,2,0,0,0]   silu(a * b) of two inputs: mul of 0 and 1, then silu of 2
 *
 * The numbers are those of core/elementwise.def. */
#ifndef SL_CORE_ELEMENTWISE_REGION_H
#define SL_CORE_ELEMENTWISE_REGION_H
#include "core/elementwise_steps.h"
#include "core/ops.h"

enum {
    SL_ELEMENTWISE_MAX_STEPS = 64,
    SL_ELEMENTWISE_MAX_INPUTS = 64,
    SL_ELEMENTWISE_STEP_NUMBERS = 5
};
typedef enum { SL_PROLOGUE_NONE, SL_PROLOGUE_RESIZE_NEAREST_2X, SL_PROLOGUE_COUNT } sl_prologue;

typedef struct {
    uint32_t number;
    sl_op op;
    uint32_t operands;     /* 0: not a valid instruction */
    uint32_t registers[3]; /* all within bounds */
    uint32_t attribute;
} sl_elementwise_step;

/* Instruction `index` of the code of a region with `inputs` inputs; operands is 0 if it is invalid.
 */
sl_elementwise_step sl_elementwise_decode(const sl_integers *code, uint32_t index, uint32_t inputs);
/* The op as an instruction on registers 0, 1 and 2. */
sl_elementwise_step sl_elementwise_step_of(sl_op op, const void *attrs);
/* The result type of a cast or bitcast. */
sl_dtype sl_elementwise_target(const sl_elementwise_step *step);
/* The type of its result, from those of its operands, which inference has checked. */
sl_dtype sl_elementwise_result(const sl_elementwise_step *step, const sl_dtype operands[3]);
/* Encodes an instruction; false if the op has no number or its attributes cannot be encoded. */
bool sl_elementwise_encode(sl_op op, const void *attrs, const uint32_t registers[3],
                           int64_t out[SL_ELEMENTWISE_STEP_NUMBERS]);
/* The op's attributes, in SL_MAX_ATTRS_BYTES zeroed bytes. */
void sl_elementwise_attrs(const sl_elementwise_step *step, void *attrs);
/* The number of an op; 0 if it has none. */
uint32_t sl_elementwise_number(sl_op op);
/* The number of the op of one operand that is called `kind`, for sl_elementwise_slope; 0 for
 * "identity", -1 if there is none with a derivative. */
int32_t sl_elementwise_slope_find(const char *kind);
/* The number of an element type; SL_TYPE_NUMBERS if it has none. */
uint32_t sl_elementwise_type(sl_dtype dtype);
#endif
