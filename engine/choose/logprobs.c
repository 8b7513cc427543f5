#include "engine/choose/logprobs.h"
#include "engine/choose/chain.h"
#include <math.h>

/* The best tokens so far are a heap whose root is the worst of them; `logprob` is the logit. */
static int is_worse(const sl_logprob *a, const sl_logprob *b) {
    return a->logprob != b->logprob ? a->logprob < b->logprob : a->token > b->token;
}

static void sift_down(sl_logprob *heap, uint32_t count, uint32_t at) {
    for (;;) {
        uint32_t worst = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (is_worse(&heap[child], &heap[worst])) worst = child;
        if (worst == at) return;
        const sl_logprob held = heap[at];
        heap[at] = heap[worst];
        heap[worst] = held;
        at = worst;
    }
}

/* Numbers come first, likely ones before others; NaN counts as -infinity. */
static void find_top(const float *logits, uint32_t count, uint32_t top, sl_logprob *heap) {
    for (uint32_t i = 0; i < count; i++) {
        const sl_logprob item = {(sl_token)i, isnan(logits[i]) ? -INFINITY : (double)logits[i]};
        if (i < top) {
            heap[i] = item;
            for (uint32_t at = i; i + 1 == top && at-- > 0;) sift_down(heap, top, at);
        } else if (item.logprob > heap[0].logprob) {
            heap[0] = item;
            sift_down(heap, top, 0);
        }
    }
    for (uint32_t left = top; left > 1; left--) { /* the worst goes to the end */
        const sl_logprob worst = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = worst;
        sift_down(heap, left - 1, 0);
    }
}

typedef struct {
    double largest, log_sum; /* of e^(logit - largest) */
} normaliser;

static double logprob_of(const normaliser *n, double logit) {
    if (isnan(logit)) return SL_LOGPROB_LEAST;
    if (isinf(n->largest)) return logit == n->largest ? -n->log_sum : SL_LOGPROB_LEAST;
    const double found = logit - n->largest - n->log_sum;
    return found > SL_LOGPROB_LEAST ? found : SL_LOGPROB_LEAST;
}

/* Logits that are +infinity share the probability among them. */
static sl_status normalise(const float *logits, uint32_t count, normaliser *out, sl_error *err) {
    const float largest = sl_largest_logit(logits, count);
    double sum = 0;
    if (largest == -INFINITY) return sl_fail(err, SL_FORMAT, "no logit of %u is a number", count);
    for (uint32_t i = 0; i < count; i++) {
        if (isinf(largest))
            sum += logits[i] == largest;
        else if (logits[i] > -INFINITY)
            sum += exp((double)logits[i] - (double)largest);
    }
    *out = (normaliser){(double)largest, log(sum)};
    return SL_OK;
}

sl_status sl_logprobs_find(const float *logits, uint32_t count, sl_token token, uint32_t top,
                           sl_logprob *out, sl_error *err) {
    normaliser n = {0};
    SL_TRY(normalise(logits, count, &n, err));
    if (top > count) top = count;
    out[0] = (sl_logprob){token, logprob_of(&n, (double)logits[token])};
    if (top) find_top(logits, count, top, out + 1);
    for (uint32_t i = 1; i <= top; i++) out[i].logprob = logprob_of(&n, out[i].logprob);
    return SL_OK;
}
