/* panel_params.h - Offsets of the parts of a panel, and decoding of its codes (layouts in
 * core/codec.h). */
#ifndef SL_RUNTIME_CPU_PANEL_PARAMS_H
#define SL_RUNTIME_CPU_PANEL_PARAMS_H
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/vint.h"

/* A panel's 16 rows fill this many vectors. */
enum { PANEL_VECTORS = SL_PANEL_ROWS / LANES };

typedef struct {
    int64_t index;
    const float *headers; /* two per super-group; only q4 and nvfp4 have them */
    const uint8_t *start;
} panel;

static inline panel panel_at(const sl_linear_job *job, const sl_panel_layout *l, int64_t index) {
    const uint8_t *matrix = job->weights;
    return (panel){index, (const float *)(const void *)matrix + index * l->supers * 2,
                   matrix + l->header_bytes + (uint64_t)index * l->panel_bytes};
}

/* The sizes of sl_panel_layout, as compile-time constants of a type. */
typedef struct {
    int super_bytes, param_bytes, group_bytes;
} panel_form;
#define PANEL(NAME, PLANE, SUPER, PARAMS, CODES)                                                   \
    __attribute__((unused)) static const panel_form form_##NAME = {SUPER, PARAMS, CODES};
#include "core/panels.def"

INLINE int64_t block_bytes(panel_form f) {
    return SL_BLOCK_GROUPS * (f.param_bytes + f.group_bytes);
}
INLINE const uint8_t *super_of(const panel *p, panel_form f, int64_t g) {
    return p->start + g / SL_SUPER_GROUPS *
                          (f.super_bytes + SL_SUPER_GROUPS / SL_BLOCK_GROUPS * block_bytes(f));
}
INLINE const uint8_t *block_of(const panel *p, panel_form f, int64_t g) {
    return p->start + (g / SL_SUPER_GROUPS + 1) * f.super_bytes +
           g / SL_BLOCK_GROUPS * block_bytes(f);
}
INLINE const uint8_t *params_of(const panel *p, panel_form f, int64_t g) {
    return block_of(p, f, g) + g % SL_BLOCK_GROUPS * f.param_bytes;
}
INLINE const uint8_t *codes_of(const panel *p, panel_form f, int64_t g) {
    return block_of(p, f, g) + SL_BLOCK_GROUPS * f.param_bytes +
           g % SL_BLOCK_GROUPS * f.group_bytes;
}

/* Prefetches the group that is `bytes` further on, possibly in a later panel, into the L2 cache,
 * from where the hardware prefetcher takes it to L1.  Harmless beyond the end of the matrix.
 * AHEAD_BYTES suffices when the loop is limited by memory bandwidth. */
enum { AHEAD_BYTES = 1024, LINE_BYTES = 64 };
INLINE void read_ahead(const panel *p, panel_form f, int64_t g, int64_t bytes) {
    uintptr_t from = (uintptr_t)block_of(p, f, g) + (uintptr_t)bytes +
                     (uintptr_t)(g % SL_BLOCK_GROUPS) * (uintptr_t)(block_bytes(f) / 2);
    __asm__("" : "+r"(from)); /* keeps the base address in one register instead of one per line */
    for (int i = 0; i < block_bytes(f) / SL_BLOCK_GROUPS; i += LINE_BYTES)
        __builtin_prefetch((const void *)(from + (uintptr_t)i), 0, 2);
    if (f.super_bytes && g % SL_SUPER_GROUPS == 0)
        __builtin_prefetch((const void *)((uintptr_t)super_of(p, f, g) + (uintptr_t)bytes), 0, 2);
}

/* Parameters of vector v (a constant) of group g: w = scale q - minimum, with q as stored. */
typedef void panel_params_fn(const panel *p, int64_t g, const int v, vf *scale, vf *minimum);

/* Offset of the first parameter of vector v among a group's 16, of `bytes` bytes each. */
INLINE int64_t first_of(const int v, const int bytes) {
    return (int64_t)v * LANES * bytes;
}

