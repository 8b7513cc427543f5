/* choose.cu - resume and choose: sampling on the device (core/choose.h).
 *
 * Three launches.  sl_choose_best finds the largest logit of each tile.  From these every block of
 * sl_choose_weigh knows the global maximum; it sums the weights of its tile and collects the tokens
 * that may pass the filters.  A block of sl_choose_last then samples from these, or from all tokens
 * if they are too many or not enough.  Nothing is sorted: radix select finds sort keys digit by
 * digit from histograms of weights or counts.  Weights are integers, so the order of atomic
 * additions does not matter. */
#include "runtime/cuda/kernels/choose.h"
#include "core/choose.h"
#include "runtime/cuda/kernels/rank.cuh"

SL_CUDA_KERNEL(sl_resume, sl_resumed) {
    const int t = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (t >= a.rows) return;
    const int slot = checked(a.fault, SL_FAULT_SLOT, t, a.slots[t], a.slot_count);
    a.out[t] = a.tokens[t] == -1 ? a.chosen[slot] : a.tokens[t];
}

/* ---- sampling parameters of a row ---- */

struct request {
    float temperature, top_p, min_p; /* top_p and min_p: 0 if off */
    int top_k;
    double share;
};
DEVICE request request_of(const sl_chosen &a, int row) {
    const double *how = a.how + (int64_t)row * SL_CHOOSE_COLUMNS;
    const double k = how[SL_CHOOSE_TOP_K], p = how[SL_CHOOSE_TOP_P];
    request r;
    r.temperature = (float)how[SL_CHOOSE_TEMPERATURE];
    r.top_k = k > 0 && k < (double)a.vocab ? (int)k : 0;
    r.top_p = p > 0 && p < 1 ? (float)p : 0.0f;
    r.min_p = fminf((float)how[SL_CHOOSE_MIN_P], 1.0f);
    r.share = how[SL_CHOOSE_SHARE];
    return r;
}
DEVICE bool filters(const request &r) {
    return r.top_k > 0 || r.top_p > 0 || r.min_p > 0;
}

/* Larger logit, on ties the lower token; anything is better than the empty {.., -1}. */
DEVICE bool is_better(sl_tile_best x, sl_tile_best y) {
    if (x.token < 0 || y.token < 0) return x.token >= 0;
    return x.logit != y.logit ? x.logit > y.logit : x.token < y.token;
}
DEVICE sl_tile_best better_of(sl_tile_best x, sl_tile_best y) {
    return is_better(x, y) ? x : y;
}
/* Reduction over the block; every thread gets the result. */
DEVICE sl_tile_best block_best(sl_tile_best x) {
    __shared__ sl_tile_best parts[WARP];
    const int warps = (int)(blockDim.x / WARP);
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2) {
        const float logit = __shfl_xor_sync(ALL_LANES, x.logit, d);
        const int token = __shfl_xor_sync(ALL_LANES, x.token, d);
        x = better_of(x, {logit, token});
    }
    if (lane_id() == 0) parts[warp_id()] = x;
    __syncthreads();
    for (int w = 0; w < warps; w++) x = better_of(x, parts[w]);
    __syncthreads();
    return x;
}

SL_CUDA_KERNEL(sl_choose_best, sl_chosen) {
    const int row = (int)blockIdx.y, tile = (int)blockIdx.x, first = tile * SL_CHOOSE_TILE;
    const float *logits = a.logits + (int64_t)row * a.vocab;
    sl_tile_best best = {0, -1};
    for (int t = first + (int)threadIdx.x; t < min(first + SL_CHOOSE_TILE, a.vocab);
         t += (int)blockDim.x)
        if (logits[t] == logits[t]) best = better_of(best, {logits[t], t});
    best = block_best(best);
    if (threadIdx.x > 0) return;
    a.best[row * a.tiles + tile] = best;
    if (tile == 0) a.count[row] = 0;
}

/* ---- weights ---- */

