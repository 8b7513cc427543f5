#include "compiler/schedule/intervals.h"
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t sort_unique(uint64_t *positions, uint32_t count) {
    qsort(positions, count, sizeof *positions, ascending);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || positions[i] != positions[kept - 1]) positions[kept++] = positions[i];
    return kept;
}

static void set_begin(sl_intervals *line, uint32_t i) {
    line->begins[i / 64] |= UINT64_C(1) << i % 64;
    line->begin_words[i / 4096] |= UINT64_C(1) << i / 64 % 64;
}

static void clear_begin(sl_intervals *line, uint32_t i) {
    line->begins[i / 64] &= ~(UINT64_C(1) << i % 64);
    if (!line->begins[i / 64]) line->begin_words[i / 4096] &= ~(UINT64_C(1) << i / 64 % 64);
}

bool sl_intervals_init(sl_intervals *line, uint64_t *positions, uint32_t count, sl_arena *arena) {
    *line = (sl_intervals){.positions = positions, .count = sort_unique(positions, count)};
    line->begins = SL_ARENA_NEW_ARRAY(arena, uint64_t, line->count / 64 + 1);
    line->begin_words = SL_ARENA_NEW_ARRAY(arena, uint64_t, line->count / 4096 + 1);
    line->writer = SL_ARENA_NEW_ARRAY(arena, uint32_t, line->count + 1);
    line->readers = SL_ARENA_NEW_ARRAY(arena, const sl_reader *, line->count + 1);
    if (!line->begins || !line->begin_words || !line->writer || !line->readers) return false;
    set_begin(line, 0);
    line->writer[0] = SL_NO_STEP;
    return true;
}

/* The highest set bit at or below i; there is one. */
static uint32_t floor_bit(const uint64_t *words, uint32_t i) {
    uint32_t w = i / 64;
    uint64_t word = words[w] & (~UINT64_C(0) >> (63 - i % 64));
    while (!word) word = words[--w];
    return w * 64 + 63 - (uint32_t)__builtin_clzll(word);
}

/* The lowest set bit above i, or limit. */
static uint32_t next_bit(const uint64_t *words, uint32_t i, uint32_t limit) {
    uint32_t w = ++i / 64;
    if (i >= limit) return limit;
    uint64_t word = words[w] & (~UINT64_C(0) << i % 64);
    while (!word) {
        if (++w * 64 >= limit) return limit;
        word = words[w];
    }
    return w * 64 + (uint32_t)__builtin_ctzll(word);
}

static uint32_t holder_of(const sl_intervals *line, uint32_t i) {
    if (line->begins[i / 64] & (~UINT64_C(0) >> (63 - i % 64))) return floor_bit(line->begins, i);
    const uint32_t word = floor_bit(line->begin_words, i / 64 - 1);
    return floor_bit(line->begins, word * 64 + 63);
}

static uint32_t index_of(const sl_intervals *line, uint64_t position) {
    uint32_t low = 0, high = line->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (line->positions[middle] <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t sl_intervals_at(sl_intervals *line, uint64_t position) {
    const uint32_t i = index_of(line, position), holder = holder_of(line, i);
    if (holder == i) return i;
    set_begin(line, i);
    line->writer[i] = line->writer[holder];
    line->readers[i] = line->readers[holder];
    return i;
}

uint32_t sl_intervals_next(const sl_intervals *line, uint32_t i) {
    const uint64_t rest = i % 64 == 63 ? 0 : line->begins[i / 64] >> (i % 64 + 1);
    if (rest) return i + 1 + (uint32_t)__builtin_ctzll(rest);
    const uint32_t words = line->count / 64 + 1;
    const uint32_t word = next_bit(line->begin_words, i / 64, words);
    return word == words ? line->count : word * 64 + (uint32_t)__builtin_ctzll(line->begins[word]);
}

void sl_intervals_join_next(sl_intervals *line, uint32_t i) {
    const uint32_t next = sl_intervals_next(line, i);
    if (next < line->count) clear_begin(line, next);
}
