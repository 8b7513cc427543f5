/* elementwise_strips.h - Elementwise ops on strips: short contiguous runs of elements in the L1
 * cache. Broadcast, strided and 16-bit inputs are converted to strips first.
 *
 * A type is held as itself, but f16 and bf16 as f32 with values of theirs, and bool as bytes of 0
 * and 1. */
#ifndef SL_RUNTIME_CPU_ELEMENTWISE_STRIPS_H
#define SL_RUNTIME_CPU_ELEMENTWISE_STRIPS_H
#include "core/elementwise_region.h"
#include "runtime/cpu/kernels/kernels.h"

/* So few that what the next strips read fits beside; strips do not lie a power of two apart, where
 * they would share lines of the cache. */
enum { STRIP = 256, STRIP_BYTES = STRIP * 8 + 192 };

typedef struct {
    const void *in[3]; /* the first again, where the op has fewer operands */
    void *out;         /* may be one of in, where elements have one size */
    int64_t count;
    uint32_t attribute; /* of a step (core/elementwise_region.h) */
    sl_dtype from, to;  /* types of the first operand and of the result; not as held */
    bool saturate;      /* of a cast */
} strip;
typedef void strip_fn(const strip *s);
/* By the number of an op; NULL where the type has none. */
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
/* elementwise_chain.c: chains of f32 instructions; each result is an operand of the next one. */
typedef struct {
    const float *start;
    float *out; /* may be any operand */
    uint32_t length;
    struct {
        uint32_t link;
        const float *other; /* start again, where a link has no other operand */
    } links[SL_ELEMENTWISE_MAX_STEPS];
} strip_chain;
/* The link of an op, whose second operand was made before where `turned`; 0 where there is none. */
uint32_t SL_KERNEL(sl_strip_link)(sl_op op, bool turned);
void SL_KERNEL(sl_strip_chain)(const strip_chain *c, int64_t count);
/* elementwise_other.c: one of where, cast, bitcast, of any types. */
strip_fn SL_KERNEL(sl_strip_where), SL_KERNEL(sl_strip_cast), SL_KERNEL(sl_strip_bits);

/* float16.c: count elements of f16 or bf16 to and from f32; from may lie behind to. */
void SL_KERNEL(sl_strip_widen)(sl_dtype dtype, const uint16_t *from, float *to, int64_t count);
void SL_KERNEL(sl_strip_narrow)(sl_dtype dtype, const float *from, uint16_t *to, int64_t count);
/* Rounds to values of the type. */
void SL_KERNEL(sl_strip_round)(sl_dtype dtype, float *x, int64_t count);

/* elementwise_slopes.c: dy times the derivative; NULL for what has none. */
strip_fn *SL_KERNEL(sl_strip_slope)(const char *kind, sl_dtype held);
#endif
