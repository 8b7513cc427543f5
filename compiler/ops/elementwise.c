/* elementwise.c - Ops on elements of one type: of two operands with broadcasting, comparisons,
 * choices. */
#include "compiler/ops/elementwise.h"
#include <math.h>
#include <string.h>

/* ---- types ---- */

static const char *class_text(unsigned classes) {
    switch (classes) {
    case SL_FLOATS:
        return "a float type (f32, f16, bf16 or f64)";
    case SL_INTS:
        return "an integer type";
    case SL_NUMBERS:
        return "a float or integer type";
    case SL_BOOLS:
        return "bool";
    case SL_COMPLEXES:
        return "c64";
    case SL_FLOATS | SL_COMPLEXES:
        return "a float type or c64";
    case SL_NUMBERS | SL_COMPLEXES:
        return "a float or integer type or c64";
    case SL_NUMBERS | SL_COMPLEXES | SL_BOOLS:
        return "a plain type (not one of groups)";
    default:
        return "of another type";
    }
}

static unsigned class_of(sl_dtype dtype) {
    switch (sl_dtype_infos[dtype].kind) {
    case SL_KIND_FLOAT:
        return SL_FLOATS;
    case SL_KIND_INT:
        return SL_INTS;
    case SL_KIND_BOOL:
        return SL_BOOLS;
    case SL_KIND_COMPLEX:
        return SL_COMPLEXES;
    default:
        return 0;
    }
}

sl_status sl_elementwise_class(const sl_infer_args *a, uint32_t input, const char *name,
                               unsigned classes, sl_error *err) {
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(&a->in[input], a->label, err));
    if (class_of(a->in[input].dtype) & classes) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s", a->label, name,
                   sl_type_format(&a->in[input], text, sizeof text), class_text(classes));
}

sl_status sl_elementwise_alike(const sl_infer_args *a, uint32_t first, uint32_t second,
                               const char *const *names, sl_error *err) {
    char text[SL_TYPE_TEXT];
    SL_TRY(sl_type_check_shape(&a->in[second], a->label, err));
    const sl_dtype wanted = a->in[first].dtype;
    if (a->in[second].dtype == wanted) return SL_OK;
    return sl_fail(err, SL_INVALID, "%s: %s is %s, must be %s as %s", a->label, names[second],
                   sl_type_format(&a->in[second], text, sizeof text), sl_dtype_infos[wanted].name,
                   names[first]);
}

sl_status sl_elementwise_broadcast(const sl_infer_args *a, uint32_t count, sl_dims *out,
                                   sl_error *err) {
    sl_dims shape = a->in[0].shape;
    for (uint32_t i = 1; i < count; i++)
        SL_TRY(sl_broadcast(a->label, &shape, &a->in[i].shape, &shape, err));
    *out = shape;
    return SL_OK;
}

