/* access.h - The bytes that a step of each op accesses. */
#ifndef SL_COMPILER_OPS_ACCESS_H
#define SL_COMPILER_OPS_ACCESS_H
#include "core/program.h"

/* Both arrays have room for as many accesses as the step has operands. */
typedef struct {
    uint32_t read_count, write_count;
    sl_access *reads, *writes;
} sl_step_accesses;

/* Inputs are read, states read and written, results written: as a whole, except for inputs of which
 * shapes, attributes and constant indices leave out a part.  Experts are not part of the program's
 * memory. */
void sl_op_accesses(const sl_program *program, const sl_step *step, sl_step_accesses *out);

/* Whether a result, of this type, is a part of the step's first input that lies in one piece; out
 * is where.  Only inputs of the step need to be set. */
bool sl_op_is_part(const sl_program *program, const sl_step *step, uint32_t result,
                   const sl_type *type, sl_access *out);
#endif
