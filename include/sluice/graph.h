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
 * `sluice ir ops` lists the ops.  Functions that build a graph do not fail: the first mistake is
 * recorded in the graph and reported by sl_graph_check and sl_compile.  A NULL pointer that is not
 * allowed here is such a mistake, and SL_INVALID from functions with a status, as in sluice.h. */
#ifndef SLUICE_GRAPH_H
#define SLUICE_GRAPH_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_graph sl_graph;
typedef struct sl_compiled sl_compiled;

/* A value of a graph.  0 means "none"; building functions return it after a mistake. */
typedef struct {
    uint32_t v;
} sl_value;

/* Element types are given by name: "f32", "f16", "bf16", "f64", integers "i8" to "i64" and "u8" to
 * "u64", "bool", "c64", and types for quantised weights.  Returns them all in order, NULL past the
 * end. */
SL_API const char *sl_dtype_name_at(uint32_t index);

/* allocator: of everything that belongs to the graph; NULL: the C library's. */
SL_CHECKED sl_status sl_graph_create(const char *name, const sl_allocator *allocator,
                                     sl_graph **out, sl_error *err);
SL_CHECKED sl_status sl_graph_read(const char *text, size_t bytes, sl_graph **out, sl_error *err);
/* Imports an ONNX model.  Shapes are static: input shapes that the model leaves open are given as
 * "x=1,3,224,224; y=8"; otherwise shapes may be NULL. */
SL_CHECKED sl_status sl_graph_import_onnx(const void *bytes, size_t count, const char *shapes,
                                          sl_graph **out, sl_error *err);
SL_API void sl_graph_destroy(sl_graph *graph); /* NULL is fine */
/* The text form; released with sl_free. */
SL_CHECKED sl_status sl_graph_text(const sl_graph *graph, char **out_text, sl_error *err);

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
 * out have the default of the op table (sl_op_rows), or are a mistake if it has none.  An axis
 * counts as in NumPy: -1 is the last.  For an op with more than one result, use sl_graph_add_node.
 */
SL_API sl_value sl_graph_apply(sl_graph *graph, const char *op, const sl_value *inputs,
                               uint32_t count, const char *attrs);
/* Labels name the steps of the compiled program in traces and timings.  That of a node is "scope
 * op", or the op alone while the scope is "".  set_label gives the next node a name (one word) in
 * place of its op. */
SL_API void sl_graph_set_scope(sl_graph *graph, const char *scope);
SL_API void sl_graph_set_label(sl_graph *graph, const char *name);
SL_API void sl_graph_add_output(sl_graph *graph, const char *name, sl_value value);
/* SL_OK, or the first mistake made while building the graph; its status is SL_INVALID unless memory
 * ran out. */
SL_CHECKED sl_status sl_graph_check(const sl_graph *graph, sl_error *err);

typedef struct {
    size_t struct_size;
    const char *device; /* a name of sl_device_at (sluice.h); NULL: "cpu" */
    const char *isa;    /* NULL: the best available */
    uint32_t threads;   /* 0: one per core */
    /* Words that turn stages of the compiler off or choose a schedule, separated by commas:
     * "no-fusion,no-reordering"; inspect.h lists them.  NULL: "". */
    const char *compile;
} sl_compile_options;
/* Verifies and compiles the graph as it is now; what is added to it later has no effect on the
 * result.  The data of its constants is borrowed: the graph must outlive the result. */
SL_CHECKED sl_status sl_compile(const sl_graph *graph, const sl_compile_options *options,
                                sl_compiled **out, sl_error *err);
SL_API void sl_compiled_destroy(sl_compiled *compiled);
/* Sets an input, weight or state by name.  bytes must be its exact size; the data is copied. States
 * are zero until they are set. */
SL_CHECKED sl_status sl_compiled_set(sl_compiled *compiled, const char *name, const void *data,
                                     size_t bytes, sl_error *err);
