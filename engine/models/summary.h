/* summary.h - What the headers of a model's files say of it. */
#ifndef SL_ENGINE_MODELS_SUMMARY_H
#define SL_ENGINE_MODELS_SUMMARY_H
#include "base/memory.h"
#include "sluice/model_files.h"

/* Fails with SL_NO_MEMORY only; whatever else is wrong is out->problem. */
SL_CHECKED sl_status sl_model_summarise(const char *path, const sl_allocator *allocator,
                                        sl_model_summary *out, sl_error *err);
#endif