/* The largest logit of a row, from the maxima of its tiles. */
DEVICE sl_tile_best best_of_row(const sl_chosen &a, int row) {
    sl_tile_best best = {0, -1};
    for (int i = (int)threadIdx.x; i < a.tiles; i += (int)blockDim.x)
        best = better_of(best, a.best[row * a.tiles + i]);
    return block_best(best);
}
/* Whether a token is sampled; otherwise it is the argmax. */
DEVICE bool draws(const request &r, sl_tile_best best) {
    return r.temperature > 0 && best.token >= 0 && fabsf(best.logit / r.temperature) < INFINITY;
}

/* Unnormalised probability, 1 for the largest logit; 0 for NaN.  e^-104 is 0 in f32. */
DEVICE float weight_of(float logit, float best, float temperature) {
    return logit == logit ? expf(fmaxf(logit / temperature - best / temperature, -104.0f)) : 0.0f;
}
DEVICE uint64_t whole_weight(const sl_chosen &a, float weight) {
    return (uint64_t)((double)weight * (double)(1ull << a.scale_bits));
}

DEVICE uint64_t block_total(uint64_t x) {
    __shared__ unsigned long long total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
#pragma unroll
    for (int d = WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync(ALL_LANES, (unsigned long long)x, d);
    if (lane_id() == 0 && x) atomicAdd(&total, (unsigned long long)x);
    __syncthreads();
    x = total;
    __syncthreads();
    return x;
}

/* The k-th largest of the tile maxima, a lower bound of the row's k-th largest logit; -INFINITY if
 * fewer than k tiles have one. */
DEVICE float kth_of_tiles(const sl_chosen &a, int k, int row) {
    __shared__ float found;
    if (threadIdx.x == 0) found = -INFINITY;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < a.tiles; i += (int)blockDim.x) {
        const sl_tile_best mine = a.best[row * a.tiles + i];
        int better = 0;
        for (int other = 0; other < a.tiles; other++)
            better += is_better(a.best[row * a.tiles + other], mine);
        if (mine.token >= 0 && better == k - 1) found = mine.logit;
    }
    __syncthreads();
    return found;
}
/* A threshold below which no token can pass the filters, with a margin for rounding.  For top_p
 * alone it is a guess that may be too high; choose_filtered checks that. */
DEVICE float least_logit(const sl_chosen &a, const request &r, int row, float best) {
    if (r.top_k > 0) return kth_of_tiles(a, r.top_k, row);
    const float score = best / r.temperature + logf(r.min_p > 0 ? r.min_p : 1e-5f);
    return (score - 1e-5f * (1.0f + fabsf(score))) * r.temperature;
}

SL_CUDA_KERNEL(sl_choose_weigh, sl_chosen) {
    const int row = (int)blockIdx.y, tile = (int)blockIdx.x, first = tile * SL_CHOOSE_TILE;
    const request r = request_of(a, row);
    const float *logits = a.logits + (int64_t)row * a.vocab;
    const sl_tile_best best = best_of_row(a, row);
    if (!draws(r, best)) return;
    float least = filters(r) ? least_logit(a, r, row, best.logit) : INFINITY;
    if (least == -INFINITY) { /* no threshold: all tokens are candidates */
        if (tile == 0 && threadIdx.x == 0) a.count[row] = SL_CHOOSE_ROOM + 1;
        least = INFINITY;
    }
    uint64_t sum = 0;
    for (int t = first + (int)threadIdx.x; t < min(first + SL_CHOOSE_TILE, a.vocab);
         t += (int)blockDim.x) {
        const float logit = logits[t];
        sum += whole_weight(a, weight_of(logit, best.logit, r.temperature));
        if (!(logit >= least) || least == INFINITY) continue;
        const int at = atomicAdd(&a.count[row], 1);
        if (at < SL_CHOOSE_ROOM) a.apart[row * SL_CHOOSE_ROOM + at] = t;
    }
    sum = block_total(sum);
    if (threadIdx.x == 0) a.weights[row * a.tiles + tile] = sum;
}

/* ---- radix select ---- */

/* A set of tokens. */
struct selection {
    const float *logits;   /* of the row */
    const int32_t *listed; /* `count` tokens; NULL: tokens [first, first + count) */
    int first, count;
    float best, temperature, min_p;
    bool by_token;  /* ordered by token id, not by logit */
    uint64_t floor; /* tokens with smaller keys are not in the set */
};

