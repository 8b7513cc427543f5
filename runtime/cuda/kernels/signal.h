/* signal.h - Arguments of the kernels in signal_fft.cu and signal.cu.  Types are numbered as in
 * core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SIGNAL_H
#define SL_RUNTIME_CUDA_KERNELS_SIGNAL_H
#include <stdint.h>

enum { SL_SIGNAL_THREADS = 128, SL_FFT_THREADS = 256, SL_FFT_STAGES = 48, SL_FFT_RADIX = 61 };

typedef struct {
    double re, im;
} sl_complex;

/* Twiddle factors of a transform of `length`.  If `chirp` is not NULL (Bluestein), also the chirp
 * e^(sign pi i j^2 / count), and the filter: its conjugate for j from -count to count, zero-padded,
 * all real parts before all imaginary ones, still to be transformed. */
typedef struct {
    sl_complex *roots, *chirp;
    double *filter;
    int64_t length, count;
    double sign, root_sign;
} sl_fft_tables;

/* Transforms rows of `count` numbers; a block processes one row after another, in two buffers in
 * shared memory, or in `buffers` where they do not fit.  If `chirp` is not NULL, a row is computed
 * as a convolution of `length` (Bluestein's algorithm), otherwise `length` is `count`. */
typedef struct {
    const void *x;
    void *out;
    const sl_complex *roots, *chirp;
    const double *filter; /* transformed already */
    sl_complex *buffers;  /* [blocks, 2, length], or NULL */
    int64_t rows, count, length;
    double scale;
    int32_t type, stages;
    uint8_t radices[SL_FFT_STAGES]; /* product: length */
} sl_fft_rows;

/* One butterfly per thread. */
typedef struct {
    const float *x, *twiddles, *gates, *reversed;
    float *out;
    int64_t pairs, half, stride; /* pairs: of all rows; half: of one */
} sl_butterflies;

/* One thread per energy of [rows, mels], then one per result. */
typedef struct {
    const float *spectrum, *filters, *grad; /* grad: for the backward kernel */
    double *energies;
    float *out;
    int64_t rows, mels, length; /* length: N of a spectrum row of N real and N imaginary parts */
} sl_mels;
#endif
