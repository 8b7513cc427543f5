/* importer.h - The functions with which ONNX ops are imported.
 *
 * An op's function takes its inputs from the call, appends to the call's graph and sets the
 * outputs.  As with graphs, these functions do not return errors: the first error is recorded, and
 * everything after it does nothing and returns value 0. */
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
    const void *data;     /* for a literal (known during the import): its elements; else NULL */
    sl_value value;       /* in its home graph; for a literal 0 until it is used there */
    const sl_graph *home; /* the graph of its scope */
    const char *root;     /* a model input that it depends on; NULL for a literal */
    const char *other;    /* its kind if it is not a tensor */
} sl_onnx_value;

typedef struct {
    sl_arena arena; /* for the model and all values, until the import is done */
    sl_onnx_model model;
    const sl_onnx_options *options;
    sl_onnx_refusal refusal;
    uint32_t names; /* number of names given to constants */
    uint32_t depth; /* nesting of functions and bodies */
} sl_onnx_importer;

typedef struct {
    sl_onnx_importer *im;
    sl_onnx_scope *scope;
    const sl_onnx_node *node;
    sl_graph *graph; /* the graph to append to */
    int64_t opset;   /* of the node's domain */
    const char *op;  /* from the table: the graph op, or a variant of the row */
    /* Constant folding: the graph contains only this node and is evaluated at once. */
    bool folding;
    uint32_t in_count, out_count;
    sl_onnx_value **in; /* NULL: omitted */
    sl_onnx_value *out; /* without a name: not used */
} sl_onnx_call;

/* ---- Rows of table.c ---- */
typedef void sl_onnx_fn(sl_onnx_call *c);
typedef struct {
    const char *name;
    int64_t since; /* the oldest supported opset */
    sl_onnx_fn *fn;
    const char *op; /* sl_onnx_call.op; if there is no fn, the reason */
} sl_onnx_row;
/* NULL if ONNX has no such op. */
const sl_onnx_row *sl_onnx_row_find(const char *domain, const char *name);

/* ---- Names (scope.c) ---- */
sl_onnx_scope *sl_onnx_scope_open(sl_onnx_importer *im, sl_onnx_scope *outer, sl_graph *graph);
/* The scope of a function: its own names, and attributes from the call. */
sl_onnx_scope *sl_onnx_scope_open_function(const sl_onnx_call *caller, const sl_onnx_function *f);
sl_graph *sl_onnx_scope_graph(const sl_onnx_scope *scope);
/* NULL if there is no such name, here or in outer scopes. */
sl_onnx_value *sl_onnx_scope_find(const sl_onnx_scope *scope, const char *name);
/* NULL if out of memory, which is recorded as the graph's error. */
sl_onnx_value *sl_onnx_scope_add(sl_onnx_scope *scope, const sl_onnx_value *value);
int64_t sl_onnx_scope_opset(const sl_onnx_scope *scope, const char *domain);
/* An attribute of a node; references of a function to its call are resolved.  NULL if absent. */
const sl_onnx_attr *sl_onnx_scope_attr(const sl_onnx_scope *scope, const sl_onnx_node *node,
                                       const char *name);

/* import.c: imports nodes in order, with the values of scope; stops at the graph's first error. */
void sl_onnx_import_nodes(sl_onnx_importer *im, sl_onnx_scope *scope, const sl_onnx_node *nodes,
                          uint32_t count);
void sl_onnx_import_initializers(sl_onnx_importer *im, sl_onnx_scope *scope,
                                 const sl_onnx_graph *graph);
/* A value in a scope's graph; a literal becomes a constant. */
sl_value sl_onnx_use(sl_onnx_importer *im, sl_graph *graph, sl_onnx_value *value);