static sl_status infer_binary(const sl_infer_args *a, unsigned classes, sl_error *err) {
    static const char *const names[] = {"a", "b"};
    SL_TRY(sl_elementwise_class(a, 0, "a", classes, err));
    SL_TRY(sl_elementwise_alike(a, 0, 1, names, err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_elementwise_broadcast(a, 2, &a->out[0].shape, err);
}

/* ---- evaluation ---- */

typedef double real_fn(double x, double y);
/* Of 64 bits; `whole` says that all of them are positive (u64), bits how many the type has. */
typedef struct {
    sl_dtype dtype;
    bool whole;
    int bits;
} integer_kind;
typedef int64_t integer_fn(int64_t x, int64_t y, integer_kind kind);
typedef struct {
    double re, im;
} complex_number;
typedef complex_number complex_fn(complex_number x, complex_number y);

typedef struct {
    real_fn *real;
    integer_fn *integer;
    complex_fn *complexes;
} binary_fns;

static sl_status eval_binary(const sl_eval_args *a, binary_fns fns, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_type *type = &a->out[0].type;
    const sl_dtype from = a->in[0].type.dtype;
    const sl_dtype_kind kind = sl_dtype_infos[from].kind;
    const integer_kind integers = {from, from == SL_DTYPE_u64, (int)sl_dtype_infos[from].bytes * 8};
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const int64_t at[2] = {sl_broadcast_index(&a->in[0].type.shape, &type->shape, i),
                               sl_broadcast_index(&a->in[1].type.shape, &type->shape, i)};
        double *out = a->out[0].data;
        if (kind == SL_KIND_FLOAT) {
            out[i] = fns.real(in[0][at[0]], in[1][at[1]]);
        } else if (kind == SL_KIND_COMPLEX && fns.complexes) {
            const double *x = in[0] + 2 * at[0], *y = in[1] + 2 * at[1];
            const complex_number z =
                fns.complexes((complex_number){x[0], x[1]}, (complex_number){y[0], y[1]});
            out[2 * i] = z.re, out[2 * i + 1] = z.im;
        } else {
            const int64_t x = sl_slot_integer(from, in[0] + at[0]);
            const int64_t y = sl_slot_integer(from, in[1] + at[1]);
            const int64_t z = sl_wrap_integer(type->dtype, fns.integer(x, y, integers));
            sl_slot_set_integer(type->dtype, out + i, z);
        }
    }
    return SL_OK;
}

/* Wrapping arithmetic goes through the unsigned type. */
#define ARITHMETIC(NAME, OPERATOR)                                                                 \
    static double real_##NAME(double x, double y) {                                                \
        return x OPERATOR y;                                                                       \
    }                                                                                              \
    static int64_t integer_##NAME(int64_t x, int64_t y, integer_kind kind) {                       \
        (void)kind;                                                                                \
        return (int64_t)((uint64_t)x OPERATOR(uint64_t) y);                                        \
    }
ARITHMETIC(add, +)
ARITHMETIC(sub, -)
ARITHMETIC(mul, *)
#undef ARITHMETIC

