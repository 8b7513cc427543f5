/* panel.h - Matrices of panels and rows of a8 as kernels get them; core/codec.h says how both lie.
 */
#ifndef SL_RUNTIME_CUDA_KERNELS_PANEL_H
#define SL_RUNTIME_CUDA_KERNELS_PANEL_H
#include <stdint.h>

enum { SL_CUDA_PANEL_ROWS = 16, SL_CUDA_GROUP_COLS = 32, SL_CUDA_SUPER_GROUPS = 8 };

/* A matrix of panels: where it lies, and the numbers of sl_panel_layout. */
typedef struct {
    const uint8_t *data;
    int32_t rows, cols, groups, supers;
    uint32_t super_bytes, group_bytes, block_bytes, reserved;
    uint64_t header_bytes, panel_bytes;
} sl_cuda_panels;

/* Rows of a8: four planes. */
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
