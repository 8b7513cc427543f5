/* random_program.h - Well-formed programs as lowering makes them, at random: for schedulers,
 * planners and their checkers.
 *
 * Steps are real ops with invented accesses: windows of buffers, strided column blocks, results
 * that may lie on an operand, several results, buffers written by several steps, states, experts,
 * and steps that do not declare all they do.  They can be scheduled and planned, not run. */
#ifndef SL_TESTS_SUPPORT_RANDOM_PROGRAM_H
#define SL_TESTS_SUPPORT_RANDOM_PROGRAM_H
#include "core/program.h"

typedef struct {
    uint64_t state;
} test_random;
static inline test_random test_random_of(uint64_t seed) {
    return (test_random){seed * 0x9e3779b97f4a7c15u + 0xd1b54a32d192ed03u};
}
/* A number below limit. */
uint32_t test_draw(test_random *random, uint32_t limit);

/* The same seed and size give the same program.  Released with sl_program_destroy. */
sl_program *random_program(uint64_t seed, uint32_t steps);

/* Conflicts of steps as they stand, by the bytes at final addresses: row s, column t < s.  Rows of
 * step_count bytes; released with free. */
uint8_t *program_conflicts(const sl_program *program);
/* An order of steps that keeps every conflicting pair as it is. */
void random_order(const uint8_t *conflicts, uint32_t steps, test_random *random, uint32_t *order);
#endif