static complex_number complex_add(complex_number x, complex_number y) {
    return (complex_number){x.re + y.re, x.im + y.im};
}
static complex_number complex_sub(complex_number x, complex_number y) {
    return (complex_number){x.re - y.re, x.im - y.im};
}
static complex_number complex_mul(complex_number x, complex_number y) {
    return (complex_number){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static complex_number complex_div(complex_number x, complex_number y) {
    const double size = y.re * y.re + y.im * y.im;
    return (complex_number){(x.re * y.re + x.im * y.im) / size, (x.im * y.re - x.re * y.im) / size};
}

static double real_div(double x, double y) {
    return x / y;
}
static int64_t integer_div(int64_t x, int64_t y, integer_kind kind) {
    if (y == 0) return 0;
    if (kind.whole) return (int64_t)((uint64_t)x / (uint64_t)y);
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static bool is_less(int64_t x, int64_t y, integer_kind kind) {
    return kind.whole ? (uint64_t)x < (uint64_t)y : x < y;
}
static double real_maximum(double x, double y) {
    return isnan(x) || x > y ? x : y;
}
static int64_t integer_maximum(int64_t x, int64_t y, integer_kind kind) {
    return is_less(x, y, kind) ? y : x;
}
static double real_minimum(double x, double y) {
    return isnan(x) || x < y ? x : y;
}
static int64_t integer_minimum(int64_t x, int64_t y, integer_kind kind) {
    return is_less(y, x, kind) ? y : x;
}

static int64_t integer_pow(int64_t x, int64_t y, integer_kind kind) {
    uint64_t result = 1, base = (uint64_t)x;
    if (y < 0 && !kind.whole) {
        if (x == 1) return 1;
        return x == -1 ? (y % 2 ? -1 : 1) : 0;
    }
    for (uint64_t left = (uint64_t)y; left; left >>= 1, base *= base)
        if (left & 1) result *= base;
    return (int64_t)result;
}

static double real_mod(double x, double y) {
    const double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest != 0 ? rest : copysign(0, y);
}
static int64_t integer_rest(int64_t x, int64_t y, integer_kind kind) {
    if (y == 0) return 0;
    if (kind.whole) return (int64_t)((uint64_t)x % (uint64_t)y);
    return y == -1 ? 0 : x % y;
}
static int64_t integer_mod(int64_t x, int64_t y, integer_kind kind) {
    const int64_t rest = integer_rest(x, y, kind);
    return !kind.whole && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static int64_t integer_shift_left(int64_t x, int64_t y, integer_kind kind) {
    return (uint64_t)y < (uint64_t)kind.bits ? (int64_t)((uint64_t)x << y) : 0;
}
static int64_t integer_shift_right(int64_t x, int64_t y, integer_kind kind) {
    const int64_t by = (uint64_t)y < (uint64_t)kind.bits ? y : 63;
    if (kind.whole) return by == y ? (int64_t)((uint64_t)x >> by) : 0;
    return x >> by;
}

#define BITS(NAME, OPERATOR)                                                                       \
    static int64_t integer_##NAME(int64_t x, int64_t y, integer_kind kind) {                       \
        (void)kind;                                                                                \
        return x OPERATOR y;                                                                       \
    }
BITS(bitwise_and, &)
BITS(bitwise_or, |)
BITS(bitwise_xor, ^)
#undef BITS
#define integer_logical_and integer_bitwise_and
#define integer_logical_or  integer_bitwise_or
#define integer_logical_xor integer_bitwise_xor

#define BINARY(NAME, CLASSES, REAL, INTEGER, COMPLEX)                                              \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_binary(a, CLASSES, err);                                                      \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        return eval_binary(a, (binary_fns){REAL, INTEGER, COMPLEX}, err);                          \
    }
BINARY(add, SL_NUMBERS | SL_COMPLEXES, real_add, integer_add, complex_add)
BINARY(sub, SL_NUMBERS | SL_COMPLEXES, real_sub, integer_sub, complex_sub)
BINARY(mul, SL_NUMBERS | SL_COMPLEXES, real_mul, integer_mul, complex_mul)
BINARY(div, SL_NUMBERS | SL_COMPLEXES, real_div, integer_div, complex_div)
BINARY(maximum, SL_NUMBERS, real_maximum, integer_maximum, NULL)
BINARY(minimum, SL_NUMBERS, real_minimum, integer_minimum, NULL)
BINARY(pow, SL_NUMBERS, pow, integer_pow, NULL)
BINARY(atan2, SL_FLOATS, atan2, NULL, NULL)
BINARY(logical_and, SL_BOOLS, NULL, integer_logical_and, NULL)
BINARY(logical_or, SL_BOOLS, NULL, integer_logical_or, NULL)
BINARY(logical_xor, SL_BOOLS, NULL, integer_logical_xor, NULL)
BINARY(bitwise_and, SL_INTS, NULL, integer_bitwise_and, NULL)
BINARY(bitwise_or, SL_INTS, NULL, integer_bitwise_or, NULL)
BINARY(bitwise_xor, SL_INTS, NULL, integer_bitwise_xor, NULL)
BINARY(shift_left, SL_INTS, NULL, integer_shift_left, NULL)
BINARY(shift_right, SL_INTS, NULL, integer_shift_right, NULL)
#undef BINARY

sl_status infer_mod(const sl_infer_args *a, sl_error *err) {
    const sl_mod_attrs *attrs = a->attrs;
    SL_TRY(sl_check_attr(a->label, "truncate", attrs->truncate, 0, 1, err));
    return infer_binary(a, SL_NUMBERS, err);
}
sl_status eval_mod(const sl_eval_args *a, sl_error *err) {
    const bool truncate = ((const sl_mod_attrs *)a->attrs)->truncate;
    return eval_binary(a,
                       truncate ? (binary_fns){fmod, integer_rest, NULL}
                                : (binary_fns){real_mod, integer_mod, NULL},
                       err);
}

/* ---- comparisons ---- */

static sl_status infer_compare(const sl_infer_args *a, unsigned classes, sl_error *err) {
    SL_TRY(infer_binary(a, classes, err));
    a->out[0].dtype = SL_DTYPE_bool;
    return SL_OK;
}

static sl_status eval_equal_complex(const sl_eval_args *a, bool wanted, sl_error *err) {
    const double *in[2];
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const sl_dims *shape = &a->out[0].type.shape;
    for (int64_t i = 0; i < sl_type_elements(&a->out[0].type); i++) {
        const double *x = in[0] + 2 * sl_broadcast_index(&a->in[0].type.shape, shape, i);
        const double *y = in[1] + 2 * sl_broadcast_index(&a->in[1].type.shape, shape, i);
        a->out[0].data[i] = (x[0] == y[0] && x[1] == y[1]) == wanted;
    }
    return SL_OK;
}

#define COMPARE(NAME, CLASSES, OPERATOR)                                                           \
    static double real_##NAME(double x, double y) {                                                \
        return x OPERATOR y;                                                                       \
    }                                                                                              \
    static int64_t integer_##NAME(int64_t x, int64_t y, integer_kind kind) {                       \
        return kind.whole ? (uint64_t)x OPERATOR(uint64_t) y : x OPERATOR y;                       \
    }                                                                                              \
    sl_status infer_##NAME(const sl_infer_args *a, sl_error *err) {                                \
        return infer_compare(a, CLASSES, err);                                                     \
    }                                                                                              \
    sl_status eval_##NAME(const sl_eval_args *a, sl_error *err) {                                  \
        if (a->in[0].type.dtype == SL_DTYPE_c64)                                                   \
            return eval_equal_complex(a, SL_OP_##NAME == SL_OP_equal, err);                        \
        return eval_binary(a, (binary_fns){real_##NAME, integer_##NAME, NULL}, err);               \
    }
COMPARE(equal, SL_PLAIN, ==)
COMPARE(not_equal, SL_PLAIN, !=)
COMPARE(less, SL_NUMBERS, <)
COMPARE(less_equal, SL_NUMBERS, <=)
COMPARE(greater, SL_NUMBERS, >)
COMPARE(greater_equal, SL_NUMBERS, >=)
#undef COMPARE

/* ---- of three operands ---- */

sl_status infer_where(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"condition", "a", "b"};
    SL_TRY(sl_elementwise_class(a, 0, "condition", SL_BOOLS, err));
    SL_TRY(sl_elementwise_class(a, 1, "a", SL_PLAIN, err));
    SL_TRY(sl_elementwise_alike(a, 1, 2, names, err));
    a->out[0].dtype = a->in[1].dtype;
    return sl_elementwise_broadcast(a, 3, &a->out[0].shape, err);
}
sl_status eval_where(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const sl_type *type = &a->out[0].type;
    const int64_t slots = type->dtype == SL_DTYPE_c64 ? 2 : 1;
    for (int64_t i = 0; i < sl_type_elements(type); i++) {
        const bool first = in[0][sl_broadcast_index(&a->in[0].type.shape, &type->shape, i)] != 0;
        const uint32_t from = first ? 1 : 2;
        const int64_t at = sl_broadcast_index(&a->in[from].type.shape, &type->shape, i);
        memcpy(a->out[0].data + slots * i, in[from] + slots * at, (size_t)slots * sizeof(double));
    }
    return SL_OK;
}

sl_status infer_clamp(const sl_infer_args *a, sl_error *err) {
    static const char *const names[] = {"x", "low", "high"};
    SL_TRY(sl_elementwise_class(a, 0, "x", SL_NUMBERS, err));
    SL_TRY(sl_elementwise_alike(a, 0, 1, names, err));
    SL_TRY(sl_elementwise_alike(a, 0, 2, names, err));
    a->out[0].dtype = a->in[0].dtype;
    return sl_elementwise_broadcast(a, 3, &a->out[0].shape, err);
}
sl_status eval_clamp(const sl_eval_args *a, sl_error *err) {
    sl_eval_tensor raised = a->out[0];
    const sl_eval_args lower = {a->label, a->in, NULL, &raised, a->scratch, 2, 1};
    SL_TRY(sl_broadcast(a->label, &a->in[0].type.shape, &a->in[1].type.shape, &raised.type.shape,
                        err));
    SL_TRY(sl_eval_scratch(a, sl_type_elements(&raised.type), &raised.data, err));
    SL_TRY(eval_maximum(&lower, err));
    const sl_eval_tensor pair[2] = {raised, a->in[2]};
    const sl_eval_args upper = {a->label, pair, NULL, a->out, a->scratch, 2, 1};
    return eval_minimum(&upper, err);
}
