#include "engine/quant/recipe.h"
#include <string.h>

enum { NARROW_COLS = 32 };

sl_status sl_quant_parse(const char *text, sl_quant *out, sl_error *err) {
    static const char *const names[] = {"q4", "q6", "q8", "none"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(text ? text : "q4", names[i]) != 0) continue;
        *out = (sl_quant)i;
        return SL_OK;
    }
    return sl_fail(err, SL_INVALID, "quant is '%s', wanted q4, q6, q8 or none", text);
}

sl_dtype sl_quant_expert(sl_quant quant, const sl_type *type) {
    if (quant == SL_QUANT_NONE || type->shape.dims[type->shape.rank - 1] < NARROW_COLS)
        return type->dtype;
    return quant == SL_QUANT_Q8 ? SL_DTYPE_q8 : quant == SL_QUANT_Q6 ? SL_DTYPE_q6_k : SL_DTYPE_q4;
}

/* Not a bias, of which there may be a row per expert. */
static bool is_weight(const char *suffix) {
    static const char end[] = ".weight";
    const size_t length = strlen(suffix);
    return length >= sizeof end && strcmp(suffix + length - (sizeof end - 1), end) == 0;
}

/* Routers decide which experts run, the head has the last word on every token, and an embedding
 * costs one row per token: these keep 8 bits (docs/quantisation.md). */
sl_dtype sl_quant_resident(sl_quant quant, const char *suffix, const sl_type *type) {
    static const char *const sensitive[] = {".mlp.gate.weight",
                                            ".mlp.router.weight",
                                            ".block_sparse_moe.gate.weight",
                                            ".mlp.shared_expert_gate.weight",
                                            "embed_tokens.weight",
                                            "lm_head.weight"};
    const sl_dims *shape = &type->shape;
    const bool matrices = shape->rank == 2 || (shape->rank == 3 && shape->dims[2] >= NARROW_COLS);
    if (!matrices || !is_weight(suffix)) return SL_DTYPE_f32;
    for (size_t i = 0; i < sizeof sensitive / sizeof sensitive[0]; i++)
        if (quant != SL_QUANT_NONE && strstr(suffix, sensitive[i])) quant = SL_QUANT_Q8;
    return sl_quant_expert(quant, type);
}
