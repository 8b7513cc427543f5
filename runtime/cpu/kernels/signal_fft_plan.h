/* signal_fft_plan.h - FFT plans: the factors and twiddle factors of a length, and the order of the
 * stages.  Included after signal_fft.h. */

/* Depends only on the length; its arrays follow it in memory. */
typedef struct FFT(plan) FFT(plan);
struct FFT(plan) {
    int64_t length; /* of the transform */
    int64_t inner;  /* of the stages: `length`, or Bluestein's power of two */
    bool row;       /* vectorised within the row */
    uint32_t count; /* number of factors */
    uint32_t factors[64];
    REAL *twiddles;       /* stage after stage */
    REAL *chirp, *kernel; /* Bluestein's convolution: cosines, then sines; NULL if not used */
    /* Four-step FFT: plans of the matrix's columns and rows; NULL if not used.  Twiddle factor (k,
     * j) is the product of near[k] at lane j % L and far[j / L] at k: cosines, then sines. */
    FFT(plan) * columns, *rows;
    REAL *near, *far;
};

static FFT(numbers) FFT(swapped)(FFT(numbers) x) {
    return (FFT(numbers)){x.im, x.re};
}

/* The first factor of a transform that is vectorised within the row; 0 if n does not allow it. */
static int64_t FFT(row_factor)(int64_t n) {
    const int64_t p = n % FFT(L) == 0 ? FFT(L) : FFT(L) / 2;
    return n % p == 0 && n / p >= FFT(L) && (p == FFT(L) || p >= 4) ? p : 0;
}

/* Number of rows of the matrix of a long transform, chosen so that columns and rows fit in a cache;
 * 0: not computed as a matrix. */
static int64_t FFT(matrix_rows)(int64_t n) {
    if (n < FFT_LONG) return 0;
    int64_t rows = (int64_t)sqrt((double)n);
    while (n % rows) rows--;
    return rows >= 64 ? rows : 0;
}

static int64_t FFT(matrix_columns_of)(int64_t n) {
    const int64_t rows = FFT(matrix_rows)(n);
    return rows ? n / rows : 0;
}
/* Whether a transform of length n with stages of length `inner` is computed row by row. */
static bool FFT(alone)(int64_t n, int64_t inner) {
    return FFT(row_factor)(inner) || (n == inner && FFT(matrix_rows)(n));
}

static void FFT(factor)(FFT(plan) * plan) {
    static const uint32_t odd[] = {7, 5, 3};
    int64_t n = plan->inner, twos = 0;
    if (plan->row) {
        plan->factors[plan->count++] = (uint32_t)FFT(row_factor)(n);
        n /= plan->factors[0];
    }
    for (; n % 2 == 0; n /= 2) twos++;
    const bool sixteen = LANES == 16 && twos % 3 == 1 && twos > 1;
    if (sixteen) plan->factors[plan->count++] = 16, twos -= 4;
    for (; twos > 4 || twos == 3; twos -= 3) plan->factors[plan->count++] = 8;
    for (; twos >= 2; twos -= 2) plan->factors[plan->count++] = 4;
    if (twos) plan->factors[plan->count++] = 2;
    for (int i = 0; i < 3; i++)
        for (; n % odd[i] == 0; n /= odd[i]) plan->factors[plan->count++] = odd[i];
}

/* e^(-2 pi sqrt(-1) a / n) = c - s sqrt(-1). */
static void FFT(turn)(int64_t a, int64_t n, REAL *c, REAL *s) {
    const double angle = 2 * M_PI * (double)a / (double)n;
    *c = (REAL)cos(angle);
    *s = (REAL)sin(angle);
}

/* How often each twiddle factor is repeated: L / 2 times in the second stage of a row whose first
 * factor is L / 2, so that vectors along i can load them; else once. */
static int64_t FFT(copies)(const FFT(plan) * plan, uint32_t f) {
    return plan->row && f == 1 && plan->factors[0] < FFT(L) ? FFT(L) / 2 : 1;
}
static bool FFT(by_factor)(const FFT(plan) * plan, uint32_t f) {
    return plan->row && (f == 0 || FFT(copies)(plan, f) > 1);
}
static int64_t FFT(stage_twiddles)(const FFT(plan) * plan, uint32_t f, int64_t n) {
    const int64_t p = plan->factors[f];
    return 2 * (p - 1) * (n / p) * FFT(copies)(plan, f);
}

