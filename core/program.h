/* program.h - A computation as steps over buffers: where compiler and runtime meet.
 *
 * Steps are in execution order.  What may run at the same time is said in the way the device wants
 * it: levels (steps of one level do not conflict; a level starts when the one before has finished),
 * groups (the same between barriers of an in-order queue), or edges (a step starts when the steps
 * it depends on have finished).  Every access is declared; a step that declares none conflicts with
 * everything. */
#ifndef SL_CORE_PROGRAM_H
#define SL_CORE_PROGRAM_H
#include "base/memory.h"
#include "core/access.h"
#include "core/ops.h"

typedef enum {
    SL_BUFFER_INPUT,    /* bound by the caller for each run */
    SL_BUFFER_WEIGHT,   /* bound once, read only */
    SL_BUFFER_CONSTANT, /* data inside the program */
    SL_BUFFER_STATE,    /* bound once, read and written */
    SL_BUFFER_EXPERTS,  /* bound to an expert source */
    SL_BUFFER_OUTPUT,   /* in the arena, valid until the next run */
    SL_BUFFER_TEMP      /* in the arena, shared by lifetimes */
} sl_buffer_kind;

typedef struct {
    sl_buffer_kind kind;
    const char *name; /* of values that have one, else of the step that writes it */
    sl_type type;     /* as declared */
    uint64_t bytes;
    uint64_t arena_offset;            /* OUTPUT and TEMP */
    uint32_t first_level, last_level; /* OUTPUT and TEMP: live in these and between */
    const void *data;                 /* CONSTANT */
} sl_buffer;

/* One operand: a typed window on a buffer. */
typedef struct {
    sl_buffer_id buffer;
    uint64_t offset_bytes;
    sl_type type;
} sl_operand;

typedef struct {
    sl_op op;
    const char *label;
    uint32_t operand_count, input_count;
    const sl_operand *operands; /* in the order of sl_<op>_args: inputs, then OUTs */
    const void *attrs;          /* without bodies */
    uint32_t body_count;
    struct sl_program **bodies; /* in the order of the attributes; owned; NULL: none is run */
    uint32_t read_count, write_count;
    const sl_access *reads, *writes;
    bool undeclared; /* touches bytes it does not declare: conflicts with every step */
    uint32_t level;  /* level or group */
} sl_step;

typedef enum {
    SL_SCHEDULE_LEVELS, /* for a team of threads */
    SL_SCHEDULE_GROUPS, /* for queues with barriers */
    SL_SCHEDULE_EDGES   /* for devices that take a graph */
} sl_schedule_model;

/* Direct successors: of step s, targets[first[s]] to targets[first[s + 1]]. */
typedef struct {
    uint32_t *first, *targets;
} sl_edges;

/* What the compiler did, for people to see. */
typedef struct {
    uint32_t nodes, steps, fused; /* fused: nodes that went into others */
    uint32_t moved;               /* steps that left the order of the graph */
    uint32_t groups;              /* levels or groups */
    uint32_t histogram[9];        /* groups of 1, 2, ... 8 steps and of more, at [1] to [8], [0] */
    uint32_t barriers_naive, barriers; /* one after every step, and what is left */
    uint32_t edges_naive, edges;       /* all conflicting pairs in order, and after reduction */
    uint64_t unshared_bytes, arena_bytes,
        live_bytes;    /* live: the most at one time, a lower bound */
    uint32_t in_place; /* results that took over an operand's memory */
    double fuse_seconds, lower_seconds, schedule_seconds, plan_seconds;
} sl_program_report;

typedef struct {
    const char *name;
    sl_operand operand;
} sl_program_output;

typedef struct sl_program {
    sl_arena arena; /* owns everything below */
    const char *name;
    sl_buffer *buffers;
    uint32_t buffer_count;
    sl_step *steps;
    uint32_t step_count, level_count;
    sl_schedule_model model;
    sl_edges edges; /* of the edges model: transitively reduced */
    uint32_t
        early_steps; /* of the groups model: a first submit of this many steps; 0: one submit */
    sl_program_output *outputs;
    uint32_t output_count;
    uint64_t arena_bytes; /* what the device must provide */
    uint64_t arena_alignment;
    sl_program_report report;
} sl_program;

void sl_program_destroy(sl_program *program); /* NULL is fine */
/* Planned memory, as opposed to what is bound from outside. */
static inline bool sl_buffer_in_arena(const sl_buffer *buffer) {
    return buffer->kind == SL_BUFFER_OUTPUT || buffer->kind == SL_BUFFER_TEMP;
}
/* Buffer by declared name; false when absent. */
bool sl_program_find(const sl_program *program, const char *name, sl_buffer_id *out);
#endif
