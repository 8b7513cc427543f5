/* experimental.h - Parts of the tensor API that may still change: custom ops, symbolic sizes and
 * programs for buckets of sizes, what a device supports, and the op table.
 *
 * Nothing here is covered by the promise of graph.h: a later version may change or remove it, and
 * the ABI check does not look at it.  The same holds for inspect.h.  The rules for structs and
 * pointers are those of status.h and sluice.h. */
#ifndef SLUICE_EXPERIMENTAL_H
#define SLUICE_EXPERIMENTAL_H
#include "sluice/graph.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- Custom ops: custom(inputs..) {name = "yours", attrs = "anything"} ----
 *
 * Callbacks return SL_OK, or fill err and return its status.  They may be called on any thread and
 * concurrently. */
typedef struct {
    size_t struct_size; /* set by the library */
    const char *attrs;  /* of the node */
    uint32_t input_count, output_count;
    const sl_tensor_type *inputs;
    const sl_tensor_type *outputs; /* NULL while shape is called */
} sl_custom_call;
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
    /* The kernel for CUDA: puts its work into a stream (a CUstream, which cudaStream_t is too) and
     * returns without waiting.  What was put there before writes the inputs; what comes after reads
     * the outputs.  The pointers are addresses in device memory, and the device's context is
     * current.  NULL: the device "cuda" copies tensors to the host, calls `kernel`, and copies the
     * results back. */
    sl_status (*cuda_launch)(void *ctx, const sl_custom_call *call, const void *const *inputs,
                             void *const *outputs, void *stream, sl_error *err);
} sl_custom_op;
/* A set of ops.  It must outlive the graphs that use it and the programs compiled from them. */
typedef struct sl_custom_ops sl_custom_ops;
SL_API SL_CHECKED sl_status sl_custom_ops_create(sl_custom_ops **out, sl_error *err);
SL_API void sl_custom_ops_destroy(sl_custom_ops *ops); /* NULL is fine */
/* op and its name are copied.  Each name can be added only once. */
SL_API SL_CHECKED sl_status sl_custom_ops_add(sl_custom_ops *ops, const sl_custom_op *op,
                                              sl_error *err);
/* Sets the custom ops for nodes that are added from now on; ops is borrowed, and may be NULL. */
SL_API void sl_graph_use_custom_ops(sl_graph *graph, const sl_custom_ops *ops);
/* sl_graph_read, _load and _from_bytes for graphs that use custom ops; ops is borrowed. */
SL_API SL_CHECKED sl_status sl_graph_read_using(const char *text, size_t bytes,
                                                const sl_custom_ops *ops, sl_graph **out,
                                                sl_error *err);
SL_API SL_CHECKED sl_status sl_graph_load_using(const char *path, const sl_custom_ops *ops,
                                                sl_graph **out, sl_error *err);
SL_API SL_CHECKED sl_status sl_graph_from_bytes_using(const void *bytes, size_t count,
                                                      const sl_custom_ops *ops, sl_graph **out,
                                                      sl_error *err);

/* ---- Symbolic sizes ----
 *
 * The value that sl_graph_add_symbol returns may be used as a dim of an input, weight or state.
 * Until the symbol is bound, types are inferred with `size` (0: a placeholder size is chosen).
 * Attributes may also name symbols: "shape=[B, 8]".  A graph with unbound symbols cannot be
 * compiled. */
typedef struct {
    const char *name;
    int64_t size;
} sl_symbol_size; /* closed */
SL_API int64_t sl_graph_add_symbol(sl_graph *graph, const char *name, int64_t size);
/* Makes a new graph in which every symbol has a size, which owns all it has; all types are inferred
 * again. */
