/* signal_fft_small.h - FFTs of 2, 3, 4, 5, 7, 8 and 16 numbers in registers, of type T: REAL or a
 * vector of them.  Included with T, REAL and DFT(name) defined.  Numbers are r + i * sqrt(-1), in
 * natural order on input and output. */

/* Over numbers 0, step, 2 step and 3 step. */
INLINE void DFT(four)(T *r, T *i, const int step) {
    const T pr = r[0] + r[2 * step], pi = i[0] + i[2 * step];
    const T qr = r[0] - r[2 * step], qi = i[0] - i[2 * step];
    const T ur = r[step] + r[3 * step], ui = i[step] + i[3 * step];
    const T vr = r[step] - r[3 * step], vi_ = i[step] - i[3 * step];
    r[0] = pr + ur, i[0] = pi + ui;
    r[step] = qr + vi_, i[step] = qi - vr; /* - sqrt(-1) v */
    r[2 * step] = pr - ur, i[2 * step] = pi - ui;
    r[3 * step] = qr - vi_, i[3 * step] = qi + vr;
}

/* Multiplies by (c - s sqrt(-1)). */
INLINE void DFT(turn)(T *r, T *i, const REAL c, const REAL s) {
    const T re = *r * c + *i * s;
    *i = *i * c - *r * s;
    *r = re;
}

/* Multiplies by the e-th power of the 8th root of unity. */
INLINE void DFT(turn8)(T *r, T *i, const int e) {
    const REAL half = (REAL)M_SQRT1_2;
    const T re = *r, im = *i;
    if (e == 1) *r = (re + im) * half, *i = (im - re) * half;
    if (e == 2) *r = im, *i = -re;
    if (e == 3) *r = (im - re) * half, *i = (re + im) * -half;
}

INLINE void DFT(eight)(T *r, T *i) {
    T out_r[8], out_i[8];
    DFT(four)(r, i, 2);
    DFT(four)(r + 1, i + 1, 2);
    for (int k = 0; k < 4; k++) {
        T tr = r[2 * k + 1], ti = i[2 * k + 1];
        DFT(turn8)(&tr, &ti, k);
        out_r[k] = r[2 * k] + tr, out_i[k] = i[2 * k] + ti;
        out_r[k + 4] = r[2 * k] - tr, out_i[k + 4] = i[2 * k] - ti;
    }
    for (int k = 0; k < 8; k++) r[k] = out_r[k], i[k] = out_i[k];
}

INLINE void DFT(sixteen)(T *r, T *i) {
    const REAL c = (REAL)0.92387953251128674, s = (REAL)0.38268343236508977; /* of pi / 8 */
    T out_r[16], out_i[16];
    for (int j = 0; j < 4; j++) DFT(four)(r + j, i + j, 4);
    DFT(turn)(&r[5], &i[5], c, s);
    DFT(turn8)(&r[6], &i[6], 1);
    DFT(turn)(&r[7], &i[7], s, c);
    DFT(turn8)(&r[9], &i[9], 1);
    DFT(turn8)(&r[10], &i[10], 2);
    DFT(turn8)(&r[11], &i[11], 3);
    DFT(turn)(&r[13], &i[13], s, c);
    DFT(turn8)(&r[14], &i[14], 3);
    DFT(turn)(&r[15], &i[15], -c, -s);
    for (int k = 0; k < 4; k++) {
        DFT(four)(r + 4 * k, i + 4 * k, 1);
        for (int j = 0; j < 4; j++)
            out_r[k + 4 * j] = r[4 * k + j], out_i[k + 4 * j] = i[4 * k + j];
    }
    for (int k = 0; k < 16; k++) r[k] = out_r[k], i[k] = out_i[k];
}

/* Odd p: numbers j and p - j share their multiplications. */
INLINE void DFT(odd)(T *r, T *i, const int p) {
    static const REAL cosines[3][3] = {
        {(REAL)-0.5},
        {(REAL)0.30901699437494745, (REAL)-0.80901699437494745},
        {(REAL)0.62348980185873359, (REAL)-0.22252093395631439, (REAL)-0.90096886790241915}};
    static const REAL sines[3][3] = {
        {(REAL)0.86602540378443865},
        {(REAL)0.95105651629515353, (REAL)0.58778525229247314},
        {(REAL)0.78183148246802980, (REAL)0.97492791218182362, (REAL)0.43388373911755812}};
    const REAL *c = cosines[p / 2 - 1], *s = sines[p / 2 - 1];
    const T first_r = r[0], first_i = i[0];
    T sum_r[4], sum_i[4], gap_r[4], gap_i[4];
    for (int j = 1; j <= p / 2; j++) {
        sum_r[j] = r[j] + r[p - j], sum_i[j] = i[j] + i[p - j];
        gap_r[j] = r[j] - r[p - j], gap_i[j] = i[j] - i[p - j];
        r[0] += sum_r[j], i[0] += sum_i[j];
    }
    for (int k = 1; k <= p / 2; k++) {
        T ar = first_r, ai = first_i, br = gap_r[1] * s[k - 1], bi = gap_i[1] * s[k - 1];
        for (int j = 1; j <= p / 2; j++) {
            const int e = j * k % p, at = (2 * e < p ? e : p - e) - 1;
            ar += sum_r[j] * c[at], ai += sum_i[j] * c[at];
            if (j == 1) continue;
            const REAL sine = 2 * e < p ? s[at] : -s[at];
            br += gap_r[j] * sine, bi += gap_i[j] * sine;
        }
        r[k] = ar + bi, i[k] = ai - br;
        r[p - k] = ar - bi, i[p - k] = ai + br;
    }
}

INLINE void DFT(of)(T *r, T *i, const int p) {
    if (p == 2) {
        const T br = r[1], bi = i[1];
        r[1] = r[0] - br, i[1] = i[0] - bi;
        r[0] += br, i[0] += bi;
    }
    if (p == 4) DFT(four)(r, i, 1);
    if (p == 8) DFT(eight)(r, i);
    if (p == 16) DFT(sixteen)(r, i);
    if (p == 3 || p == 5 || p == 7) DFT(odd)(r, i, p);
}
