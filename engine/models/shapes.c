#include "engine/models/shapes.h"
#include <stddef.h>
#include <string.h>

#define QWEN35_35B "qwen3.5-35b-a3b"

static const struct {
    const char *name, *config;
} shapes[] = {
    {QWEN35_35B,
     "{\"model_type\": \"qwen3_5_moe\", \"vocab_size\": 248320, \"hidden_size\": 2048,"
     " \"num_hidden_layers\": 40, \"full_attention_interval\": 4,"
     " \"max_position_embeddings\": 262144, \"num_attention_heads\": 16,"
     " \"num_key_value_heads\": 2, \"head_dim\": 256, \"partial_rotary_factor\": 0.25,"
     " \"rope_theta\": 10000000, \"rms_norm_eps\": 1e-6, \"linear_num_key_heads\": 16,"
     " \"linear_num_value_heads\": 32, \"linear_key_head_dim\": 128,"
     " \"linear_value_head_dim\": 128, \"linear_conv_kernel_dim\": 4, \"num_experts\": 256,"
     " \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 512,"
     " \"shared_expert_intermediate_size\": 512, \"tie_word_embeddings\": false}"},
};

const char *sl_shape_config(const char *name) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (strcmp(shapes[i].name, name) == 0) return shapes[i].config;
    return NULL;
}

const char *sl_shape_names(void) {
    return QWEN35_35B;
}