/* Fails if an input or a weight that the graph uses was never set. */
SL_CHECKED sl_status sl_compiled_run(sl_compiled *compiled, sl_error *err);
/* An output of the last run, in its own type (on "ref", doubles are rounded to it); NULL if there
 * is no such output. */
SL_API const void *sl_compiled_get(const sl_compiled *compiled, const char *name,
                                   size_t *out_bytes);

/* Time by op, measured over additional runs. */
typedef struct {
    char op[48];
    uint64_t calls; /* in all runs */
    double seconds; /* sum over all threads */
    double share;   /* of the time of all ops, 0 to 1 */
} sl_op_time;
/* Runs the program `runs` times and returns at most `room` rows, longest time first.  Not supported
 * on the device "ref". */
SL_CHECKED sl_status sl_compiled_profile(sl_compiled *compiled, uint32_t runs, sl_op_time *rows,
                                         uint32_t room, uint32_t *out_count, sl_error *err);

/* ---- The binary form: smaller than the text form; constants are used in place ---- */
SL_CHECKED sl_status sl_graph_save(const sl_graph *graph, const char *path, sl_error *err);
/* Reads the whole file.  ops (see below) may be NULL. */
typedef struct sl_custom_ops sl_custom_ops;
SL_CHECKED sl_status sl_graph_load(const char *path, const sl_custom_ops *ops, sl_graph **out,
                                   sl_error *err);
/* The same in memory.  The bytes are released with sl_free; a graph made from bytes copies
 * them. */
SL_CHECKED sl_status sl_graph_to_bytes(const sl_graph *graph, void **out, size_t *out_bytes,
                                       sl_error *err);
SL_CHECKED sl_status sl_graph_from_bytes(const void *bytes, size_t count, const sl_custom_ops *ops,
                                         sl_graph **out, sl_error *err);
/* A hash of the binary form (FNV-1a, 64 bits): equal graphs have the same hash on every machine. */
SL_CHECKED sl_status sl_graph_fingerprint(const sl_graph *graph, uint64_t *out, sl_error *err);

/* ---- Subgraphs (bodies) of if, while, scan and custom_fn ----
 *
 * A body is a graph that declares only inputs and constants.  Its inputs are passed in the order in
 * which they were added.  A node keeps a copy of it. */
typedef struct {
    const char *name; /* name of the attribute: "then", "otherwise", "condition", "body", ... */
    const sl_graph *graph;
} sl_body_spec;
/* Describes a node of any op, with any number of inputs, results and bodies. */
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

/* ---- Symbolic sizes ----
 *
 * The value that sl_graph_add_symbol returns may be used as a dim of an input, weight or state.
 * Until the symbol is bound, types are inferred with `size` (0: a placeholder size is chosen).
 * Attributes may also name symbols: "shape=[B, 8]".  A graph with unbound symbols cannot be
 * compiled. */
typedef struct {
    const char *name;
    int64_t size;
} sl_symbol_size;
SL_API int64_t sl_graph_add_symbol(sl_graph *graph, const char *name, int64_t size);
/* Returns a new graph in which every symbol has a size; all types are inferred again. */
SL_CHECKED sl_status sl_graph_with_sizes(const sl_graph *graph, const sl_symbol_size *sizes,
                                         uint32_t count, sl_graph **out, sl_error *err);

/* A graph with symbols, compiled for sizes that are rounded up to powers of two (buckets).  Inputs
 * are padded with zeros at the end of their symbolic dims, and results are cropped to their true
 * size.
 *
 * The results are correct if padding at the end of a symbolic dim does not influence the elements
 * before it: elementwise ops, products and norms over other dims, causal attention, gathers.  They
 * are wrong if a symbolic dim is normalised over, reversed, merged with a later dim by reshape, or
 * reduced by anything other than a sum (padding does not change a sum as long as it is still
 * zero). */
