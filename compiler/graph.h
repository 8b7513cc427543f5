/* graph.h - A computation as values and nodes in SSA form.
 *
 * A graph lives in one arena.  Nodes are appended in topological order; each result's type is
 * inferred, never given.  After the first mistake every further call does nothing and returns
 * value 0; sl_graph_check returns it. */
#ifndef SL_COMPILER_GRAPH_H
#define SL_COMPILER_GRAPH_H
#include "base/memory.h"
#include "core/ops.h"
#include "sluice/experimental.h"

typedef enum {
    SL_VALUE_INPUT,    /* set for each run */
    SL_VALUE_WEIGHT,   /* resident parameter, read only */
    SL_VALUE_CONSTANT, /* part of the graph */
    SL_VALUE_STATE,    /* lives across runs; ops update it in place */
    SL_VALUE_EXPERTS,  /* streamed parameters of one layer */
    SL_VALUE_RESULT    /* produced by a node */
} sl_value_kind;

/* A size with a name, which is given when the graph is bound (symbols.c).  Until then types are
 * inferred for the size it is declared with. */
typedef sl_symbol_size sl_symbol;
/* An integer of a node's attributes that is a symbol's size. */
typedef struct {
    const char *attr; /* its name */
    uint32_t index;   /* in a list */
    uint32_t symbol;
} sl_attr_symbol;

typedef struct {
    sl_value_kind kind;
    sl_type type;
    const uint32_t *symbols; /* [dim]: 1 + the symbol that it is, or 0; NULL where none is */
    const char *name;        /* NULL for unnamed results */
    uint32_t node;           /* of a result: index into nodes */
    sl_value root;           /* the state that this value is a version of; 0 otherwise */
    const void *data;        /* of a constant */
    bool borrowed;           /* the data outlives the graph and what is compiled from it */
    uint32_t use_count;      /* by nodes and outputs */
    uint32_t tag;            /* of a declared value: sl_graph_tag */
    bool was_weight;         /* a state that was declared as a weight, which a node assigns */
} sl_value_info;

typedef struct {
    sl_op op;
    const char *label;                  /* for errors, traces and timing; never NULL */
    uint32_t input_count, output_count; /* more than the op's own where it takes a list */
    sl_value *inputs, *outputs;
    const void *attrs; /* sl_<op>_attrs */
    const sl_attr_symbol *symbols;
    uint32_t symbol_count;
} sl_node;

typedef struct {
    sl_value value;
    const char *name;
    bool observed; /* only looked at: it is computed as if it were no output */
} sl_graph_out;

typedef struct sl_graph sl_graph;
struct sl_graph {
    sl_arena arena;
    const char *name;
    uint32_t serial;        /* of graphs in this process: tells values of different ones apart */
    const char *scope;      /* prefix of the labels of nodes to come */
    const char *next_name;  /* in the label of the next node instead of its op; NULL: none */
    const char *kept_label; /* the whole label of the next node, in the arena; NULL: none */
    sl_value_info *values;  /* [1..value_count] */
    uint32_t value_count, value_capacity;
    uint32_t *names; /* values by the hash of their name: open addressing, 0 is empty */
    uint32_t name_count, name_capacity;
    sl_node *nodes;
    uint32_t node_count, node_capacity;
    sl_graph_out *outputs;
    uint32_t output_count, output_capacity;
    sl_graph *bodies;       /* of its nodes, owned; linked by next */
    sl_graph *next, *owner; /* of a body */
    sl_symbol *symbols;
    uint32_t symbol_count, symbol_capacity;
    const sl_attr_symbol *attr_symbols; /* of the node that is appended next */
    uint32_t attr_symbol_count;
    const sl_custom_ops *customs; /* that its nodes may be of; borrowed; may be NULL */
    sl_error error;               /* the first mistake; status SL_OK while there is none */
    void (*release)(void *ctx);   /* of what borrowed constants lie in; NULL: none */
    void *release_ctx;
    /* Called after each node that is appended; its error is a mistake.  NULL: none. */
    sl_status (*added)(void *ctx, uint32_t node, sl_error *err);
    void *added_ctx;
};

