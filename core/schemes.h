/* clang-format off */
/* schemes.h - Low-bit weights of dequant_matmul: a matrix of K rows (the inner dim) and N columns.
 * In the params, R = ceil(K / block).
 *
 *   scheme            w             params                    weight (k, n)
 *   int8_block        i8[K,N]       scale f32[R,N]            w scale[k / block]
 *   int8_block_asym   i8|u8[K,N]    scale, zero f32[R,N]      (w - zero) scale
 *   int4_block        u8[K,N/2]     scale f32[R,N]            the same, nibbles -8 to 7
 *   int4_block_asym   u8[K,N/2]     scale, zero f32[R,N]      nibbles 0 to 15
 *   fp8_e4m3          u8[K,N]       scale f32[N] or [1]       e4m3(w) scale (no infinities, max 448)
 *   fp8_e5m2          u8[K,N]       scale f32[N] or [1]       e5m2(w) scale (IEEE-like)
 *   nvfp4             u8[K,N/2]     scale u8[R,N], f32[1]     e2m1(w) e4m3(scale) params[1]; block 16
 *   mlx_<bits>        u32[N,K*bits/32]  scale, bias f32[N,K/block]  scale q + bias; bits 2 3 4 5 6 8
 *   gguf_<type>       u8[N,bytes]   none                      blocks along K (core/gguf_blocks.h)
 *
 * Nibbles: column 2i is the low half of byte i of a row, N/2 rounded up.  int4_block is symmetric:
 * two's complement without a zero point.  MLX (affine): a row of w is a stream of bits, the first
 * column in the lowest; block is 32, 64 or 128 and divides K. */
/* clang-format on */
#ifndef SL_CORE_SCHEMES_H
#define SL_CORE_SCHEMES_H
#include "core/gguf_blocks.h"

typedef struct {
    const char *name; /* as above; for GGUF the name of the type */
    sl_scheme_kind kind;
    uint32_t params;            /* number of params */
    bool nibbles;               /* two codes per byte */
    const sl_gguf_layout *gguf; /* for GGUF only */
    uint32_t bits;              /* of a code, for MLX only */
} sl_scheme;
/* False if there is no such scheme. */
bool sl_scheme_find(const char *text, sl_scheme *out);
/* "int8_block, ..., gguf_q4_0, ..."; returns text. */
const char *sl_schemes_known(char *text, size_t capacity);
enum { SL_SCHEMES_TEXT = 480, SL_NVFP4_BLOCK = 16 };

/* A matrix of weights.  For a GGUF type, inner is a multiple of its block size. */
typedef struct {
    sl_scheme scheme;
    int64_t inner, cols, block;
    const void *w;
    bool w_signed;
    const void *params[2];
    bool one_scale; /* fp8: one scale for all columns */
} sl_packed;
/* A part of the matrix: rows [k, k + ks), columns [col, col + cols). */
typedef struct {
    int64_t k, ks, col, cols;
} sl_packed_part;
enum { SL_PACKED_STEP = 256 };
/* Decodes to out[row][column], with rows `stride` apart.  For a GGUF type, k must be a multiple of
 * SL_PACKED_STEP and ks at most that. */
void sl_packed_decode(const sl_packed *p, const sl_packed_part *part, float *out, int64_t stride);
#endif
