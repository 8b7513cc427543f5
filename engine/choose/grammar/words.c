/* words.c - Lists, tables and maps of words. */
#include "engine/choose/grammar/words.h"
#include <string.h>

enum { ALIGN = 8 };

static bool reserve(const sl_allocator *allocator, sl_word_list *list, size_t count) {
    if (count <= list->capacity) return true;
    size_t capacity = list->capacity ? list->capacity : 16;
    while (capacity < count) capacity *= 2;
    if (capacity > UINT32_MAX / 2) return false;
    uint32_t *words = sl_resize(allocator, list->words, list->capacity * sizeof *words,
                                capacity * sizeof *words, ALIGN);
    if (!words) return false;
    list->words = words;
    list->capacity = capacity;
    return true;
}

bool sl_word_list_add(const sl_allocator *allocator, sl_word_list *list, uint32_t word) {
    if (!reserve(allocator, list, list->count + 1)) return false;
    list->words[list->count++] = word;
    return true;
}

bool sl_word_list_append(const sl_allocator *allocator, sl_word_list *list, const uint32_t *words,
                         size_t count) {
    const bool inside = list->words && words >= list->words && words < list->words + list->capacity;
    const size_t offset = inside ? (size_t)(words - list->words) : 0;
    if (!count) return true;
    if (!reserve(allocator, list, list->count + count)) return false;
    memmove(list->words + list->count, inside ? list->words + offset : words,
            count * sizeof *words);
    list->count += count;
    return true;
}

void sl_word_list_free(const sl_allocator *allocator, sl_word_list *list) {
    sl_release(allocator, list->words, list->capacity * sizeof *list->words, ALIGN);
    *list = (sl_word_list){0};
}

bool sl_word_list_copy(const sl_allocator *allocator, const sl_word_list *from, sl_word_list *to) {
    *to = (sl_word_list){0};
    return sl_word_list_append(allocator, to, from->words, from->count);
}

static uint32_t mix(const uint32_t *words, size_t count) {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

static void place(sl_word_table *table, uint32_t id) {
    size_t count;
    const uint32_t *words = sl_word_table_get(table, id, &count);
    size_t slot = mix(words, count) & (table->slot_count - 1);
    while (table->slots[slot]) slot = (slot + 1) & (table->slot_count - 1);
    table->slots[slot] = id + 1;
}

static bool grow_slots(const sl_allocator *allocator, sl_word_table *table) {
    const size_t count = table->slot_count ? table->slot_count * 2 : 64;
    uint32_t *slots = sl_allocate(allocator, count * sizeof *slots, ALIGN);
    if (!slots) return false;
    sl_release(allocator, table->slots, table->slot_count * sizeof *slots, ALIGN);
    table->slots = slots;
    table->slot_count = count;
    for (uint32_t i = 0; i < sl_word_table_count(table); i++) place(table, i);
    return true;
}

uint32_t sl_word_table_put(const sl_allocator *allocator, sl_word_table *table,
                           const uint32_t *words, size_t count) {
    const uint32_t id = sl_word_table_count(table);
    if (!table->starts.count && !sl_word_list_add(allocator, &table->starts, 0)) return UINT32_MAX;
    if ((size_t)id * 2 >= table->slot_count && !grow_slots(allocator, table)) return UINT32_MAX;
    size_t slot = mix(words, count) & (table->slot_count - 1);
    for (; table->slots[slot]; slot = (slot + 1) & (table->slot_count - 1)) {
        size_t other_count;
        const uint32_t *other = sl_word_table_get(table, table->slots[slot] - 1, &other_count);
        if (other_count == count && (!count || memcmp(other, words, count * sizeof *words) == 0))
            return table->slots[slot] - 1;
    }
    const size_t before = table->words.count;
    if (!sl_word_list_append(allocator, &table->words, words, count)) return UINT32_MAX;
    if (!sl_word_list_add(allocator, &table->starts, (uint32_t)table->words.count)) {
        table->words.count = before;
        return UINT32_MAX;
    }
    table->slots[slot] = id + 1;
    return id;
}

void sl_word_table_free(const sl_allocator *allocator, sl_word_table *table) {
    sl_word_list_free(allocator, &table->words);
    sl_word_list_free(allocator, &table->starts);
    sl_release(allocator, table->slots, table->slot_count * sizeof *table->slots, ALIGN);
    *table = (sl_word_table){0};
}

bool sl_word_table_copy(const sl_allocator *allocator, const sl_word_table *from,
                        sl_word_table *to) {
    *to = (sl_word_table){0};
    if (!sl_word_list_copy(allocator, &from->words, &to->words) ||
        !sl_word_list_copy(allocator, &from->starts, &to->starts))
        return false;
    if (!from->slot_count) return true;
    to->slots = sl_allocate(allocator, from->slot_count * sizeof *to->slots, ALIGN);
    if (!to->slots) return false;
    memcpy(to->slots, from->slots, from->slot_count * sizeof *to->slots);
    to->slot_count = from->slot_count;
    return true;
}

static size_t map_slot(const sl_word_map *map, uint64_t key) {
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    size_t slot = (size_t)(hash >> 29) & (map->capacity - 1);
    while (map->keys[slot] && map->keys[slot] != key) slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

bool sl_word_map_find(const sl_word_map *map, uint64_t key, uint32_t *out) {
    if (!map->capacity) return false;
    const size_t slot = map_slot(map, key);
    if (!map->keys[slot]) return false;
    *out = map->values[slot];
    return true;
}

static bool grow_map(const sl_allocator *allocator, sl_word_map *map) {
    sl_word_map larger = {.capacity = map->capacity ? map->capacity * 2 : 64};
    larger.keys = sl_allocate(allocator, larger.capacity * sizeof *larger.keys, ALIGN);
    larger.values = sl_allocate(allocator, larger.capacity * sizeof *larger.values, ALIGN);
    if (!larger.keys || !larger.values) {
        sl_word_map_free(allocator, &larger);
        return false;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (!map->keys[i]) continue;
        const size_t slot = map_slot(&larger, map->keys[i]);
        larger.keys[slot] = map->keys[i];
        larger.values[slot] = map->values[i];
    }
    larger.count = map->count;
    sl_word_map_free(allocator, map);
    *map = larger;
    return true;
}

bool sl_word_map_set(const sl_allocator *allocator, sl_word_map *map, uint64_t key,
                     uint32_t value) {
    if (map->count * 2 >= map->capacity && !grow_map(allocator, map)) return false;
    const size_t slot = map_slot(map, key);
    map->count += !map->keys[slot];
    map->keys[slot] = key;
    map->values[slot] = value;
    return true;
}

void sl_word_map_free(const sl_allocator *allocator, sl_word_map *map) {
    if (map->keys) sl_release(allocator, map->keys, map->capacity * sizeof *map->keys, ALIGN);
    if (map->values) sl_release(allocator, map->values, map->capacity * sizeof *map->values, ALIGN);
    *map = (sl_word_map){0};
}
