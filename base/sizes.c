/* sizes.c - Parsing and printing of byte counts. */
#include "base/sizes.h"
#include <stdio.h>
#include <strings.h>

typedef struct {
    const char *suffix;
    uint64_t bytes;
} unit;

static const unit units[] = {
    {"", 1},
    {"B", 1},
    {"K", UINT64_C(1) << 10},
    {"KiB", UINT64_C(1) << 10},
    {"KB", UINT64_C(1000)},
    {"M", UINT64_C(1) << 20},
    {"MiB", UINT64_C(1) << 20},
    {"MB", UINT64_C(1000000)},
    {"G", UINT64_C(1) << 30},
    {"GiB", UINT64_C(1) << 30},
    {"GB", UINT64_C(1000000000)},
    {"T", UINT64_C(1) << 40},
    {"TiB", UINT64_C(1) << 40},
    {"TB", UINT64_C(1000000000000)},
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool find_unit(const char *suffix, uint64_t *out) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(suffix, units[i].suffix) == 0) {
            *out = units[i].bytes;
            return true;
        }
    }
    return false;
}

/* Digits; false when there are none or they exceed 64 bits. */
static bool parse_whole(const char **text, uint64_t *out) {
    if (!is_digit(**text)) return false;
    for (*out = 0; is_digit(**text); (*text)++)
        if (!sl_multiply(*out, 10, out) || !sl_add(*out, (uint64_t)(**text - '0'), out))
            return false;
    return true;
}

/* ".5" -> 0.5; nothing -> 0; false for a point without digits. */
static bool parse_fraction(const char **text, double *out) {
    *out = 0;
    if (**text != '.') return true;
    (*text)++;
    if (!is_digit(**text)) return false;
    double digits = 0, scale = 1;
    for (; is_digit(**text); (*text)++) {
        if (scale >= 1e15) continue; /* less than a byte in any unit */
        digits = digits * 10 + (**text - '0');
        scale *= 10;
    }
    *out = digits / scale;
    return true;
}

sl_status sl_size_parse(const char *text, uint64_t *out_bytes, sl_error *err) {
    const char *at = text;
    uint64_t whole = 0, unit_bytes = 1, bytes = 0;
    double fraction = 0;
    const bool number = parse_whole(&at, &whole) && parse_fraction(&at, &fraction);
    while (*at == ' ') at++;
    if (!number || !find_unit(at, &unit_bytes))
        return sl_fail(err, SL_INVALID,
                       "'%.60s' is not a byte count; wanted one like 4096, 64K, 1.5GiB or 2GB",
                       text);
    const uint64_t part = (uint64_t)(fraction * (double)unit_bytes + 0.5);
    if (!sl_multiply(whole, unit_bytes, &bytes) || !sl_add(bytes, part, &bytes))
        return sl_fail(err, SL_INVALID, "'%.60s' is more bytes than 64 bits can count", text);
    *out_bytes = bytes;
    return SL_OK;
}

char *sl_size_format(uint64_t bytes, char *text, size_t capacity) {
    static const char *const names[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    size_t name = 0;
    /* 999.5 would be printed as 1000. */
    for (; value >= 999.5; name++) value /= 1000;
    const int decimals = name == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    (void)snprintf(text, capacity, "%.*f %s", decimals, value, names[name]);
    return text;
}