/* Sort key: larger for better tokens, and unique. */
DEVICE uint64_t key_of(const selection &s, int token, float logit) {
    return (uint64_t)(s.by_token ? 0 : rank_of(logit)) << 32 | (0xffffffffu - (unsigned)token);
}
DEVICE int token_of(uint64_t key) {
    return (int)(0xffffffffu - (unsigned)key);
}

/* Calls see(key, weight) for each token of the selection, in a block-stride loop. */
template <class SEE> DEVICE void each_left(const sl_chosen &a, const selection &s, const SEE &see) {
    for (int i = (int)threadIdx.x; i < s.count; i += (int)blockDim.x) {
        const int token = s.listed ? s.listed[i] : s.first + i;
        const float logit = s.logits[token];
        if (logit != logit) continue;
        const uint64_t key = key_of(s, token, logit);
        const float weight = weight_of(logit, s.best, s.temperature);
        if (key >= s.floor && weight >= s.min_p) see(key, whole_weight(a, weight));
    }
}
DEVICE uint64_t total_of(const sl_chosen &a, const selection &s) {
    uint64_t sum = 0;
    each_left(a, s, [&](uint64_t, uint64_t weight) { sum += weight; });
    return block_total(sum);
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, DIGITS_EACH = DIGITS / SL_CHOOSE_LAST_THREADS };
struct histogram {
    unsigned long long amounts[DIGITS]; /* per digit: sum of weights, or number of tokens */
    int counts[DIGITS];
    /* Of find_digit: the digit at which the cumulative amount reaches the target (-1: none), and
     * the cumulative amount before it. */
    int digit;
    unsigned long long before;
    unsigned long long parts[WARP], found;
};

/* Block-wide prefix sum over the digits, the largest first; thread 0 has the largest digits. */
DEVICE void find_digit(histogram &h, uint64_t amount) {
    const int top = DIGITS - 1 - (int)threadIdx.x * DIGITS_EACH;
    unsigned long long own = 0;
#pragma unroll
    for (int i = 0; i < DIGITS_EACH; i++) own += h.amounts[top - i];
    unsigned long long upto = own; /* inclusive prefix sum in the warp */
#pragma unroll
    for (int d = 1; d < WARP; d *= 2) {
        const unsigned long long other = __shfl_up_sync(ALL_LANES, upto, d);
        if (lane_id() >= d) upto += other;
    }
    if (lane_id() == WARP - 1) h.parts[warp_id()] = upto;
    if (threadIdx.x == 0) h.digit = -1;
    __syncthreads();
    for (int w = 0; w < warp_id(); w++) upto += h.parts[w];
    unsigned long long before = upto - own;
#pragma unroll
    for (int i = 0; i < DIGITS_EACH; i++) {
        const unsigned long long here = h.amounts[top - i];
        if (before < amount && amount <= before + here) {
            h.digit = top - i;
            h.before = before;
        }
        before += here;
    }
    __syncthreads();
}

/* Radix select: the key of the token with which the cumulative weight (or number) of tokens, best
 * first, reaches `amount`; 0 if it never does. */
DEVICE uint64_t find_key(const sl_chosen &a, const selection &s, uint64_t amount, bool of_weights,
                         histogram &h) {
    uint64_t prefix = 0;
    int left = 64; /* low bits of the key that are not known yet */
    while (left > 0) {
        const int bits = min(left, (int)DIGIT_BITS), shift = left - bits;
        for (int i = (int)threadIdx.x; i < DIGITS; i += (int)blockDim.x)
            h.amounts[i] = 0, h.counts[i] = 0;
        __syncthreads();
        each_left(a, s, [&](uint64_t key, uint64_t weight) {
            if (left < 64 && key >> left != prefix) return;
            const int digit = (int)(key >> shift & ((1u << bits) - 1));
            atomicAdd(&h.amounts[digit], of_weights ? (unsigned long long)weight : 1ull);
            atomicAdd(&h.counts[digit], 1);
        });
        __syncthreads();
        find_digit(h, amount);
        if (h.digit < 0) return 0;
        amount -= h.before;
        prefix = prefix << bits | (unsigned)h.digit;
        left = shift;
        const bool alone = h.counts[h.digit] == 1;
        __syncthreads();
        if (!alone || left == 0) continue;
        each_left(a, s, [&](uint64_t key, uint64_t) {
            if (key >> left == prefix) h.found = key;
        });
        __syncthreads();
        prefix = h.found;
        __syncthreads();
        break;
    }
    return prefix;
}

