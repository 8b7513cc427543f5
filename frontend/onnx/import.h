/* import.h - Import of ONNX models as graphs.
 *
 * Shapes are static.  Values that are tensors in ONNX but attributes of a graph op (shapes, axes,
 * repeats) must be known during the import: constants, initializers, or what can be folded from
 * these and from the shapes of values. */
#ifndef SL_FRONTEND_ONNX_IMPORT_H
#define SL_FRONTEND_ONNX_IMPORT_H
#include "compiler/graph.h"

/* The shape of an input that the model leaves open. */
typedef struct {
    const char *name;
    sl_dims shape;
} sl_onnx_shape;

/* An input that is replaced by a constant. */
typedef struct {
    const char *name;
    sl_type type;
    const void *data;
} sl_onnx_binding;

/* Why an import failed, for programs; empty for other reasons. */
typedef struct {
    char op[64];     /* the unsupported node's op */
    char needs[128]; /* the model input that would have to be a constant */
} sl_onnx_refusal;

typedef struct {
    uint32_t shape_count, binding_count;
    const sl_onnx_shape *shapes;
    const sl_onnx_binding *bindings;
    sl_onnx_refusal *refusal; /* may be NULL */
} sl_onnx_options;

/* options may be NULL.  The graph does not keep references to bytes. */
SL_CHECKED sl_status sl_onnx_import(const void *bytes, size_t count, const sl_onnx_options *options,
                                    const sl_allocator *allocator, sl_graph **out, sl_error *err);
#endif
