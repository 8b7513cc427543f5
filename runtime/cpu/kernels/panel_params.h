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
    const float *headers; /* {d, m} per super-group; q4 only */
    const uint8_t *start;
} panel;

static inline panel panel_at(const sl_linear_job *job, const sl_panel_layout *l, int64_t index) {
    const uint8_t *matrix = job->weights;
    return (panel){index, (const float *)(const void *)matrix + index * l->supers * 2,
                   matrix + l->header_bytes + (uint64_t)index * l->panel_bytes};
}

/* What sl_panel_layout says of a type, as constants where a kernel is compiled. */
typedef struct {
    int super_bytes, group_bytes;
} panel_form;
static const panel_form form_q4 = {0, 256}, form_q4_0 = {0, 256}, form_q4_m = {0, 256},
                        form_q4_k = {64, 256}, form_q8 = {0, 512}, form_q6_k = {64, 384};

INLINE int64_t block_bytes(panel_form f) {
    return SL_BLOCK_PARAMS + SL_BLOCK_GROUPS * f.group_bytes;
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
    return block_of(p, f, g) + g % SL_BLOCK_GROUPS * SL_GROUP_PARAMS;
}
INLINE const uint8_t *codes_of(const panel *p, panel_form f, int64_t g) {
    return block_of(p, f, g) + SL_BLOCK_PARAMS + g % SL_BLOCK_GROUPS * f.group_bytes;
}

/* Asks for the group that lies so many bytes further on, past the panel's end in the next ones:
 * into the second level of cache, from where the hardware fetches it in time.  Harmless beyond the
 * matrix.  AHEAD_BYTES is enough where memory is read as fast as it can be. */
enum { AHEAD_BYTES = 1024, LINE_BYTES = 64 };
INLINE void read_ahead(const panel *p, panel_form f, int64_t g, int64_t bytes) {
    uintptr_t from = (uintptr_t)block_of(p, f, g) + (uintptr_t)bytes +
                     (uintptr_t)(g % SL_BLOCK_GROUPS) * (uintptr_t)(block_bytes(f) / 2);
    __asm__("" : "+r"(from)); /* one register, not one for each line */
    for (int i = 0; i < block_bytes(f) / SL_BLOCK_GROUPS; i += LINE_BYTES)
        __builtin_prefetch((const void *)(from + (uintptr_t)i), 0, 2);
    if (f.super_bytes && g % SL_SUPER_GROUPS == 0)
        __builtin_prefetch((const void *)((uintptr_t)super_of(p, f, g) + (uintptr_t)bytes), 0, 2);
}

/* Vector v of group g: w = scale q - minimum, q as it is stored.  v is constant. */
typedef void panel_params_fn(const panel *p, int64_t g, const int v, vf *scale, vf *minimum);

/* Of a group's 16 parameters of so many bytes each, the first of vector v. */
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

/* The types of wider codes have no minimum; half 0 of a group is columns 0..15.  v and half are
 * constants. */
typedef vf panel_scale_fn(const panel *p, int64_t g, const int v, const int half);

INLINE vf scale_q8(const panel *p, int64_t g, const int v, const int half) {
    (void)half;
    return vload_f16(params_of(p, form_q8, g) + first_of(v, 2));
}

/* Signed bytes, widened. */
INLINE vf vload_i8(const void *p) {
    const vf x = vload_u8(p);
    return x - (vf)((vi)vsplat(256) & (vi)(x > vsplat(127)));
}

INLINE vf scale_q6_k(const panel *p, int64_t g, const int v, const int half) {
    const vf d = vload_f16(super_of(p, form_q6_k, g) + first_of(v, 2));
    return d * vload_i8(params_of(p, form_q6_k, g) + half * SL_PANEL_ROWS + first_of(v, 1));
}
#endif
