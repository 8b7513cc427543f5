/* packings.h - Formats of low-bit weights, for kernels of every device: the schemes of
 * core/schemes.h, and the blocks of GGUF (core/gguf_blocks.h). */
#ifndef SL_CORE_PACKINGS_H
#define SL_CORE_PACKINGS_H

typedef enum {
    SL_SCHEME_INT8,
    SL_SCHEME_INT8_ASYM,
    SL_SCHEME_INT4,
    SL_SCHEME_INT4_ASYM,
    SL_SCHEME_E4M3,
    SL_SCHEME_E5M2,
    SL_SCHEME_NVFP4,
    SL_SCHEME_MLX,
    SL_SCHEME_GGUF
} sl_scheme_kind;

typedef enum {
    SL_GGUF_Q4_0,
    SL_GGUF_Q4_1,
    SL_GGUF_Q5_0,
    SL_GGUF_Q5_1,
    SL_GGUF_Q8_0,
    SL_GGUF_Q8_1,
    SL_GGUF_Q2_K,
    SL_GGUF_Q3_K,
    SL_GGUF_Q4_K,
    SL_GGUF_Q5_K,
    SL_GGUF_Q6_K,
    SL_GGUF_Q8_K,
    SL_GGUF_IQ4_NL,
    SL_GGUF_IQ4_XS,
    SL_GGUF_MXFP4,
    SL_GGUF_NVFP4,
    SL_GGUF_TQ1_0,
    SL_GGUF_TQ2_0,
    SL_GGUF_COUNT
} sl_gguf_block;
#endif
