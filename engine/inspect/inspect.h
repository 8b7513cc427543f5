/* inspect.h - Looking at compiled forward passes, and measuring what bounds them.  api/inspect.c
 * checks and completes the options. */
#ifndef SL_ENGINE_INSPECT_INSPECT_H
#define SL_ENGINE_INSPECT_INSPECT_H
#include "engine/inspect/record.h"

/* Reports have memory, an sl_arena, while they are filled in. */
SL_CHECKED sl_status sl_report_init(sl_inspect_report *report, sl_error *err);
void sl_report_deinit(sl_inspect_report *report);
/* As sl_inspect. */
SL_CHECKED sl_status sl_inspect_forward(sl_model *model, const sl_inspect_options *options,
                                        sl_inspect_report *out, sl_error *err);
/* As sl_compiled_report if it is loaded, as sl_inspect_graph otherwise. */
typedef struct {
    const sl_graph *graph;
    const sl_compiler_options *compile;
    const sl_runnable *loaded; /* NULL: it is not */
} sl_graph_subject;
SL_CHECKED sl_status sl_inspect_any_graph(const sl_graph_subject *subject,
                                          const sl_inspect_options *options, sl_inspect_report *out,
                                          sl_error *err);
/* waits.c: fills in the waits of a report. */
SL_CHECKED sl_status sl_list_waits(const sl_program *program, const sl_allocator *allocator,
                                   sl_inspect_report *out, sl_error *err);
/* As sl_compare. */
SL_CHECKED sl_status sl_compare_steps(sl_model *first, sl_model *second,
                                      const sl_compare_options *options, sl_compare_report *out,
                                      sl_error *err);
/* As sl_measure_disk. */
SL_CHECKED sl_status sl_disk_measure(const sl_model *model, sl_disk_floor *out, sl_error *err);
/* How many reads into buffers of that size it keeps in flight when so many bytes are available: the
 * buffers take at most half of them, but there is at least one. */
uint32_t sl_disk_reads_in_flight(uint64_t buffer_bytes, uint64_t available);
/* As sl_model_token_cost. */
sl_token_cost sl_token_cost_of(const sl_model *model);
#endif
