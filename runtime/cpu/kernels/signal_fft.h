/* signal_fft.h - FFTs of any length in REAL (float or double).  Included once for each, with REAL,
 * FFT(name) and LIST(name) (shuffle indices) defined.
 *
 * Stockham FFT: each stage takes a factor p off the length and writes its results in order, so that
 * no bit reversal is needed.  Stage (n, s) combines numbers i + k m, m = n / p, of s interleaved
 * transforms into p i + k.  Vectors run along the interleaved transforms.  With rows in lanes there
 * are enough of them from the start; a single row starts with s = 1, and its first stage, with p
 * equal to the number of lanes or half of it, is vectorised along i instead. */

typedef REAL FFT(vector) __attribute__((vector_size(LANES * 4)));
typedef REAL FFT(half) __attribute__((vector_size(LANES * 2)));
enum { FFT(L) = LANES * 4 / sizeof(REAL) };

#define T         FFT(vector)
#define DFT(NAME) FFT(many_##NAME)
#include "runtime/cpu/kernels/signal_fft_small.h"
#undef T
#undef DFT
#define T         REAL
#define DFT(NAME) FFT(one_##NAME)
#include "runtime/cpu/kernels/signal_fft_small.h"
#undef T
#undef DFT

typedef struct {
    REAL *re, *im;
} FFT(numbers);

/* Where the first stage reads and the last one writes: number j of the transform is at j * row.
 * Woven: real and imaginary parts are interleaved, from re on; row counts pairs. */
typedef struct {
    const REAL *re, *im;
    int64_t row;
    bool woven;
    REAL sign; /* 1 or -1 (conjugate), multiplies the imaginary parts if woven */
} FFT(source);
typedef struct {
    REAL *re, *im;
    int64_t row;
    bool woven;
    REAL scale, sign;
} FFT(target);

/* Arguments of one stage. */
typedef struct {
    int64_t m, s;
    const REAL *w; /* twiddle factors: per i, p - 1 cosines and then the sines; or per factor, for
                      vectors along i */
    FFT(source) x;
    FFT(target) y;
} FFT(pass);

INLINE FFT(vector) FFT(load)(const REAL *p) {
    FFT(vector) v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void FFT(store)(REAL *p, FFT(vector) v) {
    memcpy(p, &v, sizeof v);
}
INLINE void FFT(load_at)(const FFT(source) * x, int64_t at, const bool woven, FFT(vector) * re,
                         FFT(vector) * im) {
    if (!woven) {
        *re = FFT(load)(x->re + at), *im = FFT(load)(x->im + at);
        return;
    }
    const FFT(vector) a = FFT(load)(x->re + 2 * at), b = FFT(load)(x->re + 2 * at + FFT(L));
    *re = __builtin_shufflevector(a, b, LIST(EVEN));
    *im = __builtin_shufflevector(a, b, LIST(ODD)) * x->sign;
}
INLINE void FFT(store_at)(const FFT(target) * y, int64_t at, const bool woven, FFT(vector) re,
                          FFT(vector) im) {
    if (!woven) {
        FFT(store)(y->re + at, re * y->scale), FFT(store)(y->im + at, im * y->scale);
        return;
    }
    re *= y->scale, im *= y->scale * y->sign;
    FFT(store)(y->re + 2 * at, __builtin_shufflevector(re, im, LIST(LOW)));
    FFT(store)(y->re + 2 * at + FFT(L), __builtin_shufflevector(re, im, LIST(HIGH)));
}

/* Transposes p vectors (p a power of two) so that they hold L rows of p numbers. */
INLINE void FFT(weave)(FFT(vector) * v, const int p) {
    for (int done = 1; done < p; done *= 2) {
        FFT(vector) next[16] = {0};
        for (int j = 0; j < p / 2; j++) {
            next[2 * j] = __builtin_shufflevector(v[j], v[j + p / 2], LIST(LOW));
            next[2 * j + 1] = __builtin_shufflevector(v[j], v[j + p / 2], LIST(HIGH));
        }
        for (int j = 0; j < p; j++) v[j] = next[j];
    }
}

/* ---- stages ---- */

enum { FFT(MIDDLE), FFT(FIRST), FFT(LAST), FFT(WOVEN_LAST) };

/* Vectorised along the interleaved transforms (s >= L); the last vector may overlap the one before.
 * The first stage reads interleaved numbers; the last one has no twiddle factors. */
INLINE void FFT(wide)(const FFT(pass) * g, const int p, const int kind) {
    const int64_t m = g->m, s = g->s, row = g->x.row;
    const int64_t jump = g->y.row == FFT(L) ? s : s / FFT(L) * g->y.row; /* of the last stage */
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < s; q += FFT(L)) {
            const int64_t at = least(q, s - FFT(L));
            FFT(vector) re[16], im[16];
            for (int k = 0; k < p; k++)
                FFT(load_at)(&g->x, (i + k * m) * row + at, kind == FFT(FIRST), &re[k], &im[k]);
            FFT(many_of)(re, im, p);
            if (kind == FFT(LAST) || kind == FFT(WOVEN_LAST)) {
                const int64_t to = at / FFT(L) * g->y.row + at % FFT(L);
                for (int k = 0; k < p; k++) FFT(store_at)
                (&g->y, to + k * jump, kind == FFT(WOVEN_LAST), re[k], im[k]);
                continue;
            }
            const REAL *w = g->w + i * 2 * (p - 1);
            for (int k = 1; k < p; k++) FFT(many_turn)(&re[k], &im[k], w[k - 1], w[p - 1 + k - 1]);
            for (int k = 0; k < p; k++) {
                FFT(store)(g->y.re + s * (p * i + k) + at, re[k]);
                FFT(store)(g->y.im + s * (p * i + k) + at, im[k]);
            }
        }
}

