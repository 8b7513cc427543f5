/* fft.h - Discrete Fourier transforms of any length, of REAL: float or double.  Included once for
 * each, with REAL and FFT(name) defined.
 *
 * Stockham's form: a stage takes factor p off the length and writes in order, so that nothing is
 * reversed.  An element is `lanes` numbers side by side, each of a transform of its own: one, or
 * as many as a vector has, which then does them all at once.  Lengths with other factors than 2, 3,
 * 5 and 7 become a convolution of a power of two (Bluestein).  The inverse is the same with real
 * and imaginary parts exchanged. */

typedef REAL FFT(vector) __attribute__((vector_size(LANES * 4)));
enum { FFT(LANE_COUNT) = LANES * 4 / sizeof(REAL) };

/* What depends on the length alone; its arrays follow it in memory. */
typedef struct {
    int64_t length; /* of what is asked for */
    int64_t inner;  /* of the stages: length, or the power of two of the convolution */
    uint32_t count; /* of factors */
    uint32_t factors[64];
    REAL *twiddles;       /* by stage: cosines of (p - 1) * m, then sines */
    REAL *roots;          /* by odd factor p < 8 at 16 * p: p cosines, then p sines */
    REAL *chirp, *kernel; /* of the convolution: cosines, then sines; NULL without one */
} FFT(plan);

static void FFT(turn)(int64_t numerator, int64_t denominator, REAL *re, REAL *im) {
    const double angle = -2 * M_PI * (double)numerator / (double)denominator;
    *re = (REAL)cos(angle);
    *im = (REAL)sin(angle);
}

static void FFT(factor)(FFT(plan) * plan) {
    static const uint32_t primes[] = {4, 2, 3, 5, 7};
    int64_t n = plan->inner;
    for (size_t i = 0; i < sizeof primes / sizeof primes[0]; i++)
        for (; n % primes[i] == 0; n /= primes[i]) plan->factors[plan->count++] = primes[i];
}

static void FFT(fill_twiddles)(FFT(plan) * plan) {
    int64_t n = plan->inner;
    REAL *at = plan->twiddles;
    for (uint32_t f = 0; f < plan->count; f++) {
        const int64_t p = plan->factors[f], m = n / p;
        for (int64_t k = 1; k < p; k++)
            for (int64_t i = 0; i < m; i++)
                FFT(turn)(i * k % n, n, &at[(k - 1) * m + i], &at[(p - 1) * m + (k - 1) * m + i]);
        at += 2 * (p - 1) * m;
        n = m;
    }
    for (int64_t p = 3; p < 8; p += 2)
        for (int64_t j = 0; j < p; j++)
            FFT(turn)(j, p, &plan->roots[16 * p + j], &plan->roots[16 * p + p + j]);
}

/* ---- stages ---- */

