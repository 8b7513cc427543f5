/* noise.h - Random weights with a given standard deviation, generated in the stored format.
 *
 * Weights are approximately normal around zero and depend only on the seed and their position, so
 * that a matrix can be generated in any pieces. */
#ifndef SL_ENGINE_QUANT_NOISE_H
#define SL_ENGINE_QUANT_NOISE_H
#include "core/codec.h"

/* Bands of 16 rows of a matrix: panels, or rows of a float type; the last band of those may be
 * shorter. */
typedef struct {
    sl_type type;          /* q4, q8 or bf16; panels in whole groups of columns */
    sl_panel_layout panel; /* zero for floats */
    int64_t bands;
    uint64_t head_bytes, band_bytes; /* head: before the first band */
    uint64_t seed;
    float deviation; /* standard */
} sl_noise;

sl_noise sl_noise_make(sl_type type, uint64_t seed, float deviation);
/* Writes head_bytes. */
void sl_noise_head(const sl_noise *noise, void *out);
/* Writes bands [first, first + count); returns the bytes. */
uint64_t sl_noise_bands(const sl_noise *noise, int64_t first, int64_t count, void *out);

/* Value `index` of a stream, uniform in [0, 1). */
double sl_noise_uniform(uint64_t seed, uint64_t index);
/* Value `index` of a stream, bell-shaped around 0 with deviation 1, within 3.5. */
float sl_noise_normal(uint64_t seed, uint64_t index);
#endif
