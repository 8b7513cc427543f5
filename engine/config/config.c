/* config.c - The keys of config.json: which there are, their ranges, and what must fit together. */
#include "engine/config/config_internal.h"
#include "engine/formats/source.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

static const char what[] = "config.json";

enum { ANY = 0, OPTIONAL = false, NEEDED = true };

/* Upper bounds are far beyond any model, and low enough that products of three fit 63 bits.
 * Synonyms follow each other; a field that is still 0 in the end must have been given. */
static const struct {
    uint32_t keys; /* families that have one of these; ANY: all */
    const char *key;
    size_t offset; /* of a uint32_t in sl_model_config */
    uint32_t minimum, maximum;
    bool needed;
} numbers[] = {
#define NUMBER(keys, key, field, minimum, maximum, needed)                                         \
    { keys, key, offsetof(sl_model_config, field), minimum, maximum, needed }
    NUMBER(ANY, "vocab_size", vocab, 1, 1 << 24, NEEDED),
    NUMBER(ANY, "hidden_size", hidden, 1, 1 << 17, NEEDED),
    NUMBER(ANY, "num_hidden_layers", layers, 1, SL_MAX_LAYERS, NEEDED),
    NUMBER(ANY, "max_position_embeddings", context, 1, 1 << 26, NEEDED),
    NUMBER(ANY, "num_attention_heads", query_heads, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_HEADS, "num_key_value_heads", kv_heads, 1, 4096, OPTIONAL),
    NUMBER(SL_KEYS_HEADS, "head_dim", head_dim, 2, 4096, OPTIONAL),
    NUMBER(SL_KEYS_LATENT, "q_lora_rank", query_rank, 1, 1 << 17, OPTIONAL),
    NUMBER(SL_KEYS_LATENT, "kv_lora_rank", latent_rank, 1, 1 << 17, NEEDED),
    NUMBER(SL_KEYS_LATENT, "qk_nope_head_dim", nope_dim, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_LATENT, "qk_rope_head_dim", rope_dim, 2, 4096, NEEDED),
    NUMBER(SL_KEYS_LATENT, "v_head_dim", value_dim, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_DELTA, "linear_num_key_heads", delta_key_heads, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_DELTA, "linear_num_value_heads", delta_value_heads, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_DELTA, "linear_key_head_dim", delta_key_dim, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_DELTA, "linear_value_head_dim", delta_value_dim, 1, 4096, NEEDED),
    NUMBER(SL_KEYS_DELTA, "linear_conv_kernel_dim", conv_width, 2, 64, NEEDED),
    NUMBER(SL_KEYS_EXPERTS, "num_experts", experts, 1, 1 << 16, NEEDED),
    NUMBER(SL_KEYS_EXPERTS, "num_local_experts", experts, 1, 1 << 16, NEEDED),
    NUMBER(SL_KEYS_EXPERTS, "n_routed_experts", experts, 1, 1 << 16, NEEDED),
    NUMBER(SL_KEYS_EXPERTS, "num_experts_per_tok", experts_used, 1, 1 << 16, NEEDED),
    NUMBER(SL_KEYS_NARROW, "moe_intermediate_size", expert_width, 1, 1 << 18, NEEDED),
    NUMBER(SL_KEYS_WIDE, "intermediate_size", expert_width, 1, 1 << 18, NEEDED),
    NUMBER(SL_KEYS_DENSE, "intermediate_size", dense_width, 1, 1 << 18, OPTIONAL),
    NUMBER(SL_KEYS_SHARED, "shared_expert_intermediate_size", shared_width, 1, 1 << 18, NEEDED),
    NUMBER(SL_KEYS_GROUPS, "n_group", expert_groups, 1, 1 << 16, NEEDED),
    NUMBER(SL_KEYS_GROUPS, "num_nextn_predict_layers", further_layers, 0, 64, OPTIONAL),
    NUMBER(SL_KEYS_GROUPS, "topk_group", expert_groups_kept, 1, 1 << 16, NEEDED),
#undef NUMBER
};
enum { NUMBER_COUNT = sizeof numbers / sizeof numbers[0] };

static const struct {
    uint32_t keys;
    const char *key;
    size_t offset; /* of a float */
    double maximum;
} reals[] = {
#define REAL(keys, key, field, maximum)                                                            \
    { keys, key, offsetof(sl_model_config, field), maximum }
    REAL(ANY, "rms_norm_eps", norm_eps, 1),
    REAL(SL_KEYS_GROUPS, "routed_scaling_factor", routed_scale, 1e6),
    REAL(SL_KEYS_SWIGLU, "swiglu_limit", swiglu_limit, 1e30),
    REAL(SL_KEYS_SWIGLU, "swiglu_alpha", swiglu_alpha, 1e6),
    REAL(SL_KEYS_CLIP, "clip_qkv", clip_qkv, 1e30),
#undef REAL
};

