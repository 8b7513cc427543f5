/* check.h - Proofs about a finished program by code that shares nothing with the scheduler. */
#ifndef SL_COMPILER_CHECK_CHECK_H
#define SL_COMPILER_CHECK_CHECK_H
#include "core/program.h"

/* Every pair of steps that touch a common byte at their final addresses, one of them writing, is
 * ordered: by level, by a barrier between groups (and between submits), or by a path of edges.
 * Brute force over all pairs; the message names both steps and the bytes. */
SL_CHECKED sl_status sl_check_order(const sl_program *program, const sl_allocator *allocator,
                                    sl_error *err);
/* Accesses inside their buffers and the arena, read-only buffers never written, levels ascending. */
SL_CHECKED sl_status sl_check_bounds(const sl_program *program, sl_error *err);
/* Values still needed are not overwritten: replays the steps in order on a map of bytes to the
 * value they hold, and checks that each read finds what its producer wrote. */
SL_CHECKED sl_status sl_check_values(const sl_program *program, const sl_allocator *allocator,
                                     sl_error *err);
#endif
