/* weights.h - Packs weights into the layouts of the types that `linear`, `moe_ffn` and `embed`
 * take.
 *
 *   sl_weight_source w = {.struct_size = sizeof w, .format = "affine", .rows = 512, .cols = 256,
 *                         .data = codes, .data_bytes = ..., .scales = ..., .biases = ..., ...};
 *   sl_weight_describe(&w, &dtype, &bytes, err);            "q4_m"
 *   sl_graph_add_weight(g, "w", dtype, 2, (int64_t[]){512, 256});
 *   sl_weight_pack(&w, memory, bytes, err);
 *   sl_compiled_set(c, "w", memory, bytes, err);
 *
 * A matrix is [rows, cols], one row for each output of `linear`. */
#ifndef SLUICE_WEIGHTS_H
#define SLUICE_WEIGHTS_H
#include "sluice/status.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    size_t struct_size;
    /* "f32", "f16", "bf16": numbers, which are quantised.
     * "affine", "mxfp4", "nvfp4", "mxfp8": as MLX stores them: rows of codes as a stream of bits,
     * the first column in the lowest bits of the first byte; rows of scales, and for affine of
     * biases, one for each group of columns. "q4_k", "q8_0", "iq4_nl", ..: rows of blocks of a GGUF
     * type, by its name in lower case. */
    const char *format;
    const char *dtype; /* the type to make of numbers: "q4", "q6_k" or "q8"; else NULL */
    uint32_t count;    /* matrices, one after the other in each of the arrays; 0: 1 */
    int64_t rows, cols;
    const void *data; /* numbers, codes or blocks */
    size_t data_bytes;
    const void *scales, *biases; /* of MLX, else NULL */
    size_t scale_bytes;          /* of scales, and of biases */
    const char *scale_dtype;     /* affine: "f32", "f16" or "bf16"; else NULL: u8 */
    uint32_t bits, group;        /* affine: 2, 3, 4, 5, 6 or 8 bits; 32, 64 or 128 columns */
    float scale;                 /* nvfp4: of all weights; 0: 1 */
} sl_weight_source;

/* The type that sl_weight_pack makes, a constant text, and its bytes; reads no data. */
SL_API SL_CHECKED sl_status sl_weight_describe(const sl_weight_source *from, const char **out_dtype,
                                               size_t *out_bytes, sl_error *err);
/* out: aligned to 64 bytes; bytes: those of sl_weight_describe.  MLX and GGUF weights are converted
 * without loss; numbers are quantised. */
SL_API SL_CHECKED sl_status sl_weight_pack(const sl_weight_source *from, void *out, size_t bytes,
                                           sl_error *err);

#ifdef __cplusplus
}
#endif
#endif