SL_API SL_CHECKED sl_status sl_graph_with_sizes(const sl_graph *graph, const sl_symbol_size *sizes,
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
/* The graph is copied, but the data of its constants is borrowed: it must outlive the result.  It
 * must not have states. */
SL_API SL_CHECKED sl_status sl_bucketed_create(const sl_graph *graph,
                                               const sl_bucket_options *options, sl_bucketed **out,
                                               sl_error *err);
SL_API void sl_bucketed_destroy(sl_bucketed *bucketed); /* NULL is fine */
/* Sets the sizes of the next runs, and compiles if there is no program for their bucket yet. */
SL_API SL_CHECKED sl_status sl_bucketed_resize(sl_bucketed *bucketed, const sl_symbol_size *sizes,
                                               uint32_t count, sl_error *err);
/* Like sl_compiled_set, _run and _get, with the current sizes.  Weights are kept when sizes change;
 * inputs must be set again after each resize. */
SL_API SL_CHECKED sl_status sl_bucketed_set(sl_bucketed *bucketed, const char *name,
                                            const void *data, size_t bytes, sl_error *err);
SL_API SL_CHECKED sl_status sl_bucketed_run(sl_bucketed *bucketed, sl_error *err);
/* Borrowed until the next run, resize or destroy. */
SL_API const void *sl_bucketed_get(sl_bucketed *bucketed, const char *name, size_t *out_bytes);
SL_API uint32_t sl_bucketed_count(const sl_bucketed *bucketed); /* compiled programs at present */

/* Which nodes of a graph a device supports; this does not need the device itself.  Constants are
 * folded first.  sl_compile rejects a graph with an unsupported node and names it.  The report owns
 * its texts. */
typedef struct sl_legality sl_legality;
typedef struct {
    size_t struct_size; /* set by the caller */
    const char *node;   /* its label; labels of nodes in bodies begin with that of the outer node */
    const char *op;
    const char *status; /* "native", "rewritten", "unsupported" */
    const char *detail; /* rewritten: the resulting ops; unsupported: the reason; else "" */
} sl_legality_item;
/* device: a name of sl_device_at; NULL: "cpu". */
SL_API SL_CHECKED sl_status sl_graph_legality(const sl_graph *graph, const char *device,
                                              sl_legality **out, sl_error *err);
SL_API uint32_t sl_legality_count(const sl_legality *legality);
/* index: less than the count.  Texts live as long as the report. */
SL_API SL_CHECKED sl_status sl_legality_at(const sl_legality *legality, uint32_t index,
                                           sl_legality_item *out, sl_error *err);
SL_API void sl_legality_destroy(sl_legality *legality); /* NULL is fine */

/* ---- The op table ---- */

typedef struct {
    size_t struct_size; /* set by the caller */
    const char *name, *summary;
    const char *inputs, *outputs; /* "x parts..", "out" */
    /* name:type, with =default unless it is required: "axis:i64=-1 eps:f32=1e-5 to:dtype",
     * "keep:bool=false mask:enum(none causal)=none" */
    const char *attributes;
} sl_op_row;
SL_API uint32_t sl_op_count(void);
/* index: less than sl_op_count.  Texts are constant. */
SL_API SL_CHECKED sl_status sl_op_at(uint32_t index, sl_op_row *out, sl_error *err);
/* Details of an op that are not in its row, as text; no field is empty. */
enum { SL_OP_DEVICES = 8 };
typedef struct {
    const char *device;
    char kernels[160]; /* element types of its kernels, or the reason why there is none */
} sl_op_kernels;       /* closed */
typedef struct {
    size_t struct_size;   /* set by the caller */
    char types[160];      /* element types that it accepts */
    char made_from[400];  /* ops from which fusion creates it */
    char predicates[160]; /* kinds of ops it belongs to: "elementwise", "blas", .. */
    char rewritten[160];  /* how it is rewritten for a device without a kernel */
    uint32_t device_count;
    sl_op_kernels devices[SL_OP_DEVICES]; /* those with kernels, the same for every op */
} sl_op_support;
/* op: its name. */
SL_API SL_CHECKED sl_status sl_op_support_of(const char *op, sl_op_support *out, sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
