/* ids.h - Typed handles.  Each is a one-word struct, so passing one kind where another is expected
 * does not compile, and none decays to an integer. */
#ifndef SL_CORE_IDS_H
#define SL_CORE_IDS_H
#include <stdint.h>

/* A value of a graph.  0 is "none": what a builder returns after it has failed. */
typedef struct {
    uint32_t v;
} sl_value;

/* Small integers that must never be swapped for one another. */
#define SL_INDICES(I) I(layer) I(expert) I(slot) I(buffer) I(step)
#define SL_DEFINE_INDEX(name)                                                                      \
    typedef struct {                                                                               \
        uint32_t v;                                                                                \
    } sl_##name##_id;
SL_INDICES(SL_DEFINE_INDEX)
#undef SL_DEFINE_INDEX
#endif