/* sl_graph_create, sl_graph_destroy and sl_graph_check: sluice/graph.h. */
/* copy.c: an equal graph with the same ids, in memory of its own. */
SL_CHECKED sl_status sl_graph_copy(const sl_graph *graph, const sl_allocator *allocator,
                                   sl_graph **out, sl_error *err);
/* Transfers ownership of body to the graph. */
void sl_graph_own(sl_graph *graph, sl_graph *body);

/* INPUT, WEIGHT, STATE or EXPERTS; names are unique among the values that have one.  A dim may be
 * what sl_graph_symbol returned. */
sl_value sl_graph_declare(sl_graph *graph, sl_value_kind kind, const char *name, sl_type type);
/* The kind that a value was declared with. */
static inline sl_value_kind sl_value_declared_kind(const sl_value_info *value) {
    return value->was_weight ? SL_VALUE_WEIGHT : value->kind;
}
/* A number of the builder's own for a declared value, 0 until it is set: passes and copies keep it,
 * files do not hold it. */
void sl_graph_tag(sl_graph *graph, sl_value value, uint32_t tag);
/* data is copied: sl_type_bytes(&type) bytes. */
sl_value sl_graph_constant(sl_graph *graph, const char *name, sl_type type, const void *data);
/* The same without a copy: data is aligned to 64 bytes and outlives the graph and all that is
 * compiled from it. */
sl_value sl_graph_constant_in_place(sl_graph *graph, const char *name, sl_type type,
                                    const void *data);
/* inputs, attrs and outputs as in the op's generated structs. */
void sl_graph_append(sl_graph *graph, sl_op op, const sl_value *inputs, const void *attrs,
                     sl_value *outputs);
/* The same for ops with a LIST or OUTS: the named ones first, then those of the list. */
void sl_graph_append_list(sl_graph *graph, sl_op op, sl_values inputs, const void *attrs,
                          sl_value_slots outputs);
/* A copy of an op's attributes, with all they point at, in the arena; NULL without memory.  Bodies
 * are copied for the graph that is to own them; without one they are left out. */
void *sl_attrs_copy(sl_arena *arena, sl_graph *owner, sl_op op, const void *attrs);
/* Makes room for one more item: returns the items, or a larger copy of them in the arena; NULL
 * after a mistake. */