INLINE void params_q4(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const float *header = p->headers + g / SL_SUPER_GROUPS * 2;
    const uint8_t *codes = params_of(p, form_q4, g) + first_of(v, 1);
    *scale = vsplat(header[0]) * vload_u8(codes);
    *minimum = vsplat(header[1]) * vload_u8(codes + SL_PANEL_ROWS);
}

INLINE void params_q4_k(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const uint8_t *super = super_of(p, form_q4_k, g) + first_of(v, 2);
    const uint8_t *codes = params_of(p, form_q4_k, g) + first_of(v, 1);
    *scale = vload_f16(super) * vload_u8(codes);
    *minimum = vload_f16(super + 32) * vload_u8(codes + SL_PANEL_ROWS);
}

INLINE void params_q4_0(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    *scale = vload_f16(params_of(p, form_q4_0, g) + first_of(v, 2));
    *minimum = *scale * vsplat(8);
}

INLINE void params_q4_m(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const uint8_t *both = block_of(p, form_q4_m, g) + first_of(v, 2);
    *scale = vload_bf16(both);
    *minimum = -vload_bf16(both + 32);
}

INLINE void params_q4_f(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const uint8_t *own = params_of(p, form_q4_f, g) + first_of(v, 4);
    *scale = vload(own);
    *minimum = -vload(own + 64);
}

/* The same for types whose codes are unpacked to bytes; half 0 of a group is columns 0..15.  Types
 * with signed codes do not set the minimum.  v and half are constants. */
typedef void panel_bytes_fn(const panel *p, int64_t g, const int v, const int half, vf *scale,
                            vf *minimum);
#define BYTES_PARAMS(TYPE)                                                                         \
    INLINE void bytes_##TYPE(const panel *p, int64_t g, const int v, const int half, vf *scale,    \
                             vf *minimum)

/* Loads signed bytes as floats. */
INLINE vf vload_i8(const void *p) {
    const vf x = vload_u8(p);
    return x - (vf)((vi)vsplat(256) & (vi)(x > vsplat(127)));
}

/* 8-bit floats (e4m3) from the low bytes, without sign; NaN does not occur.  Moved into the fields
 * of an f32, the exponent is 120 too small; subnormals have no implicit leading 1. */
INLINE vf vfrom_e4m3(vu x) {
    const vu bits = (x & 0x7f) << 20;
    const vi small = (vi)(bits < (1u << 23));
    const vf normal = (vf)(bits + (120u << 23));
    const vf subnormal = (vf)(bits + (121u << 23)) - vsplat(0x1p-6f);
    return (vf)(((vi)normal & ~small) | ((vi)subnormal & small));
}

