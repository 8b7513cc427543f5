/* elementwise_int.h - Strips of one type of integers, included once for each: INTEGER is the type,
 * UNSIGNED the unsigned one of its size, WIDE an unsigned one in which products do not overflow
 * what is defined, IS_SIGNED 0 or 1, and NAMED(x) gives names of its own.  Arithmetic wraps. */
#define BITS           ((int)sizeof(INTEGER) * 8)
#define IS_NEGATIVE(X) (IS_SIGNED && ((UNSIGNED)(X) >> (BITS - 1)))

#define STRIP_FN(NAME, TYPE, ...)                                                                  \
    static void NAMED(NAME)(const strip *s) {                                                      \
        const INTEGER *x = s->in[0], *y = s->in[1], *z = s->in[2];                                 \
        TYPE *out = s->out;                                                                        \
        (void)y, (void)z;                                                                          \
        for (int64_t i = 0; i < s->count; i++) out[i] = (TYPE)(__VA_ARGS__);                       \
    }

static inline INTEGER NAMED(negative)(INTEGER x) {
    return (INTEGER)(UNSIGNED)(0 - (WIDE)(UNSIGNED)x);
}
static inline INTEGER NAMED(quotient)(INTEGER x, INTEGER y) {
    if (y == 0) return 0;
    if (IS_SIGNED && y == (INTEGER)-1) return NAMED(negative)(x);
    return (INTEGER)(x / y);
}
static inline INTEGER NAMED(rest)(INTEGER x, INTEGER y, bool truncate) {
    if (y == 0 || (IS_SIGNED && y == (INTEGER)-1)) return 0;
    const INTEGER rest = (INTEGER)(x % y);
    const bool turn = !truncate && rest != 0 && IS_NEGATIVE(rest ^ y);
    return turn ? (INTEGER)(rest + y) : rest;
}
static inline INTEGER NAMED(power)(INTEGER x, INTEGER y) {
    if (IS_NEGATIVE(y)) {
        const INTEGER odd = (INTEGER)(y & 1 ? x : 1);
        return x == 1 || x == (INTEGER)-1 ? odd : 0;
    }
    WIDE result = 1, base = (UNSIGNED)x;
    for (UNSIGNED left = (UNSIGNED)y; left; left = (UNSIGNED)(left >> 1)) {
        if (left & 1) result = (UNSIGNED)(result * base);
        base = (UNSIGNED)(base * base);
    }
    return (INTEGER)(UNSIGNED)result;
}
static inline INTEGER NAMED(shifted_left)(INTEGER x, INTEGER y) {
    return (UNSIGNED)y < BITS ? (INTEGER)(UNSIGNED)((WIDE)(UNSIGNED)x << y) : 0;
}
static inline INTEGER NAMED(shifted_right)(INTEGER x, INTEGER y) {
    if ((UNSIGNED)y < BITS) return (INTEGER)(x >> y);
    return IS_SIGNED ? (INTEGER)(x >> (BITS - 1)) : 0;
}

STRIP_FN(add, INTEGER, (UNSIGNED)((WIDE)(UNSIGNED)x[i] + (UNSIGNED)y[i]))
STRIP_FN(sub, INTEGER, (UNSIGNED)((WIDE)(UNSIGNED)x[i] - (UNSIGNED)y[i]))
STRIP_FN(mul, INTEGER, (UNSIGNED)((WIDE)(UNSIGNED)x[i] * (UNSIGNED)y[i]))
STRIP_FN(div, INTEGER, NAMED(quotient)(x[i], y[i]))
STRIP_FN(maximum, INTEGER, x[i] > y[i] ? x[i] : y[i])
STRIP_FN(minimum, INTEGER, x[i] < y[i] ? x[i] : y[i])
STRIP_FN(pow, INTEGER, NAMED(power)(x[i], y[i]))
STRIP_FN(mod, INTEGER, NAMED(rest)(x[i], y[i], s->attribute))
STRIP_FN(bitwise_and, INTEGER, x[i] & y[i])
STRIP_FN(bitwise_or, INTEGER, x[i] | y[i])
STRIP_FN(bitwise_xor, INTEGER, x[i] ^ y[i])
STRIP_FN(shift_left, INTEGER, NAMED(shifted_left)(x[i], y[i]))
STRIP_FN(shift_right, INTEGER, NAMED(shifted_right)(x[i], y[i]))
STRIP_FN(equal, uint8_t, x[i] == y[i])
STRIP_FN(not_equal, uint8_t, x[i] != y[i])
STRIP_FN(less, uint8_t, x[i] < y[i])
STRIP_FN(less_equal, uint8_t, x[i] <= y[i])
STRIP_FN(greater, uint8_t, x[i] > y[i])
STRIP_FN(greater_equal, uint8_t, x[i] >= y[i])
STRIP_FN(neg, INTEGER, NAMED(negative)(x[i]))
STRIP_FN(abs, INTEGER, IS_NEGATIVE(x[i]) ? NAMED(negative)(x[i]) : x[i])
STRIP_FN(relu, INTEGER, IS_NEGATIVE(x[i]) ? 0 : x[i])
STRIP_FN(sign, INTEGER, (x[i] > 0) - (IS_NEGATIVE(x[i])))
STRIP_FN(bitwise_not, INTEGER, ~x[i])

static void NAMED(clamp)(const strip *s) {
    const INTEGER *x = s->in[0], *low = s->in[1], *high = s->in[2];
    INTEGER *out = s->out;
    for (int64_t i = 0; i < s->count; i++) {
        const INTEGER above = x[i] > low[i] ? x[i] : low[i];
        out[i] = above < high[i] ? above : high[i];
    }
}

strip_table NAMED_TABLE = {
#define HAS(NAME) [SL_STEP_##NAME] = NAMED(NAME),
    HAS(add) HAS(sub) HAS(mul) HAS(div) HAS(maximum) HAS(minimum) HAS(pow) HAS(mod) HAS(bitwise_and)
        HAS(bitwise_or) HAS(bitwise_xor) HAS(shift_left) HAS(shift_right) HAS(equal) HAS(not_equal)
            HAS(less) HAS(less_equal) HAS(greater) HAS(greater_equal) HAS(neg) HAS(abs) HAS(relu)
                HAS(sign) HAS(bitwise_not) HAS(clamp)
#undef HAS
};
#undef BITS
#undef IS_NEGATIVE
#undef STRIP_FN
#undef INTEGER
#undef UNSIGNED
#undef WIDE
#undef IS_SIGNED
#undef NAMED
#undef NAMED_TABLE
