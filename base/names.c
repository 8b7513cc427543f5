#include "base/names.h"
#include <string.h>

/* FNV-1a. */
static uint64_t hash_of(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash ^ (hash >> 32);
}

/* Where the name is, or would be. */
static sl_name *slot_of(const sl_names *names, const char *name) {
    uint64_t at = hash_of(name) & names->mask;
    while (names->slots[at].name && strcmp(names->slots[at].name, name) != 0)
        at = (at + 1) & names->mask;
    return &names->slots[at];
}

bool sl_names_init(sl_names *names, uint32_t most, sl_arena *arena) {
    uint64_t capacity = 16;
    while (capacity < 2 * (uint64_t)most) capacity *= 2;
    names->slots = SL_ARENA_NEW_ARRAY(arena, sl_name, capacity);
    names->mask = capacity - 1;
    return names->slots != NULL;
}

bool sl_names_add(sl_names *names, const char *name, uint32_t number) {
    sl_name *slot = slot_of(names, name);
    if (slot->name) return false;
    *slot = (sl_name){name, number};
    return true;
}

bool sl_names_find(const sl_names *names, const char *name, uint32_t *out) {
    if (!names->slots) return false;
    const sl_name *slot = slot_of(names, name);
    if (slot->name) *out = slot->number;
    return slot->name != NULL;
}