static void FFT(fill_twiddles)(FFT(plan) * plan) {
    int64_t n = plan->inner;
    REAL *w = plan->twiddles;
    for (uint32_t f = 0; f < plan->count; f++) {
        const int64_t p = plan->factors[f], copies = FFT(copies)(plan, f), m = n / p * copies;
        const bool by_factor = FFT(by_factor)(plan, f);
        for (int64_t k = 0; k < p - 1; k++)
            for (int64_t i = 0; i < m; i++) {
                const int64_t at = by_factor ? k * m + i : i * 2 * (p - 1) + k;
                FFT(turn)
                (i / copies * (k + 1) % n, n, &w[at], &w[at + (by_factor ? (p - 1) * m : p - 1)]);
            }
        w += FFT(stage_twiddles)(plan, f, n);
        n /= p;
    }
}

/* ---- running ---- */

/* Runs all stages, alternating between buffers x and y.  Reads from `from` (NULL: x) and writes to
 * `to` (NULL: the returned buffer). */
static FFT(numbers) FFT(stages)(const FFT(plan) * plan, int64_t lanes, const FFT(source) * from,
                                const FFT(target) * to, const FFT(numbers) buffers[2]) {
    FFT(numbers) now = buffers[0], next = buffers[from ? 0 : 1];
    const REAL *w = plan->twiddles;
    int64_t n = plan->inner, s = lanes;
    for (uint32_t f = 0; f < plan->count; f++) {
        const int64_t p = plan->factors[f], m = n / p;
        const bool last = f + 1 == plan->count;
        FFT(pass)
        g = {m, s, w, {now.re, now.im, s, false, 1}, {next.re, next.im, FFT(L), false, 1, 1}};
        if (f == 0 && from) g.x = *from;
        if (last && to) g.y = *to;
        if (plan->row && f == 0 && lanes == 1)
            FFT(spread_stage)(&g, p);
        else if (s < FFT(L) && FFT(by_factor)(plan, f))
            FFT(halves_stage)(&g, p);
        else if (s < FFT(L))
            FFT(narrow_stage)(&g, p);
        else if (sizeof(REAL) == sizeof(float) && g.x.woven)
            FFT(first_stage)(&g, p);
        else if (sizeof(REAL) == sizeof(float) && g.y.woven)
            FFT(woven_last_stage)(&g, p);
        else if (last)
            FFT(last_stage)(&g, p);
        else
            FFT(middle_stage)(&g, p);
        w += FFT(stage_twiddles)(plan, f, n);
        n = m, s *= p;
        now = next;
        next = buffers[now.re == buffers[0].re];
    }
    return now;
}

/* x[i] *= w[i], for all lanes. */
static void FFT(multiply)(FFT(numbers) x, int64_t count, int64_t lanes, const REAL *c,
                          const REAL *s) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t q = i * lanes; q < (i + 1) * lanes; q++) {
            const REAL re = x.re[q], im = x.im[q];
            x.re[q] = re * c[i] + im * s[i];
            x.im[q] = im * c[i] - re * s[i];
        }
}

/* Transforms x[0..length); y is a buffer of the same size.  Returns the one that holds the
 * result. */
static FFT(numbers)
    FFT(run)(const FFT(plan) * plan, int64_t lanes, FFT(numbers) x, FFT(numbers) y) {
    const FFT(numbers) there[2] = {x, y};
    if (!plan->chirp) return FFT(stages)(plan, lanes, NULL, NULL, there);
    const int64_t n = plan->length, m = plan->inner;
    FFT(multiply)(x, n, lanes, plan->chirp, plan->chirp + n);
    memset(x.re + n * lanes, 0, (size_t)((m - n) * lanes) * sizeof(REAL));
    memset(x.im + n * lanes, 0, (size_t)((m - n) * lanes) * sizeof(REAL));
    FFT(numbers) t = FFT(stages)(plan, lanes, NULL, NULL, there);
    FFT(multiply)(t, m, lanes, plan->kernel, plan->kernel + m);
    const FFT(numbers) back[2] = {FFT(swapped)(t), FFT(swapped)(t.re == x.re ? y : x)};
    t = FFT(swapped)(FFT(stages)(plan, lanes, NULL, NULL, back));
    FFT(multiply)(t, n, lanes, plan->chirp, plan->chirp + n);
    return t;
}

