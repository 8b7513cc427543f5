/* model_ops.h - The structs of the ops of language models alone, so that their kernels, which take
 * long to compile, are not recompiled when another op family changes. */
#ifndef SL_CORE_MODEL_OPS_H
#define SL_CORE_MODEL_OPS_H
#define SL_FAMILY "core/model_ops.def"
#include "core/structs.h"
#endif
