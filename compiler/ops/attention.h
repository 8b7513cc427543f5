/* attention.h - The reference implementation of attention without a cache, for all ops that contain
 * it, and their shared checks. */
#ifndef SL_COMPILER_OPS_ATTENTION_H
#define SL_COMPILER_OPS_ATTENTION_H
#include "compiler/ops/check.h"
#include "core/attention.h"

/* Fails unless inputs [0, count), called names[i], have the element type of the first. */
SL_CHECKED sl_status sl_check_one_type(const sl_infer_args *a, const char *const *names,
                                       uint32_t count, sl_error *err);
/* Fails unless input i of the list has this type. */
SL_CHECKED sl_status sl_check_extra(const sl_infer_args *a, uint32_t i, const char *name,
                                    const sl_type *wanted, sl_error *err);
/* Fails unless there are `count` inputs after the `named` ones. */
SL_CHECKED sl_status sl_check_extra_count(const sl_infer_args *a, uint32_t named, uint32_t count,
                                          const char *meaning, sl_error *err);

/* mask, window, scale, softcap as given. */
typedef struct {
    uint32_t mask, window;
    float scale, softcap;
} sl_attention_attrs_shared;
SL_CHECKED sl_status sl_check_attention_form(const char *label,
                                             const sl_attention_attrs_shared *attrs, sl_error *err);
#define SL_CHECK_ATTENTION_FORM(LABEL, ATTRS, ERR)                                                 \
    sl_check_attention_form((LABEL),                                                               \
                            &(sl_attention_attrs_shared){(ATTRS)->mask, (ATTRS)->window,           \
                                                         (ATTRS)->scale, (ATTRS)->softcap},        \
                            (ERR))
static inline bool sl_mask_is_tensor(uint32_t mask) {
    return mask == SL_MASK_CUSTOM || mask == SL_MASK_BIAS;
}
/* Fails unless input i is a mask or bias for scores of this type [B,Hq,S,T]. */
SL_CHECKED sl_status sl_check_mask(const sl_infer_args *a, uint32_t i, uint32_t mask,
                                   const sl_type *scores, sl_error *err);

/* Tensors as in the op; mask and sinks may be NULL. */
typedef struct {
    sl_attention_form form;
    int64_t batches, heads, kv_heads, queries, keys, key_dim, value_dim;
    const double *q, *k, *v, *mask, *sinks;
    sl_strides mask_strides;
    double *room; /* scratch of 3 * keys */
} sl_plain_attention;
void sl_attend(const sl_plain_attention *t, double *out);
#endif
