/* values.c - Conversion of elements of every plain type to and from doubles. */
#include "apps/cli/values.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef double get_fn(const void *data, size_t index);
typedef void set_fn(void *data, size_t index, float value); /* value is exact in the type */

static double get_f32(const void *data, size_t i) {
    return (double)((const float *)data)[i];
}
static double get_i32(const void *data, size_t i) {
    return ((const int32_t *)data)[i];
}
static double get_u8(const void *data, size_t i) {
    return ((const uint8_t *)data)[i];
}

#define GET(NAME, TYPE)                                                                            \
    static double get_##NAME(const void *data, size_t i) {                                         \
        return (double)((const TYPE *)data)[i];                                                    \
    }
GET(f64, double)
GET(i8, int8_t)
GET(i16, int16_t)
GET(i64, int64_t)
GET(u16, uint16_t)
GET(u32, uint32_t)
GET(u64, uint64_t)

static double get_bf16(const void *data, size_t i) {
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static double get_f16(const void *data, size_t i) {
    const uint16_t bits = ((const uint16_t *)data)[i];
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(fraction + 1024, exponent - 25);
}

static void set_f32(void *data, size_t i, float value) {
    ((float *)data)[i] = value;
}

static void set_f64(void *data, size_t i, float value) {
    ((double *)data)[i] = (double)value;
}

static void set_bf16(void *data, size_t i, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
}

static void set_f16(void *data, size_t i, float value) {
    int exponent;
    const float fraction = frexpf(fabsf(value), &exponent); /* in [1/2, 1) */
    const unsigned bits =
        value == 0 ? 0 : (unsigned)(exponent + 14) << 10 | ((unsigned)(fraction * 2048) & 1023);
    ((uint16_t *)data)[i] = (uint16_t)(bits | (value < 0 ? 0x8000u : 0u));
}

static void set_bool(void *data, size_t i, float value) {
    ((uint8_t *)data)[i] = value >= 0;
}

static const struct {
    const char *name;
    size_t bytes;
    get_fn *get;
    set_fn *set; /* NULL: integers, which may be indices, stay zero */
} types[] = {
    {"f32", 4, get_f32, set_f32}, {"f16", 2, get_f16, set_f16}, {"bf16", 2, get_bf16, set_bf16},
    {"i32", 4, get_i32, NULL},    {"u8", 1, get_u8, NULL},      {"bool", 1, get_u8, set_bool},
    {"f64", 8, get_f64, set_f64}, {"i8", 1, get_i8, NULL},      {"i16", 2, get_i16, NULL},
    {"i64", 8, get_i64, NULL},    {"u16", 2, get_u16, NULL},    {"u32", 4, get_u32, NULL},
    {"u64", 8, get_u64, NULL},    {"c64", 4, get_f32, set_f32},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static int find(const char *dtype) {
    int i = 0;
    while (i < TYPE_COUNT && strcmp(types[i].name, dtype) != 0) i++;
    return i;
}

size_t cli_element_bytes(const char *dtype) {
    const int type = find(dtype);
    return type < TYPE_COUNT ? types[type].bytes : 0;
}

double cli_element_get(const char *dtype, const void *data, size_t index) {
    const int type = find(dtype);
    return type < TYPE_COUNT ? types[type].get(data, index) : 0;
}

/* Different names get different numbers. */
static uint32_t seed_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

void cli_elements_invent(const char *dtype, void *data, size_t count, const char *name) {
    const int type = find(dtype);
    if (type == TYPE_COUNT) return;
    memset(data, 0, count * types[type].bytes);
    if (!types[type].set) return;
    uint32_t x = seed_of(name);
    for (size_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        types[type].set(data, i, (float)((int)(x >> 26) - 32) / 64);
    }
}

size_t cli_element_count(const char *dtype, uint32_t rank, const int64_t *dims) {
    size_t count = strcmp(dtype, "c64") == 0 ? 2 : 1;
    for (uint32_t i = 0; i < rank; i++) count *= (size_t)dims[i];
    return count;
}

char *cli_type_text(const char *dtype, uint32_t rank, const int64_t *dims, char *text,
                    size_t capacity) {
    size_t at = (size_t)snprintf(text, capacity, "%s[", dtype);
    for (uint32_t i = 0; i < rank && at < capacity; i++)
        at += (size_t)snprintf(text + at, capacity - at, i ? ",%lld" : "%lld", (long long)dims[i]);
    if (at < capacity) (void)snprintf(text + at, capacity - at, "]");
    return text;
}
