#include "engine/models/config.h"
#include "engine/formats/json.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static const char what[] = "config.json";
static const char *const qwen3_5_moe[] = {"qwen3_5_moe", "qwen3_5_moe_text"};

enum { REQUIRED = 0, DEFAULT_INTERVAL = 4 };

/* Upper bounds are far beyond any model, and low enough that products of three fit 63 bits. */
static const struct {
    const char *key;
    size_t offset; /* of a uint32_t in sl_model_config */
    uint32_t minimum, maximum, fallback;
} numbers[] = {
#define NUMBER(key, field, minimum, maximum, fallback)                                             \
    { key, offsetof(sl_model_config, field), minimum, maximum, fallback }
    NUMBER("vocab_size", vocab, 1, 1 << 24, REQUIRED),
    NUMBER("hidden_size", hidden, 1, 1 << 17, REQUIRED),
    NUMBER("num_hidden_layers", layers, 1, 4096, REQUIRED),
    NUMBER("max_position_embeddings", context, 1, 1 << 26, 32768),
    NUMBER("num_attention_heads", query_heads, 1, 4096, REQUIRED),
    NUMBER("num_key_value_heads", kv_heads, 1, 4096, 2),
    NUMBER("head_dim", head_dim, 2, 4096, 256),
    NUMBER("linear_num_key_heads", delta_key_heads, 1, 4096, 16),
    NUMBER("linear_num_value_heads", delta_value_heads, 1, 4096, 32),
    NUMBER("linear_key_head_dim", delta_key_dim, 1, 4096, 128),
    NUMBER("linear_value_head_dim", delta_value_dim, 1, 4096, 128),
    NUMBER("linear_conv_kernel_dim", conv_width, 2, 64, 4),
    NUMBER("num_experts", experts, 1, 1 << 16, REQUIRED),
    NUMBER("num_experts_per_tok", experts_used, 1, 1 << 16, REQUIRED),
    NUMBER("moe_intermediate_size", expert_width, 1, 1 << 18, REQUIRED),
    NUMBER("shared_expert_intermediate_size", shared_width, 1, 1 << 18, 512),
#undef NUMBER
};

typedef struct {
    json_t *root, *text; /* text: text_config, or root when flat */
    sl_arena *arena;
    sl_error *err;
} parser;

/* NULL when absent or null. */
static const json_t *find(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static sl_status read_integer(const parser *p, const char *key, uint32_t minimum, uint32_t maximum,
                              uint32_t *out) {
    const json_t *value = find(p->text, key);
    if (!value) return SL_OK;
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value))
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is not an integer", what, key);
    if (number < minimum || number > maximum)
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is %lld, %u to %u is supported", what, key,
                       (long long)number, minimum, maximum);
    *out = (uint32_t)number;
    return SL_OK;
}

static sl_status read_integers(const parser *p, sl_model_config *out) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *key = numbers[i].key;
        uint32_t *field = (uint32_t *)(void *)((char *)out + numbers[i].offset);
        *field = numbers[i].fallback;
        SL_TRY(read_integer(p, key, numbers[i].minimum, numbers[i].maximum, field));
        if (*field == REQUIRED) return sl_fail(p->err, SL_FORMAT, "%s: '%s' is missing", what, key);
    }
    return SL_OK;
}

static sl_status read_real(const parser *p, const json_t *object, const char *key, double maximum,
                           double *out) {
    const json_t *value = find(object, key);
    if (!value) return SL_OK;
    const double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0 && number <= maximum))
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is %g, a number above 0 and up to %g wanted",
                       what, key, number, maximum);
    *out = number;
    return SL_OK;
}

static sl_status read_flag(const parser *p, const json_t *object, const char *key, bool *out) {
    const json_t *value = find(object, key);
    if (!value) return SL_OK;
    if (!json_is_boolean(value))
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is not true or false", what, key);
    *out = json_is_true(value);
    return SL_OK;
}

