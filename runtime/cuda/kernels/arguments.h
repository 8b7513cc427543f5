/* arguments.h - The argument structs of all kernels, and the lists of variants for the families of
 * runtime/cuda/functions.def: weight types and forms. */
#ifndef SL_RUNTIME_CUDA_KERNELS_ARGUMENTS_H
#define SL_RUNTIME_CUDA_KERNELS_ARGUMENTS_H
#include "runtime/cuda/kernels/attention.h"
#include "runtime/cuda/kernels/choose.h"
#include "runtime/cuda/kernels/delta.h"
#include "runtime/cuda/kernels/elementwise.h"
#include "runtime/cuda/kernels/elementwise_any.h"
#include "runtime/cuda/kernels/embed.h"
#include "runtime/cuda/kernels/gemm.h"
#include "runtime/cuda/kernels/gemm_half.h"
#include "runtime/cuda/kernels/gemv_panel.h"
#include "runtime/cuda/kernels/linear.h"
#include "runtime/cuda/kernels/linear_heads.h"
#include "runtime/cuda/kernels/loops.h"
#include "runtime/cuda/kernels/matmul.h"
#include "runtime/cuda/kernels/matmul_any.h"
#include "runtime/cuda/kernels/matmul_dequant.h"
#include "runtime/cuda/kernels/moe.h"
#include "runtime/cuda/kernels/moe_combine.h"
#include "runtime/cuda/kernels/moe_route.h"
#include "runtime/cuda/kernels/moe_route_groups.h"
#include "runtime/cuda/kernels/moe_row.h"
#include "runtime/cuda/kernels/movement.h"
#include "runtime/cuda/kernels/movement_any.h"
#include "runtime/cuda/kernels/movement_scatter.h"
#include "runtime/cuda/kernels/norm.h"
#include "runtime/cuda/kernels/number.h"
#include "runtime/cuda/kernels/optimiser.h"
#include "runtime/cuda/kernels/panel.h"
#include "runtime/cuda/kernels/quant_a8.h"
#include "runtime/cuda/kernels/random.h"
#include "runtime/cuda/kernels/recurrence.h"
#include "runtime/cuda/kernels/reduce.h"
#include "runtime/cuda/kernels/reduce_any.h"
#include "runtime/cuda/kernels/rnn.h"
#include "runtime/cuda/kernels/rope.h"
#include "runtime/cuda/kernels/rope_apply.h"
#include "runtime/cuda/kernels/row.h"
#include "runtime/cuda/kernels/sdpa.h"
#include "runtime/cuda/kernels/sdpa_append.h"
#include "runtime/cuda/kernels/sdpa_step.h"
#include "runtime/cuda/kernels/signal.h"
#include "runtime/cuda/kernels/softmax.h"
#include "runtime/cuda/kernels/solve.h"
#include "runtime/cuda/kernels/sort.h"
#include "runtime/cuda/kernels/splat.h"
#include "runtime/cuda/kernels/strides.h"
#include "runtime/cuda/kernels/windows.h"

/* Weight types: ROW(..., type). */
#define SL_FLOAT_TYPES_WITH(ROW, ...)                                                              \
    ROW(__VA_ARGS__, f32)                                                                          \
    ROW(__VA_ARGS__, f16)                                                                          \
    ROW(__VA_ARGS__, bf16)
#define SL_WEIGHT_TYPES_WITH(ROW, ...)                                                             \
    SL_FLOAT_TYPES_WITH(ROW, __VA_ARGS__)                                                          \
    SL_PANEL_TYPES_WITH(ROW, __VA_ARGS__)                                                          \
    SL_PLAIN_PANEL_TYPES_WITH(ROW, __VA_ARGS__)
#define SL_MANY_TYPES_WITH(ROW, ...)                                                               \
    SL_PANEL_TYPES_WITH(ROW, __VA_ARGS__)                                                          \
    ROW(__VA_ARGS__, bf16)
#define SL_TILE_TYPES_WITH(ROW, ...)                                                               \
    ROW(__VA_ARGS__, f32)                                                                          \
    ROW(__VA_ARGS__, f16)

/* Forms, the variants of a kernel that are not weight types: ROW(..., form). */
#define SL_UNIT_FORMS_WITH(ROW, ...) /* bytes per thread, 2^index */                               \
    ROW(__VA_ARGS__, 1)                                                                            \
    ROW(__VA_ARGS__, 2)                                                                            \
    ROW(__VA_ARGS__, 4)                                                                            \
    ROW(__VA_ARGS__, 8)                                                                            \
    ROW(__VA_ARGS__, 16)
#define SL_TILE_FORMS_WITH(ROW, ...) /* bytes per element, 2^index */                              \
    ROW(__VA_ARGS__, 1)                                                                            \
    ROW(__VA_ARGS__, 2)                                                                            \
    ROW(__VA_ARGS__, 4)
#define SL_NORM_FORMS_WITH(ROW, ...) /* row in registers, by one or several loads; any row */      \
    ROW(__VA_ARGS__, once)                                                                         \
    ROW(__VA_ARGS__, kept)                                                                         \
    ROW(__VA_ARGS__, any)
#define SL_QUANTISE_FORMS_WITH(ROW, ...) /* elements per thread: 4 or 1 */                         \
    ROW(__VA_ARGS__, fours)                                                                        \
    ROW(__VA_ARGS__, ones)
#define SL_ATTENTION_FORMS_WITH(ROW, ...) /* element type, rows of a tile */                       \
    ROW(__VA_ARGS__, f32_16)                                                                       \
    ROW(__VA_ARGS__, f16_16)                                                                       \
    ROW(__VA_ARGS__, bf16_16)                                                                      \
    ROW(__VA_ARGS__, f64_16)                                                                       \
    ROW(__VA_ARGS__, f32_64)                                                                       \
    ROW(__VA_ARGS__, f16_64)                                                                       \
    ROW(__VA_ARGS__, bf16_64)
#define SL_FEW_FORMS_WITH(ROW, ...) /* head size, query tiles */                                   \
    ROW(__VA_ARGS__, 64_1)                                                                         \
    ROW(__VA_ARGS__, 64_4)                                                                         \
    ROW(__VA_ARGS__, 128_1)                                                                        \
    ROW(__VA_ARGS__, 128_4)                                                                        \
    ROW(__VA_ARGS__, 256_1)                                                                        \
    ROW(__VA_ARGS__, 256_4)
#define SL_MANY_FORMS_WITH(ROW, ...) /* head size, warps */                                        \
    ROW(__VA_ARGS__, 64_4)                                                                         \
    ROW(__VA_ARGS__, 64_8)                                                                         \
    ROW(__VA_ARGS__, 128_4)                                                                        \
    ROW(__VA_ARGS__, 128_8)                                                                        \
    ROW(__VA_ARGS__, 256_4)                                                                        \
    ROW(__VA_ARGS__, 256_8)
#define SL_JOIN_FORMS_WITH(ROW, ...) /* number of KV splits */                                     \
    ROW(__VA_ARGS__, any)                                                                          \
    ROW(__VA_ARGS__, few)
#define SL_STEP_FORMS_WITH(ROW, ...) /* head size */                                               \
    ROW(__VA_ARGS__, 64)                                                                           \
    ROW(__VA_ARGS__, 128)                                                                          \
    ROW(__VA_ARGS__, 256)
#define SL_ROW_FORMS_WITH(ROW, ...) /* weights times a8 codes, weights times f32 */                \
    ROW(__VA_ARGS__, q4_q4)                                                                        \
    ROW(__VA_ARGS__, q4_q8)                                                                        \
    ROW(__VA_ARGS__, q8_q8)
#endif
