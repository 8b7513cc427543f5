/* literal.c - Ops whose results are known during the import. */
#include "core/codec.h"
#include "frontend/onnx/families.h"
#include <math.h>
#include <string.h>

enum { LITERAL_MOST = 1 << 24 }; /* elements */

static void set_tensor(sl_onnx_call *c, const sl_onnx_tensor *tensor) {
    sl_type type;
    void *data;
    if (tensor->data_type == SL_ONNX_STRING)
        c->out[0].other = "a tensor of strings";
    else if (sl_onnx_tensor_decode(tensor, &c->im->arena, &type, &data, &c->graph->error) == SL_OK)
        sl_onnx_set_literal(c, 0, type, data);
}

void sl_onnx_constant_op(sl_onnx_call *c) {
    const sl_onnx_attr *attr = NULL;
    static const char *const names[] = {"value",      "value_float",  "value_floats", "value_int",
                                        "value_ints", "value_string", "value_strings"};
    for (uint32_t i = 0; !attr && i < sizeof names / sizeof names[0]; i++)
        attr = sl_onnx_attr_of(c, names[i]);
    if (!c->out_count || !attr)
        sl_onnx_refuse(c, "a value of this kind is not supported");
    else if (attr->tensor)
        set_tensor(c, attr->tensor);
    else if (attr->kind == SL_ONNX_ATTR_FLOAT)
        sl_onnx_set_literal(c, 0, sl_type_make(SL_DTYPE_f32, 0), &attr->number);
    else if (attr->kind == SL_ONNX_ATTR_INT)
        sl_onnx_set_literal(c, 0, sl_type_make(SL_DTYPE_i64, 0), &attr->integer);
    else if (attr->kind == SL_ONNX_ATTR_FLOATS)
        sl_onnx_set_literal(c, 0, sl_type_make(SL_DTYPE_f32, 1, (int64_t)attr->float_count),
                            attr->floats);
    else if (attr->kind == SL_ONNX_ATTR_INTS)
        sl_onnx_set_literal(c, 0, sl_type_make(SL_DTYPE_i64, 1, (int64_t)attr->integers.count),
                            attr->integers.items);
    else
        c->out[0].other = "a tensor of strings";
}

void sl_onnx_constant_of_shape(sl_onnx_call *c) {
    const sl_onnx_attr *attr = sl_onnx_attr_of(c, "value");
    sl_integers list;
    sl_type type = sl_type_make(SL_DTYPE_f32, 0);
    float zero = 0;
    void *data = &zero;
    if (!sl_onnx_integers_in(c, 0, &list)) return;
    if (attr && attr->tensor &&
        sl_onnx_tensor_decode(attr->tensor, &c->im->arena, &type, &data, &c->graph->error) != SL_OK)
        return;
    if (list.count > SL_MAX_RANK || sl_type_elements(&type) != 1) {
        sl_onnx_refuse(c, "%u dims, at most %d are supported", list.count, SL_MAX_RANK);
        return;
    }
    const sl_type one = sl_type_make(type.dtype, 0);
    sl_dims shape = {.rank = list.count};
    for (uint32_t i = 0; i < list.count; i++) shape.dims[i] = list.items[i];
    sl_onnx_set(c, 0, sl_onnx_expand(c, sl_onnx_constant(c, one, data), &shape));
}

void sl_onnx_shape_op(sl_onnx_call *c) {
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    const int64_t rank = shape.rank;
    int64_t start = sl_onnx_int(c, "start", 0), end = sl_onnx_int(c, "end", rank);
    if (start < 0) start += rank;
    if (end < 0) end += rank;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    sl_onnx_set_literal(c, 0, sl_type_make(SL_DTYPE_i64, 1, end - start), shape.dims + start);
}

void sl_onnx_size(sl_onnx_call *c) {
    const sl_type type = sl_onnx_in_type(c, 0);
    const int64_t size = sl_type_elements(&type);
    sl_onnx_set_literal(c, 0, sl_type_make(SL_DTYPE_i64, 0), &size);
}

/* Sets a literal of any type from doubles. */
static void set_doubles(sl_onnx_call *c, sl_type type, double *values) {
    const int64_t count = sl_type_elements(&type);
    void *data = sl_onnx_memory(c, (size_t)sl_type_bytes(&type), 1);
    if (!data) return;
    for (int64_t i = 0; i < count; i++) values[i] = sl_onnx_slot(c, type.dtype, values[i]);
    sl_encode_f64(type.dtype, values, count, data);
    sl_onnx_set_literal(c, 0, type, data);
}

static double *make_doubles(sl_onnx_call *c, double count) {
    if (count >= 0 && count <= LITERAL_MOST)
        return sl_onnx_memory(c, (size_t)count, sizeof(double));
    sl_onnx_refuse(c, "%.0f elements, at most %d are supported", count, LITERAL_MOST);
    return NULL;
}