/* A key that, when there, must have the one value that the graph implements. */
static sl_status expect_text(const parser *p, const json_t *object, const char *key,
                             const char *wanted) {
    const json_t *value = find(object, key);
    if (!value) return SL_OK;
    const char *found = json_string_value(value);
    if (found && strcmp(found, wanted) == 0) return SL_OK;
    return sl_fail(p->err, SL_UNSUPPORTED, "%s: '%s' is '%.64s', only '%s' is supported", what, key,
                   found && sl_json_name_fits(found) ? found : "?", wanted);
}

static sl_status expect_flag(const parser *p, const char *key, bool wanted) {
    bool found = wanted;
    SL_TRY(read_flag(p, p->text, key, &found));
    if (found == wanted) return SL_OK;
    return sl_fail(p->err, SL_UNSUPPORTED, "%s: '%s' is %s, only %s is supported", what, key,
                   found ? "true" : "false", wanted ? "true" : "false");
}

/* Variants of the architecture that the graph does not implement. */
static sl_status check_variant(const parser *p) {
    static const char *const quantised[] = {"quantization_config", "quantization"};
    for (size_t i = 0; i < sizeof quantised / sizeof quantised[0]; i++)
        if (find(p->root, quantised[i]) || find(p->text, quantised[i]))
            return sl_fail(p->err, SL_UNSUPPORTED,
                           "%s: '%s' is set; only bf16, f16 and f32 weights are supported", what,
                           quantised[i]);
    SL_TRY(expect_text(p, p->text, "hidden_act", "silu"));
    SL_TRY(expect_text(p, p->text, "output_gate_type", "swish"));
    SL_TRY(expect_flag(p, "attention_bias", false));
    return expect_flag(p, "attn_output_gate", true);
}

static sl_status read_model_type(const parser *p, const char **out) {
    const json_t *value = find(p->root, "model_type");
    const char *found = json_string_value(value ? value : find(p->text, "model_type"));
    if (!found) return sl_fail(p->err, SL_FORMAT, "%s: 'model_type' is missing", what);
    for (size_t i = 0; i < sizeof qwen3_5_moe / sizeof qwen3_5_moe[0]; i++)
        if (strcmp(found, qwen3_5_moe[i]) == 0) {
            *out = qwen3_5_moe[0];
            return SL_OK;
        }
    return sl_fail(p->err, SL_UNSUPPORTED, "model type '%.64s' is not supported; supported: %s",
                   sl_json_name_fits(found) ? found : "?", qwen3_5_moe[0]);
}

static sl_status read_listed_layers(const parser *p, const json_t *list, uint32_t layers,
                                    bool *out) {
    if (!json_is_array(list) || json_array_size(list) != layers)
        return sl_fail(p->err, SL_FORMAT,
                       "%s: 'layer_types' has %zu entries, 'num_hidden_layers' is %u", what,
                       json_array_size(list), layers);
    for (uint32_t i = 0; i < layers; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        out[i] = type && strcmp(type, "full_attention") == 0;
        if (!out[i] && !(type && strcmp(type, "linear_attention") == 0))
            return sl_fail(p->err, SL_UNSUPPORTED,
                           "%s: 'layer_types' %u is '%.64s'; supported: full_attention, "
                           "linear_attention",
                           what, i, type && sl_json_name_fits(type) ? type : "?");
    }
    return SL_OK;
}

static sl_status read_layer_types(const parser *p, sl_model_config *out) {
    bool *full = SL_ARENA_NEW_ARRAY(p->arena, bool, out->layers);
    if (!full) return sl_no_memory(p->err, what, out->layers);
    out->full_attention = full;
    const json_t *list = find(p->text, "layer_types");
    if (list) return read_listed_layers(p, list, out->layers, full);
    uint32_t interval = DEFAULT_INTERVAL;
    SL_TRY(read_integer(p, "full_attention_interval", 1, UINT32_MAX, &interval));
    for (uint32_t i = 0; i < out->layers; i++) full[i] = (i + 1) % interval == 0;
    return SL_OK;
}

