/* importer.h - What the families of ONNX ops are written with.
 *
 * An op's function takes its inputs from the call, appends to the call's graph and sets the
 * outputs.  Like graphs, these calls do not fail: the first mistake is remembered, and everything
 * after it does nothing and gives value 0. */
#ifndef SL_FRONTEND_ONNX_IMPORTER_H
#define SL_FRONTEND_ONNX_IMPORTER_H
#include "compiler/graph.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/model.h"

typedef struct sl_onnx_scope sl_onnx_scope;

/* A value by its name in the model. */
typedef struct {
    const char *name;
    sl_type type;
    const void *data;     /* of a literal, known now: its elements; else NULL */
    sl_value value;       /* in its home; of a literal 0 until it is used there */
    const sl_graph *home; /* the graph of its scope */
    const char *root;     /* an input of the model that it depends on; NULL of a literal */
    const char *other;    /* what it is if it is not a tensor */
} sl_onnx_value;

typedef struct {
    sl_arena arena; /* of the model and all values, until the import is done */
    sl_onnx_model model;
    const sl_onnx_options *options;
    sl_onnx_refusal refusal;
    uint32_t names; /* given to constants so far */
    uint32_t depth; /* of functions and bodies */
} sl_onnx_importer;

typedef struct {
    sl_onnx_importer *im;
    sl_onnx_scope *scope;
    const sl_onnx_node *node;
    sl_graph *graph; /* to append to */
    int64_t opset;   /* of the node's domain */
    const char *op;  /* of the table's row: ours, or how the row differs from its neighbours */
    bool folding;    /* graph is for this node alone, and will be evaluated at once */
    uint32_t in_count, out_count;
    sl_onnx_value **in; /* NULL: left out */
    sl_onnx_value *out; /* without a name: nobody wants it */
} sl_onnx_call;

/* ---- Rows of table.c ---- */
typedef void sl_onnx_fn(sl_onnx_call *c);
typedef struct {
    const char *name;
    int64_t since; /* the oldest opset whose form is understood */
    sl_onnx_fn *fn;
    const char *op; /* sl_onnx_call.op; why there is no fn where there is none */
} sl_onnx_row;
/* NULL when ONNX has no such op. */
const sl_onnx_row *sl_onnx_row_find(const char *domain, const char *name);

/* ---- Names (scope.c) ---- */
sl_onnx_scope *sl_onnx_scope_open(sl_onnx_importer *im, sl_onnx_scope *outer, sl_graph *graph);
/* Of a function: names of its own, attributes from the call. */
sl_onnx_scope *sl_onnx_scope_open_function(const sl_onnx_call *caller, const sl_onnx_function *f);
sl_graph *sl_onnx_scope_graph(const sl_onnx_scope *scope);
/* NULL when there is none, here or outside. */
sl_onnx_value *sl_onnx_scope_find(const sl_onnx_scope *scope, const char *name);
/* NULL without memory, which is then the graph's mistake. */
sl_onnx_value *sl_onnx_scope_add(sl_onnx_scope *scope, const sl_onnx_value *value);
int64_t sl_onnx_scope_opset(const sl_onnx_scope *scope, const char *domain);
/* An attribute of a node, through the call of a function where it refers to one; NULL if absent. */
const sl_onnx_attr *sl_onnx_scope_attr(const sl_onnx_scope *scope, const sl_onnx_node *node,
                                       const char *name);

/* import.c: nodes in order, with the values of scope; stops at the graph's first mistake. */
void sl_onnx_import_nodes(sl_onnx_importer *im, sl_onnx_scope *scope, const sl_onnx_node *nodes,
                          uint32_t count);
void sl_onnx_import_initializers(sl_onnx_importer *im, sl_onnx_scope *scope,
                                 const sl_onnx_graph *graph);
/* A value in a scope's graph: a literal becomes a constant. */
sl_value sl_onnx_use(sl_onnx_importer *im, sl_graph *graph, sl_onnx_value *value);