/* ceil(share * total), in [1, total]. */
DEVICE uint64_t share_of(double share, uint64_t total) {
    const uint64_t amount = (uint64_t)ceil(share * (double)total);
    return amount < 1 ? 1 : amount > total ? total : amount;
}

/* ---- sampling ---- */

DEVICE uint64_t sum_of_tiles(const sl_chosen &a, int row) {
    uint64_t sum = 0;
    for (int i = (int)threadIdx.x; i < a.tiles; i += (int)blockDim.x)
        sum += a.weights[row * a.tiles + i];
    return block_total(sum);
}

DEVICE int choose_filtered(const sl_chosen &a, const request &r, selection s, int row,
                           histogram &h) {
    const int apart = a.count[row];
    const uint64_t all = sum_of_tiles(a, row);
    if (apart <= SL_CHOOSE_ROOM) {
        s.listed = a.apart + row * SL_CHOOSE_ROOM;
        s.count = apart;
    }
    if (r.top_k > 0) s.floor = find_key(a, s, (uint64_t)r.top_k, false, h);
    if (r.top_p > 0) {
        const uint64_t amount = share_of((double)r.top_p, r.top_k > 0 ? total_of(a, s) : all);
        if (r.top_k == 0 && r.min_p <= 0 && total_of(a, s) < amount) {
            s.listed = nullptr;
            s.count = a.vocab;
        }
        const uint64_t floor = find_key(a, s, amount, true, h);
        s.floor = floor > s.floor ? floor : s.floor;
    }
    s.min_p = r.min_p;
    return token_of(find_key(a, s, share_of(r.share, total_of(a, s)), true, h));
}

/* Inverse CDF without filters: first the tile, by the sums of tiles, then the token in the tile. */
DEVICE int choose_any(const sl_chosen &a, const request &r, selection s, int row, histogram &h) {
    __shared__ unsigned long long amount;
    __shared__ int tile;
    const uint64_t all = sum_of_tiles(a, row);
    if (threadIdx.x == 0) {
        uint64_t left = (uint64_t)(r.share * (double)all) + 1; /* must exceed the share */
        left = left < all ? left : all;
        const uint64_t *weights = a.weights + row * a.tiles;
        int t = 0;
        while (t + 1 < a.tiles && weights[t] < left) left -= weights[t++];
        amount = left;
        tile = t;
    }
    __syncthreads();
    s.by_token = true;
    s.first = tile * SL_CHOOSE_TILE;
    s.count = min((int)SL_CHOOSE_TILE, a.vocab - s.first);
    return token_of(find_key(a, s, amount, true, h));
}

SL_CUDA_KERNEL(sl_choose_last, sl_chosen, SL_CHOOSE_LAST_THREADS) {
    __shared__ histogram h;
    const int row = (int)blockIdx.x;
    const request r = request_of(a, row);
    const int slot = checked(a.fault, SL_FAULT_SLOT, row, a.slots[row], a.slot_count);
    int token = -1;
    if (r.temperature >= 0) {
        const sl_tile_best best = best_of_row(a, row);
        const selection s = {a.logits + (int64_t)row * a.vocab, nullptr, 0, a.vocab, best.logit,
                             r.temperature, 0.0f, false, 0};
        token = !draws(r, best) ? max(best.token, 0)
                : filters(r)    ? choose_filtered(a, r, s, row, h)
                                : choose_any(a, r, s, row, h);
    }
    if (threadIdx.x > 0) return;
    a.out[row] = token;
    if (token >= 0) a.chosen[slot] = token;
}
