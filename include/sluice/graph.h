/* graph.h - Build, compile and run tensor programs.
 *
 *   sl_graph_new("mlp", &g, err);
 *   sl_value x = sl_graph_add_input(g, "x", "f32", 2, (int64_t[]){2, 4});
 *   sl_value y;
 *   sl_graph_apply(g, "softmax", &x, 1, NULL, &y);
 *   sl_graph_add_output(g, "y", y);
 *   sl_compile(g, NULL, &c, err);
 *   sl_compiled_set(c, "x", data, bytes, err);
 *   sl_compiled_run(c, err);
 *   const float *result = sl_compiled_get(c, "y", NULL);
 *
 * `sluice ir ops` lists the ops.  Building calls do not fail: the first mistake is remembered and
 * reported by sl_compile. */
#ifndef SLUICE_GRAPH_H
#define SLUICE_GRAPH_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct sl_graph sl_graph;
typedef struct sl_compiled sl_compiled;

/* A value of a graph.  0 is "none": what building calls return after a mistake. */
typedef struct {
    uint32_t v;
} sl_value;

/* Element types by name: "f32", "f16", "bf16", "i32", "u8", "bool", "q4", "q8", and those that
 * hold weights of other files: "q4_k", "q4_0", "q6_k", "q4_m", "q2_k", "q3_k", "q5_k", "iq4_nl",
 * "iq4_xs", "mxfp4", "nvfp4", "q6_m", "q8_m", "q4_f", "q8_f", "f8". */
SL_CHECKED sl_status sl_graph_new(const char *name, sl_graph **out, sl_error *err);
SL_CHECKED sl_status sl_graph_read(const char *text, size_t bytes, sl_graph **out, sl_error *err);
/* The graph of an ONNX model.  Shapes are static: those that the model leaves open are given as
 * "x=1,3,224,224; y=8", or NULL. */
SL_CHECKED sl_status sl_graph_import_onnx(const void *bytes, size_t count, const char *shapes,
                                          sl_graph **out, sl_error *err);
SL_API void sl_graph_free(sl_graph *graph); /* NULL is fine */
/* The text form; released with sl_graph_text_free. */
SL_CHECKED sl_status sl_graph_text(const sl_graph *graph, char **out_text, sl_error *err);
SL_API void sl_graph_text_free(char *text);

SL_API sl_value sl_graph_add_input(sl_graph *graph, const char *name, const char *dtype,
                                   uint32_t rank, const int64_t *dims);
SL_API sl_value sl_graph_add_weight(sl_graph *graph, const char *name, const char *dtype,
                                    uint32_t rank, const int64_t *dims);
SL_API sl_value sl_graph_add_state(sl_graph *graph, const char *name, const char *dtype,
                                   uint32_t rank, const int64_t *dims);
SL_API sl_value sl_graph_add_constant(sl_graph *graph, const char *name, const char *dtype,
                                      uint32_t rank, const int64_t *dims, const void *data);
/* attrs: "eps=1e-6, axes=[1]" or NULL.  outputs has room for the op's results (at most three). */
SL_API void sl_graph_apply(sl_graph *graph, const char *op, const sl_value *inputs, uint32_t count,
                           const char *attrs, sl_value *outputs);
SL_API void sl_graph_add_output(sl_graph *graph, const char *name, sl_value value);

typedef struct {
    size_t struct_size;
    const char *device; /* "cpu" (default), "cuda", "ref", "null" */
    const char *isa;    /* NULL: the best present */
    uint32_t threads;   /* 0: one per core */
} sl_compile_options;
/* Verifies and compiles; the graph is borrowed and must outlive the result. */
SL_CHECKED sl_status sl_compile(const sl_graph *graph, const sl_compile_options *options,
                                sl_compiled **out, sl_error *err);
SL_API void sl_compiled_free(sl_compiled *compiled);
/* Inputs, weights and states by name; bytes must be exact; the data is copied.  States are zero
 * until set. */
SL_CHECKED sl_status sl_compiled_set(sl_compiled *compiled, const char *name, const void *data,
                                     size_t bytes, sl_error *err);
SL_CHECKED sl_status sl_compiled_run(sl_compiled *compiled, sl_error *err);
/* An output after a run in its own type ("ref": floats are rounded to it); NULL if absent. */
SL_API const void *sl_compiled_get(const sl_compiled *compiled, const char *name,
                                   size_t *out_bytes);

/* Where the time of some more runs goes. */
typedef struct {
    char op[48];
    uint64_t calls; /* in all runs */
    double seconds; /* of all threads together */
    double share;   /* of the seconds of all ops, 0 to 1 */
} sl_op_time;
/* Most seconds first, at most `room` rows.  Not for the device "ref". */
SL_CHECKED sl_status sl_compiled_profile(sl_compiled *compiled, uint32_t runs, sl_op_time *rows,
                                         uint32_t room, uint32_t *out_count, sl_error *err);

