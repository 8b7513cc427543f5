/* arrange.h - Conversion of experts whose file layout differs from the layout that kernels read.
 * The converted matrices of an expert are contiguous, each aligned to 64 bytes. */
#ifndef SL_ENGINE_EXPERTS_ARRANGE_H
#define SL_ENGINE_EXPERTS_ARRANGE_H
#include "engine/experts/table.h"

/* Whether any matrix of the layer's experts needs conversion. */
bool sl_expert_is_arranged(const sl_expert_layer *layer);
/* Offset of matrix m after conversion; the total size if m is SL_EXPERT_MATRICES. */
uint64_t sl_expert_arranged_at(const sl_expert_layer *layer, int m);
/* parts: the bytes of each part as read.  out: sl_expert_arranged_at(layer, SL_EXPERT_MATRICES)
 * bytes, aligned to 64 and not overlapping the parts. */
void sl_expert_arrange(const sl_expert_layer *layer, const void *const parts[SL_MAX_EXPERT_PARTS],
                       void *out);
#endif