/* One butterfly on numbers of type T: T is REAL or a vector of them. */
#define SL_FFT_STAGE(NAME, T)                                                                      \
    static inline void FFT(NAME##4)(const REAL *xr, const REAL *xi, REAL *yr, REAL *yi,            \
                                    int64_t step, int64_t s, const REAL *w, int64_t m,             \
                                    int64_t i) {                                                   \
        T ar, ai, br, bi, cr, ci, dr, di;                                                          \
        memcpy(&ar, xr, sizeof ar), memcpy(&ai, xi, sizeof ai);                                    \
        memcpy(&br, xr + step, sizeof br), memcpy(&bi, xi + step, sizeof bi);                      \
        memcpy(&cr, xr + 2 * step, sizeof cr), memcpy(&ci, xi + 2 * step, sizeof ci);              \
        memcpy(&dr, xr + 3 * step, sizeof dr), memcpy(&di, xi + 3 * step, sizeof di);              \
        const T pr = ar + cr, pi = ai + ci, qr = ar - cr, qi = ai - ci;                            \
        const T ur = br + dr, ui = bi + di, vr = bi - di, vi_ = dr - br; /* -i (b - d) */          \
        const T e = pr + ur, f = pi + ui;                                                          \
        const T gr = qr + vr, gi = qi + vi_, hr = pr - ur, hi = pi - ui, kr = qr - vr,             \
                ki = qi - vi_;                                                                     \
        const REAL c1 = w[i], c2 = w[m + i], c3 = w[2 * m + i];                                    \
        const REAL s1 = w[3 * m + i], s2 = w[4 * m + i], s3 = w[5 * m + i];                        \
        const T o1 = gr * c1 - gi * s1, n1 = gr * s1 + gi * c1;                                    \
        const T o2 = hr * c2 - hi * s2, n2 = hr * s2 + hi * c2;                                    \
        const T o3 = kr * c3 - ki * s3, n3 = kr * s3 + ki * c3;                                    \
        memcpy(yr, &e, sizeof e), memcpy(yi, &f, sizeof f);                                        \
        memcpy(yr + s, &o1, sizeof e), memcpy(yi + s, &n1, sizeof f);                              \
        memcpy(yr + 2 * s, &o2, sizeof e), memcpy(yi + 2 * s, &n2, sizeof f);                      \
        memcpy(yr + 3 * s, &o3, sizeof e), memcpy(yi + 3 * s, &n3, sizeof f);                      \
    }                                                                                              \
    static inline void FFT(NAME##2)(const REAL *xr, const REAL *xi, REAL *yr, REAL *yi,            \
                                    int64_t step, int64_t s, const REAL *w, int64_t m,             \
                                    int64_t i) {                                                   \
        T ar, ai, br, bi;                                                                          \
        memcpy(&ar, xr, sizeof ar), memcpy(&ai, xi, sizeof ai);                                    \
        memcpy(&br, xr + step, sizeof br), memcpy(&bi, xi + step, sizeof bi);                      \
        const T e = ar + br, f = ai + bi, gr = ar - br, gi = ai - bi;                              \
        const T o = gr * w[i] - gi * w[m + i], n = gr * w[m + i] + gi * w[i];                      \
        memcpy(yr, &e, sizeof e), memcpy(yi, &f, sizeof f);                                        \
        memcpy(yr + s, &o, sizeof e), memcpy(yi + s, &n, sizeof f);                                \
    }                                                                                              \
    static inline void FFT(NAME##_odd)(const REAL *xr, const REAL *xi, REAL *yr, REAL *yi,         \
                                       int64_t step, int64_t s, const REAL *w, int64_t m,          \
                                       int64_t i, int64_t p, const REAL *roots) {                  \
        T ar[7], ai[7];                                                                            \
        for (int64_t j = 0; j < p; j++)                                                            \
            memcpy(&ar[j], xr + j * step, sizeof(T)), memcpy(&ai[j], xi + j * step, sizeof(T));    \
        for (int64_t k = 0; k < p; k++) {                                                          \
            T br = ar[0], bi = ai[0];                                                              \
            for (int64_t j = 1; j < p; j++) {                                                      \
                const REAL c = roots[j * k % p], n = roots[p + j * k % p];                         \
                br += ar[j] * c - ai[j] * n;                                                       \
                bi += ar[j] * n + ai[j] * c;                                                       \
            }                                                                                      \
            const REAL c = k ? w[(k - 1) * m + i] : 1, n = k ? w[(p - 1 + k - 1) * m + i] : 0;     \
            const T o = br * c - bi * n, q = br * n + bi * c;                                      \
            memcpy(yr + k * s, &o, sizeof o), memcpy(yi + k * s, &q, sizeof q);                    \
        }                                                                                          \
    }
SL_FFT_STAGE(one, REAL)         /* NOLINT(readability-function-size): a macro line by line */
SL_FFT_STAGE(many, FFT(vector)) /* NOLINT(readability-function-size) */
#undef SL_FFT_STAGE

typedef struct {
    REAL *re, *im;
} FFT(numbers);

/* Elements n apart become n / p apart; s is what lies side by side already. */
static void FFT(stage)(const FFT(plan) * plan, uint32_t f, int64_t n, int64_t s, const REAL *w,
                       FFT(numbers) x, FFT(numbers) y) {
    const int64_t p = plan->factors[f], m = n / p, step = s * m;
    const REAL *roots = plan->roots + 16 * p;
    for (int64_t i = 0; i < m; i++) {
        const REAL *xr = x.re + s * i, *xi = x.im + s * i;
        REAL *yr = y.re + s * p * i, *yi = y.im + s * p * i;
        int64_t q = 0;
        for (; q + FFT(LANE_COUNT) <= s; q += FFT(LANE_COUNT)) {
            if (p == 4)
                FFT(many4)(xr + q, xi + q, yr + q, yi + q, step, s, w, m, i);
            else if (p == 2)
                FFT(many2)(xr + q, xi + q, yr + q, yi + q, step, s, w, m, i);
            else
                FFT(many_odd)(xr + q, xi + q, yr + q, yi + q, step, s, w, m, i, p, roots);
        }
        for (; q < s; q++) {
            if (p == 4)
                FFT(one4)(xr + q, xi + q, yr + q, yi + q, step, s, w, m, i);
            else if (p == 2)
                FFT(one2)(xr + q, xi + q, yr + q, yi + q, step, s, w, m, i);
            else
                FFT(one_odd)(xr + q, xi + q, yr + q, yi + q, step, s, w, m, i, p, roots);
        }
    }
}

/* Transforms x; the result is in what is returned, x or y. */
static FFT(numbers)
    FFT(stages)(const FFT(plan) * plan, int64_t lanes, FFT(numbers) x, FFT(numbers) y) {
    const REAL *w = plan->twiddles;
    int64_t n = plan->inner, s = lanes;
    for (uint32_t f = 0; f < plan->count; f++) {
        const int64_t p = plan->factors[f];
        FFT(stage)(plan, f, n, s, w, x, y);
        w += 2 * (p - 1) * (n / p);
        n /= p;
        s *= p;
        const FFT(numbers) swap = x;
        x = y;
        y = swap;
    }
    return x;
}

