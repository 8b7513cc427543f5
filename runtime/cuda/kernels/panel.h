/* panel.h - Matrices of panels and rows of a8, as kernel arguments; core/codec.h has the
 * layouts. */
#ifndef SL_RUNTIME_CUDA_KERNELS_PANEL_H
#define SL_RUNTIME_CUDA_KERNELS_PANEL_H
#include <stdint.h>

enum { SL_CUDA_PANEL_ROWS = 16, SL_CUDA_GROUP_COLS = 32, SL_CUDA_SUPER_GROUPS = 8 };

/* A matrix of panels: its address, and the fields of sl_panel_layout. */
typedef struct {
    const uint8_t *data;
    int32_t rows, cols, groups, supers;
    uint32_t super_bytes, param_bytes, group_bytes, block_bytes;
    uint64_t header_bytes, panel_bytes;
} sl_cuda_panels;

/* The types that all kernels support: INSTANCE(type, threads, halves).
 * threads: maximum block size for __launch_bounds__, which also limits registers: 768 for types
 * with few bits, so that three blocks of 256 fit on a multiprocessor; 512 (two blocks) for the
 * others, which load more at a time.  halves: whether half groups have their own scales.
 * Lists whose names end with _WITH pass the arguments after ROW on to each row. */
#define SL_PANEL_TYPES_WITH(ROW, ...)                                                              \
    ROW(__VA_ARGS__, q4, 768, 0)                                                                   \
    ROW(__VA_ARGS__, q8, 512, 0)                                                                   \
    ROW(__VA_ARGS__, q4_k, 768, 0)                                                                 \
    ROW(__VA_ARGS__, q4_0, 768, 0)                                                                 \
    ROW(__VA_ARGS__, q6_k, 512, 1)                                                                 \
    ROW(__VA_ARGS__, q4_m, 768, 0)                                                                 \
    ROW(__VA_ARGS__, q2_k, 512, 1)                                                                 \
    ROW(__VA_ARGS__, q3_k, 512, 1)                                                                 \
    ROW(__VA_ARGS__, q5_k, 512, 0)                                                                 \
    ROW(__VA_ARGS__, iq4_nl, 512, 0)                                                               \
    ROW(__VA_ARGS__, iq4_xs, 512, 0)                                                               \
    ROW(__VA_ARGS__, mxfp4, 512, 0)                                                                \
    ROW(__VA_ARGS__, nvfp4, 512, 1)                                                                \
    ROW(__VA_ARGS__, q6_m, 512, 0)                                                                 \
    ROW(__VA_ARGS__, q8_m, 512, 0)
/* Rare types: products dequantise one weight at a time. */
#define SL_PLAIN_PANEL_TYPES_WITH(ROW, ...)                                                        \
    ROW(__VA_ARGS__, q4_f)                                                                         \
    ROW(__VA_ARGS__, q8_f)                                                                         \
    ROW(__VA_ARGS__, f8)
#define SL_ROW_ALONE(INSTANCE, ...)    INSTANCE(__VA_ARGS__)
#define SL_PANEL_TYPES(INSTANCE)       SL_PANEL_TYPES_WITH(SL_ROW_ALONE, INSTANCE)
#define SL_PLAIN_PANEL_TYPES(INSTANCE) SL_PLAIN_PANEL_TYPES_WITH(SL_ROW_ALONE, INSTANCE)

/* Rows of a8, as separate arrays; halves: the sums over the first half of each group. */
typedef struct {
    const int8_t *codes;                 /* [rows, groups * 32] */
    const float *scales, *sums, *halves; /* [rows, groups] */
    int32_t groups, reserved;
} sl_cuda_rows8;
typedef struct {
    int8_t *codes;
    float *scales, *sums, *halves;
    int32_t groups, reserved;
} sl_cuda_rows8_out;
#endif
