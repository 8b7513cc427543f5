/* memory.h - The memory that a model takes, part by part, and the choice of the expert budget.
 *
 * Everything is known before the large parts are allocated: the forward passes are compiled first,
 * which tells the sizes of weights, states and workspace, and the experts get what is left. */
#ifndef SL_ENGINE_SESSION_MEMORY_H
#define SL_ENGINE_SESSION_MEMORY_H
#include "engine/session/model.h"

/* The parts of sl_memory_use, with an expert store of expert_bytes. */
void sl_memory_measure(const sl_model *model, uint64_t expert_bytes, sl_memory_use *use);

/* The memory of the device for experts as the options give it; 0: not given. */
uint64_t sl_memory_device_budget(const sl_model *model, const sl_model_options *options);
/* Chooses the budget of the expert store; 0: all experts.  Fails with SL_NO_MEMORY if the model
 * does not fit the memory that is left, with this context. */
SL_CHECKED sl_status sl_memory_choose_budget(const sl_model *model, const sl_model_options *options,
                                             uint64_t *out, sl_error *err);
#endif
