/* ids.h - Typed handles.  Each is a one-word struct, so passing one kind where another is expected
 * does not compile, and none decays to an integer. */
#ifndef SL_CORE_IDS_H
#define SL_CORE_IDS_H
#include "sluice/graph.h" /* sl_value: a value of a graph; 0 is "none" */
#include <stdint.h>

/* Small integers that must never be swapped for one another. */
#define SL_INDICES(I) I(layer) I(expert) I(slot) I(buffer) I(step)
#define SL_DEFINE_INDEX(name)                                                                      \
    typedef struct {                                                                               \
        uint32_t v;                                                                                \
    } sl_##name##_id;
SL_INDICES(SL_DEFINE_INDEX)
#undef SL_DEFINE_INDEX
#endif
