/* direct.h - Direct mode (sluice/direct.h): the values of a graph, and programs of single nodes. */
#ifndef SL_API_DIRECT_H
#define SL_API_DIRECT_H
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "runtime/devices.h"
#include "sluice/direct.h"

enum { SL_DIRECT_VALUE_ALIGNMENT = 64 };

typedef struct {
    void *data;         /* in its own type; of a state: a copy for readers */
    const void *shared; /* of constants, inputs and weights: where the data is instead */
    double *slots;      /* on the evaluator: results and states as it holds them */
    void *state;        /* of a declared state: device memory */
    uint32_t current;   /* of a declared state: its latest version */
    bool started;       /* a declared state has what it begins with */
    bool ready;         /* computed, or found among what was set */
    bool known;         /* computed from constants by the compiler */
} sl_direct_value;

/* What sl_direct_set was given. */
typedef struct sl_direct_given sl_direct_given;
struct sl_direct_given {
    sl_direct_given *next;
    const char *name;
    void *data;
    size_t bytes;
};

/* The program of a node; nodes that are alike share it. */
typedef struct sl_direct_program sl_direct_program;
struct sl_direct_program {
    sl_direct_program *next;
    void *key; /* the binary form of the graph of the node, and what that leaves out */
    size_t key_bytes;
    sl_graph *graph; /* of the evaluator */
    sl_evaluator *evaluator;
    sl_program *program;
    sl_executable *executable;
};

struct sl_direct {
    sl_arena arena; /* the struct itself, given and programs, keys */
    sl_graph *graph;
    const sl_device_row *row;
    sl_device *device; /* NULL: the evaluator */
    sl_compiler_options compile;
    const sl_experts *experts; /* NULL: none */
    sl_direct_value *values;   /* [value_count] */
    uint32_t value_count;
    sl_direct_given *given;
    sl_direct_program *programs;
};

/* The bytes that a value takes in memory; at least 1, so that empty tensors have an address. */
static inline uint64_t sl_direct_bytes(const sl_type *type) {
    const uint64_t bytes = sl_type_bytes(type);
    return bytes ? bytes : 1;
}
/* direct.c: makes an operand of a node ready. */
SL_CHECKED sl_status sl_direct_operand(sl_direct *direct, sl_value value, sl_error *err);
/* Memory for a result. */
SL_CHECKED sl_status sl_direct_room(sl_direct *direct, sl_value value, sl_error *err);
/* direct_node.c: runs a node whose operands are ready. */
SL_CHECKED sl_status sl_direct_node(sl_direct *direct, uint32_t node, sl_error *err);
void sl_direct_programs_destroy(sl_direct *direct);
#endif