/* ---- The binary form: smaller than the text form, with constants used where they lie ---- */
SL_CHECKED sl_status sl_graph_save(const sl_graph *graph, const char *path, sl_error *err);
/* The file is mapped until the graph is freed, and must not change.  ops (below) may be NULL. */
typedef struct sl_custom_ops sl_custom_ops;
SL_CHECKED sl_status sl_graph_load(const char *path, const sl_custom_ops *ops, sl_graph **out,
                                   sl_error *err);
/* The same in memory; the bytes are released with sl_bytes_free, and need not outlive a graph. */
SL_CHECKED sl_status sl_graph_to_bytes(const sl_graph *graph, void **out, size_t *out_bytes,
                                       sl_error *err);
SL_CHECKED sl_status sl_graph_from_bytes(const void *bytes, size_t count, const sl_custom_ops *ops,
                                         sl_graph **out, sl_error *err);
SL_API void sl_bytes_free(void *bytes, size_t count);
/* A hash of the binary form (FNV-1a, 64 bits): the same for equal graphs, wherever they are. */
SL_CHECKED sl_status sl_graph_fingerprint(const sl_graph *graph, uint64_t *out, sl_error *err);

/* ---- Bodies: if, while, scan, custom_fn ----
 *
 * A body is a graph of inputs and constants alone; it takes its inputs in the order in which they
 * were added.  Nodes copy it. */
typedef struct {
    const char *name; /* of the attribute: "then", "otherwise", "condition", "body", ... */
    const sl_graph *graph;
} sl_body_spec;
/* A node of any op, with any number of inputs, results and bodies. */
typedef struct {
    size_t struct_size;
    const char *op, *attrs; /* as in sl_graph_apply */
    const sl_value *inputs;
    uint32_t input_count;
    sl_value *outputs;
    uint32_t output_count;
    const sl_body_spec *bodies;
    uint32_t body_count;
} sl_node_spec;
SL_API void sl_graph_add_node(sl_graph *graph, const sl_node_spec *node);

/* ---- Sizes with names ----
 *
 * What sl_graph_add_symbol returns may be a dim of an input, weight or state.  Until the graph is
 * bound, types are inferred for `size` (0: some prime).  Attributes may name symbols too:
 * "shape=[B, 8]".  A graph with symbols is not compiled itself. */
typedef struct {
    const char *name;
    int64_t size;
} sl_symbol_size;
SL_API int64_t sl_graph_add_symbol(sl_graph *graph, const char *name, int64_t size);
/* A graph of its own in which every symbol has a size; all types are inferred anew. */
SL_CHECKED sl_status sl_graph_with_sizes(const sl_graph *graph, const sl_symbol_size *sizes,
                                         uint32_t count, sl_graph **out, sl_error *err);

/* A graph with symbols compiled for some sizes, each rounded up to a power of two: sizes in between
 * are padded with zeros at the end of their dims, and results are cut to what they would have been.
 *
 * That gives the same numbers where what lies at the end of a symbol's dims has no influence on
 * what lies before: elementwise ops, products and norms over other dims, causal attention, gathers.
 * It does not where a symbol's dim is reduced by anything but a sum (zeros add nothing, as long as
 * they still are zeros), normalised over, reversed, or joined with another dim behind it by
 * reshape. */
typedef struct sl_bucketed sl_bucketed;
typedef struct {
    size_t struct_size;
    int64_t least;      /* no size is rounded to less; 0: 1 */
    uint32_t most_kept; /* compiled programs; the one used longest ago goes; 0: 16 */
    const sl_compile_options *compile;
} sl_bucket_options;
/* The graph is borrowed.  It may have no states. */
SL_CHECKED sl_status sl_bucketed_new(const sl_graph *graph, const sl_bucket_options *options,
                                     sl_bucketed **out, sl_error *err);
SL_API void sl_bucketed_free(sl_bucketed *bucketed); /* NULL is fine */
/* Chooses the sizes of the next runs, and compiles when there is no program for them yet. */
SL_CHECKED sl_status sl_bucketed_resize(sl_bucketed *bucketed, const sl_symbol_size *sizes,
                                        uint32_t count, sl_error *err);
/* As sl_compiled_set, _run and _get, in the sizes that were chosen.  Weights stay from size to
 * size; inputs are given anew after each resize. */
SL_CHECKED sl_status sl_bucketed_set(sl_bucketed *bucketed, const char *name, const void *data,
                                     size_t bytes, sl_error *err);
SL_CHECKED sl_status sl_bucketed_run(sl_bucketed *bucketed, sl_error *err);
SL_API const void *sl_bucketed_get(sl_bucketed *bucketed, const char *name, size_t *out_bytes);
SL_API uint32_t sl_bucketed_count(const sl_bucketed *bucketed); /* of programs at present */

