/* signal_fft.c - FFTs of rows.  A long row with many factors of 2 is vectorised within the row; a
 * very long one is computed as a matrix (four-step FFT); other rows are computed together, one row
 * per vector lane. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include "runtime/cpu/kernels/vec.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The FFT length: n itself if it has only the factors 2, 3, 5 and 7, else a power of two that is
 * large enough for Bluestein's convolution. */
static int64_t fft_inner(int64_t n) {
    static const int64_t primes[] = {2, 3, 5, 7};
    int64_t rest = n, inner = 1;
    for (int i = 0; i < 4; i++)
        while (rest % primes[i] == 0) rest /= primes[i];
    if (rest == 1) return n;
    while (inner < 2 * n - 1) inner *= 2;
    return inner;
}

/* From this length on a transform is computed as a matrix (four-step FFT). */
enum { FFT_LONG = 1 << 16 };

/* Shuffle indices: interleave two vectors (LOW, HIGH), deinterleave them (EVEN, ODD), halves of one
 * (LOWER, UPPER). */
#define LOW_2    0, 2
#define HIGH_2   1, 3
#define EVEN_2   0, 2
#define ODD_2    1, 3
#define LOWER_2  0
#define UPPER_2  1
#define LOW_4    0, 4, 1, 5
#define HIGH_4   2, 6, 3, 7
#define EVEN_4   0, 2, 4, 6
#define ODD_4    1, 3, 5, 7
#define LOWER_4  0, 1
#define UPPER_4  2, 3
#define LOW_8    0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8   4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_8   0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8    1, 3, 5, 7, 9, 11, 13, 15
#define LOWER_8  0, 1, 2, 3
#define UPPER_8  4, 5, 6, 7
#define LOW_16   0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN_16  0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16   1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOWER_16 0, 1, 2, 3, 4, 5, 6, 7
#define UPPER_16 8, 9, 10, 11, 12, 13, 14, 15
#if defined(__AVX512F__)
#define LIST32(NAME) NAME##_16
#define LIST64(NAME) NAME##_8
#elif defined(__AVX2__)
#define LIST32(NAME) NAME##_8
#define LIST64(NAME) NAME##_4
#else
#define LIST32(NAME) NAME##_4
#define LIST64(NAME) NAME##_2
#endif

#define REAL      float
#define FFT(NAME) fft32_##NAME
#define LIST      LIST32
#include "runtime/cpu/kernels/signal_fft.h"
#include "runtime/cpu/kernels/signal_fft_plan.h"
#undef REAL
#undef FFT
#undef LIST
#define REAL      double
#define FFT(NAME) fft64_##NAME
#define LIST      LIST64
#include "runtime/cpu/kernels/signal_fft.h"
#include "runtime/cpu/kernels/signal_fft_plan.h"
#undef REAL
#undef FFT
#undef LIST

/* ---- the op's attributes ---- */

static int64_t fft_length(const sl_fft_args *a) {
    return a->x.type.dtype == SL_DTYPE_c64 ? last_dim(&a->x.type) : last_dim(&a->x.type) / 2;
}

/* Bluestein's convolution amplifies rounding errors, so that it is computed in doubles for every
 * type. */
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

/* Distance between the parts of a buffer, in numbers: padded so that they do not map to the same
 * cache sets. */
static int64_t fft_room(int64_t numbers) {
    return (numbers + 15) / 16 * 16 + 48;
}

/* ---- rows that are vectorised within the row: an item is a row ---- */

/* Transforms one row.  The inverse swaps the real and imaginary parts, or conjugates interleaved
 * numbers. */
#define FFT_ROW(NAME, REAL, CORE)                                                                  \
    static void row_##NAME(const sl_fft_args *a, const CORE##_plan *plan, int64_t row,             \
                           REAL *scratch) {                                                        \
        const int64_t n = plan->length, columns = CORE##_matrix_columns_of(n);                     \
        const bool woven = a->x.type.dtype == SL_DTYPE_c64, inverse = a->attrs.inverse != 0;       \
        const REAL *x = (const REAL *)a->x.data + row * 2 * n;                                     \
        REAL *out = (REAL *)a->out.data + row * 2 * n;                                             \
        const int64_t imaginary = woven ? 0 : n, swap = inverse ? imaginary : 0;                   \
        const REAL sign = woven && inverse ? -1 : 1;                                               \
        const CORE##_source from = {x + swap, x + imaginary - swap, 1, woven, sign};               \
        const CORE##_target to = {out + swap, out + imaginary - swap, CORE##_L,                    \
                                  woven,      (REAL)fft_scale(a),     sign};                       \
        const int64_t room = fft_room(columns ? columns * CORE##_L : n);                           \
        const CORE##_numbers buffers[2] = {{scratch, scratch + room},                              \
                                           {scratch + 2 * room, scratch + 3 * room}};              \
        if (columns)                                                                               \
            CORE##_matrix(plan, &from, &to, buffers, scratch + 4 * room);                          \
        else                                                                                       \
            (void)CORE##_stages(plan, 1, &from, &to, buffers);                                     \
    }
