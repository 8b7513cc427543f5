/* sizes.h - Byte counts: checked arithmetic and printing. */
#ifndef SL_BASE_SIZES_H
#define SL_BASE_SIZES_H
#include "base/error.h"
#include <stdbool.h>

static inline uint64_t sl_round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}
/* True and *out = a * b, or false on overflow. */
static inline bool sl_multiply(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool sl_add(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* "1.77 MB": three digits and a decimal unit, in text (at least 16 bytes); returns text. */
char *sl_size_format(uint64_t bytes, char *text, size_t capacity);
#endif
