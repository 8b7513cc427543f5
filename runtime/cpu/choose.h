/* choose.h - Sampling a token from logits (core/choose.h). */
#ifndef SL_RUNTIME_CPU_CHOOSE_H
#define SL_RUNTIME_CPU_CHOOSE_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    float temperature; /* 0: greedy */
    uint32_t top_k;
    float top_p, min_p;
    double share;
} sl_choice;

typedef struct {
    float score;
    int32_t token;
} sl_candidate;

/* `candidates` must have sl_choose_candidates(vocab) entries. */
uint32_t sl_choose_candidates(uint32_t vocab);
int32_t sl_choose(const float *logits, uint32_t vocab, const sl_choice *chosen,
                  sl_candidate *candidates);
#endif
