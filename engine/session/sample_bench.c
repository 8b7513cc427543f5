/* sample_bench.c - What choosing a token from a large vocabulary costs, on one core.
 *
 *   sample_bench [vocab]     248320 unless told */
#include "base/clock.h"
#include "engine/session/sample.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 88172645463325252u;
static double uniform(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return ((double)(state >> 11) + 1) * 0x1p-53;
}
static float normal(void) {
    return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

static void bench(const char *name, const float *logits, uint32_t vocab, sl_sampling sampling) {
    sl_candidate *candidates = calloc(sl_choose_candidates(vocab), sizeof *candidates);
    double best = 1e9;
    uint64_t sum = 0;
    const double start = sl_clock_seconds();
    for (uint64_t n = 0; candidates && (n < 5 || sl_clock_seconds() - start < 0.2); n++) {
        const double begin = sl_clock_seconds();
        sum += (uint64_t)sl_sample(logits, vocab, &sampling, n, candidates);
        const double seconds = sl_clock_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    printf("  %-28s %9.1f us%s\n", name, best * 1e6, sum ? "" : " (always the first token)");
    free(candidates);
}

int main(int argc, char **argv) {
    const uint32_t vocab = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 248320;
    float *logits = vocab ? calloc(vocab, sizeof *logits) : NULL;
    if (!logits) return 1;
    for (int spread = 1; spread <= 3; spread += 2) { /* flat; as models have them */
        for (uint32_t i = 0; i < vocab; i++) logits[i] = (float)spread * normal();
        for (uint32_t i = 0; spread > 1 && i < 20; i++) logits[i * 997 % vocab] = 22 - (float)i;
        printf("%u logits, %s\n", vocab, spread > 1 ? "a few likely" : "all alike");
        bench("greedy", logits, vocab, (sl_sampling){.struct_size = sizeof(sl_sampling)});
        bench("temperature", logits, vocab,
              (sl_sampling){.struct_size = sizeof(sl_sampling), .temperature = 0.8f});
        bench("top-k 40, top-p 0.95", logits, vocab,
              (sl_sampling){.struct_size = sizeof(sl_sampling),
                            .temperature = 0.8f,
                            .top_k = 40,
                            .top_p = 0.95f});
        bench(
            "top-p 0.95", logits, vocab,
            (sl_sampling){.struct_size = sizeof(sl_sampling), .temperature = 0.8f, .top_p = 0.95f});
        bench(
            "min-p 0.05", logits, vocab,
            (sl_sampling){.struct_size = sizeof(sl_sampling), .temperature = 0.8f, .min_p = 0.05f});
    }
    free(logits);
    return 0;
}
