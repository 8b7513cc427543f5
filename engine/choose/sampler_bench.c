/* sampler_bench.c - What choosing a token by a sampler costs, on one core.
 *
 *   sampler_bench [vocab [tokens]]     151936 and 4096 unless told */
#include "base/clock.h"
#include "engine/choose/logprobs.h"
#include "engine/choose/sampler.h"
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

static const char *text_of(const void *ctx, sl_token token, size_t *bytes) {
    static const char *const texts[] = {" the", "x", "\n", " a"};
    (void)ctx;
    *bytes = (size_t[]){4, 1, 1, 2}[token % 4];
    return texts[token % 4];
}

typedef struct {
    float *logits;
    uint32_t *allowed; /* one token in 50 */
    uint32_t vocab, tokens;
} bench_case;

static void bench(const bench_case *c, const char *name, const uint32_t *allowed,
                  sl_sampler_options options) {
    const sl_choose_vocabulary vocabulary = {.size = c->vocab, .text = text_of};
    sl_sampler *s;
    sl_error err;
    double best = 1e9, sum = 0;
    int count = 0;
    if (sl_sampler_make(&vocabulary, &options, NULL, &s, &err) != SL_OK) {
        printf("  %s: %s\n", name, err.message);
        return;
    }
    for (uint32_t i = 0; i < c->tokens; i++) {
        const sl_token token = (sl_token)(uniform() * 0.999 * c->vocab);
        if (sl_sampler_append(s, &token, 1, true, &err) != SL_OK) exit(1);
    }
    for (const double start = sl_clock_seconds(); count < 5 || sl_clock_seconds() - start < 0.3;
         count++) {
        sl_token token;
        const double begin = sl_clock_seconds();
        if (sl_sampler_pick(s, c->logits, allowed, &token, &err) != SL_OK) exit(1);
        const double seconds = sl_clock_seconds() - begin;
        sum += seconds;
        if (seconds < best) best = seconds;
    }
    printf("  %-44s %8.1f us, on average %8.1f\n", name, best * 1e6, sum / count * 1e6);
    sl_sampler_free(s);
}

static void bench_all(const bench_case *c) {
    sl_sampler_options o = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f};
    bench(c, "top-k, top-p", NULL, o);
    bench(c, "top-k, top-p, mask of 2 %", c->allowed, o);
    o.repeat_penalty = 1.1f, o.presence_penalty = 0.5f, o.frequency_penalty = 0.1f;
    bench(c, "penalties (64 tokens), top-k, top-p", NULL, o);
    o.repeat_last_n = -1;
    bench(c, "penalties (all tokens), top-k, top-p", NULL, o);
    o.top_k = 0;
    bench(c, "penalties (all tokens), top-p", NULL, o);
    o.top_k = 40, o.dry_multiplier = 0.8f, o.dry_penalty_last_n = -1;
    bench(c, "penalties, DRY (all tokens), top-k, top-p", NULL, o);
    o = (sl_sampler_options){.temperature = 0.8f, .top_k = 40, .top_p = 0.95f};
    o.xtc_probability = 1;
    bench(c, "chain: top-k, top-p, XTC", NULL, o);
    o.top_n_sigma = 1;
    bench(c, "chain: top-n-sigma, top-k, top-p, XTC", NULL, o);
    o = (sl_sampler_options){.temperature = 0.8f, .typical_p = 0.9f};
    bench(c, "chain: typical-p of all tokens", NULL, o);
    o = (sl_sampler_options){.temperature = 0.8f, .mirostat = 1};
    bench(c, "mirostat 1", NULL, o);
    o.mirostat = 2;
    bench(c, "mirostat 2", NULL, o);
    o = (sl_sampler_options){.temperature = 0.8f, .top_k = 40, .logprobs = 21};
    bench(c, "top-k, 20 log-probabilities", NULL, o);
}

int main(int argc, char **argv) {
    bench_case c = {.vocab = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 151936,
                    .tokens = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4096};
    c.logits = calloc(c.vocab + 1, sizeof *c.logits);
    c.allowed = calloc(c.vocab / 32 + 1, sizeof *c.allowed);
    const bool has_room = c.logits && c.allowed && c.vocab >= 100;
    for (uint32_t i = 0; has_room && i < c.vocab; i += 50) c.allowed[i / 32] |= 1u << i % 32;
    for (int likely = 0; has_room && likely < 2; likely++) {
        for (uint32_t i = 0; i < c.vocab; i++) c.logits[i] = (likely ? 3 : 1) * normal();
        for (uint32_t i = 0; likely && i < 20; i++) c.logits[i * 997 % c.vocab] = 22 - (float)i;
        printf("%u logits, %s, %u tokens before\n", c.vocab, likely ? "a few likely" : "all alike",
               c.tokens);
        bench_all(&c);
    }
    free(c.logits);
    free(c.allowed);
    return has_room ? 0 : 1;
}