/* The first stage of a single row: s = 1, p is L or L / 2, m >= L. */
INLINE void FFT(spread)(const FFT(pass) * g, const int p, const bool woven) {
    const int64_t m = g->m;
    for (int64_t i = 0; i < m; i += FFT(L)) {
        const int64_t at = least(i, m - FFT(L));
        FFT(vector) re[16], im[16];
        for (int k = 0; k < p; k++) FFT(load_at)(&g->x, at + k * m, woven, &re[k], &im[k]);
        FFT(many_of)(re, im, p);
        for (int k = 1; k < p; k++) {
            const FFT(vector) c = FFT(load)(g->w + (k - 1) * m + at);
            const FFT(vector) s = FFT(load)(g->w + (p - 1 + k - 1) * m + at);
            const FFT(vector) turned = re[k] * c + im[k] * s;
            im[k] = im[k] * c - re[k] * s;
            re[k] = turned;
        }
        FFT(weave)(re, p);
        for (int k = 0; k < p; k++) FFT(store)(g->y.re + p * at + k * FFT(L), re[k]);
        FFT(weave)(im, p);
        for (int k = 0; k < p; k++) FFT(store)(g->y.im + p * at + k * FFT(L), im[k]);
    }
}

INLINE void FFT(store_halves)(REAL *to, int64_t gap, FFT(vector) v) {
    const FFT(half) a = __builtin_shufflevector(v, v, LIST(LOWER));
    const FFT(half) b = __builtin_shufflevector(v, v, LIST(UPPER));
    memcpy(to, &a, sizeof a), memcpy(to + gap, &b, sizeof b);
}

