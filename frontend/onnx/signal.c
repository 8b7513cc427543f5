/* signal.c - Fourier transforms. */
#include "frontend/onnx/families.h"
#include <string.h>

enum { LARGEST = 1 << 28 }; /* elements of all frames */

static sl_value join(sl_onnx_call *c, sl_value a, sl_value b, int axis) {
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){"concat", 2, 1, (sl_value[]){a, b}, &out}, "axis=%d", axis);
    return out;
}

/* Moves an axis to the second-to-last position, or back. */
static sl_value last_but(sl_onnx_call *c, sl_value x, uint32_t axis, bool back) {
    const uint32_t rank = sl_onnx_type(c, x).shape.rank;
    sl_dims perm = {.rank = rank};
    if (rank < 2 || axis == rank - 2) return x;
    for (uint32_t i = 0; i < rank; i++) perm.dims[i] = i;
    if (back) {
        for (uint32_t i = axis + 1; i + 1 < rank; i++) perm.dims[i] = i - 1;
        perm.dims[axis] = rank - 2;
    } else {
        for (uint32_t i = axis; i + 2 < rank; i++) perm.dims[i] = i + 1;
        perm.dims[rank - 2] = axis;
    }
    return sl_onnx_transpose(c, x, &perm);
}

/* The transform of x[..,N,1 or 2] over N, as [..,K,2]; K is N, or N / 2 + 1 if `half`. */
static sl_value transform(sl_onnx_call *c, sl_value x, bool inverse, bool half) {
    const sl_type type = sl_onnx_type(c, x);
    const uint32_t rank = type.shape.rank;
    sl_dims flat = type.shape;
    if (rank < 2) return x; /* after an error */
    const int64_t count = flat.dims[rank - 2];
    flat.rank = rank - 1;
    const sl_value re = sl_onnx_reshape(c, sl_onnx_slice(c, x, rank - 1, 0, 1), &flat);
    const sl_value im = type.shape.dims[rank - 1] == 2
                            ? sl_onnx_reshape(c, sl_onnx_slice(c, x, rank - 1, 1, 1), &flat)
                            : sl_onnx_expand(c, sl_onnx_scalar(c, type.dtype, 0), &flat);
    const sl_value y = sl_onnx_with(c, "fft", join(c, re, im, -1), "inverse=%d, norm=0", inverse);
    const int64_t kept = half ? count / 2 + 1 : count;
    sl_dims apart = flat;
    apart.dims[rank - 2] = kept;
    apart.dims[rank - 1] = 1;
    apart.rank = rank;
    const sl_value real = sl_onnx_slice(c, y, rank - 2, 0, kept);
    const sl_value imaginary = sl_onnx_slice(c, y, rank - 2, count, kept);
    return join(c, sl_onnx_reshape(c, real, &apart), sl_onnx_reshape(c, imaginary, &apart), -1);
}

/* Pads with zeros at the end, or truncates, so that an axis has this length. */
static sl_value fit_length(sl_onnx_call *c, sl_value x, uint32_t axis, int64_t length) {
    const sl_type type = sl_onnx_type(c, x);
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    if (type.shape.dims[axis] == length) return x;
    after[axis] = length - type.shape.dims[axis];
    const sl_value two[] = {x, sl_onnx_scalar(c, type.dtype, 0)};
    return sl_onnx_with2(c, "pad", two, "before=%s, after=%s, mode=0",
                         sl_onnx_list(c, before, type.shape.rank),
                         sl_onnx_list(c, after, type.shape.rank));
}

/* The axis is an attribute in opset 17 and an input from opset 20 on. */
void sl_onnx_dft(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    const uint32_t rank = type.shape.rank;
    const int64_t wanted = c->opset < 20 ? sl_onnx_int(c, "axis", 1) : sl_onnx_integer_in(c, 2, -2);
    const bool inverse = sl_onnx_int(c, "inverse", 0) != 0;
    const bool half = sl_onnx_int(c, "onesided", 0) != 0;
    const uint32_t axis = rank ? sl_onnx_axis(c, wanted, rank) : 0;
    if (rank < 2 || axis + 1 == rank || type.shape.dims[rank - 1] > 2) {
        sl_onnx_wrong(c, "%u dims and axis %u; the last dim must be 1 or 2", rank, axis);
        return;
    }
    if (half && inverse)
        sl_onnx_refuse(c, "the inverse transform of a one-sided spectrum is not supported");
    const int64_t length = sl_onnx_integer_in(c, 1, type.shape.dims[axis]);
    /* In f64, so that terms that cancel leave no rounding error. */
    const sl_value wide = sl_onnx_cast(c, sl_onnx_in(c, 0), SL_DTYPE_f64);
    const sl_value x = fit_length(c, wide, axis, length);
    const sl_value y = transform(c, last_but(c, x, axis, false), inverse, half);
    sl_onnx_set(c, 0, last_but(c, sl_onnx_cast(c, y, type.dtype), axis, true));
}

/* signal[B,L,1 or 2] -> [B,frames,bins,2]. */
void sl_onnx_stft(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    const int64_t step = sl_onnx_integer_in(c, 1, 0);
    int64_t length = sl_onnx_integer_in(c, 3, 0);
    if (sl_onnx_has(c, 2)) length = sl_onnx_in_type(c, 2).shape.dims[0];
    if (sl_onnx_failed(c)) return;
    if (type.shape.rank != 3 || step < 1 || length < 1 || length > type.shape.dims[1]) {
        sl_onnx_wrong(c, "an input of %u dims with frames of %lld every %lld is invalid",
                      type.shape.rank, (long long)length, (long long)step);
        return;
    }
    const int64_t frames = (type.shape.dims[1] - length) / step + 1;
    if (frames > LARGEST / length) {
        sl_onnx_refuse(c, "%lld frames are too many", (long long)frames);
        return;
    }
    int64_t *at = sl_onnx_memory(c, (size_t)(frames * length), sizeof *at);
    if (!at) return;
    for (int64_t f = 0; f < frames; f++)
        for (int64_t i = 0; i < length; i++) at[f * length + i] = f * step + i;
    const sl_value indices = sl_onnx_constant(c, sl_type_make(SL_DTYPE_i64, 2, frames, length), at);
    sl_value x = sl_onnx_with2(c, "gather", (sl_value[]){sl_onnx_in(c, 0), indices}, "axis=1");
    if (sl_onnx_has(c, 2)) {
        const sl_dims column = {2, {length, 1}};
        x = sl_onnx_op2(c, "mul", x, sl_onnx_reshape(c, sl_onnx_in(c, 2), &column));
    }
    sl_onnx_set(c, 0, transform(c, x, false, sl_onnx_int(c, "onesided", 1) != 0));
}
