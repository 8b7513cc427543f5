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

/* The op table and a graph's values, for tools. */
typedef struct {
    const char *name, *summary;
} sl_op_row;
SL_API uint32_t sl_op_rows(const sl_op_row **out_rows);
typedef struct {
    const char *name, *dtype;
    const char *kind; /* "input", "weight", "state", "constant", "experts", "output" */
    uint32_t rank;
    int64_t dims[6];
} sl_graph_item;
/* The declared values and outputs, in order; returns 0 past the end. */
SL_API int sl_graph_item_at(const sl_graph *graph, uint32_t index, sl_graph_item *out);

#ifdef __cplusplus
}
#endif
#endif
