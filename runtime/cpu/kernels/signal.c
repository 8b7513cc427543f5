/* signal.c - A butterfly stage of the Fourier transform, and log-mel spectra. */
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- fft_butterfly_stage: an item is a row ---- */

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

/* ---- log_mel: an item is a row ---- */

static const float mel_floor = 1e-10f, mel_range = 8;

/* Mel energies of a row, through the power spectrum powers[bins]; returns the largest log10. */
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
        memset(powers, 0, (size_t)bins * sizeof *powers); /* now gradients of the powers */
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
