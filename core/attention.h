/* attention.h - What a query of attention sees, for the meaning of the op and for its kernels. */
#ifndef SL_CORE_ATTENTION_H
#define SL_CORE_ATTENTION_H
#include "core/type.h"
#include <math.h>

typedef enum {
    SL_MASK_NONE,
    SL_MASK_CAUSAL,
    SL_MASK_SLIDING,
    SL_MASK_CUSTOM, /* bools: true where seen */
    SL_MASK_BIAS,   /* added to scores */
    SL_MASK_COUNT
} sl_mask;

/* From the attributes of any op that has attention inside. */
typedef struct {
    uint32_t mask, window;
    double scale, softcap; /* softcap 0: none */
} sl_attention_form;
#define SL_ATTENTION_FORM(ATTRS, KEY_DIM)                                                          \
    ((sl_attention_form){(ATTRS)->mask, (ATTRS)->window,                                           \
                         (ATTRS)->scale != 0 ? (double)(ATTRS)->scale                              \
                                             : 1 / sqrt((double)(KEY_DIM)),                        \
                         (double)(ATTRS)->softcap})

/* Positions [first, end) of the keys, which may be none. */
typedef struct {
    int64_t first, end;
} sl_seen;

/* What query i of `queries` sees of `keys` positions; a mask in a tensor hides some of them.  The
 * last query stands at the last position. */
static inline sl_seen sl_attention_seen(const sl_attention_form *form, int64_t queries,
                                        int64_t keys, int64_t i) {
    if (form->mask != SL_MASK_CAUSAL && form->mask != SL_MASK_SLIDING) return (sl_seen){0, keys};
    const int64_t end = keys - queries + i + 1;
    if (end <= 0) return (sl_seen){0, 0};
    const int64_t window = form->mask == SL_MASK_SLIDING ? (int64_t)form->window : end;
    return (sl_seen){end > window ? end - window : 0, end};
}

/* How a tensor of at most four dims broadcasts to four: elements from one index to the next. */
typedef struct {
    int64_t by[4];
} sl_strides;
static inline sl_strides sl_strides_of(const sl_dims *shape) {
    sl_strides strides = {{0}};
    int64_t stride = 1;
    for (uint32_t back = 1; back <= shape->rank && back <= 4; back++) {
        const int64_t size = shape->dims[shape->rank - back];
        strides.by[4 - back] = size == 1 ? 0 : stride;
        stride *= size;
    }
    return strides;
}
#endif
