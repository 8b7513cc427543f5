/* mutate_json.h - For fuzzers whose input is JSON, or several JSON texts with a NUL byte between
 * them: half of the mutations change one value, key or item of a parsed text, so that it stays
 * JSON; the other half change bytes. */
#ifndef SL_TESTS_SUPPORT_MUTATE_JSON_H
#define SL_TESTS_SUPPORT_MUTATE_JSON_H
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static uint32_t mutation_state;
static uint32_t mutation_draw(uint32_t below) {
    mutation_state = mutation_state * 1664525u + 1013904223u;
    return (mutation_state >> 8) % below;
}

static json_t *mutation_number(const json_t *old) {
    static const json_int_t extremes[] = {
        0,       1,       -1,        2,          3,         4,         7,
        8,       16,      32,        63,         64,        255,       256,
        4095,    4096,    4097,      65535,      65536,     INT32_MAX, INT32_MIN,
        1 << 24, 1 << 26, INT64_MAX, UINT32_MAX, INT64_MIN, 1ll << 48, 12345};
    enum { COUNT = sizeof extremes / sizeof extremes[0] };
    const json_int_t value = json_integer_value(old);
    switch (mutation_draw(6)) {
    case 0:
        return json_integer((json_int_t)((uint64_t)value + 1));
    case 1:
        return json_integer((json_int_t)((uint64_t)value - 1));
    case 2:
        return json_integer((json_int_t)((uint64_t)value * 2));
    case 3:
        return json_real(mutation_draw(2) ? 1e-30 : 1e300);
    default:
        return json_integer(extremes[mutation_draw(COUNT)]);
    }
}

/* A value in place of an old one. */
static json_t *mutation_value(const json_t *old) {
    static const char *const texts[] = {"",    "F32",     "BF16", "F8_E4M3", "I32",
                                        "U32", "default", "yarn", "llama3",  "full_attention"};
    switch (mutation_draw(json_is_number(old) ? 12 : 6)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(mutation_draw(2));
    case 2:
        return json_string(texts[mutation_draw(10)]);
    case 3:
        return json_array();
    case 4:
        return json_object();
    default:
        return mutation_number(old);
    }
}

static void mutate_array(json_t *array, size_t index, uint32_t way) {
    json_t *item = json_array_get(array, index);
    if (way == 0)
        (void)json_array_remove(array, index);
    else if (way == 1)
        (void)json_array_append_new(array, json_deep_copy(item));
    else
        (void)json_array_set_new(array, index, mutation_value(item));
}

static void mutate_object(json_t *object, const char *key, uint32_t way) {
    char name[300];
    json_t *item = json_object_get(object, key);
    (void)strncpy(name, key, sizeof name - 2);
    name[sizeof name - 2] = '\0';
    if (way == 0) {
        (void)json_object_del(object, key);
    } else if (way == 1 && name[0]) { /* under a name that differs by a letter */
        name[mutation_draw((uint32_t)strlen(name))] = "0123456789abc_."[mutation_draw(15)];
        (void)json_object_set_new(object, name, json_deep_copy(item));
    } else {
        (void)json_object_set_new(object, name, mutation_value(item));
    }
}

/* Walks to a random value and changes it there. */
static void mutate_somewhere(json_t *root) {
    for (json_t *at = root;;) {
        const size_t count = json_is_object(at) ? json_object_size(at) : json_array_size(at);
        if (!count) return;
        uint32_t pick = mutation_draw((uint32_t)count);
        const uint32_t way = mutation_draw(6);
        void *iterator = json_object_iter(at);
        for (uint32_t i = 0; json_is_object(at) && i < pick; i++)
            iterator = json_object_iter_next(at, iterator);
        json_t *child =
            json_is_object(at) ? json_object_iter_value(iterator) : json_array_get(at, pick);
        const int nest = json_is_object(child) || json_is_array(child);
        if (nest && mutation_draw(8)) {
            at = child;
        } else {
            if (json_is_object(at))
                mutate_object(at, json_object_iter_key(iterator), way);
            else
                mutate_array(at, pick, way);
            return;
        }
    }
}

/* The new size of the text, or 0 if it is no JSON or there is no room. */
static size_t mutate_json(uint8_t *data, size_t size, size_t most) {
    json_t *root = json_loadb((const char *)data, size, 0, NULL);
    if (!root) return 0;
    for (uint32_t i = mutation_draw(3) + 1; i > 0; i--) mutate_somewhere(root);
    char *text = json_dumps(root, JSON_COMPACT);
    const size_t written = text ? strlen(text) : 0;
    if (written && written <= most) memcpy(data, text, written);
    free(text);
    json_decref(root);
    return written <= most ? written : 0;
}

/* One of the texts; the new size of all, or 0. */
static size_t mutate_json_part(uint8_t *data, size_t size, size_t most) {
    uint32_t parts = 1;
    for (size_t i = 0; i < size; i++) parts += data[i] == 0;
    size_t start = 0;
    for (uint32_t skip = mutation_draw(parts); skip > 0; skip--)
        start = (size_t)((uint8_t *)memchr(data + start, 0, size - start) - data) + 1;
    const uint8_t *end = memchr(data + start, 0, size - start);
    const size_t bytes = end ? (size_t)(end - (data + start)) : size - start;
    const size_t tail = size - start - bytes;
    uint8_t *rest = malloc(tail + 1);
    if (!rest) return 0;
    if (tail) memcpy(rest, data + start + bytes, tail);
    const size_t fresh = mutate_json(data + start, bytes, most - start - tail);
    if (fresh && tail) memcpy(data + start + fresh, rest, tail);
    free(rest);
    return fresh ? start + fresh + tail : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    mutation_state = seed;
    if (mutation_draw(2) || size > most) return LLVMFuzzerMutate(data, size, most);
    const size_t written = mutate_json_part(data, size, most);
    return written ? written : LLVMFuzzerMutate(data, size, most);
}
#endif
