/* attrs.h - The types of op attributes. */
#ifndef SL_CORE_ATTRS_H
#define SL_CORE_ATTRS_H
#include "core/type.h"

/* A list of integers, which lives as long as the node. */
typedef struct {
    uint32_t count;
    const int64_t *items;
} sl_integers;
typedef struct {
    uint32_t count;
    const double *items;
} sl_reals;

struct sl_graph;
struct sl_custom_op;

typedef float sl_attr_f32;
typedef double sl_attr_f64;
typedef uint32_t sl_attr_u32;
typedef int64_t sl_attr_i64;
typedef sl_dtype sl_attr_dtype;
typedef sl_dims sl_attr_dims; /* at most SL_MAX_RANK */
typedef sl_integers sl_attr_list;
typedef sl_reals sl_attr_reals;
typedef const char *sl_attr_text; /* never NULL in a node */
/* A body: a closed subgraph with inputs in order of declaration and ordered outputs.  The runtime
 * sees it as a program that belongs to the step.  NULL if the op allows the body to be omitted. */
typedef const struct sl_graph *sl_attr_graph;
/* The implementation of a custom op's node.  It is looked up by name when the node is made
 * (core/custom.h), so it is not part of the text or binary form. */
typedef const struct sl_custom_op *sl_attr_handler;

#define SL_ATTR_KINDS(K)                                                                           \
    K(f32) K(f64) K(u32) K(i64) K(dtype) K(dims) K(list) K(reals) K(text) K(graph) K(handler)
typedef enum {
#define K(TYPE) SL_ATTR_##TYPE,
    SL_ATTR_KINDS(K)
#undef K
} sl_attr_kind;
typedef union {
#define K(TYPE) sl_attr_##TYPE TYPE;
    SL_ATTR_KINDS(K)
#undef K
} sl_attr_store; /* storage for an attribute of any kind */
/* What a visitor gets: the attribute inside its struct, with the alignment of its own kind. */
typedef sl_attr_store sl_attr __attribute__((aligned(4)));

/* The same visitor interface serves printing, parsing, hashing, copying and comparing: value points
 * to the attribute, whose C type is sl_attr_<kind>. */
typedef struct sl_attr_visitor sl_attr_visitor;
struct sl_attr_visitor {
    void (*visit)(sl_attr_visitor *v, const char *name, sl_attr_kind kind, void *value);
};
size_t sl_attr_bytes(sl_attr_kind kind);

#endif
