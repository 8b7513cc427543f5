/* bodies.h - Graphs within nodes, as bodies of the graph's ops. */
#ifndef SL_FRONTEND_ONNX_BODIES_H
#define SL_FRONTEND_ONNX_BODIES_H
#include "frontend/onnx/importer.h"

enum { SL_ONNX_MOST_OPERANDS = 256 };

/* Values of the graph around a body that it uses; they become inputs of it. */
typedef struct {
    uint32_t count;
    sl_onnx_value *items[SL_ONNX_MOST_OPERANDS];
} sl_onnx_captures;

/* Adds what the graph uses of the call's scope and is not known now. */
void sl_onnx_capture(sl_onnx_call *c, const sl_onnx_graph *graph, sl_onnx_captures *captures);

/* A body under construction. */
typedef struct {
    sl_graph *graph; /* NULL after a mistake */
    sl_onnx_scope *scope;
} sl_onnx_body;
sl_onnx_body sl_onnx_body_open(sl_onnx_call *c, const char *name);
/* An input of the body, which stands for a value like `like` with the given type. */
void sl_onnx_body_input(sl_onnx_body *body, const char *name, const sl_onnx_value *like,
                        sl_type type);
void sl_onnx_body_captures(sl_onnx_body *body, const sl_onnx_captures *captures);
/* The nodes of a graph, in the body's scope. */
void sl_onnx_body_import(sl_onnx_call *c, sl_onnx_body *body, const sl_onnx_graph *graph);
/* Makes a value of the body an output. */
void sl_onnx_body_output(sl_onnx_call *c, sl_onnx_body *body, const char *name);
/* Reports what went wrong in the body to the call; true when nothing did. */
bool sl_onnx_body_check(sl_onnx_call *c, sl_onnx_body *body);
void sl_onnx_body_close(sl_onnx_body *body);

/* An op with bodies; attributes by name: a number, or a graph. */
typedef struct {
    const char *name;
    int64_t number;
    const sl_graph *graph;
} sl_onnx_setting;
void sl_onnx_append_bodies(sl_onnx_call *c, const sl_onnx_step *step,
                           const sl_onnx_setting *settings, uint32_t count);
#endif
