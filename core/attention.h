/* attention.h - Attention masks: which positions a query attends to, shared by the evaluator and
 * the kernels. */
#ifndef SL_CORE_ATTENTION_H
#define SL_CORE_ATTENTION_H
#include "core/type.h"
#include <math.h>

typedef enum {
    SL_MASK_NONE,
    SL_MASK_CAUSAL,
    SL_MASK_SLIDING,
    SL_MASK_CUSTOM, /* booleans: true where attended to */
    SL_MASK_BIAS,   /* added to scores */
    SL_MASK_COUNT
} sl_mask;

/* The attributes of every op that contains attention. */
typedef struct {
    uint32_t mask, window;
    double scale, softcap; /* softcap 0: none */
} sl_attention_form;
#define SL_ATTENTION_FORM(ATTRS, KEY_DIM)                                                          \
    ((sl_attention_form){(ATTRS)->mask, (ATTRS)->window,                                           \
                         (ATTRS)->scale != 0 ? (double)(ATTRS)->scale                              \
                                             : 1 / sqrt((double)(KEY_DIM)),                        \
                         (double)(ATTRS)->softcap})

/* A range of key positions [first, end), possibly empty. */
typedef struct {
    int64_t first, end;
} sl_seen;

/* The key positions that query i of `queries` attends to; a mask tensor may exclude some of them.
 * The last query is aligned with the last key. */
static inline sl_seen sl_attention_seen(const sl_attention_form *form, int64_t queries,
                                        int64_t keys, int64_t i) {
    if (form->mask != SL_MASK_CAUSAL && form->mask != SL_MASK_SLIDING) return (sl_seen){0, keys};
    const int64_t end = keys - queries + i + 1;
    if (end <= 0) return (sl_seen){0, 0};
    const int64_t window = form->mask == SL_MASK_SLIDING ? (int64_t)form->window : end;
    return (sl_seen){end > window ? end - window : 0, end};
}

/* The element strides with which a tensor of at most four dims broadcasts to four. */
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
