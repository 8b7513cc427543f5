/* compiled.h - What a compiled graph is made of; shared by compiling and running (compiled.c), its
 * memory (compiled_memory.c), timing (compiled_time.c) and reports (compiled_report.c). */
#ifndef SL_API_COMPILED_H
#define SL_API_COMPILED_H
#include "api/storage.h"
#include "base/names.h"
#include "compiler/compile.h"
#include "compiler/eval.h"
#include "runtime/trace.h"

/* A declared value. */
typedef struct {
    sl_tensor *tensor;
    uint32_t value, buffer; /* buffer: UINT32_MAX if the program has none for it */
    bool is_needed;         /* the graph uses it: it must be set */
    uint64_t version;       /* of the tensor, when it was bound */
} sl_slot;

/* Memory of results: what the device or the evaluator writes to. */
typedef struct {
    void *data;
    uint64_t bytes;
} sl_block;

typedef struct {
    void *given;     /* the caller's memory; NULL: none */
    uint32_t buffer; /* that a device writes it to, all of it; UINT32_MAX: another one */
} sl_result;

typedef enum {
    SL_FLIGHT_NONE,
    SL_FLIGHT_QUEUED,    /* the worker runs it */
    SL_FLIGHT_ON_DEVICE, /* it was begun */
    SL_FLIGHT_FAILED     /* it could not be begun */
} sl_flight;

/* Runs that are recorded (compiled_time.c). */
typedef struct {
    bool is_open;
    uint32_t left, recorded; /* runs */
    const char *labels, *path;
    sl_arena arena;
    sl_trace trace;
} sl_window;

struct sl_compiled {
    sl_arena arena;
    sl_executor *executor;
    sl_storage *storage;
    const sl_experts *experts; /* borrowed; NULL: none */
    sl_graph *graph;           /* a copy, which nobody adds to */
    sl_compiler_options compile;
    sl_program *program; /* of a device */
    sl_executable *executable;
    sl_evaluator *evaluator; /* without a device */
    sl_slot *slots;
    uint32_t slot_count;
    uint32_t *slot_of; /* [value]: 1 + its slot; 0: none */
    sl_result *results;
    sl_block *blocks; /* [buffer]: memory of OUTPUT buffers; without a device [output] */
    uint32_t block_count;
    sl_names outputs; /* their names */
    sl_flight flight;
    sl_queue_job job;
    sl_status status; /* of the run in flight */
    sl_error error;
    sl_run_timing timing; /* of the run in flight */
    sl_compiled_timing timings;
    sl_window window;
};

/* What a graph is compiled for: an executor and a storage, each taken. */
typedef struct {
    sl_executor *executor;
    sl_storage *storage;
    const sl_experts *experts; /* borrowed; NULL: none */
} sl_place;
/* Opens the executor and the storage that the options name, or new ones. */
SL_CHECKED sl_status sl_place_open(const sl_compile_options *options, sl_place *out, sl_error *err);
void sl_place_close(const sl_place *place);
/* As sl_compile for a place, which may be closed afterwards; words: compile options. */
SL_CHECKED sl_status sl_compile_for(const sl_graph *graph, const sl_place *place, const char *words,
                                    sl_compiled **out, sl_error *err);

/* SL_INVALID if a run is in flight. */
SL_CHECKED sl_status sl_compiled_check_idle(const sl_compiled *compiled, sl_error *err);
/* Gives the device what has another address than before.  In the queue. */
SL_CHECKED sl_status sl_compiled_bind_all(sl_compiled *compiled, sl_error *err);
/* Memory of the library for a block, zeroed and bound. */
SL_CHECKED sl_status sl_compiled_own_block(sl_compiled *compiled, uint32_t block, sl_error *err);
void sl_compiled_release_block(sl_compiled *compiled, uint32_t block);
/* compiled_time.c: after each run, in the queue; and when the graph is destroyed. */
void sl_window_count(sl_compiled *compiled);
void sl_window_close(sl_compiled *compiled);
#endif
