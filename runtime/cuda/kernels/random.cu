/* random.cu - Random numbers from a key and a counter (core/philox.h), and sampling with them. */
#include "core/philox.h"
#include "runtime/cuda/kernels/block.cuh"
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/random.h"
#include "runtime/cuda/kernels/strides.cuh"

DEVICE sl_philox_stream stream_of(const sl_random_stream &from) {
    sl_philox_stream s = {{from.key[0], from.key[1]}, {0, 0, 0, 0}};
    for (int i = 0; i < from.counter_words; i++) s.counter[i] = from.counter[i];
    return s;
}
DEVICE uint32_t word_at(const sl_philox_stream &s, int64_t i) {
    return sl_philox_block(&s, i / 4).word[i % 4];
}
DEVICE number uniform_at(const sl_philox_stream &s, int type, int64_t i) {
    const bool wide = type == SL_TYPE_f64 || type == SL_TYPE_u64;
    const uint32_t word = word_at(s, wide ? 2 * i : i), high = wide ? word_at(s, 2 * i + 1) : 0;
    switch (type) {
    case SL_TYPE_f64:
        return number_of(sl_philox_f64(word, high));
    case SL_TYPE_f16:
        return number_of((word >> 21) * 0x1p-11);
    case SL_TYPE_bf16:
        return number_of((word >> 24) * 0x1p-8);
    case SL_TYPE_f32:
        return number_of(sl_philox_f32(word));
    default:
        return number_of_whole((int64_t)((uint64_t)high << 32 | word));
    }
}
DEVICE number normal_at(const sl_philox_stream &s, int type, int64_t i) {
    const int from = type == SL_TYPE_f64 ? SL_TYPE_f64 : SL_TYPE_f32;
    const double radius = sqrt(-2 * log1p(-uniform_at(s, from, i & ~(int64_t)1).re));
    const double angle = 2 * M_PI * uniform_at(s, from, i | 1).re;
    return number_of(radius * (i & 1 ? sin(angle) : cos(angle)));
}

SL_CUDA_KERNEL(sl_random_numbers, sl_random, SL_RANDOM_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.count) return;
    const sl_philox_stream s = stream_of(a.stream);
    store_number(a.type, a.out, i, a.normal ? normal_at(s, a.type, i) : uniform_at(s, a.type, i));
}

/* ---- sampling: results are block-uniform; sums have a fixed order ---- */

enum { THREADS = SL_SAMPLE_THREADS };

/* Sum over the threads before this one, and over all threads of the block. */
struct running {
    double before, total;
};
DEVICE running sums_of(double own) {
    __shared__ double parts[THREADS];
    running sum = {0, 0};
    parts[threadIdx.x] = own;
    __syncthreads();
    for (int i = 0; i < THREADS; i++) {
        if (i == (int)threadIdx.x) sum.before = sum.total;
        sum.total += parts[i];
    }
    __syncthreads();
    return sum;
}

/* Index of a row's maximum (the first of ties); -1 if it has NaN or +inf, or nothing finite. */
DEVICE int first_largest(const sl_sampled &a, int64_t row) {
    double most = -INFINITY;
    int64_t place = -1;
    int wrong = 0;
    for (int64_t i = threadIdx.x; i < a.cols; i += THREADS) {
        const double x = load_number(a.type, a.logits, row * a.cols + i).re;
        wrong |= !(x < INFINITY);
        if (x > most) {
            most = x;
            place = i;
        }
    }
    const int best = (int)place_of_largest<THREADS>(most, place);
    return __syncthreads_or(wrong) ? -1 : best;
}

DEVICE double sum_from(const double *weights, int64_t cols, double least, bool counts) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < cols; i += THREADS)
        if (weights[i] >= least) sum += counts ? 1 : weights[i];
    return sums_of(sum).total;
}

/* The largest threshold for which the weights at or above it reach `goal`, in number or in sum.
 * Radix select bit by bit: non-negative doubles are ordered as their bit patterns. */
DEVICE double edge_of(const double *weights, int64_t cols, double goal, bool counts) {
    double edge = 0;
    uint64_t bits = 0;
    for (int bit = 61; bit >= 0; bit--) {
        const uint64_t tried = bits | (uint64_t)1 << bit;
        double least;
        memcpy(&least, &tried, sizeof least);
        if (!(sum_from(weights, cols, least, counts) >= goal)) continue;
        bits = tried;
        edge = least;
    }
    return edge;
}

/* A thread's contiguous share of a row. */
struct part {
    int64_t begin, end;
};
DEVICE part part_of(int64_t cols) {
    return {cols * threadIdx.x / THREADS, cols * (threadIdx.x + 1) / THREADS};
}

/* Sets weights below the edge to 0; of those equal to it, the first `kept` stay. */
DEVICE void drop_below(double *weights, int64_t cols, double edge, double kept) {
    const part own = part_of(cols);
    double ties = 0;
    for (int64_t i = own.begin; i < own.end; i++) ties += weights[i] == edge;
    double place = sums_of(ties).before;
    for (int64_t i = own.begin; i < own.end; i++) {
        const bool stays = weights[i] == edge ? place++ < kept : weights[i] > edge;
        if (!stays) weights[i] = 0;
    }
    __syncthreads();
}

DEVICE void drop_unlikely(const sl_sampled &a, double *weights) {
    if (a.top_k && a.top_k < a.cols)
        drop_below(weights, a.cols, edge_of(weights, a.cols, (double)a.top_k, true), INFINITY);
    if (!(a.top_p > 0 && a.top_p < 1)) return;
    const double goal = a.top_p * sum_from(weights, a.cols, 0, false);
    const double edge = edge_of(weights, a.cols, goal, false);
    const double above = sum_from(weights, a.cols, nextafter(edge, INFINITY), false);
    drop_below(weights, a.cols, edge, ceil((goal - above) / edge));
}

/* Inverse CDF: the thread in whose share the running sum exceeds `share` of the total stores the
 * index. */
DEVICE void pick(const double *weights, int64_t cols, double share, int32_t *out) {
    const part own = part_of(cols);
    double mine = 0;
    for (int64_t i = own.begin; i < own.end; i++) mine += weights[i];
    const running sums = sums_of(mine);
    const double goal = share * sums.total;
    if (goal < sums.before || !(goal < sums.before + mine)) return;
    double sum = sums.before;
    int64_t place = own.begin;
    for (int64_t i = own.begin; i < own.end && !(goal < sum); i++) {
        sum += weights[i];
        if (weights[i] > 0) place = i;
    }
    *out = (int32_t)place;
}

SL_CUDA_KERNEL(sl_sample, sl_sampled, SL_SAMPLE_THREADS) {
    const int64_t row = blockIdx.x;
    const int best = first_largest(a, row);
    if (best < 0 || a.temperature == 0) {
        if (threadIdx.x == 0)
            a.out[row] = checked(a.fault, SL_FAULT_LOGITS, (int)row, best, (int)a.cols);
        return;
    }
    double *weights = a.weights + row * a.cols;
    const double most = load_number(a.type, a.logits, row * a.cols + best).re;
    for (int64_t i = threadIdx.x; i < a.cols; i += THREADS) {
        const double x = load_number(a.type, a.logits, row * a.cols + i).re;
        weights[i] = exp((x - most) / a.temperature);
    }
    __syncthreads();
    drop_unlikely(a, weights);
    pick(weights, a.cols, uniform_at(stream_of(a.stream), SL_TYPE_f32, row).re, a.out + row);
}