void sl_onnx_range(sl_onnx_call *c) {
    const sl_dtype dtype = sl_onnx_in_type(c, 0).dtype;
    const double start = sl_onnx_real_in(c, 0, 0), limit = sl_onnx_real_in(c, 1, 0);
    const double delta = sl_onnx_real_in(c, 2, 1);
    if (sl_onnx_failed(c)) return;
    const double steps = delta != 0 ? ceil((limit - start) / delta) : 0;
    const double count = steps > 0 ? steps : 0;
    double *values = make_doubles(c, count);
    if (!values) return;
    for (int64_t i = 0; i < (int64_t)count; i++) values[i] = start + (double)i * delta;
    set_doubles(c, sl_type_make(dtype, 1, (int64_t)count), values);
}

void sl_onnx_eye_like(sl_onnx_call *c) {
    sl_type type = sl_onnx_in_type(c, 0);
    const int64_t k = sl_onnx_int(c, "k", 0);
    if (sl_onnx_attr_of(c, "dtype") &&
        !sl_onnx_type_find((int32_t)sl_onnx_int(c, "dtype", 0), &type.dtype))
        sl_onnx_refuse(c, "this element type is not supported");
    if (type.shape.rank != 2) sl_onnx_wrong(c, "%u dims, wanted 2", type.shape.rank);
    double *values = sl_onnx_failed(c) ? NULL : make_doubles(c, (double)sl_type_elements(&type));
    if (!values) return;
    const int64_t cols = type.shape.dims[1];
    for (int64_t i = 0; i < type.shape.dims[0]; i++)
        if (k > -i - 1 && k < cols - i) values[i * cols + i + k] = 1;
    set_doubles(c, type, values);
}

/* ---- Window functions, as sums of cosines ---- */

static void set_window(sl_onnx_call *c, double a0, double a1, double a2) {
    sl_dtype dtype = SL_DTYPE_f32;
    const int64_t size = sl_onnx_integer_in(c, 0, 0);
    if (!sl_onnx_type_find((int32_t)sl_onnx_int(c, "output_datatype", 1), &dtype))
        sl_onnx_refuse(c, "this element type is not supported");
    double *values = sl_onnx_failed(c) ? NULL : make_doubles(c, (double)size);
    if (!values) return;
    const double period = (double)(sl_onnx_int(c, "periodic", 1) ? size : size - 1);
    for (int64_t i = 0; i < size; i++) {
        const double angle = 2 * M_PI * (double)i / period;
        values[i] = a0 - a1 * cos(angle) + a2 * cos(2 * angle);
    }
    set_doubles(c, sl_type_make(dtype, 1, size), values);
}

void sl_onnx_hann_window(sl_onnx_call *c) {
    set_window(c, 0.5, 0.5, 0);
}
void sl_onnx_hamming_window(sl_onnx_call *c) {
    set_window(c, 25.0 / 46, 21.0 / 46, 0);
}
void sl_onnx_blackman_window(sl_onnx_call *c) {
    set_window(c, 0.42, 0.5, 0.08);
}

static double mel_of(double hertz) {
    return 2595 * log10(1 + hertz / 700);
}

/* Triangular filters between bins whose frequencies are evenly spaced on the mel scale. */
static void fill_mel(double *out, int64_t bands, int64_t bins, const double *bounds) {
    for (int64_t band = 0; band < bands; band++) {
        const double low = bounds[band], centre = bounds[band + 1], high = bounds[band + 2];
        for (int64_t bin = 0; bin < bins; bin++) {
            const double at = (double)bin;
            double weight = 0;
            if (at >= low && at < centre) weight = (at - low) / (centre - low);
            if (at > centre && at < high) weight = (high - at) / (high - centre);
            if (at == centre) weight = 1;
            out[bin * bands + band] = weight;
        }
    }
}

void sl_onnx_mel_weight_matrix(sl_onnx_call *c) {
    const int64_t bands = sl_onnx_integer_in(c, 0, 0), length = sl_onnx_integer_in(c, 1, 0);
    const double rate = sl_onnx_real_in(c, 2, 1);
    const double least = mel_of(sl_onnx_real_in(c, 3, 0)), most = mel_of(sl_onnx_real_in(c, 4, 0));
    sl_dtype dtype = SL_DTYPE_f32;
    if (!sl_onnx_type_find((int32_t)sl_onnx_int(c, "output_datatype", 1), &dtype))
        sl_onnx_refuse(c, "this element type is not supported");
    if (sl_onnx_failed(c)) return;
    const int64_t bins = length / 2 + 1;
    double *bounds = make_doubles(c, (double)bands + 2);
    double *values = bounds && bins > 0 ? make_doubles(c, (double)bands * (double)bins) : NULL;
    if (!values) return;
    for (int64_t i = 0; i < bands + 2; i++) {
        const double mel = least + (double)i * (most - least) / (double)(bands + 2);
        const double hertz = 700 * (pow(10, mel / 2595) - 1);
        bounds[i] = floor((double)(length + 1) * hertz / rate);
    }
    fill_mel(values, bands, bins, bounds);
    set_doubles(c, sl_type_make(dtype, 2, bins, bands), values);
}
