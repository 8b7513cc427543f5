/* semantics.h - The definition of each op for the compiler: its result types and its reference
 * implementation.
 *
 * For every row of ops.def one family file here defines
 *
 *   sl_status sl_infer_<op>(const sl_infer_args *a, sl_error *err);
 *   sl_status sl_eval_<op>(const sl_eval_args *a, sl_error *err);
 *
 * sl_infer_ is total: it checks every operand and attribute and never reads out of bounds, whatever
 * it is given.  sl_eval_ is the definition of the op in double precision, written to be read; every
 * kernel is compared with it.  Integers are held as doubles, exactly; 64-bit integers are stored
 * unchanged in their slots (sl_slot_integer). */
#ifndef SL_COMPILER_OPS_SEMANTICS_H
#define SL_COMPILER_OPS_SEMANTICS_H
#include "base/memory.h"
#include "core/ops.h"

typedef struct {
    const char *label; /* name of the node, for messages */
    const sl_type *in;
    const void *attrs;
    sl_type *out; /* NEXT outputs are already set to their state's type */
    /* May exceed the op's own inputs and outputs if it takes lists. */
    uint32_t in_count, out_count;
} sl_infer_args;

/* A tensor during evaluation.  Weights stay encoded: read them with sl_eval_row. */
typedef struct {
    sl_type type;
    double *data;             /* row-major slots (core/codec.h); NULL for weights and experts */
    const void *coded;        /* for a weight: the bytes as stored */
    sl_expert_source *source; /* for experts */
} sl_eval_tensor;

typedef struct {
    const char *label;
    const sl_eval_tensor *in; /* STATE inputs are updated in place through data */
    const void *attrs;
    const sl_eval_tensor *out; /* data allocated; a NEXT shares its state's data */
    sl_arena *scratch;         /* reset by the caller after each node */
    uint32_t in_count, out_count;
} sl_eval_args;

typedef sl_status sl_infer_fn(const sl_infer_args *a, sl_error *err);
typedef sl_status sl_eval_fn(const sl_eval_args *a, sl_error *err);

/* Sets NEXT outputs, infers the others and checks them all. */
SL_CHECKED sl_status sl_infer(sl_op op, const sl_infer_args *args, sl_error *err);
/* The same for an op without lists. */
SL_CHECKED sl_status sl_infer_plain(sl_op op, const char *label, const sl_type *in,
                                    const void *attrs, sl_type *out, sl_error *err);
SL_CHECKED sl_status sl_eval(sl_op op, const sl_eval_args *args, sl_error *err);

static inline bool sl_is_wide(sl_dtype dtype) {
    return dtype == SL_DTYPE_i64 || dtype == SL_DTYPE_u64;
}
/* An integer or bool of any type; for u64, its bits. */
static inline int64_t sl_slot_integer(sl_dtype dtype, const double *slot) {
    int64_t wide;
    if (!sl_is_wide(dtype)) return (int64_t)*slot;
    __builtin_memcpy(&wide, slot, sizeof wide);
    return wide;
}
/* Whether two slots have the same bits. */
static inline bool sl_same_slot(const double *a, const double *b) {
    return sl_slot_integer(SL_DTYPE_i64, a) == sl_slot_integer(SL_DTYPE_i64, b);
}
/* value must be representable in dtype. */
static inline void sl_slot_set_integer(sl_dtype dtype, double *slot, int64_t value) {
    if (sl_is_wide(dtype))
        __builtin_memcpy(slot, &value, sizeof value);
    else
        *slot = (double)value;
}

/* Row `row` of a rank-2 tensor or weight, as doubles. */
void sl_eval_row(const sl_eval_tensor *tensor, int64_t row, double *out);
#endif