void *sl_graph_grow(sl_graph *graph, void *items, uint32_t count, uint32_t *capacity, size_t each);
/* Allocates zeroed memory for the operands of a node; false if there is no memory. */
bool sl_node_make_room(sl_arena *arena, sl_node *node, uint32_t inputs, uint32_t outputs);
void sl_graph_output(sl_graph *graph, const char *name, sl_value value);
/* The same for a value that is only looked at: quantisation does as if it were no output. */
void sl_graph_observe(sl_graph *graph, const char *name, sl_value value);
/* Labels of the nodes that follow read "scope op"; the text is copied. */
void sl_graph_scope(sl_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The label of the next node reads "scope name" instead; the name is one word, and borrowed until
 * that node is appended. */
void sl_graph_label(sl_graph *graph, const char *name);
/* The label that the next node will have if it is of this op, for messages. */
const char *sl_graph_next_label(sl_graph *graph, sl_op op);
/* Records a mistake unless there is one already. */
void sl_graph_mistake(sl_graph *graph, sl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

const sl_value_info *sl_graph_value(const sl_graph *graph, sl_value value);
sl_value sl_graph_find(const sl_graph *graph, const char *name); /* 0 when absent */

/* names.c: adds a named value to the name table, or all of them after values got new ids.  False
 * after a mistake. */
bool sl_graph_name(sl_graph *graph, uint32_t value);
bool sl_graph_name_all(sl_graph *graph);

bool sl_node_changes_state(const sl_node *node);

/* For passes.  Counts all uses again. */
void sl_graph_count_uses(sl_graph *graph);
/* For passes that replace nodes: a dropped node has the op SL_OP_COUNT until the graph is
 * compacted; a node is placed where one was dropped.  Use counts and makers of values stay right.
 */
void sl_graph_drop_node(sl_graph *graph, uint32_t n);
void sl_graph_place_node(sl_graph *graph, uint32_t n, const sl_node *node);
/* Drops nodes whose op is SL_OP_COUNT and results that no node makes, and counts uses.  Values get
 * new ids: first what is declared, then results in the order of nodes. */
SL_CHECKED sl_status sl_graph_compact(sl_graph *graph, sl_error *err);

/* symbols.c: declares a symbolic size, to be used as a dim of declared values; returns 0 after a
 * mistake.  The same name gives the same symbol.  size 0: a placeholder size that no other symbol
 * has. */
int64_t sl_graph_symbol(sl_graph *graph, const char *name, int64_t size);
/* Index into graph->symbols; false when there is none of that name. */
bool sl_graph_find_symbol(const sl_graph *graph, const char *name, size_t bytes, uint32_t *out);
/* A copy of the graph without symbols: every symbol gets the size given for its name, and all types
 * are inferred again, in bodies too.  Fails and names the symbol if a size is missing, if the graph
 * has no such symbol, or if the graph is invalid with that size. */
SL_CHECKED sl_status sl_graph_bind(const sl_graph *graph, const sl_symbol *sizes, uint32_t count,
                                   const sl_allocator *allocator, sl_graph **out, sl_error *err);

/* Fails and names the symbol when the graph has one: it cannot run yet. */
SL_CHECKED sl_status sl_graph_check_sizes(const sl_graph *graph, sl_error *err);

/* verify.c: every invariant above, from scratch: ids, arity, order, types re-inferred, state
 * versions used in order, unique names, outputs present. */
SL_CHECKED sl_status sl_graph_verify(const sl_graph *graph, sl_error *err);
/* print.c and parse.c: the text form; what is printed parses back to an equal graph.
 *
 *   graph "mlp" {
 *     symbol B = 16                           a size with a name; optional
 *     input %x : f32[2,B]                     weight, state and experts alike
 *     constant %c : f32[2] = {1, 2.5}         of a panel type: its bytes
 *     scope "layer 0"                         of the nodes that follow
 *     %1 = linear(%x, %w) : f32[2,16]         the types are optional, but checked
 *     label "q_norm"                          of the next node, instead of its op
 *     %2 = rms_norm(%1, %g) {eps = 1e-06} : f32[2,16]
 *     %3, %4 = split(%2) {axis = 1, sizes = [8, 8]}
 *     output "logits" = %4                    # a comment ends with the line
 *   }
 *
 * A name that is not a plain identifier is quoted: %"a b".  *out_text lives in arena. */
SL_CHECKED sl_status sl_graph_print(const sl_graph *graph, sl_arena *arena, char **out_text,
                                    sl_error *err);
/* "{eps = 1e-06, offset = 0}" in arena; "" if the op has no attributes. */
SL_CHECKED sl_status sl_attrs_print(sl_op op, const void *attrs, sl_arena *arena, char **out_text,
                                    sl_error *err);
SL_CHECKED sl_status sl_graph_parse(const char *text, size_t bytes, const sl_allocator *allocator,
                                    sl_graph **out, sl_error *err);
/* The same for a text with custom ops. */
SL_CHECKED sl_status sl_graph_parse_using(const char *text, size_t bytes,
                                          const sl_custom_ops *customs,
                                          const sl_allocator *allocator, sl_graph **out,
                                          sl_error *err);
/* "eps=1e-6, axes=[1]" into the op's attribute struct.  Omitted attributes have the default of the
 * op's row, or are an error if there is none (an omitted body is NULL).  Lists and texts are stored
 * in owner.  text may be NULL when bytes is 0. */
SL_CHECKED sl_status sl_attrs_parse(sl_op op, const char *text, size_t bytes, sl_graph *owner,
                                    void *attrs, sl_error *err);
#endif
