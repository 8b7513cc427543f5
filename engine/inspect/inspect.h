/* inspect.h - Looking at compiled forward passes, and measuring what bounds them.  api/inspect.c
 * checks and completes the options. */
#ifndef SL_ENGINE_INSPECT_INSPECT_H
#define SL_ENGINE_INSPECT_INSPECT_H
#include "engine/inspect/draw.h"
#include "engine/session/model.h"
#include "sluice/inspect.h"

/* As sl_inspect.  steps: where to list the steps; NULL: nowhere. */
SL_CHECKED sl_status sl_inspect_forward(sl_model *model, const sl_inspect_options *options,
                                        const sl_step_list *steps, sl_inspect_report *out,
                                        sl_error *err);
/* As sl_compare. */
SL_CHECKED sl_status sl_compare_steps(sl_model *first, sl_model *second,
                                      const sl_compare_options *options, sl_compare_report *out,
                                      sl_error *err);
/* As sl_measure_disk. */
SL_CHECKED sl_status sl_disk_measure(const sl_model *model, sl_disk_floor *out, sl_error *err);
/* As sl_model_token_cost. */
sl_token_cost sl_token_cost_of(const sl_model *model);
#endif
