/* config.h - A model's dimensions, read from config.json. */
#ifndef SL_ENGINE_MODELS_CONFIG_H
#define SL_ENGINE_MODELS_CONFIG_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct {
    const char *model_type;
    uint32_t vocab, hidden, layers, context; /* context: max_position_embeddings */
    const bool *full_attention;              /* [layers]; otherwise a gated delta net */
    uint32_t query_heads, kv_heads, head_dim, rotary_dims;
    float rope_theta, norm_eps;
    uint32_t delta_key_heads, delta_value_heads, delta_key_dim, delta_value_dim, conv_width;
    bool delta_tiled; /* value head h belongs to key head h % key heads, not h / (their ratio) */
    uint32_t experts, experts_used, expert_width, shared_width;
    bool normalise_routes, tied_embeddings;
} sl_model_config;

/* Accepts flat configs and nested text_config.  Unknown model_type or rope type, missing or
 * senseless numbers fail and name the key, what was found and what is supported. */
SL_CHECKED sl_status sl_model_config_parse(const char *json, size_t bytes, sl_arena *arena,
                                           sl_model_config *out, sl_error *err);
#endif
