/* signal.c - Fourier transforms and what follows them. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vec.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- fft: an item is as many rows as a vector has lanes ---- */

/* The length of the stages: n itself where 2, 3, 5 and 7 make it up, else a power of two in which
 * the convolution fits. */
static int64_t fft_inner(int64_t n) {
    static const int64_t primes[] = {2, 3, 5, 7};
    int64_t rest = n, inner = 1;
    for (int i = 0; i < 4; i++)
        while (rest % primes[i] == 0) rest /= primes[i];
    if (rest == 1) return n;
    while (inner < 2 * n - 1) inner *= 2;
    return inner;
}

#define REAL      float
#define FFT(NAME) fft32_##NAME
#include "runtime/cpu/kernels/fft.h"
#undef REAL
#undef FFT
#define REAL      double
#define FFT(NAME) fft64_##NAME
#include "runtime/cpu/kernels/fft.h"
#undef REAL
#undef FFT

static int64_t fft_length(const sl_fft_args *a) {
    return a->x.type.dtype == SL_DTYPE_c64 ? last_dim(&a->x.type) : last_dim(&a->x.type) / 2;
}

/* A convolution squares the rounding errors' way: in doubles, whatever the type is. */
static bool fft_wide(const sl_fft_args *a) {
    const int64_t n = fft_length(a);
    return a->x.type.dtype == SL_DTYPE_f64 || fft_inner(n) != n;
}

static int64_t fft_rows(const sl_fft_args *a) {
    return sl_type_bytes(&a->x.type) / (uint64_t)(2 * fft_length(a)) /
           (a->x.type.dtype == SL_DTYPE_f64 ? sizeof(double) : sizeof(float));
}

static double fft_scale(const sl_fft_args *a) {
    const double n = (double)fft_length(a);
    if (a->attrs.norm == 1) return 1 / sqrt(n);
    return a->attrs.norm == (a->attrs.inverse ? 0 : 2) ? 1 / n : 1;
}

SPLIT(fft) {
    const sl_fft_args *a = args;
    const int64_t inner = fft_inner(fft_length(a));
    const int64_t lanes = fft_wide(a) ? (int64_t)fft64_LANE_COUNT : (int64_t)fft32_LANE_COUNT;
    const size_t each = fft_wide(a) ? sizeof(double) : sizeof(float);
    return (sl_split){parts_of(fft_rows(a), lanes), grain_of(inner * lanes * 16),
                      4 * (size_t)(inner * lanes) * each};
}

extern sl_prepare_fn SL_KERNEL(sl_prepare_fft);
size_t SL_KERNEL(sl_prepare_fft)(const void *args, void *memory) {
    const sl_fft_args *a = args;
    return fft_wide(a) ? fft64_prepare(fft_length(a), memory)
                       : fft32_prepare(fft_length(a), memory);
}

/* Where number i of a row has its parts. */
typedef struct {
    int64_t next, imaginary;
} fft_layout;

static fft_layout layout_of(const sl_fft_args *a) {
    return a->x.type.dtype == SL_DTYPE_c64 ? (fft_layout){2, 1} : (fft_layout){1, fft_length(a)};
}

/* Rows [row, row + count) of the operand, `lanes` side by side; those that are missing are 0. */
#define FFT_ROWS(NAME, REAL, ELEMENT)                                                              \
    static void take_##NAME(const sl_fft_args *a, int64_t row, int64_t count, int64_t lanes,       \
                            REAL *re, REAL *im) {                                                  \
        const fft_layout l = layout_of(a);                                                         \
        const int64_t n = fft_length(a);                                                           \
        for (int64_t q = 0; q < lanes; q++) {                                                      \
            const ELEMENT *from =                                                                  \
                (const ELEMENT *)a->x.data + (row + (q < count ? q : 0)) * 2 * n;                  \
            for (int64_t i = 0; i < n; i++) {                                                      \
                re[i * lanes + q] = (REAL)from[i * l.next];                                        \
                im[i * lanes + q] = (REAL)from[i * l.next + l.imaginary];                          \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void give_##NAME(const sl_fft_args *a, int64_t row, int64_t count, int64_t lanes,       \
                            const REAL *re, const REAL *im) {                                      \
        const fft_layout l = layout_of(a);                                                         \
        const int64_t n = fft_length(a);                                                           \
        const REAL scale = (REAL)fft_scale(a);                                                     \
        for (int64_t q = 0; q < count; q++) {                                                      \
            ELEMENT *to = (ELEMENT *)a->out.data + (row + q) * 2 * n;                              \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i * l.next] = (ELEMENT)(scale * re[i * lanes + q]);                             \
                to[i * l.next + l.imaginary] = (ELEMENT)(scale * im[i * lanes + q]);               \
            }                                                                                      \
        }                                                                                          \
    }
