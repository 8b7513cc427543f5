/* config_rope.c - RoPE parameters in all spellings of config.json.
 *
 * rope_scaling (older) or rope_parameters (newer) is an object with rope_type, or type, and what
 * that needs; rope_theta and partial_rotary_factor lie in it or beside it. */
#include "engine/config/config_internal.h"
#include <math.h>
#include <string.h>

static const char what[] = "config.json";
static const double MAX_THETA = 1e15, MAX_FACTOR = 1e9;

static const struct {
    const char *name;
    sl_rope_scaling scaling;
} kinds[] = {
    {"default", SL_ROPE_DEFAULT}, {"linear", SL_ROPE_LINEAR}, {"llama3", SL_ROPE_LLAMA3},
    {"yarn", SL_ROPE_YARN},       {"mrope", SL_ROPE_DEFAULT}, /* text alone has equal positions on
                                                                 all axes */
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

/* The object that is in force: NULL when there is none. */
static sl_status find_object(const sl_config_parser *p, const json_t **out, const char **out_name) {
    static const char *const names[] = {"rope_scaling", "rope_parameters"};
    *out = NULL;
    *out_name = names[0];
    for (int i = 0; i < 2 && json_object_size(*out) == 0; i++) {
        const json_t *object = sl_config_find(p->text, names[i]);
        if (!object) continue;
        if (!json_is_object(object))
            return sl_fail(p->err, SL_FORMAT, "%s: '%s' is not an object", what, names[i]);
        *out = object;
        *out_name = names[i];
    }
    if (json_is_object(sl_config_find(*out, "full_attention")))
        return sl_fail(p->err, SL_UNSUPPORTED,
                       "%s: '%s' differs by layer type, only one for all layers is supported", what,
                       *out_name);
    return SL_OK;
}

static sl_status read_scaling(const sl_config_parser *p, const json_t *object,
                              sl_rope_scaling *out) {
    const char *key = sl_config_find(object, "rope_type") ? "rope_type" : "type";
    const json_t *value = sl_config_find(object, key);
    *out = SL_ROPE_DEFAULT;
    if (!value) return SL_OK;
    const char *found = json_string_value(value);
    for (int k = 0; k < KIND_COUNT; k++)
        if (found && strcmp(found, kinds[k].name) == 0) {
            *out = kinds[k].scaling;
            return SL_OK;
        }
    return sl_fail(p->err, SL_UNSUPPORTED,
                   "%s: '%s' is '%.64s'; supported: default, linear, llama3, yarn", what, key,
                   sl_config_shown(found));
}

static sl_status need(const sl_config_parser *p, const json_t *object, const char *key,
                      float *out) {
    double value = 0;
    SL_TRY(sl_config_real(p, object, key, MAX_FACTOR, &value));
    if (value == 0)
        return sl_fail(p->err, SL_FORMAT, "%s: '%s' is missing, but this rope type needs it", what,
                       key);
    *out = (float)value;
    return SL_OK;
}

/* 0 is as good as absent. */
static sl_status may_have(const sl_config_parser *p, const json_t *object, const char *key,
                          double *out) {
    const json_t *value = sl_config_find(object, key);
    if (json_is_number(value) && json_number_value(value) == 0) return SL_OK;
    return sl_config_real(p, object, key, MAX_FACTOR, out);
}

static double yarn_magnitude(double factor, double weight) {
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

static sl_status read_yarn(const sl_config_parser *p, const json_t *object, sl_rope_config *rope) {
    double fast = 32, slow = 1, magnitude = 0, own = 0, all = 0;
    rope->truncate = true;
    SL_TRY(may_have(p, object, "beta_fast", &fast));
    SL_TRY(may_have(p, object, "beta_slow", &slow));
    SL_TRY(may_have(p, object, "attention_factor", &magnitude));
    SL_TRY(may_have(p, object, "mscale", &own));
    SL_TRY(may_have(p, object, "mscale_all_dim", &all));
    SL_TRY(sl_config_flag(p, object, "truncate", &rope->truncate));
    const double factor = (double)rope->factor;
    if (magnitude == 0)
        magnitude = own > 0 && all > 0 ? yarn_magnitude(factor, own) / yarn_magnitude(factor, all)
                                       : yarn_magnitude(factor, 1);
    rope->magnitude = (float)magnitude;
    rope->low = (float)slow;
    rope->high = (float)fast;
    if (rope->theta > 1) return SL_OK;
    return sl_fail(p->err, SL_FORMAT, "%s: 'rope_theta' is %g, more than 1 wanted for yarn", what,
                   (double)rope->theta);
}

static sl_status read_llama3(const sl_config_parser *p, const json_t *object,
                             sl_rope_config *rope) {
    SL_TRY(need(p, object, "low_freq_factor", &rope->low));
    SL_TRY(need(p, object, "high_freq_factor", &rope->high));
    if (rope->high > rope->low) return SL_OK;
    return sl_fail(p->err, SL_FORMAT,
                   "%s: 'high_freq_factor' is %g, more than 'low_freq_factor' (%g) wanted", what,
                   (double)rope->high, (double)rope->low);
}

static sl_status read_original(const sl_config_parser *p, const json_t *object,
                               const sl_model_config *config, float *out) {
    static const char key[] = "original_max_position_embeddings";
    double original = config->context;
    SL_TRY(may_have(p, object, key, &original));
    SL_TRY(may_have(p, p->text, key, &original));
    *out = (float)original;
    return SL_OK;
}

static sl_status read_object(const sl_config_parser *p, const json_t *object,
                             const sl_model_config *config, sl_rope_config *rope) {
    SL_TRY(read_scaling(p, object, &rope->scaling));
    if (rope->scaling == SL_ROPE_DEFAULT) return SL_OK;
    SL_TRY(need(p, object, "factor", &rope->factor));
    if (rope->scaling == SL_ROPE_LINEAR) return SL_OK;
    SL_TRY(read_original(p, object, config, &rope->original));
    return rope->scaling == SL_ROPE_YARN ? read_yarn(p, object, rope)
                                         : read_llama3(p, object, rope);
}

/* How many dims of a head are turned. */
static sl_status read_dims(const sl_config_parser *p, const json_t *object,
                           sl_model_config *config) {
    const bool latent = p->family->keys & SL_KEYS_LATENT;
    const uint32_t head = latent ? config->rope_dim : config->head_dim;
    double share = p->family->partial_rotary > 0 ? (double)p->family->partial_rotary : 1;
    if (p->family->keys & SL_KEYS_PARTIAL) {
        SL_TRY(sl_config_real(p, p->text, "partial_rotary_factor", 1, &share));
        SL_TRY(sl_config_real(p, object, "partial_rotary_factor", 1, &share));
    }
    config->rope.dims = (uint32_t)(head * share);
    if (config->rope.dims >= 2 && config->rope.dims % 2 == 0) return SL_OK;
    return sl_fail(p->err, SL_FORMAT,
                   "%s: '%s' %u times 'partial_rotary_factor' %g gives %u rotary dims, "
                   "an even number wanted",
                   what, latent ? "qk_rope_head_dim" : "head_dim", head, share, config->rope.dims);
}

/* Latent attention scales scores too where yarn is asked to do so. */
static sl_status set_score_scale(const sl_config_parser *p, const json_t *object,
                                 sl_model_config *config) {
    double all = 0;
    config->score_scale = 1.0f / sqrtf((float)config->head_dim);
    if (!(p->family->keys & SL_KEYS_LATENT)) return SL_OK;
    config->score_scale = 1.0f / sqrtf((float)(config->nope_dim + config->rope_dim));
    if (config->rope.scaling == SL_ROPE_DEFAULT) return SL_OK;
    SL_TRY(may_have(p, object, "mscale_all_dim", &all));
    const double m = all > 0 ? yarn_magnitude((double)config->rope.factor, all) : 1;
    config->score_scale *= (float)(m * m);
    return SL_OK;
}

static sl_status read_all(const sl_config_parser *p, const json_t *object,
                          sl_model_config *config) {
    double theta = (double)config->rope.theta;
    SL_TRY(sl_config_real(p, p->text, "rope_theta", MAX_THETA, &theta));
    SL_TRY(sl_config_real(p, object, "rope_theta", MAX_THETA, &theta));
    config->rope.theta = (float)theta;
    SL_TRY(read_object(p, object, config, &config->rope));
    SL_TRY(read_dims(p, object, config));
    return set_score_scale(p, object, config);
}

sl_status sl_config_rope(const sl_config_parser *p, sl_model_config *config) {
    const json_t *object;
    const char *name, *usual = p->family->rope_scaling;
    json_t *made = NULL;
    SL_TRY(find_object(p, &object, &name));
    if (!object && usual) SL_TRY(sl_json_load(name, usual, strlen(usual), &made, p->err));
    const sl_status status = read_all(p, made ? made : object, config);
    json_decref(made);
    return status;
}
