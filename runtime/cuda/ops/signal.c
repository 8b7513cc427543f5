/* signal.c - Fourier transforms and log-mel spectra. */
#include "runtime/cuda/kernels/signal.h"
#include "runtime/cuda/ops/strides.h"
#include <math.h>

/* ---- fft ---- */

static double scale_of(const sl_fft_attrs *attrs, int64_t count) {
    enum { INVERSE, BOTH, FORWARD };
    if (attrs->norm == BOTH) return 1 / sqrt((double)count);
    return attrs->norm == (attrs->inverse ? INVERSE : FORWARD) ? 1 / (double)count : 1;
}

/* The radices of a length; false if a prime factor is too large for one. */
static bool find_stages(int64_t length, sl_fft_rows *f) {
    f->length = length;
    f->stages = 0;
    for (int64_t radix = 4; length > 1 && radix <= SL_FFT_RADIX;) {
        if (length % radix == 0) {
            f->radices[f->stages++] = (uint8_t)radix;
            length /= radix;
        } else
            radix = radix == 4 ? 2 : radix == 2 ? 3 : radix + 2;
    }
    return length == 1;
}

static void add_rows(sl_gpu_planner *planner, sl_fft_rows *f) {
    enum { BLOCKS = 4 }; /* per multiprocessor */
    const uint64_t bytes = 2 * (uint64_t)f->length * sizeof(sl_complex);
    const int64_t blocks = least(f->rows, (int64_t)BLOCKS * planner->multiprocessors);
    const bool fits = bytes <= planner->shared_limit;
    f->buffers = fits ? NULL : sl_gpu_scratch(planner, (uint64_t)blocks * bytes);
    sl_gpu_launch *launch =
        SL_CUDA_ADD(planner, SL_CUDA_FN(sl_transform_rows), blocks, SL_FFT_THREADS, *f);
    if (fits) launch->shared_bytes = (uint32_t)bytes;
}

/* As a convolution with a chirp (Bluestein), whose transform is computed first. */
static void use_chirp(sl_gpu_planner *planner, sl_fft_rows *f, sl_fft_tables *tables) {
    int64_t length = 1;
    while (length < 2 * f->count) length *= 2;
    (void)find_stages(length, f);
    tables->root_sign = -1;
    f->chirp = tables->chirp = sl_gpu_scratch(planner, (uint64_t)f->count * sizeof *f->chirp);
    f->filter = tables->filter = sl_gpu_scratch(planner, (uint64_t)length * 2 * sizeof *f->filter);
}

PLAN(fft) {
    const sl_fft_args *a = args;
    const int64_t count = last_dim(&a->x.type) / (a->x.type.dtype == SL_DTYPE_c64 ? 1 : 2);
    const double sign = a->attrs.inverse ? 1 : -1;
    sl_fft_rows f = {.x = a->x.data, .out = a->out.data, .count = count};
    sl_fft_tables tables = {.count = count, .sign = sign, .root_sign = sign};
    f.rows = rows_of(&a->x.type);
    f.scale = scale_of(&a->attrs, count);
    f.type = number_of(&a->x.type);
    const bool direct = find_stages(count, &f);
    if (!direct) use_chirp(planner, &f, &tables);
    tables.length = f.length;
    f.roots = tables.roots = sl_gpu_scratch(planner, (uint64_t)f.length * sizeof *f.roots);
    ADD_EACH(planner, SL_CUDA_FN(sl_make_fft_tables), f.length, SL_SIGNAL_THREADS, tables);
    if (!direct) {
        sl_fft_rows filter = f;
        filter.x = filter.out = tables.filter;
        filter.chirp = NULL;
        filter.count = filter.length;
        filter.rows = 1;
        filter.scale = 1;
        filter.type = SL_TYPE_f64;
        add_rows(planner, &filter);
    }
    add_rows(planner, &f);
    return SL_OK;
}

PLAN(fft_butterfly_stage) {
    const sl_fft_butterfly_stage_args *a = args;
    const sl_butterflies launch = {.x = a->x.data,
                                   .twiddles = a->twiddles.data,
                                   .gates = a->gates.data,
                                   .reversed = a->reversed.data,
                                   .out = a->out.data,
                                   .pairs = sl_type_elements(&a->out.type) / 4,
                                   .half = last_dim(&a->gates.type),
                                   .stride = (int64_t)1 << a->attrs.stage};
    ADD_EACH(planner, SL_CUDA_FN(sl_butterfly), launch.pairs, SL_SIGNAL_THREADS, launch);
    return SL_OK;
}

/* ---- log-mel ---- */

static sl_mels mels_of(sl_gpu_planner *planner, const sl_cview *spectrum, const sl_cview *filters,
                       const sl_view *out) {
    sl_mels m = {.spectrum = spectrum->data,
                 .filters = filters->data,
                 .out = out->data,
                 .rows = rows_of(&spectrum->type),
                 .mels = dim(&filters->type, 0),
                 .length = last_dim(&spectrum->type) / 2};
    m.energies = sl_gpu_scratch(planner, (uint64_t)(m.rows * m.mels) * sizeof *m.energies);
    ADD_EACH(planner, SL_CUDA_FN(sl_mel_energies), m.rows * m.mels, SL_SIGNAL_THREADS, m);
    return m;
}
PLAN(log_mel) {
    const sl_log_mel_args *a = args;
    const sl_mels m = mels_of(planner, &a->spectrum, &a->filters, &a->out);
    ADD_EACH(planner, SL_CUDA_FN(sl_log_mel), m.rows * m.mels, SL_SIGNAL_THREADS, m);
    return SL_OK;
}
PLAN(log_mel_backward) {
    const sl_log_mel_backward_args *a = args;
    sl_mels m = mels_of(planner, &a->spectrum, &a->filters, &a->out);
    m.grad = a->grad.data;
    ADD_EACH(planner, SL_CUDA_FN(sl_log_mel_backward), m.rows * 2 * m.length, SL_SIGNAL_THREADS, m);
    return SL_OK;
}