typedef struct sl_bucketed sl_bucketed;
typedef struct {
    size_t struct_size;
    int64_t least;      /* the smallest bucket; 0: 1 */
    uint32_t most_kept; /* compiled programs to keep; the least recently used one is freed; 0: 16 */
    const sl_compile_options *compile;
} sl_bucket_options;
/* The graph is borrowed.  It must not have states. */
SL_CHECKED sl_status sl_bucketed_create(const sl_graph *graph, const sl_bucket_options *options,
                                        sl_bucketed **out, sl_error *err);
SL_API void sl_bucketed_destroy(sl_bucketed *bucketed); /* NULL is fine */
/* Sets the sizes of the next runs, and compiles if there is no program for their bucket yet. */
SL_CHECKED sl_status sl_bucketed_resize(sl_bucketed *bucketed, const sl_symbol_size *sizes,
                                        uint32_t count, sl_error *err);
/* Like sl_compiled_set, _run and _get, with the current sizes.  Weights are kept when sizes change;
 * inputs must be set again after each resize. */
SL_CHECKED sl_status sl_bucketed_set(sl_bucketed *bucketed, const char *name, const void *data,
                                     size_t bytes, sl_error *err);
SL_CHECKED sl_status sl_bucketed_run(sl_bucketed *bucketed, sl_error *err);
SL_API const void *sl_bucketed_get(sl_bucketed *bucketed, const char *name, size_t *out_bytes);
SL_API uint32_t sl_bucketed_count(const sl_bucketed *bucketed); /* compiled programs at present */

/* ---- Custom ops: custom(inputs..) {name = "yours", attrs = "anything"} ----
 *
 * Callbacks return SL_OK, or fill err and return its status.  They may be called on any thread and
 * concurrently. */
typedef struct {
    const char *dtype;
    uint32_t rank;
    int64_t dims[8];
} sl_tensor_type;
typedef struct {
    const char *attrs; /* of the node */
    uint32_t input_count, output_count;
    const sl_tensor_type *inputs;
    const sl_tensor_type *outputs; /* NULL while shape is called */
} sl_custom_call;
/* A transformation rule: builds nodes in graph and returns their results, or 0 for "no dependence".
 */
typedef sl_status sl_custom_rule(void *ctx, sl_graph *graph, const sl_custom_call *call,
                                 const sl_value *values, sl_value *out, sl_error *err);
typedef struct sl_custom_op {
    size_t struct_size;
    const char *name;
    void *ctx;
    /* Returns the types of the results.  It is called with any input types and must check them. */
    sl_status (*shape)(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                       sl_error *err);
    /* The definition in double precision: 8 bytes per number (i64 and u64 as integers, c64 as two
     * doubles).  NULL: not supported on the device "ref". */
    sl_status (*eval)(void *ctx, const sl_custom_call *call, const double *const *inputs,
                      double *const *outputs, sl_error *err);
    /* The kernel for the CPU, on elements of the tensors' own types.  NULL: not supported on the
     * device "cpu". */
    sl_status (*kernel)(void *ctx, const sl_custom_call *call, const void *const *inputs,
                        void *const *outputs, sl_error *err);
    /* Stored but not used yet: no transformation of graphs calls these rules. */
    sl_custom_rule *gradient; /* inputs, results, d results -> d inputs; NULL: none */
    sl_custom_rule *tangent;  /* inputs, results, t inputs -> t results; NULL: none */
    sl_custom_rule *batching; /* inputs with a new first dim -> results with one; NULL: none */
} sl_custom_op;
/* sl_custom_ops is a set of ops.  It must outlive the graphs that use it and the programs compiled
 * from them. */
