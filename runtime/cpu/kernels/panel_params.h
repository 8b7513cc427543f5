/* panel_params.h - Where the parts of a panel lie, and what its codes stand for (layouts in
 * core/codec.h). */
#ifndef SL_RUNTIME_CPU_PANEL_PARAMS_H
#define SL_RUNTIME_CPU_PANEL_PARAMS_H
#include "runtime/cpu/kernels/linear.h"
#include "runtime/cpu/kernels/vec.h"

/* A panel's 16 rows fill this many vectors. */
enum { PANEL_VECTORS = SL_PANEL_ROWS / LANES };

typedef struct {
    int64_t index;
    const float *headers;  /* {d, m} per super-group; q4 only */
    const uint8_t *supers; /* parameters of super-groups */
    const uint8_t *scales; /* parameters of groups */
    const uint8_t *codes;
} panel;

static inline panel panel_at(const sl_linear_job *job, const sl_panel_layout *l, int64_t index) {
    const uint8_t *matrix = job->weights;
    const uint8_t *base = matrix + l->header_bytes + (uint64_t)index * l->panel_bytes;
    return (panel){index, (const float *)(const void *)matrix + index * l->supers * 2, base,
                   base + l->super_bytes, base + l->scale_bytes};
}

/* Vector v of group g: w = scale q - minimum, q as it is stored.  v is constant. */
typedef void panel_params_fn(const panel *p, int64_t g, const int v, vf *scale, vf *minimum);

/* Of a group's 16 parameters of so many bytes each, the first of vector v. */
INLINE int64_t first_of(const int v, const int bytes) {
    return (int64_t)v * LANES * bytes;
}

INLINE void params_q4(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const float *header = p->headers + g / SL_SUPER_GROUPS * 2;
    const uint8_t *codes = p->scales + g * 32 + first_of(v, 1);
    *scale = vsplat(header[0]) * vload_u8(codes);
    *minimum = vsplat(header[1]) * vload_u8(codes + SL_PANEL_ROWS);
}

INLINE void params_q4_k(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const uint8_t *super = p->supers + g / SL_SUPER_GROUPS * 64 + first_of(v, 2);
    const uint8_t *codes = p->scales + g * 32 + first_of(v, 1);
    *scale = vload_f16(super) * vload_u8(codes);
    *minimum = vload_f16(super + 32) * vload_u8(codes + SL_PANEL_ROWS);
}

INLINE void params_q4_0(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    *scale = vload_f16(p->scales + g * 32 + first_of(v, 2));
    *minimum = *scale * vsplat(8);
}

INLINE void params_q4_m(const panel *p, int64_t g, const int v, vf *scale, vf *minimum) {
    const uint8_t *super = p->supers + g / SL_Q4_M_SUPER_GROUPS * 64 + first_of(v, 2);
    *scale = vload_bf16(super);
    *minimum = -vload_bf16(super + 32);
}

/* The types of wider codes have no minimum: the scales of columns 0..15 and of the others. */
typedef void panel_scales_fn(const panel *p, int64_t g, const int v, vf scales[2]);

INLINE void scales_q8(const panel *p, int64_t g, const int v, vf scales[2]) {
    scales[0] = scales[1] = vload_f16(p->scales + g * 32 + first_of(v, 2));
}

/* Signed bytes, widened. */
INLINE vf vload_i8(const void *p) {
    const vf x = vload_u8(p);
    return x - (vf)((vi)vsplat(256) & (vi)(x > vsplat(127)));
}

INLINE void scales_q6_k(const panel *p, int64_t g, const int v, vf scales[2]) {
    const vf d = vload_f16(p->supers + g / SL_SUPER_GROUPS * 32 + first_of(v, 2));
    const uint8_t *codes = p->scales + g * 32 + first_of(v, 1);
    scales[0] = d * vload_i8(codes);
    scales[1] = d * vload_i8(codes + SL_PANEL_ROWS);
}
#endif
