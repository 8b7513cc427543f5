/* program.h - A compiled computation: steps (dispatches) over buffers.  The interface between
 * compiler and runtime.
 *
 * Steps are in execution order.  What may run concurrently is expressed in the form that the device
 * needs: levels (steps of one level do not conflict; a level starts when the previous one has
 * finished), groups (the same between the barriers of an in-order queue), or edges (a step starts
 * when the steps that it depends on have finished).  Every access is declared; a step that declares
 * none conflicts with all others. */
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
    SL_BUFFER_TEMP      /* in the arena; memory is shared if lifetimes do not overlap */
} sl_buffer_kind;

typedef struct {
    sl_buffer_kind kind;
    const char *name; /* of the value if it has one, else of the step that writes it */
    sl_type type;     /* as declared */
    uint64_t bytes;
    uint64_t arena_offset; /* OUTPUT and TEMP */
    /* OUTPUT and TEMP: live from the first to the last of these */
    uint32_t first_level, last_level;
    const void *data; /* CONSTANT */
} sl_buffer;

/* One operand: a typed view of a buffer. */
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
    struct sl_program **bodies; /* in the order of the attributes; owned; NULL: not executed */
    uint32_t read_count, write_count;
    const sl_access *reads, *writes;
    bool undeclared; /* has undeclared accesses: conflicts with every step */
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

/* Statistics of the compiler. */
typedef struct {
    uint32_t nodes, steps, fused; /* fused: nodes that were fused into others */
    uint32_t legalised;           /* nodes that were rewritten for the device */
    uint32_t undeclared;          /* steps that conflict with all others: accesses are not known */
    uint32_t moved;               /* steps that are not in graph order */
    uint32_t groups;              /* levels or groups */
    uint32_t histogram[9];        /* [1] to [8]: groups of that many steps; [0]: larger groups */
    uint32_t barriers_naive, barriers; /* one after every step; after optimisation */
    uint32_t early_barriers;           /* of two submits: those within the first */
    uint32_t edges_naive, edges;       /* all conflicting pairs; after transitive reduction */
    uint64_t unshared_bytes, arena_bytes,
        live_bytes;    /* live: the most bytes at one time, a lower bound */
    uint32_t in_place; /* results written over an operand */
    double check_seconds, simplify_seconds, legalise_seconds, quantise_seconds, fuse_seconds;
    double lower_seconds, schedule_seconds, plan_seconds;
} sl_program_report;

/* The time of all passes over the graph. */
static inline double sl_program_pass_seconds(const sl_program_report *report) {
    return report->check_seconds + report->simplify_seconds + report->legalise_seconds +
           report->quantise_seconds + report->fuse_seconds;
}

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
    uint64_t arena_bytes; /* size of the arena that the device must provide */
    uint64_t arena_alignment;
    sl_program_report report;
} sl_program;

void sl_program_destroy(sl_program *program); /* NULL is allowed */
/* Whether the buffer is in planned memory, as opposed to bound from outside. */
static inline bool sl_buffer_in_arena(const sl_buffer *buffer) {
    return buffer->kind == SL_BUFFER_OUTPUT || buffer->kind == SL_BUFFER_TEMP;
}
/* Finds a buffer by its declared name; false if there is none. */
bool sl_program_find(const sl_program *program, const char *name, sl_buffer_id *out);
#endif
