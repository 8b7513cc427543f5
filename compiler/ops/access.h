/* access.h - The bytes that a step of each op accesses. */
#ifndef SL_COMPILER_OPS_ACCESS_H
#define SL_COMPILER_OPS_ACCESS_H
#include "core/program.h"

/* Both arrays have room for as many accesses as the step has operands. */
typedef struct {
    uint32_t read_count, write_count;
    sl_access *reads, *writes;
} sl_step_accesses;

/* Inputs are read, states read and written, results written: as a whole, unless the op declares
 * less.  Experts are not part of the program's memory. */
void sl_op_accesses(const sl_step *step, sl_step_accesses *out);

/* The part of x that a slice reads; one run if it is contiguous. */
sl_access sl_slice_access(const sl_operand *x, const sl_slice_attrs *attrs);
#endif
