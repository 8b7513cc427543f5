/* sizes.h - Byte counts: checked arithmetic, parsing and printing. */
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

/* "4096", "64K", "1.5GiB", "2GB": K, M, G, T with or without iB are powers of 1024, with B alone
 * (KB, MB, GB, TB) powers of 1000. */
SL_CHECKED sl_status sl_size_parse(const char *text, uint64_t *out_bytes, sl_error *err);

/* "1.77 MB": three digits and a decimal unit, in text (at least 16 bytes); returns text. */
char *sl_size_format(uint64_t bytes, char *text, size_t capacity);
#endif
