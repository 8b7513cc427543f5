/* repack_bench.c - Speed of repacking on one core, and the benefit of panels: a product with Q4_K
 * rows in the file layout compared with the same product with panels.
 *
 *   repack_bench [rows cols]     default: 512 2048, an expert's matrix */
#include "base/clock.h"
#include "engine/formats/repack.h"
#include "runtime/cpu/kernel_set.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, SOURCE_BYTES = 256 << 20, Q4_K_BYTES = 144, SUPER_COLS = 256 };

/* Small scales for every type: the upper byte of every 16-bit float is 0x20. */
static void fill(uint8_t *to, size_t bytes) {
    uint32_t random = 1;
    for (size_t i = 0; i < bytes; i++) {
        random = random * 1664525 + 1013904223;
        to[i] = (uint8_t)(i % 2 ? 0x20 | (i % 16 > 4 ? random >> 24 : 0) : random >> 24);
    }
}

/* Enough matrices that no cache holds them. */
static size_t matrices_of(const sl_repack_source *s) {
    return SOURCE_BYTES / ((size_t)s->rows * s->row_bytes) / 2;
}

/* Seconds per matrix, the best of several rounds over `matrices` of them. */
static double seconds_of(const sl_repack_source *shape, const uint8_t *data, uint8_t *to,
                         size_t matrices) {
    const size_t bytes = (size_t)shape->rows * shape->row_bytes;
    const sl_panel_layout l = sl_panel_layout_of(shape->dtype, shape->rows, shape->cols);
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = sl_clock_seconds();
        for (size_t m = 0; m < matrices; m++) {
            sl_repack_source s = *shape;
            s.data = data + m * bytes;
            s.scales = data, s.biases = data + bytes / 8;
            sl_repack_panels(&s, 0, l.panels, to + m * l.matrix_bytes);
        }
        const double seconds = (sl_clock_seconds() - begin) / (double)matrices;
        if (seconds < best) best = seconds;
    }
    return best;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* One row of Q4_K times x, whose group sums are given. */
__attribute__((target("avx512f,avx512bw,avx512vl,fma,f16c"))) static float
row_dot(const uint8_t *row, const float *x, const float *sums, int64_t cols) {
    __m512 totals[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    __m256 minimums = _mm256_setzero_ps();
    for (int64_t b = 0; b < cols / SUPER_COLS; b++, row += Q4_K_BYTES) {
        uint32_t s[3];
        uint16_t halves[2];
        memcpy(s, row + 4, sizeof s);
        memcpy(halves, row, sizeof halves);
        const uint32_t low = 0x3f3f3f3f, nibble = 0x0f0f0f0f, pair = 0x03030303;
        const __m128i params = _mm_setr_epi32(
            (int)(s[0] & low), (int)((s[2] & nibble) | (s[0] >> 6 & pair) << 4), (int)(s[1] & low),
            (int)((s[2] >> 4 & nibble) | (s[1] >> 6 & pair) << 4));
        const __m256 scales = _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(halves[0])),
                                            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(params)));
        const __m256 offsets =
            _mm256_mul_ps(_mm256_set1_ps(_cvtsh_ss(halves[1])),
                          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(params, 8))));
        minimums = _mm256_fmadd_ps(offsets, _mm256_loadu_ps(sums + b * 8), minimums);
        float scale[8];
        _mm256_storeu_ps(scale, scales);
#pragma GCC unroll 8
        for (int64_t c = 0; c < 8; c++) {
            const __m512i q = _mm512_cvtepu8_epi32(
                _mm_loadu_si128((const __m128i *)(const void *)(row + 16 + 16 * c)));
            const float *at = x + b * SUPER_COLS + c / 2 * 64 + c % 2 * 16;
            const __m512 lower =
                _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_and_si512(q, _mm512_set1_epi32(15))),
                              _mm512_loadu_ps(at));
            const __m512 upper = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(q, 4)),
                                               _mm512_loadu_ps(at + 32));
            totals[0] = _mm512_fmadd_ps(_mm512_set1_ps(scale[c / 2 * 2]), lower, totals[0]);
            totals[1] = _mm512_fmadd_ps(_mm512_set1_ps(scale[c / 2 * 2 + 1]), upper, totals[1]);
        }
    }
    float all[8], minimum = 0;
    _mm256_storeu_ps(all, minimums);
    for (int i = 0; i < 8; i++) minimum += all[i];
    return _mm512_reduce_add_ps(_mm512_add_ps(totals[0], totals[1])) - minimum;
}

/* Seconds per product of one token. */
static double rows_seconds(const sl_repack_source *s, const uint8_t *data, const float *x,
                           float *out, size_t matrices) {
    const size_t bytes = (size_t)s->rows * s->row_bytes;
    double best = 1e9;
    float *sums = calloc((size_t)s->cols / 32 + 1, sizeof *sums);
    for (int round = 0; round < ROUNDS && sums; round++) {
        const double begin = sl_clock_seconds();
        for (size_t m = 0; m < matrices; m++) {
            memset(sums, 0, (size_t)s->cols / 32 * sizeof *sums);
            for (int64_t c = 0; c < s->cols; c++) sums[c / 32] += x[c];
            for (int64_t r = 0; r < s->rows; r++)
                out[r] = row_dot(data + m * bytes + (size_t)r * s->row_bytes, x, sums, s->cols);
        }
        const double seconds = (sl_clock_seconds() - begin) / (double)matrices;
        if (seconds < best) best = seconds;
    }
    free(sums);
    return best;
}

