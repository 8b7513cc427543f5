/* reals.h - Helpers for kernels that support all float types.
 *
 * Such a kernel is written once, in a header that is included twice: with REAL float, for f32, f16
 * and bf16, and with REAL double, for f64.  NAMED(x) is x_f32 or x_f64.  This file has the
 * functions that differ between the two. */
#ifndef SL_RUNTIME_CPU_REALS_H
#define SL_RUNTIME_CPU_REALS_H
#include "core/codec.h"
#include "runtime/cpu/kernels/elementwise.h"
#include "runtime/cpu/kernels/gemm.h"

/* ---- rows ---- */

static inline float half_element(sl_dtype dtype, const void *data, int64_t at) {
    uint16_t bits;
    memcpy(&bits, (const char *)data + at * 2, sizeof bits);
    return dtype == SL_DTYPE_f16 ? sl_f32_from_f16(bits) : sl_f32_from_bf16(bits);
}

static __attribute__((noinline)) void load_halves(sl_dtype dtype, const void *data, int64_t at,
                                                  int64_t n, float *room) {
    const char *from = (const char *)data + at * 2;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vstore(room + i,
               dtype == SL_DTYPE_f16 ? vload_f16(from + i * 2) : vload_bf16(from + i * 2));
    for (; i < n; i++) room[i] = half_element(dtype, from, i);
}

/* n elements from `at` on; converted into `room` unless they are REAL already. */
static inline const float *load_f32(sl_dtype dtype, const void *data, int64_t at, int64_t n,
                                    float *room) {
    if (dtype == SL_DTYPE_f32) return (const float *)data + at;
    load_halves(dtype, data, at, n, room);
    return room;
}
static inline const double *load_f64(sl_dtype dtype, const void *data, int64_t at, int64_t n,
                                     double *room) {
    (void)dtype, (void)n, (void)room;
    return (const double *)data + at;
}

/* Always copies the n elements to `room`. */
static inline void copy_f32(sl_dtype dtype, const void *data, int64_t at, int64_t n, float *room) {
    const float *from = load_f32(dtype, data, at, n, room);
    if (from != room) memcpy(room, from, (size_t)n * sizeof *room);
}
static inline void copy_f64(sl_dtype dtype, const void *data, int64_t at, int64_t n, double *room) {
    memcpy(room, load_f64(dtype, data, at, n, room), (size_t)n * sizeof *room);
}

static inline void store_f32(sl_dtype dtype, void *data, int64_t at, int64_t n, const float *from) {
    if (dtype == SL_DTYPE_f32) {
        memcpy((float *)data + at, from, (size_t)n * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint16_t bits =
            dtype == SL_DTYPE_f16 ? sl_f16_from_f32(from[i]) : sl_bf16_from_f32(from[i]);
        memcpy((char *)data + (at + i) * 2, &bits, sizeof bits);
    }
}
static inline void store_f64(sl_dtype dtype, void *data, int64_t at, int64_t n,
                             const double *from) {
    (void)dtype;
    if (from) memcpy((double *)data + at, from, (size_t)n * sizeof *from);
}

static inline float element_f32(sl_dtype dtype, const void *data, int64_t at) {
    return dtype == SL_DTYPE_f32 ? ((const float *)data)[at] : half_element(dtype, data, at);
}
static inline double element_f64(sl_dtype dtype, const void *data, int64_t at) {
    (void)dtype;
    return ((const double *)data)[at];
}

/* ---- products ---- */

typedef gemm gemm_f32;
typedef struct {
    const double *a;
    int64_t a_row, a_col;
    const double *b;
    int64_t b_row;
    double *c;
    int64_t c_row;
    int64_t rows, cols, inner;
    bool add;
} gemm_f64;

static inline void multiply_f32(const gemm_f32 *g) {
    gemm_run(g);
}
__attribute__((unused, noinline)) static void multiply_f64(const gemm_f64 *g) {
    for (int64_t r = 0; r < g->rows; r++) {
        double *restrict to = g->c + r * g->c_row;
        if (!g->add) memset(to, 0, (size_t)g->cols * sizeof *to);
        for (int64_t k = 0; k < g->inner; k++) {
            const double factor = g->a[r * g->a_row + k * g->a_col];
            const double *restrict from = g->b + k * g->b_row;
            for (int64_t c = 0; c < g->cols; c++) to[c] += factor * from[c];
        }
    }
}

static inline float dot_f32(const float *a, const float *b, int64_t n) {
    return vdot(a, b, n);
}
static inline double dot_f64(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* ---- functions ---- */

static inline float most_f32(const float *x, int64_t n) {
    return vlargest(x, n);
}
static inline double most_f64(const double *x, int64_t n) {
    double best = -INFINITY;
    for (int64_t i = 0; i < n; i++) best = x[i] > best ? x[i] : best;
    return best;
}
static inline float exponential_f32(float x) {
    return vexp(vsplat(x))[0];
}
static inline double exponential_f64(double x) {
    return exp(x);
}

/* Replaces x by e^(x - shift) and returns the sum. */
static __attribute__((noinline, unused)) float terms_f32(float *x, int64_t n, float shift) {
    FOR_VECTORS(i, count, n, vstore_n(x + i, vexp(vload_n(x + i, count) - vsplat(shift)), count););
    return vtotal(x, n);
}
static __attribute__((noinline, unused)) double terms_f64(double *x, int64_t n, double shift) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] = exp(x[i] - shift);
    return sum;
}

/* Replaces x by tanh(x). */
static __attribute__((noinline, unused)) void tanh_f32(float *x, int64_t n) {
    FOR_VECTORS(i, count, n, vstore_n(x + i, vtanh(vload_n(x + i, count)), count););
}
static __attribute__((noinline, unused)) void tanh_f64(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = tanh(x[i]);
}

static const float lowest_f32 = -FLT_MAX;
static const double lowest_f64 = -DBL_MAX;

/* ---- scratch ---- */

/* A bump allocator for a worker's scratch, aligned to 64 bytes; with at NULL it only counts
 * bytes. */
typedef struct {
    char *at;
    size_t bytes;
} carver;
static inline void *carve(carver *c, int64_t count, size_t each) {
    void *part = c->at ? c->at + c->bytes : NULL;
    c->bytes += ((size_t)count * each + 63) & ~(size_t)63;
    return part;
}
#endif