FFT_ROWS(f32, float, float)
FFT_ROWS(wide, double, float)
FFT_ROWS(f64, double, double)
#undef FFT_ROWS

/* Some rows at once; with inverse, parts change places before and after. */
#define FFT_RUN(NAME, REAL, CORE)                                                                  \
    static void run_##NAME(const sl_fft_args *a, const CORE##_plan *plan, int64_t row,             \
                           int64_t count, int64_t lanes, REAL *scratch) {                          \
        const int64_t room = plan->inner * lanes;                                                  \
        CORE##_numbers x = {scratch, scratch + room};                                              \
        CORE##_numbers y = {scratch + 2 * room, scratch + 3 * room};                               \
        if (a->attrs.inverse) x = CORE##_swapped(x), y = CORE##_swapped(y);                        \
        take_##NAME(a, row, count, lanes, a->attrs.inverse ? x.im : x.re,                          \
                    a->attrs.inverse ? x.re : x.im);                                               \
        const CORE##_numbers t = CORE##_run(plan, lanes, x, y);                                    \
        give_##NAME(a, row, count, lanes, a->attrs.inverse ? t.im : t.re,                          \
                    a->attrs.inverse ? t.re : t.im);                                               \
    }
FFT_RUN(f32, float, fft32)
FFT_RUN(wide, double, fft64)
FFT_RUN(f64, double, fft64)
#undef FFT_RUN

/* Few rows go one by one: a vector of them would be mostly empty. */
RUN(fft) {
    const sl_fft_args *a = args;
    const bool wide = fft_wide(a), doubles = a->x.type.dtype == SL_DTYPE_f64;
    const int64_t lanes = wide ? (int64_t)fft64_LANE_COUNT : (int64_t)fft32_LANE_COUNT;
    const int64_t rows = fft_rows(a);
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * lanes, count = least(lanes, rows - first);
        const bool together = 2 * count > lanes;
        for (int64_t r = 0; r < count; r += together ? count : 1) {
            const int64_t taken = together ? count : 1, width = together ? lanes : 1;
            if (doubles)
                run_f64(a, worker->prepared, first + r, taken, width, worker->scratch);
            else if (wide)
                run_wide(a, worker->prepared, first + r, taken, width, worker->scratch);
            else
                run_f32(a, worker->prepared, first + r, taken, width, worker->scratch);
        }
    }
    return SL_OK;
}

/* ---- one stage: an item is a row ---- */

SPLIT(fft_butterfly_stage) {
    const sl_fft_butterfly_stage_args *a = args;
    return (sl_split){rows_of(&a->x.type), grain_of(last_dim(&a->x.type) * 4), 0};
}
RUN(fft_butterfly_stage) {
    const sl_fft_butterfly_stage_args *a = args;
    const int64_t half = last_dim(&a->gates.type), n = 2 * half;
    const int64_t stride = (int64_t)1 << a->attrs.stage;
    const float *w = a->twiddles.data, *gates = a->gates.data, *reversed = a->reversed.data;
    for (int64_t row = begin; row < end; row++) {
        const float *re = (const float *)a->x.data + row * 2 * n, *im = re + n;
        float *out_re = (float *)a->out.data + row * 2 * n, *out_im = out_re + n;
        for (int64_t b = 0; b < half; b++) {
            const int64_t i = b / stride * 2 * stride + b % stride, j = i + stride;
            const bool turned = gates[b] != 0, swapped = turned && reversed[b] >= 0.5f;
            const float v = re[j] * w[b] - im[j] * w[half + b];
            const float u = re[j] * w[half + b] + im[j] * w[b];
            const int64_t top = swapped ? j : i, bottom = swapped ? i : j;
            out_re[top] = turned ? re[i] + v : re[i];
            out_im[top] = turned ? im[i] + u : im[i];
            out_re[bottom] = turned ? re[i] - v : re[j];
            out_im[bottom] = turned ? im[i] - u : im[j];
        }
    }
    return SL_OK;
}

