/* signal.cu - One stage of a radix-2 Fourier transform, and log-mel energies. */
#include "runtime/cuda/kernels/cuda.cuh"
#include "runtime/cuda/kernels/signal.h"
#include "runtime/cuda/kernels/strides.cuh"

SL_CUDA_KERNEL(sl_butterfly, sl_butterflies, SL_SIGNAL_THREADS) {
    const int64_t pair = thread_number(), row = quotient(pair, a.half), b = pair - row * a.half;
    if (pair >= a.pairs) return;
    const int64_t run = quotient(b, a.stride), length = 2 * a.half;
    const int64_t i = row * 2 * length + b + run * a.stride, j = i + a.stride;
    const bool turned = a.gates[b] != 0, swapped = turned && a.reversed[b] >= 0.5f;
    const double c = a.twiddles[b], s = a.twiddles[a.half + b];
    const double re = a.x[j] * c - a.x[j + length] * s, im = a.x[j] * s + a.x[j + length] * c;
    const int64_t top = swapped ? j : i, bottom = swapped ? i : j;
    a.out[top] = turned ? (float)(a.x[i] + re) : a.x[i];
    a.out[top + length] = turned ? (float)(a.x[i + length] + im) : a.x[i + length];
    a.out[bottom] = turned ? (float)(a.x[i] - re) : a.x[j];
    a.out[bottom + length] = turned ? (float)(a.x[i + length] - im) : a.x[j + length];
}

/* ---- log-mel ---- */

DEVICE double log_of_energy(double energy) {
    return log10(fmax(energy, 1e-10));
}
/* The floor of a row's log10 energies: 8 (80 dB) below the largest. */
DEVICE double least_of_row(const double *energies, int64_t mels) {
    double largest = 0;
    for (int64_t m = 0; m < mels; m++) largest = fmax(largest, energies[m]);
    return log_of_energy(largest) - 8;
}

SL_CUDA_KERNEL(sl_mel_energies, sl_mels, SL_SIGNAL_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.rows * a.mels) return;
    const int64_t row = quotient(i, a.mels), bins = a.length / 2 + 1;
    const float *re = a.spectrum + row * 2 * a.length, *im = re + a.length;
    const float *filter = a.filters + (i - row * a.mels) * bins;
    double sum = 0;
    for (int64_t k = 0; k < bins; k++)
        sum += filter[k] * ((double)re[k] * re[k] + (double)im[k] * im[k]);
    a.energies[i] = sum;
}

SL_CUDA_KERNEL(sl_log_mel, sl_mels, SL_SIGNAL_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.rows * a.mels) return;
    const double *row = a.energies + quotient(i, a.mels) * a.mels;
    a.out[i] = (float)((fmax(log_of_energy(a.energies[i]), least_of_row(row, a.mels)) + 4) / 4);
}

SL_CUDA_KERNEL(sl_log_mel_backward, sl_mels, SL_SIGNAL_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.rows * 2 * a.length) return;
    const int64_t part = quotient(i, a.length), k = i - part * a.length, row = part / 2;
    const int64_t bins = a.length / 2 + 1;
    const double *energies = a.energies + row * a.mels, least = least_of_row(energies, a.mels);
    double sum = 0;
    for (int64_t m = 0; m < a.mels && k < bins; m++)
        if (energies[m] > 1e-10 && log10(energies[m]) >= least)
            sum += (double)a.grad[row * a.mels + m] * a.filters[m * bins + k] / energies[m];
    a.out[i] = (float)(sum * 0.5 / M_LN10 * a.spectrum[i]);
}