/* The second stage of a single row if s is L / 2: a vector covers two values of i. */
INLINE void FFT(halves)(const FFT(pass) * g, const int p) {
    const int64_t s = FFT(L) / 2, step = s * g->m;
    for (int64_t t = 0; t < step; t += FFT(L)) {
        const int64_t at = least(t, step - FFT(L)), to = at * p;
        FFT(vector) re[16], im[16];
        for (int k = 0; k < p; k++) FFT(load_at)(&g->x, at + k * step, false, &re[k], &im[k]);
        FFT(many_of)(re, im, p);
        for (int k = 1; k < p; k++) {
            const FFT(vector) c = FFT(load)(g->w + (k - 1) * step + at);
            const FFT(vector) n = FFT(load)(g->w + (p - 1 + k - 1) * step + at);
            const FFT(vector) turned = re[k] * c + im[k] * n;
            im[k] = im[k] * c - re[k] * n;
            re[k] = turned;
        }
        for (int k = 0; k < p; k++) {
            FFT(store_halves)(g->y.re + to + k * s, p * s, re[k]);
            FFT(store_halves)(g->y.im + to + k * s, p * s, im[k]);
        }
    }
}

/* Scalar version, for s < L. */
INLINE void FFT(narrow)(const FFT(pass) * g, const int p) {
    const int64_t m = g->m, s = g->s;
    for (int64_t i = 0; i < m; i++)
        for (int64_t q = 0; q < s; q++) {
            const REAL *w = g->w + i * 2 * (p - 1);
            REAL re[16], im[16];
            for (int k = 0; k < p; k++) {
                re[k] = g->x.re[(i + k * m) * s + q];
                im[k] = g->x.im[(i + k * m) * s + q];
            }
            FFT(one_of)(re, im, p);
            for (int k = 1; k < p; k++) FFT(one_turn)(&re[k], &im[k], w[k - 1], w[p - 1 + k - 1]);
            for (int k = 0; k < p; k++) {
                g->y.re[s * (p * i + k) + q] = re[k];
                g->y.im[s * (p * i + k) + q] = im[k];
            }
        }
}

/* Instantiates STAGE with each factor as a compile-time constant. */
#define SL_FFT_FACTORS(NAME, STAGE, ...)                                                           \
    static void FFT(NAME)(const FFT(pass) * g, int64_t p) {                                        \
        switch (p) {                                                                               \
        case 2:                                                                                    \
            FFT(STAGE)(g, 2 __VA_ARGS__);                                                          \
            break;                                                                                 \
        case 3:                                                                                    \
            FFT(STAGE)(g, 3 __VA_ARGS__);                                                          \
            break;                                                                                 \
        case 4:                                                                                    \
            FFT(STAGE)(g, 4 __VA_ARGS__);                                                          \
            break;                                                                                 \
        case 5:                                                                                    \
            FFT(STAGE)(g, 5 __VA_ARGS__);                                                          \
            break;                                                                                 \
        case 7:                                                                                    \
            FFT(STAGE)(g, 7 __VA_ARGS__);                                                          \
            break;                                                                                 \
        case 8:                                                                                    \
            FFT(STAGE)(g, 8 __VA_ARGS__);                                                          \
            break;                                                                                 \
        default:                                                                                   \
            FFT(STAGE)(g, 16 __VA_ARGS__);                                                         \
            break;                                                                                 \
        }                                                                                          \
    }
SL_FFT_FACTORS(middle_stage, wide, , FFT(MIDDLE))
SL_FFT_FACTORS(first_stage, wide, , FFT(FIRST))
SL_FFT_FACTORS(last_stage, wide, , FFT(LAST))
SL_FFT_FACTORS(woven_last_stage, wide, , FFT(WOVEN_LAST))
SL_FFT_FACTORS(narrow_stage, narrow)
#undef SL_FFT_FACTORS

static void FFT(spread_stage)(const FFT(pass) * g, int64_t p) {
    if (p == FFT(L) && g->x.woven)
        FFT(spread)(g, FFT(L), true);
    else if (p == FFT(L))
        FFT(spread)(g, FFT(L), false);
    else if (g->x.woven)
        FFT(spread)(g, FFT(L) / 2, true);
    else
        FFT(spread)(g, FFT(L) / 2, false);
}
static void FFT(halves_stage)(const FFT(pass) * g, int64_t p) {
    if (p == 3)
        FFT(halves)(g, 3);
    else if (p == 5)
        FFT(halves)(g, 5);
    else
        FFT(halves)(g, 7);
}
