/* words.h - Sequences of 32-bit words that get a number each: equal sequences the same one. */
#ifndef SL_ENGINE_CHOOSE_GRAMMAR_WORDS_H
#define SL_ENGINE_CHOOSE_GRAMMAR_WORDS_H
#include "base/memory.h"
#include <stdbool.h>

/* An array that grows. */
typedef struct {
    uint32_t *words;
    size_t count, capacity;
} sl_word_list;
bool sl_word_list_add(const sl_allocator *allocator, sl_word_list *list, uint32_t word);
/* Appends count words, which may lie in the list itself. */
bool sl_word_list_append(const sl_allocator *allocator, sl_word_list *list, const uint32_t *words,
                         size_t count);
void sl_word_list_free(const sl_allocator *allocator, sl_word_list *list);

/* Sequence i is words[starts[i] .. starts[i + 1]). */
typedef struct {
    sl_word_list words, starts;
    uint32_t *slots; /* number + 1, or 0; open addressing */
    size_t slot_count;
} sl_word_table;
/* The number of a sequence, which is added if it is new; UINT32_MAX without memory. */
uint32_t sl_word_table_put(const sl_allocator *allocator, sl_word_table *table,
                           const uint32_t *words, size_t count);
static inline uint32_t sl_word_table_count(const sl_word_table *table) {
    return table->starts.count ? (uint32_t)(table->starts.count - 1) : 0;
}
static inline const uint32_t *sl_word_table_get(const sl_word_table *table, uint32_t id,
                                                size_t *count) {
    static const uint32_t none = 0; /* a table of empty sequences has no words */
    const uint32_t start = table->starts.words[id];
    *count = table->starts.words[id + 1] - start;
    return *count ? table->words.words + start : &none;
}
void sl_word_table_free(const sl_allocator *allocator, sl_word_table *table);
bool sl_word_table_copy(const sl_allocator *allocator, const sl_word_table *from,
                        sl_word_table *to);
bool sl_word_list_copy(const sl_allocator *allocator, const sl_word_list *from, sl_word_list *to);

/* A map from 64-bit keys (not 0) to words. */
typedef struct {
    uint64_t *keys;
    uint32_t *values;
    size_t count, capacity;
} sl_word_map;
bool sl_word_map_find(const sl_word_map *map, uint64_t key, uint32_t *out);
bool sl_word_map_set(const sl_allocator *allocator, sl_word_map *map, uint64_t key, uint32_t value);
void sl_word_map_free(const sl_allocator *allocator, sl_word_map *map);
#endif
