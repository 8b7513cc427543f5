/* kv_budget.h - How many pages the KV cache of a model has. */
#ifndef SL_ENGINE_SESSION_KV_BUDGET_H
#define SL_ENGINE_SESSION_KV_BUDGET_H
#include "engine/session/model.h"

/* Chooses options->shape.capacity and pages, and how the budget for prefixes is divided: pages for
 * all sessions at full context, or what kv_bytes holds, and those of prefixes.  A context that was
 * not asked for is lowered to what kv_bytes holds. */
SL_CHECKED sl_status sl_kv_budget_choose(sl_model *model, const sl_model_options *wanted,
                                         sl_forward_options *options, sl_error *err);
#endif