static const struct {
    uint32_t keys;
    const char *key;
    size_t offset; /* of a bool */
} flags[] = {
#define FLAG(keys, key, field)                                                                     \
    { keys, key, offsetof(sl_model_config, field) }
    FLAG(ANY, "tie_word_embeddings", tied_embeddings),
    FLAG(ANY, "rope_interleave", rope.interleaved),
    FLAG(SL_KEYS_BIAS, "attention_bias", attention_bias),
    FLAG(SL_KEYS_QK_NORM, "use_qk_norm", qk_norm),
    FLAG(SL_KEYS_NORM_TOPK, "norm_topk_prob", normalise_routes),
    FLAG(SL_KEYS_DELTA, "linear_value_heads_tiled", delta_tiled),
#undef FLAG
};

/* Keys that, when there, must have one of the values that the graphs implement. */
static const struct {
    uint32_t keys;
    const char *key, *wanted[2];
} words[] = {
    {ANY, "hidden_act", {"silu", "swish"}},
    {SL_KEYS_DELTA, "output_gate_type", {"swish", "silu"}},
    {SL_KEYS_GROUPS, "scoring_func", {"sigmoid", "sigmoid"}},
    {SL_KEYS_GROUPS, "topk_method", {"noaux_tc", "noaux_tc"}},
};

const json_t *sl_config_find(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

const char *sl_config_shown(const char *name) {
    return name && sl_json_name_fits(name) ? name : "?";
}

sl_status sl_config_integer(const sl_config_parser *p, const char *key, uint32_t minimum,
                            uint32_t maximum, uint32_t *out) {
    const json_t *value = sl_config_find(p->text, key);
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

sl_status sl_config_real(const sl_config_parser *p, const json_t *object, const char *key,
                         double maximum, double *out) {
    const json_t *value = sl_config_find(object, key);
    if (!value) return SL_OK;
    const double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0 && number <= maximum))
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is %g, a number above 0 and up to %g wanted",
                       what, key, number, maximum);
    *out = number;
    return SL_OK;
}

sl_status sl_config_flag(const sl_config_parser *p, const json_t *object, const char *key,
                         bool *out) {
    const json_t *value = sl_config_find(object, key);
    if (!value) return SL_OK;
    if (!json_is_boolean(value))
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is not true or false", what, key);
    *out = json_is_true(value);
    return SL_OK;
}

static bool has(const sl_config_parser *p, uint32_t keys) {
    return keys == ANY || (p->family->keys & keys);
}

/* Of a key with synonyms, all are named. */
static sl_status missing(const sl_config_parser *p, size_t number) {
    char text[160] = "";
    for (size_t i = number; i < NUMBER_COUNT && numbers[i].offset == numbers[number].offset; i++) {
        const size_t used = strlen(text);
        if (has(p, numbers[i].keys))
            (void)snprintf(text + used, sizeof text - used, "%s'%s'", used ? " or " : "",
                           numbers[i].key);
    }
    return sl_fail(p->err, SL_FORMAT, "%s: %s is missing", what, text);
}

static sl_status read_numbers(const sl_config_parser *p, sl_model_config *out) {
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (has(p, numbers[i].keys))
            SL_TRY(sl_config_integer(p, numbers[i].key, numbers[i].minimum, numbers[i].maximum,
                                     (uint32_t *)(void *)((char *)out + numbers[i].offset)));
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (has(p, numbers[i].keys) && numbers[i].needed &&
            *(const uint32_t *)(const void *)((const char *)out + numbers[i].offset) == 0)
            return missing(p, i);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        float *field = (float *)(void *)((char *)out + reals[i].offset);
        double value = (double)*field;
        if (!has(p, reals[i].keys)) continue;
        SL_TRY(sl_config_real(p, p->text, reals[i].key, reals[i].maximum, &value));
        *field = (float)value;
    }
    return SL_OK;
}

/* Flags of the whole model may lie outside of text_config, which has the last word. */
static sl_status read_flags(const sl_config_parser *p, sl_model_config *out) {
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool *field = (bool *)((char *)out + flags[i].offset);
        if (!has(p, flags[i].keys)) continue;
        SL_TRY(sl_config_flag(p, p->root, flags[i].key, field));
        SL_TRY(sl_config_flag(p, p->text, flags[i].key, field));
    }
    return SL_OK;
}

static sl_status check_words(const sl_config_parser *p) {
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const json_t *value = sl_config_find(p->text, words[i].key);
        const char *found = json_string_value(value);
        if (!value || !has(p, words[i].keys)) continue;
        if (found &&
            (strcmp(found, words[i].wanted[0]) == 0 || strcmp(found, words[i].wanted[1]) == 0))
            continue;
        return sl_fail(p->err, SL_UNSUPPORTED, "%s: '%s' is '%.64s', only '%s' is supported", what,
                       words[i].key, sl_config_shown(found), words[i].wanted[0]);
    }
    bool gated = true;
    SL_TRY(sl_config_flag(p, p->text, "attn_output_gate", &gated));
    if (gated || !has(p, SL_KEYS_DELTA)) return SL_OK;
    return sl_fail(p->err, SL_UNSUPPORTED,
                   "%s: 'attn_output_gate' is false, only true is supported", what);
}

