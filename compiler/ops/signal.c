/* signal.c - Fourier transforms and log-mel spectra. */
#include "compiler/ops/check.h"
#include <math.h>

typedef struct {
    double re, im;
} complex_number;

/* ---- fft ---- */

enum { NORM_INVERSE, NORM_BOTH, NORM_FORWARD, NORM_NONE };

sl_status sl_infer_fft(const sl_infer_args *a, sl_error *err) {
    const sl_fft_attrs *attrs = a->attrs;
    const sl_type *x = &a->in[0];
    const bool pairs = x->dtype == SL_DTYPE_c64;
    SL_TRY(sl_type_check(x, a->label, err));
    SL_TRY(sl_check_attr(a->label, "inverse", attrs->inverse, 0, 1, err));
    SL_TRY(sl_check_attr(a->label, "norm", attrs->norm, 0, NORM_NONE, err));
    const bool fits = pairs || x->dtype == SL_DTYPE_f32 || x->dtype == SL_DTYPE_f64;
    if (!fits || x->shape.rank < 1 || (!pairs && x->shape.dims[x->shape.rank - 1] % 2 != 0)) {
        char text[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: x is %s, must be c64[..,N], f32[..,2N] or f64[..,2N]",
                       a->label, sl_type_format(x, text, sizeof text));
    }
    a->out[0] = *x;
    return SL_OK;
}

/* Transforms n numbers that are `stride` apart: splits even lengths in halves, computes odd ones as
 * a sum. */
static void transform(const complex_number *x, int64_t n, int64_t stride, double sign,
                      complex_number *out, complex_number *scratch) {
    const double turn = sign * 2 * M_PI / (double)n;
    if (n % 2 == 0) {
        const int64_t half = n / 2;
        transform(x, half, 2 * stride, sign, scratch, out);
        transform(x + stride, half, 2 * stride, sign, scratch + half, out);
        for (int64_t k = 0; k < half; k++) {
            const double c = cos(turn * (double)k), s = sin(turn * (double)k);
            const complex_number u = scratch[k], v = scratch[half + k];
            const complex_number w = {v.re * c - v.im * s, v.re * s + v.im * c};
            out[k] = (complex_number){u.re + w.re, u.im + w.im};
            out[k + half] = (complex_number){u.re - w.re, u.im - w.im};
        }
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        complex_number sum = {0, 0};
        for (int64_t i = 0; i < n; i++) {
            const double angle = turn * (double)(i * k % n), c = cos(angle), s = sin(angle);
            const complex_number v = x[i * stride];
            sum.re += v.re * c - v.im * s;
            sum.im += v.re * s + v.im * c;
        }
        out[k] = sum;
    }
}

static double fft_scale(const sl_fft_attrs *attrs, int64_t n) {
    if (attrs->norm == NORM_BOTH) return 1 / sqrt((double)n);
    const uint32_t scaled = attrs->inverse ? NORM_INVERSE : NORM_FORWARD;
    return attrs->norm == scaled ? 1 / (double)n : 1;
}

sl_status sl_eval_fft(const sl_eval_args *a, sl_error *err) {
    const sl_fft_attrs *attrs = a->attrs;
    const double *x;
    double *scratch;
    SL_TRY(sl_eval_inputs(a, 1, &x, err));
    const bool pairs = a->in[0].type.dtype == SL_DTYPE_c64;
    const int64_t n = pairs ? sl_eval_last_dim(a, 0) : sl_eval_last_dim(a, 0) / 2;
    /* Stride between numbers; offset of the imaginary part. */
    const int64_t next = pairs ? 2 : 1, imaginary = pairs ? 1 : n;
    if (n < 1) return SL_OK; /* cannot happen after inference */
    SL_TRY(sl_eval_scratch(a, 6 * n, &scratch, err));
    complex_number *row = (complex_number *)scratch, *result = row + n;
    const double scale = fft_scale(attrs, n);
    for (int64_t r = 0; r < sl_type_slots(&a->out[0].type) / (2 * n); r++) {
        const double *from = x + r * 2 * n;
        double *to = a->out[0].data + r * 2 * n;
        for (int64_t i = 0; i < n; i++)
            row[i] = (complex_number){from[i * next], from[i * next + imaginary]};
        transform(row, n, 1, attrs->inverse ? 1 : -1, result, result + n);
        for (int64_t i = 0; i < n; i++) {
            to[i * next] = scale * result[i].re;
            to[i * next + imaginary] = scale * result[i].im;
        }
    }
    return SL_OK;
}

/* ---- fft_butterfly_stage ---- */

sl_status sl_infer_fft_butterfly_stage(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "x f32[..,4H], twiddles f32[2H], gates f32[H], reversed f32[H]", err));
    const int64_t half = a->in[2].shape.dims[0];
    const sl_fft_butterfly_stage_attrs *attrs = a->attrs;
    if (half & (half - 1))
        return sl_fail(err, SL_INVALID, "%s: gates has %lld elements, must be a power of two",
                       a->label, (long long)half);
    SL_TRY(sl_check_attr(a->label, "stage", attrs->stage, 0, 47, err));
    SL_TRY(sl_check_attr(a->label, "2^stage", (int64_t)1 << attrs->stage, 1, half, err));
    a->out[0] = a->in[0];
    return SL_OK;
}

