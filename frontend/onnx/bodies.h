/* bodies.h - Subgraphs of ONNX nodes, as bodies of graph ops. */
#ifndef SL_FRONTEND_ONNX_BODIES_H
#define SL_FRONTEND_ONNX_BODIES_H
#include "frontend/onnx/importer.h"

enum { SL_ONNX_MOST_OPERANDS = 256 };

/* Values of the enclosing graph that a body uses; they become inputs of the body. */
typedef struct {
    uint32_t count;
    sl_onnx_value *items[SL_ONNX_MOST_OPERANDS];
} sl_onnx_captures;

/* Adds the values of the call's scope that the graph uses and that are not literals. */
void sl_onnx_capture(sl_onnx_call *c, const sl_onnx_graph *graph, sl_onnx_captures *captures);

/* A body under construction. */
typedef struct {
    sl_graph *graph; /* NULL after an error */
    sl_onnx_scope *scope;
} sl_onnx_body;
sl_onnx_body sl_onnx_body_open(sl_onnx_call *c, const char *name);
/* Adds an input of the body, for a value like `like` with the given type. */
void sl_onnx_body_input(sl_onnx_body *body, const char *name, const sl_onnx_value *like,
                        sl_type type);
void sl_onnx_body_captures(sl_onnx_body *body, const sl_onnx_captures *captures);
/* Imports the nodes of a graph into the body's scope. */
void sl_onnx_body_import(sl_onnx_call *c, sl_onnx_body *body, const sl_onnx_graph *graph);
/* Makes a value of the body an output. */
void sl_onnx_body_output(sl_onnx_call *c, sl_onnx_body *body, const char *name);
/* Reports an error in the body to the call; true if there was none. */
bool sl_onnx_body_check(sl_onnx_call *c, sl_onnx_body *body);
void sl_onnx_body_close(sl_onnx_body *body);

/* An attribute of an op with bodies, by name: a number, or a graph. */
typedef struct {
    const char *name;
    int64_t number;
    const sl_graph *graph;
} sl_onnx_setting;
void sl_onnx_append_bodies(sl_onnx_call *c, const sl_onnx_step *step,
                           const sl_onnx_setting *settings, uint32_t count);
#endif