/* ---- long transforms (four-step FFT) ---- */

/* Transforms L columns of the matrix from column j on and multiplies them by the twiddle factors.
 * `middle` gets blocks of L rows: for each column, L real and then L imaginary parts. */
static void FFT(matrix_columns)(const FFT(plan) * plan, const FFT(source) * from, int64_t block,
                                const FFT(numbers) buffers[2], REAL *middle) {
    const int64_t rows = plan->columns->length, columns = plan->rows->length;
    const int64_t j = least(block * FFT(L), columns - FFT(L));
    FFT(source) source = *from;
    source.re += source.woven ? 2 * j : j;
    source.im += source.woven ? 0 : j;
    source.row = columns;
    const FFT(numbers) t = FFT(stages)(plan->columns, FFT(L), &source, NULL, buffers);
    const REAL *far = plan->far + block * 2 * rows;
    for (int64_t b = 0; b * FFT(L) < rows; b++) {
        FFT(vector) re[16], im[16];
        const int64_t first = least(b * FFT(L), rows - FFT(L));
        for (int r = 0; r < FFT(L); r++) {
            const int64_t k = first + r;
            const FFT(vector) c = FFT(load)(plan->near + k * 2 * FFT(L));
            const FFT(vector) s = FFT(load)(plan->near + k * 2 * FFT(L) + FFT(L));
            const FFT(vector) wc = c * far[k] - s * far[rows + k];
            const FFT(vector) ws = s * far[k] + c * far[rows + k];
            const FFT(vector) xr = FFT(load)(t.re + k * FFT(L));
            const FFT(vector) xi = FFT(load)(t.im + k * FFT(L));
            re[r] = xr * wc + xi * ws;
            im[r] = xi * wc - xr * ws;
        }
        REAL *to = middle + (b * columns + j) * 2 * FFT(L);
        FFT(weave)(re, FFT(L));
        for (int r = 0; r < FFT(L); r++) FFT(store)(to + r * 2 * FFT(L), re[r]);
        FFT(weave)(im, FFT(L));
        for (int r = 0; r < FFT(L); r++) FFT(store)(to + r * 2 * FFT(L) + FFT(L), im[r]);
    }
}

/* Transforms a block of rows and writes them as columns of the result. */
static void FFT(matrix_rows_of)(const FFT(plan) * plan, const FFT(target) * to, int64_t block,
                                const FFT(numbers) buffers[2], const REAL *middle) {
    const int64_t rows = plan->columns->length, columns = plan->rows->length;
    const int64_t k = least(block * FFT(L), rows - FFT(L));
    const REAL *at = middle + block * columns * 2 * FFT(L);
    const FFT(source) source = {at, at + FFT(L), 2 * FFT(L), false, 1};
    FFT(target) target = *to;
    target.re += target.woven ? 2 * k : k;
    target.im += target.woven ? 0 : k;
    target.row = rows;
    (void)FFT(stages)(plan->rows, FFT(L), &source, &target, buffers);
}

static void FFT(matrix)(const FFT(plan) * plan, const FFT(source) * from, const FFT(target) * to,
                        const FFT(numbers) buffers[2], REAL *middle) {
    for (int64_t b = 0; b * FFT(L) < plan->rows->length; b++)
        FFT(matrix_columns)(plan, from, b, buffers, middle);
    for (int64_t b = 0; b * FFT(L) < plan->columns->length; b++)
        FFT(matrix_rows_of)(plan, to, b, buffers, middle);
}

/* ---- building plans ---- */
/* Allocates numbers in the memory of a plan; NULL without memory (only counts bytes). */
static REAL *FFT(room)(void *memory, size_t *given, int64_t numbers) {
    const size_t at = (*given + 63) / 64 * 64;
    *given = at + (size_t)numbers * sizeof(REAL);
    return memory ? (REAL *)(void *)((char *)memory + at) : NULL;
}

/* Lays out a plan without its matrix part and returns its size in bytes; memory may be NULL.
 * `row`: it may be vectorised within the row. */