sl_status sl_eval_fft_butterfly_stage(const sl_eval_args *a, sl_error *err) {
    const double *in[4];
    SL_TRY(sl_eval_inputs(a, 4, in, err));
    const int64_t half = sl_eval_last_dim(a, 2), n = 2 * half;
    const int64_t stride = (int64_t)1 << ((const sl_fft_butterfly_stage_attrs *)a->attrs)->stage;
    for (int64_t r = 0; r < sl_type_elements(&a->out[0].type) / (2 * n); r++) {
        const double *re = in[0] + r * 2 * n, *im = re + n;
        double *out_re = a->out[0].data + r * 2 * n, *out_im = out_re + n;
        for (int64_t b = 0; b < half; b++) {
            const int64_t i = b / stride * 2 * stride + b % stride, j = i + stride;
            const bool turned = in[2][b] != 0, swapped = turned && in[3][b] >= 0.5;
            const double c = turned ? in[1][b] : 0, s = turned ? in[1][half + b] : 0;
            const double v = re[j] * c - im[j] * s, w = re[j] * s + im[j] * c;
            const int64_t top = swapped ? j : i, bottom = swapped ? i : j;
            out_re[top] = turned ? re[i] + v : re[i];
            out_im[top] = turned ? im[i] + w : im[i];
            out_re[bottom] = turned ? re[i] - v : re[j];
            out_im[bottom] = turned ? im[i] - w : im[j];
        }
    }
    return SL_OK;
}

/* ---- log_mel ---- */

static const double mel_floor = 1e-10, mel_range = 8;

static sl_status infer_mel(const sl_infer_args *a, sl_error *err) {
    SL_TRY(sl_match(a, "spectrum f32[..,X], filters f32[M,B]", err));
    const int64_t parts = a->in[0].shape.dims[a->in[0].shape.rank - 1];
    const int64_t bins = a->in[1].shape.dims[1];
    if (parts % 2 != 0 || bins != parts / 4 + 1)
        return sl_fail(err, SL_INVALID,
                       "%s: spectrum has rows of %lld, filters of %lld: 2N and N/2+1 wanted",
                       a->label, (long long)parts, (long long)bins);
    a->out[0] = a->in[0];
    a->out[0].shape.dims[a->out[0].shape.rank - 1] = a->in[1].shape.dims[0];
    return SL_OK;
}

sl_status sl_infer_log_mel(const sl_infer_args *a, sl_error *err) {
    return infer_mel(a, err);
}

sl_status sl_infer_log_mel_backward(const sl_infer_args *a, sl_error *err) {
    SL_TRY(infer_mel(a, err));
    const sl_type wanted = a->out[0];
    if (!sl_type_equal(&a->in[2], &wanted)) {
        char found[SL_TYPE_TEXT], right[SL_TYPE_TEXT];
        return sl_fail(err, SL_INVALID, "%s: grad is %s, must be %s", a->label,
                       sl_type_format(&a->in[2], found, sizeof found),
                       sl_type_format(&wanted, right, sizeof right));
    }
    a->out[0] = a->in[0];
    return SL_OK;
}

/* Mel energies of a row; returns the largest log10. */
static double mel_row(const double *spectrum, const double *filters, int64_t n, int64_t mels,
                      double *energies) {
    double largest = -HUGE_VAL;
    const int64_t bins = n / 2 + 1;
    for (int64_t m = 0; m < mels; m++) {
        double sum = 0;
        for (int64_t k = 0; k < bins; k++)
            sum += filters[m * bins + k] *
                   (spectrum[k] * spectrum[k] + spectrum[n + k] * spectrum[n + k]);
        energies[m] = sum;
        largest = fmax(largest, log10(fmax(sum, mel_floor)));
    }
    return largest;
}

sl_status sl_eval_log_mel(const sl_eval_args *a, sl_error *err) {
    const double *in[2];
    double *energies;
    SL_TRY(sl_eval_inputs(a, 2, in, err));
    const int64_t n = sl_eval_last_dim(a, 0) / 2, mels = sl_eval_dim(a, 1, 0);
    if (n < 1) return SL_OK; /* cannot happen after inference */
    SL_TRY(sl_eval_scratch(a, mels, &energies, err));
    for (int64_t r = 0; r < sl_type_elements(&a->in[0].type) / (2 * n); r++) {
        const double largest = mel_row(in[0] + r * 2 * n, in[1], n, mels, energies);
        for (int64_t m = 0; m < mels; m++) {
            const double l = log10(fmax(energies[m], mel_floor));
            a->out[0].data[r * mels + m] = (fmax(l, largest - mel_range) + 4) / 4;
        }
    }
    return SL_OK;
}

sl_status sl_eval_log_mel_backward(const sl_eval_args *a, sl_error *err) {
    const double *in[3];
    double *energies;
    SL_TRY(sl_eval_inputs(a, 3, in, err));
    const int64_t n = sl_eval_last_dim(a, 0) / 2, mels = sl_eval_dim(a, 1, 0), bins = n / 2 + 1;
    if (n < 1) return SL_OK; /* cannot happen after inference */
    SL_TRY(sl_eval_scratch(a, mels, &energies, err));
    for (int64_t r = 0; r < sl_type_elements(&a->in[0].type) / (2 * n); r++) {
        const double *row = in[0] + r * 2 * n;
        double *out = a->out[0].data + r * 2 * n;
        const double largest = mel_row(row, in[1], n, mels, energies);
        for (int64_t i = 0; i < 2 * n; i++) out[i] = 0;
        for (int64_t m = 0; m < mels; m++) {
            const double e = energies[m];
            if (e <= mel_floor || log10(e) < largest - mel_range) continue;
            const double g = in[2][r * mels + m] * 0.25 / (e * M_LN10);
            for (int64_t k = 0; k < bins; k++) {
                out[k] += g * in[1][m * bins + k] * 2 * row[k];
                out[n + k] += g * in[1][m * bins + k] * 2 * row[n + k];
            }
        }
    }
    return SL_OK;
}
