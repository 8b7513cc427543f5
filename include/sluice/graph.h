/* graph.h - Build, compile and run tensor programs.
 *
 *   sl_graph_create("mlp", NULL, &g, err);
 *   sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4});
 *   sl_value y = sl_graph_apply(g, "softmax", &x, 1, NULL);
 *   sl_graph_add_output(g, "y", y);
 *   sl_compile(g, NULL, &c, err);
 *   sl_compiled_set(c, "x", data, bytes, err);
 *   sl_compiled_run(c, err);
 *   const float *result = sl_compiled_get(c, "y", NULL);
 *
 * What is declared here is kept; experimental.h and inspect.h have what may change.  `sluice ir
 * ops` lists the ops.  Functions that build a graph do not fail: the first mistake is recorded in
 * the graph and reported by sl_graph_check and sl_compile.  A NULL pointer that is not allowed here
 * is such a mistake, and SL_INVALID from functions with a status, as in sluice.h. */
#ifndef SLUICE_GRAPH_H
#define SLUICE_GRAPH_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_graph sl_graph;
typedef struct sl_compiled sl_compiled;
typedef struct sl_executor sl_executor; /* executor.h */
typedef struct sl_experts sl_experts;   /* experts.h */

/* A value of a graph.  0 means "none"; building functions return it after a mistake.  v
 * also tells the graph: a value that is given to another graph is a mistake there. */
typedef struct {
    uint32_t v;
} sl_value; /* closed */

/* Element types are given by name: "f32", "f16", "bf16", "f64", integers "i8" to "i64" and "u8" to
 * "u64", "bool", "c64", and types for quantised weights.  Returns them all in order as constant
 * texts, NULL past the end. */
SL_API const char *sl_dtype_name_at(uint32_t index);

/* name is copied.  allocator: of everything that belongs to the graph; NULL: the C library's. */
SL_API SL_CHECKED sl_status sl_graph_create(const char *name, const sl_allocator *allocator,
                                            sl_graph **out, sl_error *err);
/* Parses the text form, which is copied; bytes: its length. */
SL_API SL_CHECKED sl_status sl_graph_read(const char *text, size_t bytes, sl_graph **out,
                                          sl_error *err);
/* Imports an ONNX model of `count` bytes, which are copied.  Shapes are static: input shapes that
 * the model leaves open are given as "x=1,3,224,224; y=8"; otherwise shapes may be NULL. */
SL_API SL_CHECKED sl_status sl_graph_import_onnx(const void *bytes, size_t count,
                                                 const char *shapes, sl_graph **out, sl_error *err);
/* A graph with constants: not before what was compiled from it.  NULL is fine. */
SL_API void sl_graph_destroy(sl_graph *graph);
/* The text form; released with sl_free. */
SL_API SL_CHECKED sl_status sl_graph_text(const sl_graph *graph, char **out_text, sl_error *err);

/* Declares a value: an input is set before a run, a weight once, a state is kept from run to run
 * and updated in place, a constant is part of the graph.  name and dims are copied, and so is the
 * data of a constant: as many bytes as its type has.  Names are unique in a graph.  rank is at most
 * 8; 0: a scalar, then dims may be NULL. */
SL_API sl_value sl_graph_add_input(sl_graph *graph, const char *name, const char *dtype,
                                   uint32_t rank, const int64_t *dims);
SL_API sl_value sl_graph_add_weight(sl_graph *graph, const char *name, const char *dtype,
                                    uint32_t rank, const int64_t *dims);
SL_API sl_value sl_graph_add_state(sl_graph *graph, const char *name, const char *dtype,
                                   uint32_t rank, const int64_t *dims);
SL_API sl_value sl_graph_add_constant(sl_graph *graph, const char *name, const char *dtype,
                                      uint32_t rank, const int64_t *dims, const void *data);
/* Appends a node and returns its only result.  inputs are the named operands of the op in order,
 * then those of its list if it has one (the parts of concat, the mask of attention, the bias of
 * conv).  attrs: "eps=1e-6, axes=[1], keep=true, mask=causal", or NULL; attributes that are left
 * out have the default of the op table (`sluice ir ops NAME`), or are a mistake if it has none.  An
 * axis counts as in NumPy: -1 is the last.  All texts and the array are copied.  For an op with
 * more than one result, use sl_graph_add_node.
 */
SL_API sl_value sl_graph_apply(sl_graph *graph, const char *op, const sl_value *inputs,
                               uint32_t count, const char *attrs);
/* Labels name the steps of the compiled program in traces and timings.  That of a node is "scope
 * op", or the op alone while the scope is "".  set_label gives the next node a name (one word) in
 * place of its op.  Both are copied. */
SL_API void sl_graph_set_scope(sl_graph *graph, const char *scope);
SL_API void sl_graph_set_label(sl_graph *graph, const char *name);
/* name is copied, and names the value in sl_compiled_get. */
SL_API void sl_graph_add_output(sl_graph *graph, const char *name, sl_value value);
/* SL_OK, or the first mistake made while building the graph; its status is SL_INVALID unless memory
 * ran out. */
SL_API SL_CHECKED sl_status sl_graph_check(const sl_graph *graph, sl_error *err);

typedef struct {
    size_t struct_size;
    const char *device; /* a name of sl_device_at (sluice.h); NULL: "cpu" */
    const char *isa;    /* NULL: the best available */
    uint32_t threads;   /* 0: one per core */
    /* Words that turn stages of the compiler off or choose a schedule, separated by commas:
     * "no-fusion,no-reordering"; inspect.h lists them.  NULL: "". */
    const char *compile;
    /* See executor.h.  Both keep what they need open.  With one of them, device, isa, threads and
     * the words "eager", "chained" and "apart" are those of the executor and are left out. */
    sl_executor *executor; /* NULL: that of `share`, or one of its own */
    sl_compiled *share;    /* a graph whose weights and states are shared; NULL: none */
    sl_experts *experts;   /* experts.h: of a graph that has some; borrowed */
} sl_compile_options;
/* Verifies and compiles the graph as it is now; what is added to it later has no effect on the
 * result.  The data of its constants is borrowed: a graph with constants must outlive the result.
 */