static size_t FFT(plan_at)(int64_t length, bool row, void *memory) {
    FFT(plan) plan = {.length = length, .inner = fft_inner(length)};
    const bool direct = plan.inner == length;
    size_t bytes = sizeof plan;
    int64_t twiddles = 0, n = plan.inner;
    plan.row = row && FFT(row_factor)(n) != 0;
    FFT(factor)(&plan);
    for (uint32_t f = 0; f < plan.count; n /= plan.factors[f++])
        twiddles += FFT(stage_twiddles)(&plan, f, n);
    plan.twiddles = FFT(room)(memory, &bytes, twiddles);
    if (!direct) {
        plan.chirp = FFT(room)(memory, &bytes, 2 * length);
        plan.kernel = FFT(room)(memory, &bytes, 2 * plan.inner);
    }
    if (memory) *(FFT(plan) *)memory = plan;
    return bytes;
}

static size_t FFT(matrix_at)(int64_t length, void *memory) {
    FFT(plan) plan = {.length = length, .inner = length};
    const int64_t rows = FFT(matrix_rows)(length), columns = length / rows;
    const size_t first = FFT(plan_at)(rows, false, NULL),
                 second = FFT(plan_at)(columns, false, NULL);
    size_t bytes = sizeof plan;
    plan.near = FFT(room)(memory, &bytes, rows * 2 * FFT(L));
    plan.far = FFT(room)(memory, &bytes, parts_of(columns, FFT(L)) * 2 * rows);
    plan.columns =
        (void *)FFT(room)(memory, &bytes, (int64_t)parts_of((int64_t)first, sizeof(REAL)));
    plan.rows = (void *)FFT(room)(memory, &bytes, (int64_t)parts_of((int64_t)second, sizeof(REAL)));
    if (memory) {
        (void)FFT(plan_at)(rows, false, plan.columns);
        (void)FFT(plan_at)(columns, false, plan.rows);
        *(FFT(plan) *)memory = plan;
    }
    return bytes;
}

/* The FFT of the conjugated chirp, scaled by 1/m and conjugated as multiply() expects it.  x and y
 * are scratch of `inner` numbers each. */
static void FFT(fill_kernel)(FFT(plan) * plan, FFT(numbers) x, FFT(numbers) y) {
    const int64_t n = plan->length, m = plan->inner;
    for (int64_t i = 0; i < n; i++)
        FFT(turn)(i * i % (2 * n), 2 * n, &plan->chirp[i], &plan->chirp[n + i]);
    for (int64_t i = 0; i < m; i++) x.re[i] = x.im[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        x.re[i] = plan->chirp[i] / (REAL)m;
        x.im[i] = plan->chirp[n + i] / (REAL)m;
        if (i) x.re[m - i] = x.re[i], x.im[m - i] = x.im[i];
    }
    const FFT(numbers) buffers[2] = {x, y};
    const FFT(numbers) t = FFT(stages)(plan, 1, NULL, NULL, buffers);
    for (int64_t i = 0; i < m; i++) plan->kernel[i] = t.re[i], plan->kernel[m + i] = -t.im[i];
}

static void FFT(fill_matrix)(FFT(plan) * plan) {
    const int64_t rows = plan->columns->length, columns = plan->rows->length, n = rows * columns;
    FFT(fill_twiddles)(plan->columns);
    FFT(fill_twiddles)(plan->rows);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t l = 0; l < FFT(L); l++) {
            REAL *at = plan->near + k * 2 * FFT(L) + l;
            FFT(turn)(k * l, n, at, at + FFT(L));
        }
    for (int64_t b = 0; b * FFT(L) < columns; b++)
        for (int64_t k = 0; k < rows; k++) {
            REAL *at = plan->far + b * 2 * rows + k;
            FFT(turn)(k * least(b * FFT(L), columns - FFT(L)), n, at, at + rows);
        }
}

/* Returns the size of a plan and of the scratch for filling it; fills the plan unless memory is
 * NULL. */
static size_t FFT(prepare)(int64_t length, void *memory) {
    const int64_t m = fft_inner(length);
    if (m == length && FFT(matrix_rows)(length)) {
        if (memory) (void)FFT(matrix_at)(length, memory), FFT(fill_matrix)(memory);
        return FFT(matrix_at)(length, NULL);
    }
    size_t bytes = FFT(plan_at)(length, true, memory);
    REAL *scratch = FFT(room)(memory, &bytes, m == length ? 0 : 4 * m);
    if (memory) FFT(fill_twiddles)(memory);
    if (memory && m != length) FFT(fill_kernel)
    (memory, (FFT(numbers)){scratch, scratch + m},
     (FFT(numbers)){scratch + 2 * m, scratch + 3 * m});
    return bytes;
}