static double panels_seconds(const sl_repack_source *s, const uint8_t *panels, const float *x,
                             float *out, size_t matrices) {
    sl_linear_args args = {
        .x = {x, sl_type_make(SL_DTYPE_f32, 2, (int64_t)1, s->cols)},
        .w = {panels, sl_type_make(s->dtype, 2, s->rows, s->cols)},
        .out = {out, sl_type_make(SL_DTYPE_f32, 2, (int64_t)1, s->rows)},
    };
    const sl_type inputs[2] = {args.x.type, args.w.type};
    const sl_kernel *kernel = sl_cpu_kernel_find(sl_cpu_kernel_set("avx512"), SL_OP_linear, inputs);
    const sl_split split = kernel->split(&args);
    sl_error err = {0};
    sl_worker worker = {.scratch = aligned_alloc(64, (split.scratch_bytes + 63) / 64 * 64),
                        .err = &err};
    const size_t bytes = sl_type_bytes(&args.w.type);
    double best = 1e9;
    for (int round = 0; round < ROUNDS && worker.scratch; round++) {
        const double begin = sl_clock_seconds();
        for (size_t m = 0; m < matrices; m++) {
            args.w.data = panels + m * bytes;
            if (kernel->run(&args, 0, split.items, &worker)) return 0;
        }
        const double seconds = (sl_clock_seconds() - begin) / (double)matrices;
        if (seconds < best) best = seconds;
    }
    free(worker.scratch);
    return best;
}

static void compare_products(const sl_repack_source *s, const uint8_t *data,
                             const uint8_t *panels) {
    if (!sl_cpu_kernel_set("avx512")) return;
    float *x = calloc((size_t)s->cols, sizeof *x), *a = calloc((size_t)s->rows, sizeof *a);
    float *b = calloc((size_t)s->rows, sizeof *b);
    for (int64_t i = 0; x && i < s->cols; i++) x[i] = (float)(i % 17) / 16 - 0.5f;
    const double bytes = (double)s->rows * (double)s->row_bytes * 1e-9;
    const size_t counts[] = {1, matrices_of(s)};
    for (int i = 0; i < 2 && x && a && b; i++) {
        const double rows = rows_seconds(s, data, x, a, counts[i]);
        const double own = panels_seconds(s, panels, x, b, counts[i]);
        float miss = 0, most = 0;
        for (int64_t r = 0; r < s->rows; r++) {
            miss += (a[r] - b[r]) * (a[r] - b[r]);
            most += b[r] * b[r];
        }
        printf("one token, avx512, %s: rows of the file %.2f GB/s, panels %.2f GB/s of the file's "
               "bytes (squared difference %.1e)\n",
               i ? "from memory" : "within the cache", bytes / rows, bytes / own,
               (double)(miss / most));
    }
    free(x), free(a), free(b);
}
#endif

int main(int argc, char **argv) {
    static const sl_dtype dtypes[] = {SL_DTYPE_q4_0, SL_DTYPE_q6_k, SL_DTYPE_q8, SL_DTYPE_q4_m,
                                      SL_DTYPE_q4_k};
    const int64_t rows = argc > 2 ? strtoll(argv[1], NULL, 10) : 512;
    const int64_t cols = argc > 2 ? strtoll(argv[2], NULL, 10) : 2048;
    if (rows < 1 || cols < SUPER_COLS || cols % SUPER_COLS || rows * cols * 2 > SOURCE_BYTES)
        return 1;
    uint8_t *data = malloc(SOURCE_BYTES), *panels = aligned_alloc(64, SOURCE_BYTES);
    if (!data || !panels) goto done;
    fill(data, SOURCE_BYTES);
    memset(panels, 1, SOURCE_BYTES);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        const sl_repack_source s = {.dtype = dtypes[i],
                                    .rows = rows,
                                    .cols = cols,
                                    .row_bytes = sl_repack_row_bytes(dtypes[i], cols),
                                    .scale_row_bytes = (size_t)(cols / 32)};
        const double bytes = (double)rows * (double)s.row_bytes;
        const double cached = seconds_of(&s, data, panels, 1);
        const double seconds = seconds_of(&s, data, panels, matrices_of(&s));
        printf("%-4s %6.2f GB/s of the file's bytes from memory to memory, %6.2f within the cache; "
               "%lld x %lld\n",
               sl_dtype_infos[dtypes[i]].name, bytes / seconds * 1e-9, bytes / cached * 1e-9,
               (long long)rows, (long long)cols);
#if defined(__x86_64__)
        if (s.dtype == SL_DTYPE_q4_k) compare_products(&s, data, panels);
#endif
    }
done:
    free(data), free(panels);
    return 0;
}
