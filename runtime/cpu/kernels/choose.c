/* choose.c - Sampling ops: resume (the last sampled token) and choose (the next one). */
#include "runtime/cpu/choose.h"
#include "core/choose.h"
#include "runtime/cpu/kernels/kernels.h"

/* ---- resume: an item is a row ---- */

SPLIT(resume) {
    const sl_resume_args *a = args;
    return (sl_split){dim(&a->tokens.type, 0), grain_of(1), 0};
}

RUN(resume) {
    const sl_resume_args *a = args;
    const int32_t *tokens = a->tokens.data, *slots = a->slots.data, *chosen = a->chosen.data;
    for (int64_t t = begin; t < end; t++) {
        SL_TRY(check_index(slots[t], dim(&a->chosen.type, 0), "resume: slot", t, worker->err));
        ((int32_t *)a->out.data)[t] = tokens[t] == -1 ? chosen[slots[t]] : tokens[t];
    }
    return SL_OK;
}

/* ---- choose: one item, since rows may share a slot ---- */

SPLIT(choose) {
    const sl_choose_args *a = args;
    return (sl_split){
        1, 1, sl_choose_candidates((uint32_t)dim(&a->logits.type, 1)) * sizeof(sl_candidate)};
}

/* k clamped to uint32_t; 0 if it is negative or NaN. */
static uint32_t count_of(double k) {
    return !(k > 0) ? 0 : k < (double)UINT32_MAX ? (uint32_t)k : UINT32_MAX;
}

RUN(choose) {
    (void)begin, (void)end;
    const sl_choose_args *a = args;
    const int64_t vocab = dim(&a->logits.type, 1);
    const int32_t *slots = a->slots.data;
    for (int64_t t = 0; t < dim(&a->logits.type, 0); t++) {
        const double *how = (const double *)a->how.data + t * SL_CHOOSE_COLUMNS;
        const sl_choice choice = {.temperature = (float)how[SL_CHOOSE_TEMPERATURE],
                                  .top_k = count_of(how[SL_CHOOSE_TOP_K]),
                                  .top_p = (float)how[SL_CHOOSE_TOP_P],
                                  .min_p = (float)how[SL_CHOOSE_MIN_P],
                                  .share = how[SL_CHOOSE_SHARE]};
        int32_t *out = (int32_t *)a->out.data + t;
        SL_TRY(check_index(slots[t], dim(&a->chosen.type, 0), "choose: slot", t, worker->err));
        *out = -1;
        if (!(how[SL_CHOOSE_TEMPERATURE] >= 0)) continue;
        *out = sl_choose((const float *)a->logits.data + t * vocab, (uint32_t)vocab, &choice,
                         worker->scratch);
        ((int32_t *)a->chosen.data)[slots[t]] = *out;
    }
    return SL_OK;
}
