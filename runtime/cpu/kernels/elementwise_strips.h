/* elementwise_strips.h - Elementwise ops on strips: short contiguous runs of elements in the L1
 * cache.  Broadcast, strided and 16-bit inputs are converted to strips first.
 *
 * A strip holds elements in their own type, except f16 and bf16, which are held as f32 with values
 * representable in the type, and bool, which is held as bytes 0 and 1. */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_STRIPS_H
#define SL_RUNTIME_CPU_ELEMENTWISE_STRIPS_H
#include "core/elementwise_region.h"
#include "runtime/cpu/kernels/kernels.h"

/* Small enough that prefetched data fits into the L1 cache beside the strips.  STRIP_BYTES is not a
 * power of two, so that strips do not map to the same cache sets. */
enum { STRIP = 256, STRIP_BYTES = STRIP * 8 + 192 };

typedef struct {
    const void *in[3]; /* unused operands repeat the first */
    void *out;         /* may alias an input whose elements have the same size */
    int64_t count;
    uint32_t attribute; /* of the step (core/elementwise_region.h) */
    sl_dtype from, to;  /* of the first operand and of the result, before widening */
    bool saturate;      /* for a cast */
} strip;
typedef void strip_fn(const strip *s);
/* Indexed by the number of the op; NULL if the type does not support it. */
typedef strip_fn *const strip_table[SL_ELEMENTWISE_OPS + 1];

static inline bool is_half(sl_dtype dtype) {
    return dtype == SL_DTYPE_f16 || dtype == SL_DTYPE_bf16;
}
static inline sl_dtype held_as(sl_dtype dtype) {
    return is_half(dtype) ? SL_DTYPE_f32 : dtype;
}

extern strip_table SL_KERNEL(sl_strips_f32), SL_KERNEL(sl_strips_f64), SL_KERNEL(sl_strips_bool),
    SL_KERNEL(sl_strips_c64), SL_KERNEL(sl_strips_i8), SL_KERNEL(sl_strips_i16),
    SL_KERNEL(sl_strips_i32), SL_KERNEL(sl_strips_i64), SL_KERNEL(sl_strips_u8),
    SL_KERNEL(sl_strips_u16), SL_KERNEL(sl_strips_u32), SL_KERNEL(sl_strips_u64);
/* elementwise_chain.c: chains of f32 steps; each result is an operand of the next step. */
typedef struct {
    const float *start;
    float *out; /* may alias any operand */
    uint32_t length;
    struct {
        uint32_t link;
        const float *other; /* `start` if the step has no other operand */
    } links[SL_ELEMENTWISE_MAX_STEPS];
} strip_chain;
/* The link number of an op, 0 if it cannot be chained; `turned`: the previous result is its second
 * operand. */
uint32_t SL_KERNEL(sl_strip_link)(sl_op op, bool turned);
void SL_KERNEL(sl_strip_chain)(const strip_chain *c, int64_t count);
/* elementwise_other.c: where, cast and bitcast, for all types. */
strip_fn SL_KERNEL(sl_strip_where), SL_KERNEL(sl_strip_cast), SL_KERNEL(sl_strip_bits);

/* float16.c: converts `count` elements of f16 or bf16 to and from f32.  Widening may read from the
 * upper half of the same buffer. */
void SL_KERNEL(sl_strip_widen)(sl_dtype dtype, const uint16_t *from, float *to, int64_t count);
void SL_KERNEL(sl_strip_narrow)(sl_dtype dtype, const float *from, uint16_t *to, int64_t count);
/* Rounds to values that are representable in the type. */
void SL_KERNEL(sl_strip_round)(sl_dtype dtype, float *x, int64_t count);

/* elementwise_slopes.c: dy times the derivative; NULL if `kind` has no derivative. */
strip_fn *SL_KERNEL(sl_strip_slope)(const char *kind, sl_dtype held);
#endif
