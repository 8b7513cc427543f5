/* elementwise_integers.h - Functions that core/elementwise.def calls as INT(f), for one integer
 * type; included once per type.  INTEGER is the type, UNSIGNED the unsigned type of its size, WIDE
 * an unsigned type that is at least as wide as unsigned int (so that no operand is promoted to
 * signed int), IS_SIGNED 0 or 1, and INT(f) makes names unique to the type.  Arithmetic wraps.
 *
 * A narrow type may be computed in a wider INTEGER: `bits` is the number of bits of the narrow
 * type. */
#include "core/everywhere.h"
#include <stdbool.h>
#include <stdint.h>

#define IS_NEGATIVE(X) (IS_SIGNED && ((UNSIGNED)(X) >> (sizeof(INTEGER) * 8 - 1)))

SL_EVERYWHERE INTEGER INT(sum)(INTEGER x, INTEGER y) {
    return (INTEGER)(UNSIGNED)((WIDE)(UNSIGNED)x + (UNSIGNED)y);
}
SL_EVERYWHERE INTEGER INT(difference)(INTEGER x, INTEGER y) {
    return (INTEGER)(UNSIGNED)((WIDE)(UNSIGNED)x - (UNSIGNED)y);
}
SL_EVERYWHERE INTEGER INT(product)(INTEGER x, INTEGER y) {
    return (INTEGER)(UNSIGNED)((WIDE)(UNSIGNED)x * (UNSIGNED)y);
}
SL_EVERYWHERE INTEGER INT(negative)(INTEGER x) {
    return (INTEGER)(UNSIGNED)(0 - (WIDE)(UNSIGNED)x);
}
SL_EVERYWHERE INTEGER INT(size)(INTEGER x) {
    return IS_NEGATIVE(x) ? INT(negative)(x) : x;
}
SL_EVERYWHERE INTEGER INT(relu)(INTEGER x) {
    return IS_NEGATIVE(x) ? (INTEGER)0 : x;
}
SL_EVERYWHERE INTEGER INT(sign)(INTEGER x) {
    return (INTEGER)((x > 0) - (IS_NEGATIVE(x) ? 1 : 0));
}
SL_EVERYWHERE INTEGER INT(clamp)(INTEGER x, INTEGER low, INTEGER high) {
    const INTEGER above = x > low ? x : low;
    return above < high ? above : high;
}
/* Toward zero; 0 by 0. */
SL_EVERYWHERE INTEGER INT(quotient)(INTEGER x, INTEGER y) {
    if (y == 0) return 0;
    if (IS_SIGNED && y == (INTEGER)-1) return INT(negative)(x);
    return (INTEGER)(x / y);
}
SL_EVERYWHERE INTEGER INT(remainder)(INTEGER x, INTEGER y, bool truncate) {
    if (y == 0 || (IS_SIGNED && y == (INTEGER)-1)) return 0;
    const INTEGER rest = (INTEGER)(x % y);
    const bool turn = !truncate && rest != 0 && IS_NEGATIVE(rest ^ y);
    return turn ? (INTEGER)(rest + y) : rest;
}
/* If y is negative: 1 / x^-y, rounded toward zero. */
SL_EVERYWHERE INTEGER INT(power)(INTEGER x, INTEGER y) {
    if (IS_NEGATIVE(y)) {
        const INTEGER odd = (INTEGER)(y & 1 ? x : 1);
        return (INTEGER)(x == 1 || x == (INTEGER)-1 ? odd : 0);
    }
    WIDE result = 1, base = (UNSIGNED)x;
    for (UNSIGNED left = (UNSIGNED)y; left; left = (UNSIGNED)(left >> 1)) {
        if (left & 1) result = (UNSIGNED)(result * base);
        base = (UNSIGNED)(base * base);
    }
    return (INTEGER)(UNSIGNED)result;
}
SL_EVERYWHERE INTEGER INT(shift_left)(INTEGER x, INTEGER y, int bits) {
    return (INTEGER)((UNSIGNED)y < (UNSIGNED)bits ? (UNSIGNED)((WIDE)(UNSIGNED)x << y) : 0);
}
SL_EVERYWHERE INTEGER INT(shift_right)(INTEGER x, INTEGER y, int bits) {
    if ((UNSIGNED)y < (UNSIGNED)bits) return (INTEGER)(x >> y);
    return (INTEGER)(IS_SIGNED ? x >> (sizeof(INTEGER) * 8 - 1) : 0);
}
#undef IS_NEGATIVE
