/* model_ops.h - The structs of what language models are made of, alone: their kernels take minutes
 * to compile and need not be compiled again when another family grows. */
#ifndef SL_CORE_MODEL_OPS_H
#define SL_CORE_MODEL_OPS_H
#define SL_FAMILY "core/ops/model.def"
#include "core/structs.h" /* NOLINT: one family at a time */
#define SL_FAMILY "core/ops/fused.def"
#include "core/structs.h" /* NOLINT: one family at a time */
#endif