SL_API SL_CHECKED sl_status sl_compile(const sl_graph *graph, const sl_compile_options *options,
                                       sl_compiled **out, sl_error *err);
SL_API void sl_compiled_destroy(sl_compiled *compiled); /* NULL is fine */
/* Sets an input, weight or state by name.  bytes must be its exact size; the data is copied. States
 * are zero until they are set. */
SL_API SL_CHECKED sl_status sl_compiled_set(sl_compiled *compiled, const char *name,
                                            const void *data, size_t bytes, sl_error *err);
/* Fails if an input or a weight that the graph uses was never set. */
SL_API SL_CHECKED sl_status sl_compiled_run(sl_compiled *compiled, sl_error *err);
/* An output of the last run, in its own type (on "ref", doubles are rounded to it); NULL if there
 * is no such output.  Borrowed until the next run or destroy; out_bytes: its size, may be NULL. */
SL_API const void *sl_compiled_get(const sl_compiled *compiled, const char *name,
                                   size_t *out_bytes);

/* ---- The binary form: smaller than the text form; constants are used in place ---- */
/* Replaces a file that exists, by renaming; leaves none behind on failure. */
SL_API SL_CHECKED sl_status sl_graph_save(const sl_graph *graph, const char *path, sl_error *err);
/* Reads the whole file. */
SL_API SL_CHECKED sl_status sl_graph_load(const char *path, sl_graph **out, sl_error *err);
/* The same in memory.  The bytes are released with sl_free; a graph made from bytes copies
 * them. */
SL_API SL_CHECKED sl_status sl_graph_to_bytes(const sl_graph *graph, void **out, size_t *out_bytes,
                                              sl_error *err);
SL_API SL_CHECKED sl_status sl_graph_from_bytes(const void *bytes, size_t count, sl_graph **out,
                                                sl_error *err);
/* A hash of the binary form (FNV-1a, 64 bits): equal graphs have the same hash on every machine. */
SL_API SL_CHECKED sl_status sl_graph_fingerprint(const sl_graph *graph, uint64_t *out,
                                                 sl_error *err);

/* ---- Subgraphs (bodies) of if, while, scan and custom_fn ----
 *
 * A body is a graph that declares only inputs and constants.  Its inputs are passed in the order in
 * which they were added.  A node keeps a copy of it. */
typedef struct {
    const char *name; /* name of the attribute: "then", "otherwise", "condition", "body", ... */
    const sl_graph *graph;
} sl_body_spec; /* closed */
/* A node of any op, with any number of inputs, results and bodies; all of it is copied. */
typedef struct {
    size_t struct_size;
    const char *op, *attrs; /* as in sl_graph_apply */
    const sl_value *inputs;
    uint32_t input_count;
    sl_value *outputs;
    uint32_t output_count; /* how many values outputs has room for */
    const sl_body_spec *bodies;
    uint32_t body_count;
} sl_node_spec;
/* Returns the number of results, which are written to outputs; the rest of outputs is set to 0. Too
 * little room is a mistake: nothing is written past it.  Of custom, attention_backward and the
 * gradients of scan, output_count is the number of results. */
SL_API uint32_t sl_graph_add_node(sl_graph *graph, const sl_node_spec *node);

/* ---- What is in a graph; also while it is being built ---- */

typedef struct {
    size_t struct_size; /* set by the caller */
    const char *name, *dtype;
    const char *kind; /* "input", "weight", "state", "constant", "experts", "output" */
    uint32_t rank;
    int64_t dims[8];
} sl_graph_item;
/* The declared values, then the outputs, each in the order in which they were added.  Texts are
 * borrowed from the graph, and index is less than the count. */
SL_API uint32_t sl_graph_item_count(const sl_graph *graph);
SL_API SL_CHECKED sl_status sl_graph_item_at(const sl_graph *graph, uint32_t index,
                                             sl_graph_item *out, sl_error *err);
/* Element type and shape; dtype is a constant text. */
typedef struct {
    const char *dtype;
    uint32_t rank;
    int64_t dims[8];
} sl_tensor_type; /* closed */
SL_API SL_CHECKED sl_status sl_value_type(const sl_graph *graph, sl_value value,
                                          sl_tensor_type *out, sl_error *err);
typedef struct {
    size_t struct_size;     /* set by the caller */
    const char *op, *label; /* borrowed until the graph is changed or destroyed */
    uint32_t input_count, output_count;
} sl_node_info;
/* The nodes, in the order in which they were added; index is less than the count. */
SL_API uint32_t sl_graph_node_count(const sl_graph *graph);
SL_API SL_CHECKED sl_status sl_graph_node_at(const sl_graph *graph, uint32_t index,
                                             sl_node_info *out, sl_error *err);
/* An operand or a result of a node; 0 if there is no such node, operand or result. */
SL_API sl_value sl_graph_node_input(const sl_graph *graph, uint32_t node, uint32_t input);
SL_API sl_value sl_graph_node_output(const sl_graph *graph, uint32_t node, uint32_t output);
/* The attributes of a node as text, "{axis = -1}", or "" if it has none; released with sl_free. */
SL_API SL_CHECKED sl_status sl_graph_node_attrs(const sl_graph *graph, uint32_t index,
                                                char **out_text, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
