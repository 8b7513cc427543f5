#include "engine/models/shapes.h"
#include "engine/formats/file.h"
#include "engine/formats/json.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 1 << 20 };

/* What differs between the models of this family. */
static const struct {
    const char *name;
    int vocab, hidden, layers, context, query_heads, key_heads, value_heads;
    int experts, width;
} shapes[] = {
    {"qwen3.5-35b-a3b", 248320, 2048, 40, 262144, 16, 16, 32, 256, 512},
    {"medium", 4096, 2048, 20, 32768, 16, 16, 32, 128, 512},
    {"small", 4096, 1024, 12, 32768, 8, 8, 16, 64, 256},
};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };

static const char *known_config(int i, sl_arena *arena) {
    return sl_arena_format(
        arena,
        "{\"model_type\": \"qwen3_5_moe\", \"vocab_size\": %d, \"hidden_size\": %d,"
        " \"num_hidden_layers\": %d, \"full_attention_interval\": 4,"
        " \"max_position_embeddings\": %d, \"num_attention_heads\": %d,"
        " \"num_key_value_heads\": 2, \"head_dim\": 256, \"partial_rotary_factor\": 0.25,"
        " \"rope_theta\": 10000000, \"rms_norm_eps\": 1e-6, \"linear_num_key_heads\": %d,"
        " \"linear_num_value_heads\": %d, \"linear_key_head_dim\": 128,"
        " \"linear_value_head_dim\": 128, \"linear_conv_kernel_dim\": 4, \"num_experts\": %d,"
        " \"num_experts_per_tok\": 8, \"moe_intermediate_size\": %d,"
        " \"shared_expert_intermediate_size\": %d, \"tie_word_embeddings\": false}",
        shapes[i].vocab, shapes[i].hidden, shapes[i].layers, shapes[i].context,
        shapes[i].query_heads, shapes[i].key_heads, shapes[i].value_heads, shapes[i].experts,
        shapes[i].width, shapes[i].width);
}

/* SHAPE_COUNT when there is none of that name. */
static int find_known(const char *name) {
    int i = 0;
    while (i < SHAPE_COUNT && strcmp(shapes[i].name, name) != 0) i++;
    return i;
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
        set_number(config, "num_experts", changes->experts) &&
        set_number(config, "vocab_size", changes->vocab))
        changed = json_dumps(root, 0);
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
        *out_text = known_config(known, arena);
        if (!*out_text) return sl_no_memory(err, shape, 0);
        *out_bytes = strlen(*out_text);
    } else if (sl_file_exists(shape)) {
        SL_TRY(sl_file_read_text(shape, MAX_CONFIG_BYTES, arena, out_text, out_bytes, err));
    } else {
        return sl_fail(err, SL_INVALID,
                       "shape '%s' is neither known (%s, %s, %s) nor the path of a config", shape,
                       shapes[0].name, shapes[1].name, shapes[2].name);
    }
    if (!changes || !(changes->layers || changes->experts || changes->vocab)) return SL_OK;
    return change(shape, changes, arena, out_text, out_bytes, err);
}
