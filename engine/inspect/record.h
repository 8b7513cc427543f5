/* record.h - A forward pass on the model's device: running it some times while everything is
 * written down, and proving what the device was given. */
#ifndef SL_ENGINE_INSPECT_RECORD_H
#define SL_ENGINE_INSPECT_RECORD_H
#include "engine/inspect/draw.h"
#include "engine/session/model.h"
#include "sluice/inspect.h"

typedef struct {
    uint32_t rows, wanted, runs, depth;
    sl_compiler_options compile;
} sl_record_plan;

/* Compiles the step apart from the model's own, on states of its own, runs it, and fills in the
 * part of the report that speaks of runs.  With a path the trace is written there. */
SL_CHECKED sl_status sl_record(sl_model *model, const sl_record_plan *plan, const char *trace_path,
                               sl_inspect_report *report, sl_error *err);
/* Compiles and loads it likewise, and fills in the part of the report that speaks of a proof, where
 * the device can prove what it was given. */
SL_CHECKED sl_status sl_prove(sl_model *model, const sl_record_plan *plan,
                              sl_inspect_report *report, sl_error *err);
#endif
