/* binary.h - The binary form of a graph: smaller than the text form, with constants that can be
 * used in place.
 *
 * All numbers are little-endian.  A text is a u32 length and that many bytes, none of them 0.
 *
 *   header      64 bytes: "SLGRAPH\n", u32 version, u32 0, u64 total bytes, u64 offset of the data
 *   graph       text name; u32 symbols, each: text name, i64 size;
 *               u32 items, each: u8 kind of a declared value or NODE;
 *                 declared: text name, type; a constant: u64 offset in the data
 *                 node: text op, text label, u32 inputs and their values, u32 results, attributes
 *               u32 outputs, each: text name, u32 value
 *   type        text dtype, u8 rank, i64 dims; -1 - n for symbol number n
 *   attributes  u32 count, each: text name, u8 kind, value (a graph as above);
 *               u32 symbols among their integers, each: text attribute, u32 index, u32 symbol
 *   data        constants, each aligned to 64 bytes
 *
 * Values are numbered from 1 in the order of items; the results of a node are consecutive.  Ops,
 * types and attributes are stored by name, so that files stay valid when the tables change; absent
 * attributes are 0.
 *
 * Version 1 differs in the axis of softmax, log_softmax, their gradients, argmax and argmin, which
 * counted from the end (0 was the last), and stores the axis of slice as u32; it is still read. */
#ifndef SL_COMPILER_BINARY_H
#define SL_COMPILER_BINARY_H
#include "compiler/graph.h"

enum {
    SL_BINARY_VERSION = 2,
    SL_BINARY_HEADER_BYTES = 64,
    SL_BINARY_ALIGNMENT = 64,
    SL_BINARY_NODE = 255,
    SL_BINARY_MAX_DEPTH = 32
};
#define SL_BINARY_MAGIC "SLGRAPH\n"

/* An output stream. */
typedef struct {
    sl_status (*write)(void *ctx, const void *bytes, size_t count, sl_error *err);
    void *ctx;
} sl_sink;
SL_CHECKED sl_status sl_graph_write(const sl_graph *graph, const sl_sink *sink, sl_error *err);
/* Any bytes give a graph or an error.  in_place: constants are not copied; bytes must be aligned to
 * 64 and outlive the graph and the programs compiled from it.  customs may be NULL. */
typedef struct {
    const sl_custom_ops *customs;
    const sl_allocator *allocator;
    bool in_place;
} sl_load_options;
SL_CHECKED sl_status sl_graph_load_bytes(const void *bytes, size_t count,
                                         const sl_load_options *options, sl_graph **out,
                                         sl_error *err);
#endif