/* ---- Inputs and attributes of the call (call.c) ---- */
/* Records that something is unsupported, or that the model is invalid. */
void sl_onnx_refuse(sl_onnx_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sl_onnx_wrong(sl_onnx_call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sl_onnx_failed(const sl_onnx_call *c);
bool sl_onnx_has(const sl_onnx_call *c, uint32_t input);
bool sl_onnx_wants(const sl_onnx_call *c, uint32_t output);
sl_value sl_onnx_in(sl_onnx_call *c, uint32_t input);
/* The type of an input; f32[] after an error. */
sl_type sl_onnx_in_type(sl_onnx_call *c, uint32_t input);
sl_type sl_onnx_type(const sl_onnx_call *c, sl_value value);
/* The elements of an input that must be known during the import; false after an error or if it is
 * omitted. */
bool sl_onnx_integers_in(sl_onnx_call *c, uint32_t input, sl_integers *out);
bool sl_onnx_reals_in(sl_onnx_call *c, uint32_t input, sl_reals *out);
bool sl_onnx_is_known(const sl_onnx_call *c, uint32_t input);
int64_t sl_onnx_integer_in(sl_onnx_call *c, uint32_t input, int64_t otherwise);
double sl_onnx_real_in(sl_onnx_call *c, uint32_t input, double otherwise);

int64_t sl_onnx_int(sl_onnx_call *c, const char *name, int64_t otherwise);
float sl_onnx_float(sl_onnx_call *c, const char *name, float otherwise);
const char *sl_onnx_text(sl_onnx_call *c, const char *name, const char *otherwise);
/* False if it is absent. */
bool sl_onnx_ints(sl_onnx_call *c, const char *name, sl_integers *out);
const sl_onnx_attr *sl_onnx_attr_of(sl_onnx_call *c, const char *name);
/* A list that is an input in later opsets and an attribute in earlier ones. */
bool sl_onnx_ints_either(sl_onnx_call *c, uint32_t input, const char *name, sl_integers *out);

/* ---- Results (call.c) ---- */
void sl_onnx_set(sl_onnx_call *c, uint32_t output, sl_value value);
/* data is copied. */
void sl_onnx_set_literal(sl_onnx_call *c, uint32_t output, sl_type type, const void *data);

/* ---- Appending (emit.c) ---- */
/* Any op by name; format is its attributes in the text form, NULL for none. */
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
/* A scalar constant. */
sl_value sl_onnx_scalar(sl_onnx_call *c, sl_dtype dtype, double value);
/* A number as a slot of the type (core/codec.h), truncated for integers; out-of-range numbers are
 * an error. */
double sl_onnx_slot(sl_onnx_call *c, sl_dtype dtype, double value);
/* A binary op of x and a scalar of its type. */
sl_value sl_onnx_op_scalar(sl_onnx_call *c, const char *op, sl_value x, double value);
sl_value sl_onnx_reshape(sl_onnx_call *c, sl_value x, const sl_dims *shape);
sl_value sl_onnx_expand(sl_onnx_call *c, sl_value x, const sl_dims *shape);
sl_value sl_onnx_transpose(sl_onnx_call *c, sl_value x, const sl_dims *perm);
sl_value sl_onnx_cast(sl_onnx_call *c, sl_value x, sl_dtype to); /* x itself if it has this type */
/* sum, mean, max, min or prod. */
sl_value sl_onnx_reduce(sl_onnx_call *c, const char *how, sl_value x, const sl_dims *axes,
                        bool keep);
sl_value sl_onnx_slice(sl_onnx_call *c, sl_value x, uint32_t axis, int64_t start, int64_t length);

/* "[1, 2]", in the importer's arena. */
const char *sl_onnx_list(sl_onnx_call *c, const int64_t *items, uint32_t count);
const char *sl_onnx_dims(sl_onnx_call *c, const sl_dims *dims);
/* Memory that lives until the end of the import; NULL after an error. */
void *sl_onnx_memory(sl_onnx_call *c, size_t count, size_t each);

/* A normalised axis; 0 after an error. */
uint32_t sl_onnx_axis(sl_onnx_call *c, int64_t axis, uint32_t rank);
/* The normalised axes of a list, sorted; all axes if the list is empty. */
sl_dims sl_onnx_axes(sl_onnx_call *c, const sl_integers *list, uint32_t rank);
#endif