SL_CHECKED sl_status sl_custom_ops_create(sl_custom_ops **out, sl_error *err);
SL_API void sl_custom_ops_destroy(sl_custom_ops *ops); /* NULL is fine */
/* op and its name are copied.  Each name can be added only once. */
SL_CHECKED sl_status sl_custom_ops_add(sl_custom_ops *ops, const sl_custom_op *op, sl_error *err);
/* Sets the custom ops for nodes that are added from now on. */
SL_API void sl_graph_use_custom_ops(sl_graph *graph, const sl_custom_ops *ops);
/* sl_graph_read for a text that uses custom ops. */
SL_CHECKED sl_status sl_graph_read_using(const char *text, size_t bytes, const sl_custom_ops *ops,
                                         sl_graph **out, sl_error *err);

/* Which nodes of a graph a device supports; this does not need the device itself.  Constants are
 * folded first.  sl_compile rejects a graph with an unsupported node and names it. */
typedef struct sl_legality sl_legality;
typedef struct {
    const char *node,
        *op; /* its label; labels of nodes in bodies begin with the label of the outer node */
    const char *status; /* "native", "rewritten", "unsupported" */
    const char *detail; /* rewritten: the resulting ops; unsupported: the reason; else "" */
} sl_legality_item;
SL_CHECKED sl_status sl_graph_legality(const sl_graph *graph, const char *device, sl_legality **out,
                                       sl_error *err);
SL_API uint32_t sl_legality_count(const sl_legality *legality);
SL_API sl_legality_item sl_legality_at(const sl_legality *legality, uint32_t index);
SL_API void sl_legality_destroy(sl_legality *legality); /* NULL is fine */

/* The op table and a graph's values and nodes, for tools. */
typedef struct {
    const char *name, *summary;
    const char *inputs, *outputs; /* "x parts..", "out" */
    /* name:type, with =default unless it is required: "axis:i64=-1 eps:f32=1e-5 to:dtype",
     * "keep:bool=false mask:enum(none causal)=none" */
    const char *attributes;
} sl_op_row;
SL_API uint32_t sl_op_rows(const sl_op_row **out_rows);
/* Details of an op that are not in its row, as text; no field is empty. */
enum { SL_OP_DEVICES = 8 };
typedef struct {
    const char *device;
    char kernels[160]; /* element types of its kernels, or the reason why there is none */
} sl_op_kernels;
typedef struct {
    char types[160];      /* element types that it accepts */
    char made_from[400];  /* ops from which fusion creates it */
    char predicates[160]; /* kinds of ops it belongs to: "elementwise", "blas", .. */
    char rewritten[160];  /* how it is rewritten for a device without a kernel */
    uint32_t device_count;
    sl_op_kernels devices[SL_OP_DEVICES]; /* those with kernels, the same for every op */
} sl_op_support;
SL_CHECKED sl_status sl_op_support_of(const char *op, sl_op_support *out, sl_error *err);
typedef struct {
    const char *name, *dtype;
    const char *kind; /* "input", "weight", "state", "constant", "experts", "output" */
    uint32_t rank;
    int64_t dims[8];
} sl_graph_item;
/* Iterates over the declared values and the outputs, in order; returns 0 past the end. */
SL_API int sl_graph_item_at(const sl_graph *graph, uint32_t index, sl_graph_item *out);
/* The type of a value, also while the graph is being built. */
SL_CHECKED sl_status sl_value_type(const sl_graph *graph, sl_value value, sl_tensor_type *out,
                                   sl_error *err);
/* A node; pointers are valid until the graph is changed or freed. */
typedef struct {
    size_t struct_size;
    const char *op, *label;
    const sl_value *inputs, *outputs;
    uint32_t input_count, output_count;
} sl_node_info;
/* Iterates over the nodes in the order in which they were added; returns 0 past the end.  The
 * caller sets struct_size. */
SL_API int sl_graph_node_at(const sl_graph *graph, uint32_t index, sl_node_info *out);
/* The attributes of a node as text, "{axis = -1}", or "" if it has none; released with
 * sl_free. */
SL_CHECKED sl_status sl_graph_node_attrs(const sl_graph *graph, uint32_t index, char **out_text,
                                         sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