BYTES_PARAMS(q8) {
    (void)half, (void)minimum;
    *scale = vload_f16(params_of(p, form_q8, g) + first_of(v, 2));
}
BYTES_PARAMS(iq4_nl) {
    (void)half, (void)minimum;
    *scale = vload_f16(params_of(p, form_iq4_nl, g) + first_of(v, 2));
}
BYTES_PARAMS(mxfp4) {
    (void)half, (void)minimum;
    *scale = vload_bf16(params_of(p, form_mxfp4, g) + first_of(v, 2));
}
BYTES_PARAMS(iq4_xs) {
    (void)half, (void)minimum;
    const vf d = vload_f16(super_of(p, form_iq4_xs, g) + first_of(v, 2));
    *scale = d * vload_i8(params_of(p, form_iq4_xs, g) + first_of(v, 1));
}
BYTES_PARAMS(nvfp4) {
    (void)minimum;
    const uint8_t *own = params_of(p, form_nvfp4, g) + half * SL_PANEL_ROWS + first_of(v, 1);
    const vf d = vsplat(p->headers[g / SL_SUPER_GROUPS * 2] * 0.5f);
    *scale = d * vfrom_e4m3(vload_bytes(own));
}
#define SIGNED_SCALES(TYPE)                                                                        \
    BYTES_PARAMS(TYPE) {                                                                           \
        (void)minimum;                                                                             \
        const uint8_t *own = params_of(p, form_##TYPE, g) + half * SL_PANEL_ROWS + first_of(v, 1); \
        *scale = vload_f16(super_of(p, form_##TYPE, g) + first_of(v, 2)) * vload_i8(own);          \
    }
SIGNED_SCALES(q3_k)
SIGNED_SCALES(q6_k)
BYTES_PARAMS(q2_k) {
    const uint8_t *super = super_of(p, form_q2_k, g) + first_of(v, 2);
    const uint8_t *own = params_of(p, form_q2_k, g) + half * SL_PANEL_ROWS + first_of(v, 1);
    const vu both = vload_bytes(own);
    *scale = vload_f16(super) * vfrom_i32((vi)(both & 15));
    *minimum = vload_f16(super + 32) * vfrom_i32((vi)(both >> 4));
}
BYTES_PARAMS(q5_k) {
    (void)half;
    const uint8_t *super = super_of(p, form_q5_k, g) + first_of(v, 2);
    const uint8_t *own = params_of(p, form_q5_k, g) + first_of(v, 1);
    *scale = vload_f16(super) * vload_u8(own);
    *minimum = vload_f16(super + 32) * vload_u8(own + SL_PANEL_ROWS);
}
#define MLX_PARAMS(TYPE)                                                                           \
    BYTES_PARAMS(TYPE) {                                                                           \
        (void)half;                                                                                \
        const uint8_t *both = block_of(p, form_##TYPE, g) + first_of(v, 2);                        \
        *scale = vload_bf16(both);                                                                 \
        *minimum = -vload_bf16(both + 32);                                                         \
    }
MLX_PARAMS(q6_m)
MLX_PARAMS(q8_m)
BYTES_PARAMS(q8_f) {
    (void)half;
    const uint8_t *own = params_of(p, form_q8_f, g) + first_of(v, 4);
    *scale = vload(own);
    *minimum = -vload(own + 64);
}
BYTES_PARAMS(f8) {
    (void)half, (void)minimum;
    *scale = vload(params_of(p, form_f8, g) + first_of(v, 4));
}

/* ---- codes: columns 4 word to 4 word + 3 of a group, one byte each; word is constant ---- */

typedef vu panel_word_fn(const uint8_t *codes, const int word);

enum { WORD_BYTES = SL_PANEL_ROWS * 4, LOW_BYTES = 4 * WORD_BYTES, PAIR_BYTES = 2 * WORD_BYTES };

/* Forces the value into a register; the compiler would reload it for every use. */
INLINE vu load_once(const uint8_t *p) {
    vu word = vload_u32(p);
#if defined(__AVX512F__)
    __asm__("" : "+v"(word));
#elif defined(__SSE2__)
    __asm__("" : "+x"(word));
#endif
    return word;
}

/* Unpacks planes of 4, 2 and 1 bits. */
INLINE vu low_bits(const uint8_t *plane, const int word) {
    const vu both = load_once(plane + word / 2 * WORD_BYTES);
    return (word % 2 ? both >> 4 : both) & 0x0f0f0f0f;
}
INLINE vu pair_bits(const uint8_t *plane, const int word, const int up) {
    const vu four = load_once(plane + word / 4 * WORD_BYTES);
    const int shift = 2 * (word % 4) - up;
    return (shift < 0 ? four << -shift : four >> shift) & 0x03030303u << up;
}
INLINE vu single_bits(const uint8_t *plane, const int word, const int up) {
    const vu eight = load_once(plane);
    return (word < up ? eight << (up - word) : eight >> (word - up)) & 0x01010101u << up;
}

INLINE vu word_bytes(const uint8_t *codes, const int word) {
    return load_once(codes + word * WORD_BYTES);
}
INLINE vu word_2(const uint8_t *codes, const int word) {
    return pair_bits(codes, word, 0);
}
INLINE vu word_3(const uint8_t *codes, const int word) {
    return pair_bits(codes, word, 0) | single_bits(codes + PAIR_BYTES, word, 2);
}
INLINE vu word_5(const uint8_t *codes, const int word) {
    return low_bits(codes, word) | single_bits(codes + LOW_BYTES, word, 4);
}
INLINE vu word_6(const uint8_t *codes, const int word) {
    return low_bits(codes, word) | pair_bits(codes + LOW_BYTES, word, 4);
}
#endif
