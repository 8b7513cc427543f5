/* record.h - A program on a device: running it some times while everything is written down, and
 * proving what the device was given. */
#ifndef SL_ENGINE_INSPECT_RECORD_H
#define SL_ENGINE_INSPECT_RECORD_H
#include "engine/inspect/draw.h"
#include "engine/session/model.h"
#include "sluice/inspect.h"

/* A loaded program. */
typedef struct {
    sl_device *device;
    sl_executable *executable;
    const sl_program *program;
    sl_expert_store *store; /* its experts; NULL: it has none */
    /* Runs it, with other inputs in each run if it likes. */
    sl_status (*run)(void *ctx, uint32_t run, sl_error *err);
    void *ctx;
} sl_runnable;

/* Fills in the part of the report that speaks of runs; the first run is not counted.  With a path
 * the trace is written there. */
SL_CHECKED sl_status sl_record(const sl_runnable *what, uint32_t runs, const char *trace_path,
                               sl_inspect_report *report, sl_error *err);
/* Fills in the part of the report that speaks of a proof, where the device can prove what it was
 * given. */
SL_CHECKED sl_status sl_prove(const sl_runnable *what, sl_inspect_report *report, sl_error *err);

/* forward.c: a forward pass of a model, on states of its own. */
typedef struct {
    uint32_t rows, wanted, runs, depth;
    const char *trace_path;
    bool prove;
    sl_compiler_options compile;
} sl_record_plan;
/* Compiles and loads it apart from the model's own, proves it if wanted, and runs it if runs are
 * planned. */
SL_CHECKED sl_status sl_record_forward(sl_model *model, const sl_record_plan *plan,
                                       sl_inspect_report *report, sl_error *err);
#endif