/* ---- Ops of your own: custom(inputs..) {name = "yours", attrs = "anything"} ----
 *
 * Callbacks return SL_OK or fill err and return its status.  They may run on any thread, several at
 * a time. */
typedef struct {
    const char *dtype;
    uint32_t rank;
    int64_t dims[8];
} sl_tensor_type;
typedef struct {
    const char *attrs; /* of the node */
    uint32_t input_count, output_count;
    const sl_tensor_type *inputs;
    const sl_tensor_type *outputs; /* NULL while shape is asked for them */
} sl_custom_call;
/* Builds nodes in graph and gives their results, or 0 for "nothing depends on this". */
typedef sl_status sl_custom_rule(void *ctx, sl_graph *graph, const sl_custom_call *call,
                                 const sl_value *values, sl_value *out, sl_error *err);
typedef struct sl_custom_op {
    size_t struct_size;
    const char *name;
    void *ctx;
    /* The types of the results; whatever types the inputs have. */
    sl_status (*shape)(void *ctx, const sl_custom_call *call, sl_tensor_type *outputs,
                       sl_error *err);
    /* The meaning in double precision: 8 bytes for each number (i64 and u64 as integers, c64 as two
     * doubles).  NULL: the device "ref" refuses the node. */
    sl_status (*eval)(void *ctx, const sl_custom_call *call, const double *const *inputs,
                      double *const *outputs, sl_error *err);
    /* On the cpu, on elements of the tensors' own types.  NULL: the device "cpu" refuses it. */
    sl_status (*kernel)(void *ctx, const sl_custom_call *call, const void *const *inputs,
                        void *const *outputs, sl_error *err);
    sl_custom_rule *gradient; /* inputs, results, d results -> d inputs; NULL: has none */
    sl_custom_rule *tangent;  /* inputs, results, t inputs -> t results; NULL: has none */
    sl_custom_rule *batching; /* inputs with a new first dim -> results with one; NULL: has none */
} sl_custom_op;
/* sl_custom_ops: a set of ops, which must outlive the graphs that use it and what is compiled from
 * them. */
SL_CHECKED sl_status sl_custom_ops_new(sl_custom_ops **out, sl_error *err);
SL_API void sl_custom_ops_free(sl_custom_ops *ops); /* NULL is fine */
/* op is copied, its name too; a name can be added once. */
SL_CHECKED sl_status sl_custom_ops_add(sl_custom_ops *ops, const sl_custom_op *op, sl_error *err);
/* For the nodes that are added from now on. */
SL_API void sl_graph_use_custom_ops(sl_graph *graph, const sl_custom_ops *ops);
/* sl_graph_read for a text with such ops. */
SL_CHECKED sl_status sl_graph_read_using(const char *text, size_t bytes, const sl_custom_ops *ops,
                                         sl_graph **out, sl_error *err);

/* What a device would make of a graph, node by node; needs no such device.  Constants are folded
 * before.  A graph with an unsupported node is refused by sl_compile, naming it. */
typedef struct sl_legality sl_legality;
typedef struct {
    const char *node,
        *op;            /* its label; nodes of bodies begin with that of the node that runs them */
    const char *status; /* "native", "rewritten", "unsupported" */
    const char *detail; /* rewritten: the ops it becomes; unsupported: why; else "" */
} sl_legality_item;
SL_CHECKED sl_status sl_graph_legality(const sl_graph *graph, const char *device, sl_legality **out,
                                       sl_error *err);
SL_API uint32_t sl_legality_count(const sl_legality *legality);
SL_API sl_legality_item sl_legality_at(const sl_legality *legality, uint32_t index);
SL_API void sl_legality_free(sl_legality *legality); /* NULL is fine */

/* The op table and a graph's values, for tools. */
typedef struct {
    const char *name, *summary;
    const char *inputs, *outputs, *attributes; /* "x parts..", "out", "axis:i64 eps:f32" */
} sl_op_row;
SL_API uint32_t sl_op_rows(const sl_op_row **out_rows);
/* What an op's row does not say, each in words; none is empty. */
typedef struct {
    char types[160];      /* element types that it was found to take */
    char cpu[160];        /* those of its kernels, or why it has none */
    char cuda[160];       /* the same */
    char made_from[400];  /* what fusion makes it from */
    char predicates[160]; /* what passes ask of it: "elementwise", "blas", .. */
    char rewritten[160];  /* what it becomes where a device has no kernel */
} sl_op_support;
SL_CHECKED sl_status sl_op_support_of(const char *op, sl_op_support *out, sl_error *err);
typedef struct {
    const char *name, *dtype;
    const char *kind; /* "input", "weight", "state", "constant", "experts", "output" */
    uint32_t rank;
    int64_t dims[8];
} sl_graph_item;
/* The declared values and outputs, in order; returns 0 past the end. */
SL_API int sl_graph_item_at(const sl_graph *graph, uint32_t index, sl_graph_item *out);

#ifdef __cplusplus
}
#endif
#endif
