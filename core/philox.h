/* philox.h - Philox4x32-10: four random words from a counter of four words and a key of two. */
#ifndef SL_CORE_PHILOX_H
#define SL_CORE_PHILOX_H
#include "core/everywhere.h"
#include <stdint.h>

typedef struct {
    uint32_t word[4];
} sl_philox;

typedef struct {
    uint32_t key[2];
    uint32_t counter[4]; /* low word first */
} sl_philox_stream;

SL_EVERYWHERE sl_philox sl_philox_words(sl_philox counter, uint32_t key0, uint32_t key1) {
    uint32_t *c = counter.word;
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
        const uint32_t x = (uint32_t)(b >> 32) ^ c[1] ^ key0;
        const uint32_t y = (uint32_t)(a >> 32) ^ c[3] ^ key1;
        c[0] = x, c[1] = (uint32_t)b, c[2] = y, c[3] = (uint32_t)a;
        key0 += 0x9e3779b9u, key1 += 0xbb67ae85u;
    }
    return counter;
}

/* The words of counter + block, which is not negative. */
SL_EVERYWHERE sl_philox sl_philox_block(const sl_philox_stream *s, int64_t block) {
    sl_philox c;
    uint64_t carry = (uint64_t)block;
    const uint64_t low = ((uint64_t)s->counter[1] << 32 | s->counter[0]) + carry;
    const uint64_t high = ((uint64_t)s->counter[3] << 32 | s->counter[2]) + (low < carry ? 1 : 0);
    c.word[0] = (uint32_t)low, c.word[1] = (uint32_t)(low >> 32);
    c.word[2] = (uint32_t)high, c.word[3] = (uint32_t)(high >> 32);
    return sl_philox_words(c, s->key[0], s->key[1]);
}

/* Uniform in [0, 1): what rng_uniform gives as f32, and as f64 from two words. */
SL_EVERYWHERE float sl_philox_f32(uint32_t word) {
    return (float)(word >> 8) * 0x1p-24f;
}
SL_EVERYWHERE double sl_philox_f64(uint32_t low, uint32_t high) {
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}
#endif
