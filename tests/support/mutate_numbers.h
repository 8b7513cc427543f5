/* mutate_numbers.h - For fuzzers whose input is text with numbers, such as graphs: half of the
 * mutations replace one number by another, the other half change bytes. */
#ifndef SL_TESTS_SUPPORT_MUTATE_NUMBERS_H
#define SL_TESTS_SUPPORT_MUTATE_NUMBERS_H
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static uint32_t number_state;
static uint32_t number_draw(uint32_t below) {
    number_state = number_state * 1664525u + 1013904223u;
    return (number_state >> 8) % below;
}

static long long other_number(long long old) {
    static const long long extremes[] = {0,    1,         2,         3,         4,        5,  7,
                                         8,    16,        -1,        -2,        31,       64, 127,
                                         1000, INT32_MAX, INT32_MIN, INT64_MAX, 1ll << 40};
    const uint32_t way = number_draw(4);
    if (way == 0 && old < INT64_MAX) return old + 1;
    if (way == 1 && old > INT64_MIN) return old - 1;
    return extremes[number_draw(sizeof extremes / sizeof extremes[0])];
}

/* The start of number `wanted` of the text, or of how many there are in *count. */
static size_t find_number(const uint8_t *data, size_t size, uint32_t wanted, uint32_t *count) {
    *count = 0;
    for (size_t i = 0; i < size; i++) {
        if (!isdigit(data[i]) ||
            (i && (isalnum(data[i - 1]) || data[i - 1] == '_' || data[i - 1] == '.')))
            continue;
        if ((*count)++ == wanted) return i;
    }
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    char text[32];
    uint32_t count;
    number_state = seed;
    (void)find_number(data, size, UINT32_MAX, &count);
    if (!count || number_draw(2)) return LLVMFuzzerMutate(data, size, most);
    const size_t start = find_number(data, size, number_draw(count), &count);
    size_t end = start;
    long long old = 0;
    for (; end < size && isdigit(data[end]); end++)
        if (old < INT64_MAX / 16) old = old * 10 + (data[end] - '0');
    const int bytes = snprintf(text, sizeof text, "%lld", other_number(old));
    const size_t tail = size - end, fresh = start + (size_t)bytes + tail;
    if (fresh > most) return size <= most ? size : most;
    memmove(data + start + bytes, data + end, tail);
    memcpy(data + start, text, (size_t)bytes);
    return fresh;
}
#endif