/* ---- log-mel: an item is a row ---- */

static const float mel_floor = 1e-10f, mel_range = 8;

/* Energies of a row into energies[mels], by way of powers[bins]; the largest logarithm. */
static float mel_row(const float *spectrum, int64_t n, const sl_cview *filters, float *powers,
                     float *energies) {
    const int64_t mels = dim(&filters->type, 0), bins = dim(&filters->type, 1);
    const float *weights = filters->data;
    float largest = -INFINITY;
    for (int64_t k = 0; k < bins; k++)
        powers[k] = spectrum[k] * spectrum[k] + spectrum[n + k] * spectrum[n + k];
    for (int64_t m = 0; m < mels; m++) {
        double sum = 0;
        for (int64_t k = 0; k < bins; k++)
            sum += (double)(weights[m * bins + k]) * (double)powers[k];
        energies[m] = (float)sum;
        largest = fmaxf(largest, log10f(fmaxf(energies[m], mel_floor)));
    }
    return largest;
}

static sl_split split_mel(const sl_cview *spectrum, const sl_cview *filters) {
    const int64_t mels = dim(&filters->type, 0), bins = dim(&filters->type, 1);
    return (sl_split){rows_of(&spectrum->type), grain_of(mels * bins),
                      (size_t)(mels + 3 * bins) * sizeof(float)};
}

SPLIT(log_mel) {
    const sl_log_mel_args *a = args;
    return split_mel(&a->spectrum, &a->filters);
}
RUN(log_mel) {
    const sl_log_mel_args *a = args;
    const int64_t mels = last_dim(&a->out.type), width = last_dim(&a->spectrum.type);
    float *energies = worker->scratch;
    for (int64_t row = begin; row < end; row++) {
        const float *spectrum = (const float *)a->spectrum.data + row * width;
        float *out = (float *)a->out.data + row * mels;
        const float largest = mel_row(spectrum, width / 2, &a->filters, energies + mels, energies);
        for (int64_t m = 0; m < mels; m++)
            out[m] =
                (fmaxf(log10f(fmaxf(energies[m], mel_floor)), largest - mel_range) + 4) * 0.25f;
    }
    return SL_OK;
}

SPLIT(log_mel_backward) {
    const sl_log_mel_backward_args *a = args;
    return split_mel(&a->spectrum, &a->filters);
}
RUN(log_mel_backward) {
    const sl_log_mel_backward_args *a = args;
    const int64_t mels = dim(&a->filters.type, 0), bins = dim(&a->filters.type, 1);
    const int64_t width = last_dim(&a->spectrum.type), n = width / 2;
    const float *weights = a->filters.data;
    float *energies = worker->scratch, *powers = energies + mels;
    for (int64_t row = begin; row < end; row++) {
        const float *spectrum = (const float *)a->spectrum.data + row * width;
        const float *grad = (const float *)a->grad.data + row * mels;
        float *out = (float *)a->out.data + row * width;
        const float largest = mel_row(spectrum, n, &a->filters, powers, energies);
        memset(powers, 0, (size_t)bins * sizeof *powers); /* from here on: gradients by power */
        memset(out, 0, (size_t)width * sizeof *out);
        for (int64_t m = 0; m < mels; m++) {
            if (energies[m] <= mel_floor || log10f(energies[m]) < largest - mel_range) continue;
            const float g = grad[m] * 0.25f / (energies[m] * (float)M_LN10);
            for (int64_t k = 0; k < bins; k++) powers[k] += g * weights[m * bins + k];
        }
        for (int64_t k = 0; k < bins; k++) {
            out[k] = powers[k] * 2 * spectrum[k];
            out[n + k] = powers[k] * 2 * spectrum[n + k];
        }
    }
    return SL_OK;
}
