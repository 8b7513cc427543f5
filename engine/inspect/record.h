/* record.h - Running a step some times while everything is written down. */
#ifndef SL_ENGINE_INSPECT_RECORD_H
#define SL_ENGINE_INSPECT_RECORD_H
#include "engine/inspect/draw.h"
#include "engine/session/model.h"
#include "sluice/inspect.h"

typedef struct {
    uint32_t rows, wanted, runs, depth;
    sl_compile_how how;
} sl_record_plan;

/* Compiles the step apart from the model's own, on states of its own, runs it, and fills in the
 * part of the report that speaks of runs.  With a path the trace is written there. */
SL_CHECKED sl_status sl_record(sl_model *model, const sl_record_plan *plan, const char *trace_path,
                               sl_inspect_report *report, sl_error *err);
#endif