/* The type of the whole, or else of its text part. */
static sl_status find_family(const sl_config_parser *p, const sl_config_families *families,
                             const sl_config_family **out) {
    const char *found = json_string_value(sl_config_find(p->root, "model_type"));
    const char *inner = json_string_value(sl_config_find(p->text, "model_type"));
    if (!found) found = inner;
    if (!found) return sl_fail(p->err, SL_FORMAT, "%s: 'model_type' is missing", what);
    *out = families->find(found);
    if (!*out && inner) *out = families->find(inner);
    if (*out) return SL_OK;
    char known[SL_CONFIG_NAMES_BYTES];
    return sl_fail(p->err, SL_UNSUPPORTED, "model type '%.64s' is not supported; supported: %s",
                   sl_config_shown(found), families->names(known, sizeof known));
}

static sl_status check_divides(const sl_config_parser *p, const char *key, uint32_t number,
                               const char *divisor_key, uint32_t divisor) {
    if (number % divisor == 0) return SL_OK;
    return sl_fail(p->err, SL_FORMAT, "%s: '%s' is %u, a multiple of '%s' (%u) wanted", what, key,
                   number, divisor_key, divisor);
}

/* Heads share keys and values evenly, and have the hidden size's share where nothing is said. */
static sl_status complete_heads(const sl_config_parser *p, sl_model_config *config) {
    if (!has(p, SL_KEYS_HEADS)) return SL_OK;
    if (config->kv_heads == 0) config->kv_heads = config->query_heads;
    SL_TRY(check_divides(p, "num_attention_heads", config->query_heads, "num_key_value_heads",
                         config->kv_heads));
    if (config->head_dim) return SL_OK;
    SL_TRY(check_divides(p, "hidden_size", config->hidden, "num_attention_heads",
                         config->query_heads));
    config->head_dim = config->hidden / config->query_heads;
    return SL_OK;
}

/* An expert is chosen among those of the groups that are kept; a group is judged by its two best.
 */
static sl_status complete_groups(const sl_config_parser *p, sl_model_config *config) {
    uint32_t shared = 1;
    if (!has(p, SL_KEYS_GROUPS)) return SL_OK;
    SL_TRY(sl_config_integer(p, "n_shared_experts", 0, 1 << 10, &shared));
    config->shared_width = shared * config->expert_width;
    SL_TRY(check_divides(p, "n_routed_experts", config->experts, "n_group", config->expert_groups));
    const uint32_t each = config->experts / config->expert_groups;
    if (config->expert_groups_kept > config->expert_groups || each < 2 ||
        config->experts_used > config->expert_groups_kept * each)
        return sl_fail(p->err, SL_FORMAT,
                       "%s: 'topk_group' is %u of %u groups of %u experts, of which "
                       "'num_experts_per_tok' is %u: too few, or groups of less than 2",
                       what, config->expert_groups_kept, config->expert_groups, each,
                       config->experts_used);
    return SL_OK;
}

static sl_status complete(const sl_config_parser *p, sl_model_config *config) {
    SL_TRY(complete_heads(p, config));
    if (has(p, SL_KEYS_DELTA))
        SL_TRY(check_divides(p, "linear_num_value_heads", config->delta_value_heads,
                             "linear_num_key_heads", config->delta_key_heads));
    if (config->experts_used > config->experts)
        return sl_fail(p->err, SL_FORMAT, "%s: 'num_experts_per_tok' is %u of %u experts", what,
                       config->experts_used, config->experts);
    SL_TRY(complete_groups(p, config));
    SL_TRY(sl_config_layers(p, config));
    return sl_config_rope(p, config);
}

static sl_status read_config(sl_config_parser *p, const sl_config_families *families,
                             sl_model_config *out) {
    SL_TRY(find_family(p, families, &p->family));
    *out = p->family->defaults;
    out->model_type = p->family->model_type;
    SL_TRY(check_words(p));
    SL_TRY(read_numbers(p, out));
    SL_TRY(read_flags(p, out));
    return complete(p, out);
}

sl_status sl_config_parse(const char *json, size_t bytes, const sl_config_families *families,
                          sl_arena *arena, sl_model_config *out, sl_error *err) {
    json_t *root = NULL;
    *out = (sl_model_config){0};
    SL_TRY(sl_json_load(what, json, bytes, &root, err));
    json_t *nested = json_object_get(root, "text_config");
    sl_config_parser p = {
        .root = root, .text = json_is_object(nested) ? nested : root, .arena = arena, .err = err};
    const sl_status status = read_config(&p, families, out);
    json_decref(root);
    return status;
}
