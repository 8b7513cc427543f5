/* signal_fft.cu - Fourier transforms of any length, in double: a block transforms a row by stages
 * of small radices that keep the natural order (Stockham).  Lengths with a prime factor above
 * SL_FFT_RADIX use a convolution whose length is a power of two (Bluestein). */
#include "runtime/cuda/kernels/number.cuh"
#include "runtime/cuda/kernels/signal.h"
#include "runtime/cuda/kernels/strides.cuh"

DEVICE sl_complex times(sl_complex x, sl_complex y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
DEVICE sl_complex turned(double half_turns) {
    return {cos(M_PI * half_turns), sin(M_PI * half_turns)};
}

SL_CUDA_KERNEL(sl_make_fft_tables, sl_fft_tables, SL_SIGNAL_THREADS) {
    const int64_t i = thread_number();
    if (i >= a.length) return;
    a.roots[i] = turned(a.root_sign * 2 * (double)i / (double)a.length);
    if (!a.chirp) return;
    const int64_t j = i < a.count ? i : a.length - i;
    const uint64_t square = (uint64_t)j * (uint64_t)j % (uint64_t)(2 * a.count);
    const sl_complex root = turned(a.sign * (double)square / (double)a.count);
    const bool inside = j < a.count;
    if (i < a.count) a.chirp[i] = root;
    a.filter[i] = inside ? root.re : 0;
    a.filter[a.length + i] = inside ? -root.im : 0;
}

/* ---- rows: interleaved complex numbers, or all real parts before all imaginary ones ---- */

DEVICE void load_row(const sl_fft_rows &a, int64_t row, sl_complex *to) {
    const int64_t start = row * a.count;
    for (int64_t i = threadIdx.x; i < a.length; i += SL_FFT_THREADS) {
        number x = {0, 0, 0};
        if (i < a.count && a.type == SL_TYPE_c64) x = load_number(a.type, a.x, start + i);
        if (i < a.count && a.type != SL_TYPE_c64) {
            x = load_number(a.type, a.x, 2 * start + i);
            x.im = load_number(a.type, a.x, 2 * start + a.count + i).re;
        }
        to[i] = {x.re, x.im};
        if (a.chirp && i < a.count) to[i] = times(to[i], a.chirp[i]);
    }
    __syncthreads();
}
DEVICE void store_row(const sl_fft_rows &a, int64_t row, const sl_complex *from) {
    const int64_t start = row * a.count;
    for (int64_t i = threadIdx.x; i < a.count; i += SL_FFT_THREADS) {
        sl_complex x = from[i];
        if (a.chirp) x = times({x.re / (double)a.length, -x.im / (double)a.length}, a.chirp[i]);
        x = {a.scale * x.re, a.scale * x.im};
        if (a.type == SL_TYPE_c64) {
            store_number(a.type, a.out, start + i, number_of(x.re, x.im));
            continue;
        }
        store_number(a.type, a.out, 2 * start + i, number_of(x.re));
        store_number(a.type, a.out, 2 * start + a.count + i, number_of(x.im));
    }
    __syncthreads();
}

/* Output `to` of a stage, in which transforms of `before` numbers become ones of before * radix. */
DEVICE sl_complex stage_number(const sl_fft_rows &a, const sl_complex *x, int64_t to, int radix,
                               int64_t before) {
    const int64_t above = quotient(to, before), run = quotient(above, radix);
    const int64_t k = above - run * radix, across = a.length / radix;
    const sl_complex *from = x + to - above * before + before * run;
    sl_complex sum = {0, 0};
    for (int j = 0, turn = 0; j < radix; j++) {
        const sl_complex part = times(from[j * across], a.roots[turn * across]);
        sum = {sum.re + part.re, sum.im + part.im};
        turn += (int)k;
        if (turn >= radix) turn -= radix;
    }
    return times(sum, a.roots[before * run * k]);
}
/* Returns the buffer that holds the result. */
DEVICE sl_complex *transformed(const sl_fft_rows &a, sl_complex *x, sl_complex *other) {
    int64_t before = 1;
    for (int stage = 0; stage < a.stages; stage++) {
        for (int64_t i = threadIdx.x; i < a.length; i += SL_FFT_THREADS)
            other[i] = stage_number(a, x, i, a.radices[stage], before);
        __syncthreads();
        before *= a.radices[stage];
        sl_complex *made = other;
        other = x;
        x = made;
    }
    return x;
}

/* Bluestein: multiplies by the filter and conjugates, so that another forward transform inverts. */
DEVICE void convolve(const sl_fft_rows &a, sl_complex *x) {
    for (int64_t i = threadIdx.x; i < a.length; i += SL_FFT_THREADS) {
        const sl_complex made = times(x[i], {a.filter[i], a.filter[a.length + i]});
        x[i] = {made.re, -made.im};
    }
    __syncthreads();
}

SL_CUDA_KERNEL(sl_transform_rows, sl_fft_rows, SL_FFT_THREADS) {
    SL_DYNAMIC_SHARED(sl_complex, shared);
    sl_complex *x = a.buffers ? a.buffers + 2 * a.length * blockIdx.x : shared;
    sl_complex *both[2] = {x, x + a.length};
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        load_row(a, row, both[0]);
        x = transformed(a, both[0], both[1]);
        if (a.chirp) {
            convolve(a, x);
            x = transformed(a, x, both[x == both[0]]);
        }
        store_row(a, row, x);
    }
}
