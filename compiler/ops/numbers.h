/* numbers.h - Shared by ops on numbers of any type: classes of element types, and sums of products
 * in each type. */
#ifndef SL_COMPILER_OPS_NUMBERS_H
#define SL_COMPILER_OPS_NUMBERS_H
#include "compiler/ops/check.h"

/* Classes of element types, as bits. */
enum {
    SL_NUMBERS_FLOAT = 1,   /* f32 f16 bf16 f64 */
    SL_NUMBERS_INT = 2,     /* all integers */
    SL_NUMBERS_COMPLEX = 4, /* c64 */
    SL_NUMBERS_INDEX = 8,   /* i32 i64 */
    SL_NUMBERS_BYTE = 16,   /* i8 u8 */
    SL_NUMBERS_CODE = 32,   /* i8 u8 i16 u16 i32 */
    SL_NUMBERS_FULL = 64,   /* f32 f64 */
    SL_NUMBERS_NARROW = 128 /* f32 f16 bf16 */
};

/* Fails unless the input is a tensor, possibly empty, of a type in one of the classes. */
SL_CHECKED sl_status sl_check_numbers(const sl_infer_args *a, uint32_t input, const char *name,
                                      uint32_t classes, sl_error *err);
/* Fails unless inputs `first` and `second` have the same element type. */
SL_CHECKED sl_status sl_check_same_dtype(const sl_infer_args *a, const uint32_t inputs[2],
                                         const char *const names[2], sl_error *err);
/* Fails unless the list after the op's own inputs has `least` to `most` tensors. */
SL_CHECKED sl_status sl_check_inputs_after(const sl_infer_args *a, uint32_t own, const char *name,
                                           uint32_t least, uint32_t most, sl_error *err);
/* Fails unless the input has this shape. */
SL_CHECKED sl_status sl_check_dims(const sl_infer_args *a, uint32_t input, const char *name,
                                   const sl_dims *wanted, sl_error *err);
/* Fails unless the input has one element ([] or [1]) or is [count]. */
SL_CHECKED sl_status sl_check_param(const sl_infer_args *a, uint32_t input, const char *name,
                                    int64_t count, sl_error *err);
/* Normalises an axis; a negative one counts from the end. */
SL_CHECKED sl_status sl_check_named_axis(const sl_infer_args *a, const char *name, int64_t axis,
                                         uint32_t rank, uint32_t *out, sl_error *err);

/* The first element of start:end:step of an axis of `size`, and the number of elements. */
int64_t sl_slice_range(int64_t start, int64_t end, int64_t step, int64_t size, int64_t *from);

/* Number of slots of an element. */
static inline int64_t sl_slots_of(sl_dtype dtype) {
    return sl_dtype_infos[dtype].kind == SL_KIND_COMPLEX ? 2 : 1;
}
/* Rounds a value to f32, f16, bf16 or f64. */
double sl_round_to(sl_dtype dtype, double value);

/* A sum of products of reals, of integers that wrap, or of complex numbers. */
typedef struct {
    double re, im;
    uint64_t whole;
} sl_sum;
void sl_sum_add(sl_dtype dtype, const double *x, const double *y, sl_sum *sum);
void sl_sum_get(sl_dtype dtype, const sl_sum *sum, double *slot);

/* The shape of the product of the first two inputs a and b, which are stacks of matrices. */
SL_CHECKED sl_status sl_matmul_shape(const sl_infer_args *a, sl_dims *out, sl_error *err);
/* Index of the operand's matrix that belongs to matrix `matrix` of the result. */
int64_t sl_matmul_index(const sl_dims *operand, const sl_dims *out, int64_t matrix);
#endif