/* ---- Inputs and attributes of the call (call.c) ---- */
/* Records that something is not supported, or wrong with the model. */
void sl_onnx_refuse(sl_onnx_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sl_onnx_wrong(sl_onnx_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sl_onnx_failed(const sl_onnx_call *c);
bool sl_onnx_has(const sl_onnx_call *c, uint32_t input);
bool sl_onnx_wants(const sl_onnx_call *c, uint32_t output);
sl_value sl_onnx_in(sl_onnx_call *c, uint32_t input);
/* Of an input; f32[] after a mistake. */
sl_type sl_onnx_in_type(sl_onnx_call *c, uint32_t input);
sl_type sl_onnx_type(const sl_onnx_call *c, sl_value value);
/* The elements of an input that must be known now; false after a mistake or when it is left out. */
bool sl_onnx_integers_in(sl_onnx_call *c, uint32_t input, sl_integers *out);
bool sl_onnx_reals_in(sl_onnx_call *c, uint32_t input, sl_reals *out);
bool sl_onnx_is_known(const sl_onnx_call *c, uint32_t input);
int64_t sl_onnx_integer_in(sl_onnx_call *c, uint32_t input, int64_t otherwise);
double sl_onnx_real_in(sl_onnx_call *c, uint32_t input, double otherwise);

int64_t sl_onnx_int(sl_onnx_call *c, const char *name, int64_t otherwise);
float sl_onnx_float(sl_onnx_call *c, const char *name, float otherwise);
const char *sl_onnx_text(sl_onnx_call *c, const char *name, const char *otherwise);
/* False when it is absent. */
bool sl_onnx_ints(sl_onnx_call *c, const char *name, sl_integers *out);
const sl_onnx_attr *sl_onnx_attr_of(sl_onnx_call *c, const char *name);
/* A list that is an input in later opsets and an attribute in earlier ones. */
bool sl_onnx_ints_either(sl_onnx_call *c, uint32_t input, const char *name, sl_integers *out);

/* ---- Results (call.c) ---- */
void sl_onnx_set(sl_onnx_call *c, uint32_t output, sl_value value);
/* data is copied. */
void sl_onnx_set_literal(sl_onnx_call *c, uint32_t output, sl_type type, const void *data);

/* ---- Appending (emit.c) ---- */
/* Any op by name; format is that of its attributes in the text form, NULL for none. */
typedef struct {
    const char *op;
    uint32_t in_count, out_count;
    const sl_value *in;
    sl_value *out;
} sl_onnx_step;
void sl_onnx_append(sl_onnx_call *c, const sl_onnx_step *step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
sl_value sl_onnx_op1(sl_onnx_call *c, const char *op, sl_value x);
sl_value sl_onnx_op2(sl_onnx_call *c, const char *op, sl_value a, sl_value b);
sl_value sl_onnx_op3(sl_onnx_call *c, const char *op, sl_value a, sl_value b, sl_value d);
/* One input, one output, attributes. */
sl_value sl_onnx_with(sl_onnx_call *c, const char *op, sl_value x, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
sl_value sl_onnx_with2(sl_onnx_call *c, const char *op, const sl_value *two, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));

sl_value sl_onnx_constant(sl_onnx_call *c, sl_type type, const void *data);
/* A number of a type, without dims. */
sl_value sl_onnx_scalar(sl_onnx_call *c, sl_dtype dtype, double value);
/* A number as a slot of the type (core/codec.h), of integers without its fraction; refuses one out
 * of its range. */
double sl_onnx_slot(sl_onnx_call *c, sl_dtype dtype, double value);
/* x with a scalar of its type. */
sl_value sl_onnx_op_scalar(sl_onnx_call *c, const char *op, sl_value x, double value);
sl_value sl_onnx_reshape(sl_onnx_call *c, sl_value x, const sl_dims *shape);
sl_value sl_onnx_expand(sl_onnx_call *c, sl_value x, const sl_dims *shape);
sl_value sl_onnx_transpose(sl_onnx_call *c, sl_value x, const sl_dims *perm);
sl_value sl_onnx_cast(sl_onnx_call *c, sl_value x, sl_dtype to); /* x itself if it is that */
/* sum, mean, max, min or prod. */
sl_value sl_onnx_reduce(sl_onnx_call *c, const char *how, sl_value x, const sl_dims *axes,
                        bool keep);
sl_value sl_onnx_slice(sl_onnx_call *c, sl_value x, uint32_t axis, int64_t start, int64_t length);

/* "[1, 2]", in the importer's arena. */
const char *sl_onnx_list(sl_onnx_call *c, const int64_t *items, uint32_t count);
const char *sl_onnx_dims(sl_onnx_call *c, const sl_dims *dims);
/* Memory until the end of the import; NULL after a mistake. */
void *sl_onnx_memory(sl_onnx_call *c, size_t count, size_t each);

/* An axis counted from the front; 0 after a mistake. */
uint32_t sl_onnx_axis(sl_onnx_call *c, int64_t axis, uint32_t rank);
/* Axes of a list, from the front, in order; all of them when the list is empty. */
sl_dims sl_onnx_axes(sl_onnx_call *c, const sl_integers *list, uint32_t rank);
#endif
