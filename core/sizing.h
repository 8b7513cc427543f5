/* sizing.h - Dims of a program's operands that are multiples of a size, so that a program that was
 * compiled for the largest sizes runs smaller ones too.
 *
 * They are found by comparing two programs of one graph with different sizes: what differs between
 * them may only be dims, each in proportion to one of the sizes.  The smaller views begin where the
 * largest begin, so accesses of a smaller run are a part of those that were declared and planned.
 */
#ifndef SL_CORE_SIZING_H
#define SL_CORE_SIZING_H
#include "core/program.h"

enum { SL_MOST_SIZES = 2 }; /* sizes that a program may have: rows, and wanted rows */

typedef struct {
    uint32_t step, operand;
    uint32_t dim, size;
    int64_t each; /* dims[dim] is sizes[size] * each */
} sl_sized_dim;

typedef struct {
    int64_t most[SL_MOST_SIZES]; /* what the program was compiled for */
    uint32_t count;
    sl_sized_dim *items; /* by step */
} sl_sizing;

/* The sizing of `program`, compiled for out->most, which the caller sets; `probe` is the same graph
 * with the first size one smaller and the second two larger.  Fails if they differ in anything but
 * such dims.  The items are in the arena. */
SL_CHECKED sl_status sl_sizing_find(const sl_program *program, const sl_program *probe,
                                    sl_arena *arena, sl_sizing *out, sl_error *err);
#endif
