/* tensor.c - Decoding the elements of a TensorProto. */
#include "frontend/onnx/model.h"
#include <string.h>

/* Indexed by TensorProto.DataType. */
static const struct {
    const char *name;
    int32_t dtype;         /* sl_dtype, or -1 */
    uint32_t field;        /* field of the elements if they are not raw */
    sl_wire_kind kind;     /* encoding of a number in it */
    uint32_t stored_bytes; /* bytes of such a number that are kept */
} types[] = {[1] = {"float", SL_DTYPE_f32, 4, SL_WIRE_32, 4},
             [2] = {"uint8", SL_DTYPE_u8, 5, SL_WIRE_VARINT, 1},
             [3] = {"int8", SL_DTYPE_i8, 5, SL_WIRE_VARINT, 1},
             [4] = {"uint16", SL_DTYPE_u16, 5, SL_WIRE_VARINT, 2},
             [5] = {"int16", SL_DTYPE_i16, 5, SL_WIRE_VARINT, 2},
             [6] = {"int32", SL_DTYPE_i32, 5, SL_WIRE_VARINT, 4},
             [7] = {"int64", SL_DTYPE_i64, 7, SL_WIRE_VARINT, 8},
             [8] = {"string", -1, 6, SL_WIRE_BYTES, 0},
             [9] = {"bool", SL_DTYPE_bool, 5, SL_WIRE_VARINT, 1},
             [10] = {"float16", SL_DTYPE_f16, 5, SL_WIRE_VARINT, 2},
             [11] = {"double", SL_DTYPE_f64, 10, SL_WIRE_64, 8},
             [12] = {"uint32", SL_DTYPE_u32, 11, SL_WIRE_VARINT, 4},
             [13] = {"uint64", SL_DTYPE_u64, 11, SL_WIRE_VARINT, 8},
             [14] = {"complex64", SL_DTYPE_c64, 4, SL_WIRE_32, 4},
             [15] = {"complex128", -1, 10, SL_WIRE_64, 8},
             [16] = {"bfloat16", SL_DTYPE_bf16, 5, SL_WIRE_VARINT, 2},
             [17] = {"float8e4m3fn", -1, 5, SL_WIRE_VARINT, 1},
             [18] = {"float8e4m3fnuz", -1, 5, SL_WIRE_VARINT, 1},
             [19] = {"float8e5m2", -1, 5, SL_WIRE_VARINT, 1},
             [20] = {"float8e5m2fnuz", -1, 5, SL_WIRE_VARINT, 1},
             [21] = {"uint4", -1, 5, SL_WIRE_VARINT, 1},
             [22] = {"int4", -1, 5, SL_WIRE_VARINT, 1}};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *sl_onnx_type_name(int32_t data_type) {
    const bool known = data_type > 0 && data_type < TYPE_COUNT;
    return known ? types[data_type].name : "?";
}

bool sl_onnx_type_find(int32_t data_type, sl_dtype *out) {
    if (data_type <= 0 || data_type >= TYPE_COUNT || types[data_type].dtype < 0) return false;
    *out = (sl_dtype)types[data_type].dtype;
    return true;
}

int32_t sl_onnx_type_number(sl_dtype dtype) {
    for (int32_t i = 1; i < TYPE_COUNT; i++)
        if (types[i].dtype == (int32_t)dtype) return i;
    return 0;
}

static sl_status make_type(const sl_onnx_tensor *tensor, sl_type *out, sl_error *err) {
    *out = (sl_type){0};
    if (!sl_onnx_type_find(tensor->data_type, &out->dtype))
        return sl_fail(err, SL_UNSUPPORTED, "tensor '%s': element type %s (%d) is not supported",
                       tensor->name, sl_onnx_type_name(tensor->data_type), tensor->data_type);
    if (tensor->dims.count > SL_MAX_RANK)
        return sl_fail(err, SL_UNSUPPORTED, "tensor '%s': %u dims, at most %d are supported",
                       tensor->name, tensor->dims.count, SL_MAX_RANK);
    out->shape.rank = tensor->dims.count;
    memcpy(out->shape.dims, tensor->dims.items, tensor->dims.count * sizeof *out->shape.dims);
    return sl_type_check_shape(out, tensor->name, err);
}

/* Raw data is little-endian, like all supported machines.  Bools are normalised to 0 or 1. */
static void copy_raw(const sl_wire *raw, const sl_type *type, unsigned char *out) {
    const uint64_t bytes = sl_type_bytes(type);
    if (bytes) memcpy(out, raw->at, bytes);
    for (uint64_t i = 0; type->dtype == SL_DTYPE_bool && i < bytes; i++) out[i] = out[i] != 0;
}

static sl_status wrong_size(const sl_onnx_tensor *tensor, const sl_type *type, uint64_t found,
                            const char *unit, sl_error *err) {
    char text[SL_TYPE_TEXT];
    return sl_fail(err, SL_FORMAT, "tensor '%s': %llu %s of data for %s", tensor->name,
                   (unsigned long long)found, unit, sl_type_format(type, text, sizeof text));
}

static sl_status copy_numbers(const sl_onnx_tensor *tensor, const sl_type *type, unsigned char *out,
                              sl_error *err) {
    const uint32_t each = types[tensor->data_type].stored_bytes;
    const uint64_t wanted = (uint64_t)sl_type_slots(type);
    sl_wire_numbers numbers = {.message = tensor->message,
                               .number = types[tensor->data_type].field,
                               .kind = types[tensor->data_type].kind};
    uint64_t value, count = 0;
    for (; sl_wire_number(&numbers, &value); count++) {
        if (type->dtype == SL_DTYPE_bool) value = value != 0;
        if (count < wanted) memcpy(out + count * each, &value, each);
    }
    if (numbers.packed.broken || numbers.message.broken)
        return sl_fail(err, SL_FORMAT, "tensor '%s': its data is malformed", tensor->name);
    return count == wanted ? SL_OK : wrong_size(tensor, type, count, "numbers", err);
}

/* The last raw_data field; false if there is none. */
static bool find_raw(sl_wire message, sl_wire *out) {
    sl_wire_field field;
    bool found = false;
    while (sl_wire_next(&message, &field)) {
        if (field.number != 9 || field.kind != SL_WIRE_BYTES) continue;
        *out = field.bytes;
        found = true;
    }
    return found;
}

sl_status sl_onnx_tensor_decode(const sl_onnx_tensor *tensor, sl_arena *arena, sl_type *out_type,
                                void **out_data, sl_error *err) {
    if (tensor->external)
        return sl_fail(err, SL_UNSUPPORTED,
                       "tensor '%s': its data is in another file; save the model as one file",
                       tensor->name);
    SL_TRY(make_type(tensor, out_type, err));
    const uint64_t bytes = sl_type_bytes(out_type);
    sl_wire raw = {0};
    const bool has_raw = find_raw(tensor->message, &raw);
    if (has_raw && sl_wire_bytes(&raw) != bytes)
        return wrong_size(tensor, out_type, sl_wire_bytes(&raw), "bytes", err);
    /* A number takes at least one byte of the message, so a truncated message cannot cause a large
     * allocation. */
    if (!has_raw && (uint64_t)sl_type_slots(out_type) > sl_wire_bytes(&tensor->message))
        return wrong_size(tensor, out_type, 0, "numbers", err);
    unsigned char *data = sl_arena_alloc(arena, bytes + 1, 64);
    if (!data) return sl_no_memory(err, tensor->name, bytes);
    *out_data = data;
    if (!has_raw) return copy_numbers(tensor, out_type, data, err);
    copy_raw(&raw, out_type, data);
    return SL_OK;
}
