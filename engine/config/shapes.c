#include "engine/config/shapes.h"
#include "engine/formats/file.h"
#include "engine/formats/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 1 << 20 };

#define QWEN3_5(VOCAB, HIDDEN, LAYERS, CONTEXT, HEADS, KEYS, VALUES, EXPERTS, WIDTH)               \
    "{\"model_type\": \"qwen3_5_moe\", \"vocab_size\": " #VOCAB ", \"hidden_size\": " #HIDDEN      \
    ", \"num_hidden_layers\": " #LAYERS ", \"full_attention_interval\": 4,"                        \
    " \"max_position_embeddings\": " #CONTEXT ", \"num_attention_heads\": " #HEADS                 \
    ", \"num_key_value_heads\": 2, \"head_dim\": 256, \"partial_rotary_factor\": 0.25,"            \
    " \"rope_theta\": 10000000, \"rms_norm_eps\": 1e-6, \"linear_num_key_heads\": " #KEYS          \
    ", \"linear_num_value_heads\": " #VALUES ", \"linear_key_head_dim\": 128,"                     \
    " \"linear_value_head_dim\": 128, \"linear_conv_kernel_dim\": 4, \"num_experts\": " #EXPERTS   \
    ", \"num_experts_per_tok\": 8, \"moe_intermediate_size\": " #WIDTH                             \
    ", \"shared_expert_intermediate_size\": " #WIDTH ", \"tie_word_embeddings\": false}"
#define DEEPSEEK(LAYERS, HIDDEN, HEADS, DENSE, EXPERTS, WIDTH)                                     \
    "{\"model_type\": \"deepseek_v3\", \"vocab_size\": 129280, \"hidden_size\": " #HIDDEN          \
    ", \"num_hidden_layers\": " #LAYERS ", \"num_attention_heads\": " #HEADS                       \
    ", \"max_position_embeddings\": 163840, \"intermediate_size\": " #DENSE                        \
    ", \"n_routed_experts\": " #EXPERTS ", \"moe_intermediate_size\": " #WIDTH                     \
    ", \"num_experts_per_tok\": 8, \"q_lora_rank\": 1536, \"rope_scaling\": {\"type\": \"yarn\","  \
    " \"factor\": 40, \"original_max_position_embeddings\": 4096, \"beta_fast\": 32,"              \
    " \"beta_slow\": 1, \"mscale\": 1.0, \"mscale_all_dim\": 1.0}}"

static const struct {
    const char *name, *config;
} shapes[] = {
    {"qwen3.5-35b-a3b", QWEN3_5(248320, 2048, 40, 262144, 16, 16, 32, 256, 512)},
    {"qwen3-30b-a3b",
     "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 151936, \"hidden_size\": 2048,"
     " \"num_hidden_layers\": 48, \"num_attention_heads\": 32, \"num_key_value_heads\": 4,"
     " \"head_dim\": 128, \"max_position_embeddings\": 40960, \"num_experts\": 128,"
     " \"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768, \"norm_topk_prob\": true,"
     " \"rope_theta\": 1000000}"},
    {"gpt-oss-20b",
     "{\"model_type\": \"gpt_oss\", \"vocab_size\": 201088, \"hidden_size\": 2880,"
     " \"num_hidden_layers\": 24, \"num_attention_heads\": 64, \"num_key_value_heads\": 8,"
     " \"head_dim\": 64, \"num_local_experts\": 32, \"num_experts_per_tok\": 4,"
     " \"intermediate_size\": 2880}"},
    {"deepseek-v3", DEEPSEEK(61, 7168, 128, 18432, 256, 2048)},
    {"deepseek-small", DEEPSEEK(12, 2048, 16, 6144, 64, 512)},
    {"medium", QWEN3_5(4096, 2048, 20, 32768, 16, 16, 32, 128, 512)},
    {"small", QWEN3_5(4096, 1024, 12, 32768, 8, 8, 16, 64, 256)},
};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };

/* SHAPE_COUNT when there is none of that name. */
static int find_known(const char *name) {
    int i = 0;
    while (i < SHAPE_COUNT && strcmp(shapes[i].name, name) != 0) i++;
    return i;
}

static sl_status unknown(const char *shape, sl_error *err) {
    char known[160] = "";
    for (int i = 0; i < SHAPE_COUNT; i++) {
        const size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", shapes[i].name);
    }
    return sl_fail(err, SL_INVALID, "shape '%s' is neither known (%s) nor the path of a config",
                   shape, known);
}

/* What this config calls the number of experts. */
static const char *expert_key(const json_t *config) {
    static const char *const keys[] = {"num_local_experts", "n_routed_experts"};
    for (int i = 0; i < 2; i++)
        if (json_object_get(config, keys[i])) return keys[i];
    return "num_experts";
}

static bool set_number(json_t *config, const char *key, uint32_t value) {
    return value == 0 || json_object_set_new(config, key, json_integer(value)) == 0;
}

static sl_status change(const char *shape, const sl_shape_changes *changes, sl_arena *arena,
                        const char **text, size_t *bytes, sl_error *err) {
    json_t *root = NULL;
    SL_TRY(sl_json_load(shape, *text, *bytes, &root, err));
    json_t *nested = json_object_get(root, "text_config");
    json_t *config = json_is_object(nested) ? nested : root;
    char *changed = NULL;
    *text = NULL;
    if (set_number(config, "num_hidden_layers", changes->layers) &&
        set_number(config, expert_key(config), changes->experts) &&
        set_number(config, "vocab_size", changes->vocab))
        changed = sl_json_dump(root, 0);
    if (changed) {
        *bytes = strlen(changed);
        *text = sl_arena_copy_text(arena, changed, *bytes);
    }
    free(changed);
    json_decref(root);
    return *text ? SL_OK : sl_no_memory(err, shape, 0);
}

sl_status sl_shape_load(const char *shape, const sl_shape_changes *changes, sl_arena *arena,
                        const char **out_text, size_t *out_bytes, sl_error *err) {
    const int known = find_known(shape);
    if (known < SHAPE_COUNT) {
        *out_text = shapes[known].config;
        *out_bytes = strlen(*out_text);
    } else if (sl_file_exists(shape)) {
        SL_TRY(sl_file_read_text(shape, MAX_CONFIG_BYTES, arena, out_text, out_bytes, err));
    } else {
        return unknown(shape, err);
    }
    if (!changes || !(changes->layers || changes->experts || changes->vocab)) return SL_OK;
    return change(shape, changes, arena, out_text, out_bytes, err);
}
