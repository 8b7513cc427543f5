/* model.h - An ONNX file as C structures, without interpretation of its ops.  Everything lives in
 * the given arena, except the data of tensors, which stays in the bytes of the file. */
#ifndef SL_FRONTEND_ONNX_MODEL_H
#define SL_FRONTEND_ONNX_MODEL_H
#include "base/memory.h"
#include "core/type.h"
#include "frontend/onnx/wire.h"

/* TensorProto.DataType */
enum { SL_ONNX_STRING = 8, SL_ONNX_UINT4 = 21, SL_ONNX_INT4 = 22 };

typedef struct {
    uint32_t count;
    const int64_t *items;
} sl_onnx_integers;

typedef struct {
    const char *name;
    int32_t data_type;
    sl_onnx_integers dims;
    bool external;
    sl_wire message; /* the whole TensorProto */
} sl_onnx_tensor;

typedef struct sl_onnx_graph sl_onnx_graph;

/* AttributeProto.AttributeType */
typedef enum {
    SL_ONNX_ATTR_FLOAT = 1,
    SL_ONNX_ATTR_INT = 2,
    SL_ONNX_ATTR_TEXT = 3,
    SL_ONNX_ATTR_TENSOR = 4,
    SL_ONNX_ATTR_GRAPH = 5,
    SL_ONNX_ATTR_FLOATS = 6,
    SL_ONNX_ATTR_INTS = 7,
    SL_ONNX_ATTR_TEXTS = 8
} sl_onnx_attr_kind;
typedef struct {
    const char *name;
    int32_t kind;       /* one of the above; other kinds are not read */
    const char *refers; /* in a function: the attribute of the call that it refers to; else "" */
    float number;
    int64_t integer;
    const char *text;
    const sl_onnx_tensor *tensor;
    const sl_onnx_graph *graph;
    sl_onnx_integers integers;
    uint32_t float_count, text_count;
    const float *floats;
    const char *const *texts;
} sl_onnx_attr;

typedef struct {
    const char *name, *op, *domain; /* "" if absent; domain "" is ONNX's own */
    uint32_t input_count, output_count, attr_count;
    const char *const *inputs; /* "" is an omitted input */
    const char *const *outputs;
    const sl_onnx_attr *attrs;
} sl_onnx_node;

/* TypeProto: a tensor, or another kind of value. */
typedef struct {
    const char *name;
    const char *other; /* "sequence", ... ; NULL for tensors */
    int32_t data_type; /* 0: unknown */
    bool has_shape;
    uint32_t rank;
    const int64_t *dims;          /* -1: unknown or symbolic */
    const char *const *dim_names; /* "" if there is none */
} sl_onnx_value_info;

struct sl_onnx_graph {
    const char *name;
    uint32_t node_count, initializer_count, input_count, output_count;
    const sl_onnx_node *nodes;
    const sl_onnx_tensor *initializers;
    const sl_onnx_value_info *inputs, *outputs;
    uint32_t sparse_count; /* sparse initializers, which are not supported */
};

typedef struct {
    const char *domain;
    int64_t version;
} sl_onnx_opset;
typedef struct {
    uint32_t count;
    const sl_onnx_opset *items;
} sl_onnx_opsets;

typedef struct {
    const char *name, *domain;
    uint32_t input_count, output_count, node_count, default_count;
    const char *const *inputs;
    const char *const *outputs;
    const sl_onnx_node *nodes;
    const sl_onnx_attr *defaults; /* of attributes */
    sl_onnx_opsets opsets;
} sl_onnx_function;

typedef struct {
    int64_t ir_version;
    sl_onnx_opsets opsets;
    sl_onnx_graph graph;
    uint32_t function_count;
    const sl_onnx_function *functions;
} sl_onnx_model;

SL_CHECKED sl_status sl_onnx_model_read(const void *bytes, size_t count, sl_arena *arena,
                                        sl_onnx_model *out, sl_error *err);
/* Reads a standalone TensorProto, as in test data. */
SL_CHECKED sl_status sl_onnx_tensor_read(const void *bytes, size_t count, sl_arena *arena,
                                         sl_onnx_tensor *out, sl_error *err);

/* tensor.c.  "float16", ...; "?" for an invalid number. */
const char *sl_onnx_type_name(int32_t data_type);
/* False for types without a counterpart: strings, complex128 and 8-bit floats. */
bool sl_onnx_type_find(int32_t data_type, sl_dtype *out);
/* The number of a type in TensorProto. */
int32_t sl_onnx_type_number(sl_dtype dtype);
/* Decodes the tensor's elements to a type of ours; *out_data lives in the arena. */
SL_CHECKED sl_status sl_onnx_tensor_decode(const sl_onnx_tensor *tensor, sl_arena *arena,
                                           sl_type *out_type, void **out_data, sl_error *err);
#endif
