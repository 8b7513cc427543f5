/* rope_apply.h - Which table column rotates which pair of dims; shared by the evaluator and the
 * kernels of the RoPE ops. */
#ifndef SL_CORE_ROPE_APPLY_H
#define SL_CORE_ROPE_APPLY_H
#include "core/attrs.h"

/* The kind of position (of `kinds`) that column j of mrope's tables comes from. */
static inline int64_t sl_mrope_kind(const sl_integers *sections, bool striped, int64_t kinds,
                                    int64_t j) {
    if (striped) return j / kinds < sections->items[j % kinds] ? j % kinds : 0;
    int64_t section = 0;
    for (int64_t end = sections->items[0]; j >= end && section + 1 < sections->count;)
        end += sections->items[++section];
    return section % kinds;
}

/* Index of the first element of pair j, and the distance to its second element. */
static inline int64_t sl_pair_at(bool interleaved, int64_t j) {
    return interleaved ? 2 * j : j;
}
static inline int64_t sl_pair_step(bool interleaved, int64_t pairs) {
    return interleaved ? 1 : pairs;
}
#endif