/* rope_parameters, or the older flat keys; the object's values win. */
static sl_status read_rope(const parser *p, sl_model_config *out) {
    static const char *const names[3] = {"text_config", "rope_scaling", "rope_parameters"};
    const json_t *objects[3] = {p->text, find(p->text, names[1]), find(p->text, names[2])};
    double theta = 10000, factor = 0.25;
    for (int i = 0; i < 3; i++) {
        if (!objects[i]) continue;
        if (!json_is_object(objects[i]))
            return sl_fail(p->err, SL_FORMAT, "%s: '%s' is not an object", what, names[i]);
        SL_TRY(read_real(p, objects[i], "rope_theta", 1e15, &theta));
        SL_TRY(read_real(p, objects[i], "partial_rotary_factor", 1, &factor));
        SL_TRY(expect_text(p, objects[i], "rope_type", "default"));
        if (i > 0) SL_TRY(expect_text(p, objects[i], "type", "default"));
    }
    out->rope_theta = (float)theta;
    out->rotary_dims = (uint32_t)(out->head_dim * factor);
    if (out->rotary_dims < 2 || out->rotary_dims % 2)
        return sl_fail(p->err, SL_FORMAT,
                       "%s: 'head_dim' %u times 'partial_rotary_factor' %g gives %u rotary dims, "
                       "an even number wanted",
                       what, out->head_dim, factor, out->rotary_dims);
    return SL_OK;
}

static sl_status check_divides(const parser *p, const char *key, uint32_t number,
                               const char *divisor_key, uint32_t divisor) {
    if (number % divisor == 0) return SL_OK;
    return sl_fail(p->err, SL_FORMAT, "%s: '%s' is %u, a multiple of '%s' (%u) wanted", what, key,
                   number, divisor_key, divisor);
}

static sl_status check_relations(const parser *p, const sl_model_config *config) {
    SL_TRY(check_divides(p, "num_attention_heads", config->query_heads, "num_key_value_heads",
                         config->kv_heads));
    SL_TRY(check_divides(p, "linear_num_value_heads", config->delta_value_heads,
                         "linear_num_key_heads", config->delta_key_heads));
    if (config->experts_used > config->experts)
        return sl_fail(p->err, SL_FORMAT, "%s: 'num_experts_per_tok' is %u of %u 'num_experts'",
                       what, config->experts_used, config->experts);
    return SL_OK;
}

static sl_status read_config(const parser *p, sl_model_config *out) {
    SL_TRY(read_model_type(p, &out->model_type));
    SL_TRY(check_variant(p));
    SL_TRY(read_integers(p, out));
    SL_TRY(check_relations(p, out));
    SL_TRY(read_layer_types(p, out));
    SL_TRY(read_flag(p, p->text, "linear_value_heads_tiled", &out->delta_tiled));
    SL_TRY(read_rope(p, out));
    double eps = 1e-6;
    SL_TRY(read_real(p, p->text, "rms_norm_eps", 1, &eps));
    out->norm_eps = (float)eps;
    out->normalise_routes = true; /* this family always does */
    SL_TRY(read_flag(p, p->root, "tie_word_embeddings", &out->tied_embeddings));
    return read_flag(p, p->text, "tie_word_embeddings", &out->tied_embeddings);
}

sl_status sl_model_config_parse(const char *json, size_t bytes, sl_arena *arena,
                                sl_model_config *out, sl_error *err) {
    json_t *root = NULL;
    SL_TRY(sl_json_load(what, json, bytes, &root, err));
    json_t *nested = json_object_get(root, "text_config");
    const parser p = {root, json_is_object(nested) ? nested : root, arena, err};
    *out = (sl_model_config){0};
    const sl_status status = read_config(&p, out);
    json_decref(root);
    return status;
}
