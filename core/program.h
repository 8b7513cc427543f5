/* program.h - A computation as steps over buffers: where compiler and runtime meet.
 *
 * Steps are in execution order; step i may run once every earlier step of a lower level has
 * finished, and steps of one level do not conflict.  Every access is declared as a byte range. */
#ifndef SL_CORE_PROGRAM_H
#define SL_CORE_PROGRAM_H
#include "base/memory.h"
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
    uint64_t arena_offset; /* OUTPUT and TEMP */
    const void *data;      /* CONSTANT */
} sl_buffer;

typedef struct {
    sl_buffer_id buffer;
    uint64_t begin, end; /* bytes */
} sl_access;

/* One operand: a typed window on a buffer. */
typedef struct {
    sl_buffer_id buffer;
    uint64_t offset_bytes;
    sl_type type;
} sl_operand;

typedef struct {
    sl_op op;
    const char *label;
    uint32_t operand_count;
    const sl_operand *operands; /* in the order of sl_<op>_args: inputs, then OUTs */
    const void *attrs;
    uint32_t read_count, write_count;
    const sl_access *reads, *writes;
    uint32_t level;
} sl_step;

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
    sl_program_output *outputs;
    uint32_t output_count;
    uint64_t arena_bytes;    /* what the device must provide, 64-byte aligned */
    uint64_t unshared_bytes; /* the same without sharing, for the report */
} sl_program;

void sl_program_destroy(sl_program *program); /* NULL is fine */
/* Buffer by declared name; false when absent. */
bool sl_program_find(const sl_program *program, const char *name, sl_buffer_id *out);
#endif