/* ---- convolution ---- */

/* Elements of x times w[i]. */
static void FFT(multiply)(FFT(numbers) x, int64_t count, int64_t lanes, const REAL *wr,
                          const REAL *wi) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t q = i * lanes; q < (i + 1) * lanes; q++) {
            const REAL re = x.re[q], im = x.im[q];
            x.re[q] = re * wr[i] - im * wi[i];
            x.im[q] = re * wi[i] + im * wr[i];
        }
}

static FFT(numbers) FFT(swapped)(FFT(numbers) x) {
    return (FFT(numbers)){x.im, x.re};
}

/* x[0..length) to its transform. */
static FFT(numbers)
    FFT(run)(const FFT(plan) * plan, int64_t lanes, FFT(numbers) x, FFT(numbers) y) {
    if (!plan->chirp) return FFT(stages)(plan, lanes, x, y);
    const int64_t n = plan->length, m = plan->inner;
    FFT(multiply)(x, n, lanes, plan->chirp, plan->chirp + n);
    memset(x.re + n * lanes, 0, (size_t)((m - n) * lanes) * sizeof(REAL));
    memset(x.im + n * lanes, 0, (size_t)((m - n) * lanes) * sizeof(REAL));
    FFT(numbers) t = FFT(stages)(plan, lanes, x, y);
    FFT(numbers) other = t.re == x.re ? y : x;
    FFT(multiply)(t, m, lanes, plan->kernel, plan->kernel + m);
    t = FFT(swapped)(FFT(stages)(plan, lanes, FFT(swapped)(t), FFT(swapped)(other)));
    FFT(multiply)(t, n, lanes, plan->chirp, plan->chirp + n);
    return t;
}

/* ---- plans ---- */

/* Lays the plan out in memory (NULL: finds its size) and returns its bytes. */
static size_t FFT(plan_at)(int64_t length, void *memory) {
    FFT(plan) local = {.length = length, .inner = fft_inner(length)};
    FFT(plan) *plan = memory ? memory : &local;
    const bool direct = local.inner == length;
    *plan = local;
    FFT(factor)(plan);
    int64_t twiddles = 0;
    for (int64_t f = 0, n = plan->inner; f < plan->count; n /= plan->factors[f++])
        twiddles += 2 * (plan->factors[f] - 1) * (n / plan->factors[f]);
    const int64_t numbers = 16 * 8 + twiddles + (direct ? 0 : 2 * length + 2 * plan->inner);
    if (memory) {
        plan->roots = (REAL *)(void *)(plan + 1);
        plan->twiddles = plan->roots + 16 * 8;
        plan->chirp = direct ? NULL : plan->twiddles + twiddles;
        plan->kernel = direct ? NULL : plan->chirp + 2 * length;
    }
    return sizeof *plan + (size_t)numbers * sizeof(REAL);
}

/* The transform of the chirp's conjugate, with the convolution's 1/m in it; x and y: scratch of
 * inner numbers each. */
static void FFT(fill_kernel)(FFT(plan) * plan, FFT(numbers) x, FFT(numbers) y) {
    const int64_t n = plan->length, m = plan->inner;
    for (int64_t i = 0; i < n; i++)
        FFT(turn)(i * i % (2 * n), 2 * n, &plan->chirp[i], &plan->chirp[n + i]);
    for (int64_t i = 0; i < m; i++) x.re[i] = x.im[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        x.re[i] = plan->chirp[i] / (REAL)m;
        x.im[i] = -plan->chirp[n + i] / (REAL)m;
        if (i) x.re[m - i] = x.re[i], x.im[m - i] = x.im[i];
    }
    const FFT(numbers) t = FFT(stages)(plan, 1, x, y);
    memcpy(plan->kernel, t.re, (size_t)m * sizeof(REAL));
    memcpy(plan->kernel + m, t.im, (size_t)m * sizeof(REAL));
}

/* Bytes of a plan, with the scratch that filling it takes; fills it unless memory is NULL. */
static size_t FFT(prepare)(int64_t length, void *memory) {
    const size_t bytes = FFT(plan_at)(length, NULL);
    const int64_t m = fft_inner(length);
    if (memory) {
        FFT(plan) *plan = memory;
        REAL *scratch = (REAL *)(void *)((char *)memory + bytes);
        (void)FFT(plan_at)(length, plan);
        FFT(fill_twiddles)(plan);
        if (plan->chirp) FFT(fill_kernel)
        (plan, (FFT(numbers)){scratch, scratch + m},
         (FFT(numbers)){scratch + 2 * m, scratch + 3 * m});
    }
    return bytes + 4 * (size_t)m * sizeof(REAL);
}
