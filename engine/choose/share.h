/* share.h - Random numbers of a sequence, which depend on its seed and on the position only: a
 * sequence that was rewound or copied draws the same again. */
#ifndef SL_ENGINE_CHOOSE_SHARE_H
#define SL_ENGINE_CHOOSE_SHARE_H
#include <stdint.h>

/* A well mixed 64-bit function of its argument (the finaliser of splitmix64). */
static inline uint64_t sl_share_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* In [0, 1): for drawing the token at `position`. */
static inline double sl_share_of(uint64_t seed, uint64_t position) {
    return (double)(sl_share_mix(sl_share_mix(seed) ^ position) >> 11) * 0x1p-53;
}

/* A second one, independent of the first. */
static inline double sl_share_aside(uint64_t seed, uint64_t position) {
    return sl_share_of(seed ^ 0x5851f42d4c957f2du, position);
}
#endif
