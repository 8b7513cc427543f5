/* operand.h - Shared by ops on any plain type: checks of operands that may be empty, axes, and
 * arithmetic on slots (core/codec.h) in their element type. */
#ifndef SL_COMPILER_OPS_OPERAND_H
#define SL_COMPILER_OPS_OPERAND_H
#include "compiler/ops/check.h"

/* Sets of sl_dtype_kind. */
enum {
    SL_FLOATS = 1 << SL_KIND_FLOAT,
    SL_INTEGERS = 1 << SL_KIND_INT,
    SL_BOOLS = 1 << SL_KIND_BOOL,
    SL_COMPLEXES = 1 << SL_KIND_COMPLEX,
    SL_NUMBERS = SL_FLOATS | SL_INTEGERS,
    SL_PLAIN = SL_NUMBERS | SL_BOOLS | SL_COMPLEXES
};
/* Fails unless input `input` has one of these kinds; it may be empty. */
SL_CHECKED sl_status sl_check_kinds(const sl_infer_args *a, uint32_t input, const char *name,
                                    uint32_t kinds, sl_error *err);
/* The same for indices: i32 or i64. */
SL_CHECKED sl_status sl_check_indices(const sl_infer_args *a, uint32_t input, const char *name,
                                      sl_error *err);
/* Fails unless input `input` has this type; `why` ends the message: "as x". */
SL_CHECKED sl_status sl_check_type(const sl_infer_args *a, uint32_t input, const char *name,
                                   const sl_type *wanted, const char *why, sl_error *err);
/* Fails with a message "... must be" what was wanted. */
SL_CHECKED sl_status sl_refuse(const sl_infer_args *a, uint32_t input, const char *name,
                               const char *wanted, sl_error *err);
/* Normalises an axis in [-rank, rank). */
SL_CHECKED sl_status sl_find_axis(const char *label, int64_t axis, uint32_t rank, uint32_t *out,
                                  sl_error *err);
/* Marks which of `rank` axes are in a list; each may occur once. */
SL_CHECKED sl_status sl_check_axes(const char *label, const sl_dims *axes, uint32_t rank,
                                   bool found[SL_MAX_RANK], sl_error *err);

/* Product of dims[0..before). */
int64_t sl_dims_head(const sl_dims *dims, uint32_t before);
/* Number of slots of an element. */
static inline int64_t sl_unit(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_COMPLEX ? 2 : 1;
}
/* Copies element j of one tensor to element i of another of the same type. */
static inline void sl_move(sl_dtype dtype, double *to, int64_t i, const double *from, int64_t j) {
    const int64_t unit = sl_unit(dtype);
    __builtin_memcpy(to + i * unit, from + j * unit, (size_t)unit * sizeof *to);
}
/* The indices of input `input` as integers in scratch. */
SL_CHECKED sl_status sl_eval_integers(const sl_eval_args *a, uint32_t input, int64_t **out,
                                      sl_error *err);
/* Normalises an index in [-limit, limit) to [0, limit). */
SL_CHECKED sl_status sl_eval_index(const sl_eval_args *a, int64_t index, int64_t limit,
                                   int64_t *out, sl_error *err);

typedef enum { SL_FOLD_SET, SL_FOLD_ADD, SL_FOLD_MUL, SL_FOLD_MAX, SL_FOLD_MIN } sl_fold;
/* Combines element x into another: integers wrap, NaN propagates. */
void sl_fold_slot(sl_dtype dtype, sl_fold kind, double *into, const double *x);
/* The identity of a reduction. */
void sl_fold_start(sl_dtype dtype, sl_fold kind, double *slot);
/* Truncates value to the bits of dtype. */
int64_t sl_wrap(sl_dtype dtype, int64_t value);
/* Whether x sorts before y: NaN is the largest. */
bool sl_slot_less(sl_dtype dtype, const double *x, const double *y);
#endif
