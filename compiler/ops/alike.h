/* alike.h - Checks that operands share an element type, and checks of axes. */
#ifndef SL_COMPILER_OPS_ALIKE_H
#define SL_COMPILER_OPS_ALIKE_H
#include "compiler/ops/check.h"

/* Sets of element type kinds. */
enum {
    SL_FLOATS = 1 << SL_KIND_FLOAT,
    SL_NUMBERS = SL_FLOATS | 1 << SL_KIND_INT,
    SL_PLAIN = SL_NUMBERS | 1 << SL_KIND_BOOL | 1 << SL_KIND_COMPLEX
};

/* Fails unless input `input` is a nonempty tensor of one of the classes. */
SL_CHECKED sl_status sl_check_class(const sl_infer_args *a, uint32_t input, const char *name,
                                    uint32_t classes, sl_error *err);
/* The same for the first `count` inputs, which must all have the element type of the first. */
SL_CHECKED sl_status sl_check_alike(const sl_infer_args *a, uint32_t count,
                                    const char *const *names, uint32_t classes, sl_error *err);
/* Fails unless input `input` has exactly this shape; `as` says in the message what has it. */
SL_CHECKED sl_status sl_check_shape(const sl_infer_args *a, uint32_t input, const char *name,
                                    const sl_dims *wanted, const char *as, sl_error *err);
/* Normalises an axis; a negative one counts from the end. */
SL_CHECKED sl_status sl_check_axis(const char *label, int64_t axis, uint32_t rank, uint32_t *out,
                                   sl_error *err);
SL_CHECKED sl_status sl_check_rank(const sl_infer_args *a, uint32_t input, const char *name,
                                   uint32_t least, uint32_t most, sl_error *err);
/* A shape with one dim, and the dims from an index on. */
static inline sl_dims sl_dims_of(int64_t size) {
    return (sl_dims){.rank = 1, .dims = {size}};
}
sl_dims sl_dims_from(const sl_dims *dims, uint32_t from);
#endif
