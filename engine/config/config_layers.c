/* config_layers.c - The kind of each layer: attention or delta net, experts or dense. */
#include "engine/config/config_internal.h"
#include <string.h>

static const char what[] = "config.json";
enum { DEFAULT_INTERVAL = 4, DEFAULT_WINDOW_LAYERS = 28 };

/* What the layers of a config may be called. */
static const struct {
    const char *name;
    uint32_t keys; /* families that know it */
    bool linear, windowed;
} kinds[] = {
    {"full_attention", SL_KEYS_LAYER_TYPES, false, false},
    {"linear_attention", SL_KEYS_DELTA, true, false},
    {"sliding_attention", SL_KEYS_WINDOW, false, true},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static sl_status unknown_kind(const sl_config_parser *p, uint32_t layer, const char *found) {
    char known[96] = "";
    for (int k = 0; k < KIND_COUNT; k++) {
        const size_t used = strlen(known);
        if (p->family->keys & kinds[k].keys)
            (void)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                           kinds[k].name);
    }
    return sl_fail(p->err, SL_UNSUPPORTED, "%s: 'layer_types' %u is '%.64s'; supported: %s", what,
                   layer, sl_config_shown(found), known);
}

static sl_status read_listed(const sl_config_parser *p, const json_t *list, uint32_t window,
                             const sl_model_config *config, sl_layer_config *out) {
    if (!json_is_array(list) || json_array_size(list) != config->layers)
        return sl_fail(p->err, SL_FORMAT,
                       "%s: 'layer_types' has %zu entries, 'num_hidden_layers' is %u", what,
                       json_array_size(list), config->layers);
    for (uint32_t i = 0; i < config->layers; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int k = 0;
        while (k < KIND_COUNT && !(name && strcmp(name, kinds[k].name) == 0)) k++;
        if (k == KIND_COUNT || !(p->family->keys & kinds[k].keys)) return unknown_kind(p, i, name);
        out[i].linear = kinds[k].linear;
        out[i].window = kinds[k].windowed ? window : 0;
    }
    return SL_OK;
}

/* *out is 0 where there is no window. */
static sl_status read_window(const sl_config_parser *p, uint32_t *out) {
    bool use = !(p->family->keys & SL_KEYS_USE_WINDOW);
    *out = 0;
    if (!(p->family->keys & SL_KEYS_WINDOW)) return SL_OK;
    /* null says that there is none */
    if (!json_is_null(json_object_get(p->text, "sliding_window"))) *out = p->family->window;
    SL_TRY(sl_config_integer(p, "sliding_window", 1, 1u << 30, out));
    SL_TRY(sl_config_flag(p, p->text, "use_sliding_window", &use));
    if (!use) *out = 0;
    return SL_OK;
}

static sl_status read_mixers(const sl_config_parser *p, const sl_model_config *config,
                             sl_layer_config *out) {
    uint32_t window, interval = DEFAULT_INTERVAL, late = DEFAULT_WINDOW_LAYERS;
    SL_TRY(read_window(p, &window));
    const json_t *list = sl_config_find(p->text, "layer_types");
    if (list && (p->family->keys & SL_KEYS_LAYER_TYPES))
        return read_listed(p, list, window, config, out);
    SL_TRY(sl_config_integer(p, "full_attention_interval", 1, UINT32_MAX, &interval));
    SL_TRY(sl_config_integer(p, "max_window_layers", 0, UINT32_MAX, &late));
    for (uint32_t i = 0; i < config->layers; i++) switch (p->family->pattern) {
        case SL_LAYERS_FULL:
            break;
        case SL_LAYERS_WINDOW:
            out[i].window = window;
            break;
        case SL_LAYERS_LATE_WINDOW:
            out[i].window = i >= late ? window : 0;
            break;
        case SL_LAYERS_ALTERNATE:
            out[i].window = i % 2 == 0 ? window : 0;
            break;
        case SL_LAYERS_INTERVAL:
            out[i].linear = (i + 1) % interval != 0;
            break;
        }
    return SL_OK;
}

static sl_status clear_dense(const sl_config_parser *p, const sl_model_config *config,
                             sl_layer_config *out) {
    const json_t *list = sl_config_find(p->text, "mlp_only_layers");
    if (list && !json_is_array(list))
        return sl_fail(p->err, SL_FORMAT, "%s: 'mlp_only_layers' is not a list", what);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item) || layer < 0 || layer >= config->layers)
            return sl_fail(p->err, SL_FORMAT,
                           "%s: 'mlp_only_layers' names layer %lld, there are %u", what,
                           (long long)layer, config->layers);
        out[layer].sparse = false;
    }
    return SL_OK;
}

static sl_status read_sparse(const sl_config_parser *p, const sl_model_config *config,
                             sl_layer_config *out) {
    uint32_t step = 1, dense = p->family->dense_first;
    if (config->experts == 0) return SL_OK;
    if (p->family->keys & SL_KEYS_GROUPS)
        SL_TRY(sl_config_integer(p, "first_k_dense_replace", 0, UINT32_MAX, &dense));
    if (p->family->keys & SL_KEYS_SPARSE_STEP)
        SL_TRY(sl_config_integer(p, "decoder_sparse_step", 1, UINT32_MAX, &step));
    for (uint32_t i = 0; i < config->layers; i++) out[i].sparse = i >= dense && (i + 1) % step == 0;
    return p->family->keys & SL_KEYS_SPARSE_STEP ? clear_dense(p, config, out) : SL_OK;
}

sl_status sl_config_layers(const sl_config_parser *p, sl_model_config *config) {
    sl_layer_config *layers = SL_ARENA_NEW_ARRAY(p->arena, sl_layer_config, config->layers);
    if (!layers) return sl_no_memory(p->err, what, config->layers);
    config->layer = layers;
    SL_TRY(read_mixers(p, config, layers));
    SL_TRY(read_sparse(p, config, layers));
    for (uint32_t i = 0; i < config->layers; i++)
        if (!layers[i].sparse && config->dense_width == 0)
            return sl_fail(p->err, SL_FORMAT,
                           "%s: 'intermediate_size' is missing, and layer %u has no experts", what,
                           i);
    return SL_OK;
}
