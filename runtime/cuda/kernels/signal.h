/* signal.h - Arguments of the kernels in signal_fft.cu and signal.cu.  Types are numbered as in
 * core/elementwise_steps.h. */
#ifndef SL_RUNTIME_CUDA_KERNELS_SIGNAL_H
#define SL_RUNTIME_CUDA_KERNELS_SIGNAL_H
#include <stdint.h>

enum { SL_SIGNAL_THREADS = 128, SL_FFT_THREADS = 256, SL_FFT_STAGES = 48, SL_FFT_RADIX = 61 };

typedef struct {
    double re, im;
} sl_complex;

/* Roots of unity of a transform.  Where `chirp` is not NULL, that of `count` numbers too, e^(sign
 * pi i j^2 / count), and its conjugate from -count to count as a row to be transformed: all its
 * real parts, then all imaginary ones. */
typedef struct {
    sl_complex *roots, *chirp;
    double *filter;
    int64_t length, count;
    double sign, root_sign;
} sl_fft_tables;

/* Transforms of rows of `count` numbers; a block makes one after another, in two buffers that lie
 * in shared memory, or in `buffers` where they do not fit.  Where `chirp` is not NULL, a row is
 * made by a convolution of `length` (Bluestein's algorithm), otherwise `length` is `count`. */
typedef struct {
    const void *x;
    void *out;
    const sl_complex *roots, *chirp;
    const double *filter; /* transformed */
    sl_complex *buffers;  /* [blocks, 2, length] */
    int64_t rows, count, length;
    double scale;
    int32_t type, stages;
    uint8_t radices[SL_FFT_STAGES]; /* whose product is length */
} sl_fft_rows;

/* A thread makes a pair. */
typedef struct {
    const float *x, *twiddles, *gates, *reversed;
    float *out;
    int64_t pairs, half, stride; /* of all rows; of one */
} sl_butterflies;

/* A thread makes an energy of [rows, mels], and then a result. */
typedef struct {
    const float *spectrum, *filters, *grad; /* grad: of the gradient */
    double *energies;
    float *out;
    int64_t rows, mels, length; /* length: N of a row of 2N */
} sl_mels;
#endif
