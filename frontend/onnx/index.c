/* index.c - Ops with index inputs or results. */
#include "frontend/onnx/families.h"
#include <stdio.h>
#include <string.h>

void sl_onnx_gather(sl_onnx_call *c) {
    const sl_value two[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1)};
    sl_onnx_set(c, 0,
                sl_onnx_with2(c, c->op, two, "axis=%lld", (long long)sl_onnx_int(c, "axis", 0)));
}

void sl_onnx_gather_nd(sl_onnx_call *c) {
    const sl_value two[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1)};
    sl_onnx_set(c, 0,
                sl_onnx_with2(c, "gather_nd", two, "batch_dims=%lld",
                              (long long)sl_onnx_int(c, "batch_dims", 0)));
}

static uint32_t combine_of(sl_onnx_call *c) {
    static const char *const ways[] = {"none", "add", "mul", "max", "min"};
    const char *way = sl_onnx_text(c, "reduction", "none");
    for (uint32_t i = 0; i < 5; i++)
        if (strcmp(way, ways[i]) == 0) return i;
    sl_onnx_refuse(c, "reduction '%s' is not supported", way);
    return 0;
}

static void scatter(sl_onnx_call *c, const char *attrs) {
    const sl_value three[] = {sl_onnx_in(c, 0), sl_onnx_in(c, 1), sl_onnx_in(c, 2)};
    sl_value out;
    sl_onnx_append(c, &(sl_onnx_step){c->op, 3, 1, three, &out}, "%scombine=%u", attrs,
                   combine_of(c));
    sl_onnx_set(c, 0, out);
}

void sl_onnx_scatter(sl_onnx_call *c) {
    char axis[40];
    (void)snprintf(axis, sizeof axis, "axis=%lld, ", (long long)sl_onnx_int(c, "axis", 0));
    scatter(c, axis);
}

void sl_onnx_scatter_nd(sl_onnx_call *c) {
    scatter(c, "");
}

/* Indices may have any numeric type; negative ones count from the end. */
void sl_onnx_one_hot(sl_onnx_call *c) {
    const int64_t depth = sl_onnx_integer_in(c, 1, 0);
    sl_value indices = sl_onnx_cast(c, sl_onnx_in(c, 0), SL_DTYPE_i64);
    const sl_value negative = sl_onnx_op_scalar(c, "less", indices, 0);
    const sl_value wrapped = sl_onnx_op_scalar(c, "add", indices, (double)depth);
    indices = sl_onnx_op3(c, "where", negative, wrapped, indices);
    const sl_value two[] = {indices, sl_onnx_in(c, 2)};
    sl_onnx_set(c, 0,
                sl_onnx_with2(c, "one_hot", two, "axis=%lld, depth=%lld",
                              (long long)sl_onnx_int(c, "axis", -1), (long long)depth));
}

void sl_onnx_trilu(sl_onnx_call *c) {
    sl_onnx_set(c, 0,
                sl_onnx_with(c, "trilu", sl_onnx_in(c, 0), "upper=%d, k=%lld",
                             sl_onnx_int(c, "upper", 1) != 0,
                             (long long)sl_onnx_integer_in(c, 1, 0)));
}

/* Element t of a sequence of length l comes from l - 1 - t if t < l. */
void sl_onnx_reverse_sequence(sl_onnx_call *c) {
    const sl_dims shape = sl_onnx_in_type(c, 0).shape;
    const uint32_t time = sl_onnx_axis(c, sl_onnx_int(c, "time_axis", 0), shape.rank);
    const uint32_t batch = sl_onnx_axis(c, sl_onnx_int(c, "batch_axis", 1), shape.rank);
    sl_dims lengths = {.rank = shape.rank};
    for (uint32_t i = 0; i < shape.rank; i++) lengths.dims[i] = i == batch ? shape.dims[i] : 1;
    const sl_value length =
        sl_onnx_reshape(c, sl_onnx_cast(c, sl_onnx_in(c, 1), SL_DTYPE_i64), &lengths);
    sl_value at;
    sl_onnx_append(c, &(sl_onnx_step){"iota", 0, 1, NULL, &at}, "shape=%s, axis=%u, dtype=i64",
                   sl_onnx_dims(c, &shape), time);
    sl_value back = sl_onnx_op2(c, "sub", length, at);
    back = sl_onnx_op_scalar(c, "sub", back, 1);
    const sl_value inside = sl_onnx_op2(c, "less", at, length);
    const sl_value two[] = {sl_onnx_in(c, 0), sl_onnx_op3(c, "where", inside, back, at)};
    sl_onnx_set(c, 0, sl_onnx_with2(c, "take_along", two, "axis=%u", time));
}

/* The condition must be known during the import. */
void sl_onnx_compress(sl_onnx_call *c) {
    sl_type type = sl_onnx_in_type(c, 0);
    sl_integers keep;
    sl_value x = sl_onnx_in(c, 0);
    uint32_t axis = 0, count = 0;
    if (!sl_onnx_integers_in(c, 1, &keep)) return;
    if (sl_onnx_attr_of(c, "axis")) {
        axis = sl_onnx_axis(c, sl_onnx_int(c, "axis", 0), type.shape.rank);
    } else {
        type.shape = (sl_dims){1, {sl_type_elements(&type)}};
        x = sl_onnx_reshape(c, x, &type.shape);
    }
    int64_t *indices = sl_onnx_memory(c, keep.count, sizeof *indices);
    for (uint32_t i = 0; indices && i < keep.count && i < type.shape.dims[axis]; i++)
        if (keep.items[i]) indices[count++] = i;
    if (!indices) return;
    const sl_value list =
        sl_onnx_constant(c, sl_type_make(SL_DTYPE_i64, 1, (int64_t)count), indices);
    sl_onnx_set(c, 0, sl_onnx_with2(c, "gather", (sl_value[]){x, list}, "axis=%u", axis));
}

/* ArgMax and ArgMin. */
void sl_onnx_arg(sl_onnx_call *c) {
    const uint32_t rank = sl_onnx_in_type(c, 0).shape.rank;
    const uint32_t axis = sl_onnx_axis(c, sl_onnx_int(c, "axis", 0), rank);
    sl_onnx_set(c, 0,
                sl_onnx_with(c, c->op, sl_onnx_in(c, 0), "axis=%u, keep=%d, last=%d, to=i64", axis,
                             sl_onnx_int(c, "keepdims", 1) != 0,
                             sl_onnx_int(c, "select_last_index", 0) != 0));
}

void sl_onnx_topk(sl_onnx_call *c) {
    const int64_t k = c->opset < 10 ? sl_onnx_int(c, "k", 0) : sl_onnx_integer_in(c, 1, 0);
    const sl_value x = sl_onnx_in(c, 0);
    sl_value two[2];
    sl_onnx_append(c, &(sl_onnx_step){"topk", 1, 2, &x, two},
                   "k=%lld, axis=%lld, largest=%d, sorted=1", (long long)k,
                   (long long)sl_onnx_int(c, "axis", -1), sl_onnx_int(c, "largest", 1) != 0);
    sl_onnx_set(c, 0, two[0]);
    sl_onnx_set(c, 1, two[1]);
}
