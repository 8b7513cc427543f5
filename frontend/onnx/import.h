/* import.h - ONNX models as graphs.
 *
 * Shapes are static.  What ONNX gives as a tensor but a graph as an attribute (shapes, axes, how
 * often to repeat) must be known when the model is imported: a constant, an initializer, or what
 * the evaluator makes of them and of the shapes of values. */
#ifndef SL_FRONTEND_ONNX_IMPORT_H
#define SL_FRONTEND_ONNX_IMPORT_H
#include "compiler/graph.h"

/* The shape of an input that the model leaves open. */
typedef struct {
    const char *name;
    sl_dims shape;
} sl_onnx_shape;

/* An input that is a constant from now on. */
typedef struct {
    const char *name;
    sl_type type;
    const void *data;
} sl_onnx_binding;

/* Why an import failed, for programs; empty where it was for another reason. */
typedef struct {
    char op[64];     /* of the node that was refused */
    char needs[128]; /* the input of the model that would have to be a constant */
} sl_onnx_refusal;

typedef struct {
    uint32_t shape_count, binding_count;
    const sl_onnx_shape *shapes;
    const sl_onnx_binding *bindings;
    sl_onnx_refusal *refusal; /* may be NULL */
} sl_onnx_options;

/* options may be NULL.  The graph keeps nothing of bytes. */
SL_CHECKED sl_status sl_onnx_import(const void *bytes, size_t count, const sl_onnx_options *options,
                                    const sl_allocator *allocator, sl_graph **out, sl_error *err);
#endif