FFT_ROW(f32, float, fft32)
FFT_ROW(f64, double, fft64)
#undef FFT_ROW

/* ---- rows in lanes: an item is as many rows as a vector has lanes ---- */

/* Strides in the operand: from one number to the next, and from a real to its imaginary part. */
typedef struct {
    int64_t next, imaginary;
} fft_layout;

static fft_layout layout_of(const sl_fft_args *a) {
    return a->x.type.dtype == SL_DTYPE_c64 ? (fft_layout){2, 1} : (fft_layout){1, fft_length(a)};
}

/* take: copies numbers from `first` on of rows [row, row + count) to scratch, lane by lane; lanes
 * without a row repeat the first row.  give: copies results back, scaled. */
#define FFT_ROWS(NAME, REAL, ELEMENT)                                                              \
    static void take_##NAME(const sl_fft_args *a, int64_t row, int64_t count, int64_t lanes,       \
                            int64_t first, REAL *re, REAL *im) {                                   \
        const fft_layout l = layout_of(a);                                                         \
        const int64_t n = fft_length(a);                                                           \
        for (int64_t q = 0; q < lanes; q++) {                                                      \
            const ELEMENT *from =                                                                  \
                (const ELEMENT *)a->x.data + (row + (q < count ? q : 0)) * 2 * n;                  \
            for (int64_t i = first; i < n; i++) {                                                  \
                re[i * lanes + q] = (REAL)from[i * l.next];                                        \
                im[i * lanes + q] = (REAL)from[i * l.next + l.imaginary];                          \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void give_##NAME(const sl_fft_args *a, int64_t row, int64_t count, int64_t lanes,       \
                            int64_t first, const REAL *re, const REAL *im) {                       \
        const fft_layout l = layout_of(a);                                                         \
        const int64_t n = fft_length(a);                                                           \
        const REAL scale = (REAL)fft_scale(a);                                                     \
        for (int64_t q = 0; q < count; q++) {                                                      \
            ELEMENT *to = (ELEMENT *)a->out.data + (row + q) * 2 * n;                              \
            for (int64_t i = first; i < n; i++) {                                                  \
                to[i * l.next] = (ELEMENT)(scale * re[i * lanes + q]);                             \
                to[i * l.next + l.imaginary] = (ELEMENT)(scale * im[i * lanes + q]);               \
            }                                                                                      \
        }                                                                                          \
    }
FFT_ROWS(f32, float, float)
FFT_ROWS(wide, double, float)
FFT_ROWS(f64, double, double)
#undef FFT_ROWS

/* The same in blocks of as many numbers as a vector has lanes, transposed in registers.  Returns
 * how many numbers of each row were copied. */
#define FFT_BLOCKS(NAME, REAL, CORE)                                                               \
    static int64_t take_blocks_##NAME(const sl_fft_args *a, int64_t row, int64_t count, REAL *re,  \
                                      REAL *im) {                                                  \
        const bool woven = a->x.type.dtype == SL_DTYPE_c64;                                        \
        const int64_t n = fft_length(a);                                                           \
        int64_t i = 0;                                                                             \
        for (; i + CORE##_L <= n; i += CORE##_L) {                                                 \
            CORE##_vector r[16], m[16];                                                            \
            for (int q = 0; q < CORE##_L; q++) {                                                   \
                const REAL *x = (const REAL *)a->x.data + (row + (q < count ? q : 0)) * 2 * n;     \
                const CORE##_source from = {x, x + n, 1, woven, 1};                                \
                CORE##_load_at(&from, i, woven, &r[q], &m[q]);                                     \
            }                                                                                      \
            CORE##_weave(r, CORE##_L);                                                             \
            for (int q = 0; q < CORE##_L; q++) CORE##_store(re + (i + q) * CORE##_L, r[q]);        \
            CORE##_weave(m, CORE##_L);                                                             \
            for (int q = 0; q < CORE##_L; q++) CORE##_store(im + (i + q) * CORE##_L, m[q]);        \
        }                                                                                          \
        return i;                                                                                  \
    }                                                                                              \
    static int64_t give_blocks_##NAME(const sl_fft_args *a, int64_t row, int64_t count,            \
                                      const REAL *re, const REAL *im) {                            \
        const bool woven = a->x.type.dtype == SL_DTYPE_c64;                                        \
        const int64_t n = fft_length(a);                                                           \
        const REAL scale = (REAL)fft_scale(a);                                                     \
        int64_t i = 0;                                                                             \
        for (; i + CORE##_L <= n; i += CORE##_L) {                                                 \
            CORE##_vector r[16], m[16];                                                            \
            for (int q = 0; q < CORE##_L; q++) r[q] = CORE##_load(re + (i + q) * CORE##_L);        \
            CORE##_weave(r, CORE##_L);                                                             \
            for (int q = 0; q < CORE##_L; q++) m[q] = CORE##_load(im + (i + q) * CORE##_L);        \
            CORE##_weave(m, CORE##_L);                                                             \
            for (int q = 0; q < CORE##_L && q < count; q++) {                                      \
                REAL *y = (REAL *)a->out.data + (row + q) * 2 * n;                                 \
                const CORE##_target to = {y, y + n, CORE##_L, woven, scale, 1};                    \
                CORE##_store_at(&to, i, woven, r[q], m[q]);                                        \
            }                                                                                      \
        }                                                                                          \
        return i;                                                                                  \
    }
FFT_BLOCKS(f32, float, fft32)
FFT_BLOCKS(f64, double, fft64)
#undef FFT_BLOCKS
/* No vectorised version for f32 rows that are computed in doubles. */
static int64_t take_blocks_wide(const sl_fft_args *a, int64_t row, int64_t count, double *re,
                                double *im) {
    (void)a, (void)row, (void)count, (void)re, (void)im;
    return 0;
}
static int64_t give_blocks_wide(const sl_fft_args *a, int64_t row, int64_t count, const double *re,
                                const double *im) {
    (void)a, (void)row, (void)count, (void)re, (void)im;
    return 0;
}

/* Transforms up to `lanes` rows together; the inverse swaps real and imaginary parts before and
 * after. */
#define FFT_RUN(NAME, REAL, CORE)                                                                  \
    static void run_##NAME(const sl_fft_args *a, const CORE##_plan *plan, int64_t row,             \
                           int64_t count, int64_t lanes, REAL *scratch) {                          \
        const int64_t room = fft_room(plan->inner * lanes);                                        \
        CORE##_numbers x = {scratch, scratch + room};                                              \
        CORE##_numbers y = {scratch + 2 * room, scratch + 3 * room};                               \
        int64_t done = lanes > 1 ? take_blocks_##NAME(a, row, count, x.re, x.im) : 0;              \
        take_##NAME(a, row, count, lanes, done, x.re, x.im);                                       \
        if (a->attrs.inverse) x = CORE##_swapped(x), y = CORE##_swapped(y);                        \
        CORE##_numbers t = CORE##_run(plan, lanes, x, y);                                          \
        if (a->attrs.inverse) t = CORE##_swapped(t);                                               \
        done = lanes > 1 ? give_blocks_##NAME(a, row, count, t.re, t.im) : 0;                      \
        give_##NAME(a, row, count, lanes, done, t.re, t.im);                                       \
    }
FFT_RUN(f32, float, fft32)
FFT_RUN(wide, double, fft64)
FFT_RUN(f64, double, fft64)
#undef FFT_RUN

/* ---- the kernel ---- */

/* Whether an item is a row. */
static bool by_rows(const sl_fft_args *a) {
    const int64_t n = fft_length(a), inner = fft_inner(n);
    return fft_wide(a) ? fft64_alone(n, inner) : fft32_alone(n, inner);
}

SPLIT(fft) {
    const sl_fft_args *a = args;
    const int64_t n = fft_length(a), inner = fft_inner(n), rows = fft_rows(a);
    const bool wide = fft_wide(a);
    const int64_t lanes = wide ? (int64_t)fft64_L : (int64_t)fft32_L;
    const size_t each = wide ? sizeof(double) : sizeof(float);
    if (!by_rows(a))
        return (sl_split){parts_of(rows, lanes), grain_of(inner * lanes * 2),
                          4 * (size_t)fft_room(inner * lanes) * each};
    const int64_t columns = wide ? fft64_matrix_columns_of(n) : fft32_matrix_columns_of(n);
    int64_t numbers = 4 * fft_room(inner);
    if (columns) {
        numbers = 4 * fft_room(columns * lanes);
        numbers += parts_of(n / columns, lanes) * columns * 2 * lanes;
    }
    return (sl_split){rows, grain_of(inner * 2), (size_t)numbers * each};
}

extern sl_prepare_fn SL_KERNEL(sl_prepare_fft);
size_t SL_KERNEL(sl_prepare_fft)(const void *args, void *memory) {
    const sl_fft_args *a = args;
    return fft_wide(a) ? fft64_prepare(fft_length(a), memory)
                       : fft32_prepare(fft_length(a), memory);
}

static void run_rows(const sl_fft_args *a, int64_t begin, int64_t end, const sl_worker *worker) {
    const bool doubles = a->x.type.dtype == SL_DTYPE_f64;
    const bool direct = fft_inner(fft_length(a)) == fft_length(a);
    for (int64_t row = begin; row < end; row++) {
        if (doubles && direct)
            row_f64(a, worker->prepared, row, worker->scratch);
        else if (direct)
            row_f32(a, worker->prepared, row, worker->scratch);
        else if (doubles)
            run_f64(a, worker->prepared, row, 1, 1, worker->scratch);
        else
            run_wide(a, worker->prepared, row, 1, 1, worker->scratch);
    }
}

RUN(fft) {
    const sl_fft_args *a = args;
    const bool wide = fft_wide(a), doubles = a->x.type.dtype == SL_DTYPE_f64;
    const int64_t lanes = wide ? (int64_t)fft64_L : (int64_t)fft32_L;
    const int64_t rows = fft_rows(a);
    if (by_rows(a)) {
        run_rows(a, begin, end, worker);
        return SL_OK;
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item * lanes, count = least(lanes, rows - first);
        /* If few rows are left, they run one by one: the vectors would be mostly empty. */
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
