/* check.h - Verification of a finished program, with code that shares nothing with the scheduler.
 */
#ifndef SL_CORE_CHECK_H
#define SL_CORE_CHECK_H
#include "core/program.h"

/* Every pair of steps that touch a common byte at their final addresses, one of them writing, is
 * ordered: by level, by a barrier between groups (the end of a submit is not a barrier), or by a
 * path of edges.  Brute force over all pairs; the message names both steps and the bytes. */
SL_CHECKED sl_status sl_check_order(const sl_program *program, const sl_allocator *allocator,
                                    sl_error *err);
/* Accesses and operands inside their buffers and the arena, buffers aligned, read-only buffers
 * never written, levels ascending, edges forward. */
SL_CHECKED sl_status sl_check_bounds(const sl_program *program, sl_error *err);
/* Values still needed are not overwritten: replays the steps in order on a map of bytes to the
 * buffer whose value they hold, and checks that each read, and each output at the end, finds what
 * its producer wrote.  No step writes over its own operands, unless it is pointwise and does so
 * element by element. */
SL_CHECKED sl_status sl_check_values(const sl_program *program, const sl_allocator *allocator,
                                     sl_error *err);
/* All of these checks, for the bodies of steps too. */
SL_CHECKED sl_status sl_check_program(const sl_program *program, const sl_allocator *allocator,
                                      sl_error *err);
#endif
