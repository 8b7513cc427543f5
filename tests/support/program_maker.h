/* program_maker.h - Programs made by hand, step by step, for tests of what comes after lowering. */
#ifndef SL_TESTS_SUPPORT_PROGRAM_MAKER_H
#define SL_TESTS_SUPPORT_PROGRAM_MAKER_H
#include "core/program.h"

/* Room for so many buffers and steps.  Released with sl_program_destroy. */
sl_program *program_new(uint32_t buffers, uint32_t steps);
/* A buffer of f32 elements.  The name is borrowed when the program does not outlive it: literals.
 */
sl_buffer_id program_buffer(sl_program *program, sl_buffer_kind kind, const char *name,
                            int64_t elements);
void program_output(sl_program *program, sl_buffer_id buffer); /* the whole of it */
/* The step that was added last is the one that the following calls go to. */
void program_step(sl_program *program, sl_op op, const char *label, uint32_t level);
void step_operand(sl_program *program, sl_buffer_id buffer, int64_t first, int64_t elements);
void step_reads(sl_program *program, sl_access access);
void step_writes(sl_program *program, sl_access access);
/* Operand and access in one. */
void step_takes(sl_program *program, sl_buffer_id buffer);
void step_gives(sl_program *program, sl_buffer_id buffer);
/* Edges of the edges model, pairs of steps (from, to), ascending. */
void program_edges(sl_program *program, const uint32_t (*pairs)[2], uint32_t count);
/* A copy that can be changed: steps, buffers and edges; the rest is borrowed from the original. */
sl_program *program_copy(const sl_program *program);
#endif
