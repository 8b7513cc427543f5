/* gguf_rope.c - Attention heads and RoPE parameters, from metadata to config.json. */
#include "engine/formats/gguf.h"
#include <math.h>
#include <string.h>

typedef struct {
    const sl_gguf *gguf;
    uint32_t bit;
    json_t *config;
    sl_error *err;
} writer;

static const char *own_key(const writer *w, const char *key, char text[SL_GGUF_KEY_BYTES]) {
    return sl_gguf_own_key(w->gguf, key, text);
}

/* Sets *out to `fallback` if the key is missing. */
static sl_status count(const writer *w, const char *key, uint64_t fallback, uint64_t *out) {
    char text[SL_GGUF_KEY_BYTES];
    *out = fallback;
    SL_TRY(sl_gguf_get_count(w->gguf, own_key(w, key, text), out, w->err));
    if (*out <= UINT32_MAX) return SL_OK;
    return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is %llu, more than any model has",
                   w->gguf->what, text, (unsigned long long)*out);
}

static sl_status set(const writer *w, json_t *object, const char *name, json_t *value) {
    return json_object_set_new(object, name, value) == 0 ? SL_OK : sl_no_memory(w->err, name, 0);
}

static sl_status set_count(const writer *w, const char *name, uint64_t value) {
    return set(w, w->config, name, json_integer((json_int_t)value));
}

/* The rotated share of a head, such that the reader of config.json, which multiplies and truncates,
 * gets exactly `turned`. */
static double rotary_share(uint64_t turned, uint64_t head) {
    const double share = (double)turned / (double)head;
    return (uint64_t)(share * (double)head) < turned ? nextafter(share, 1.0) : share;
}

static sl_status turned_of(const writer *w, uint64_t head, uint64_t *out) {
    SL_TRY(count(w, "rope.dimension_count", head, out));
    if (*out > 0 && *out <= head) return SL_OK;
    return sl_fail(w->err, SL_FORMAT, "%s: '%s.rope.dimension_count' is %llu of a head of %llu",
                   w->gguf->what, w->gguf->architecture, (unsigned long long)*out,
                   (unsigned long long)head);
}

/* Latent attention: heads with a rotated and an unrotated part. */
static sl_status set_latent_heads(const writer *w, uint64_t heads) {
    uint64_t key = 0, value = 0, turned = 0;
    SL_TRY(count(w, "attention.key_length", 0, &key));
    SL_TRY(count(w, "attention.value_length", 0, &value));
    /* Older files have only the keys without _mla. */
    SL_TRY(count(w, "attention.key_length_mla", key, &key));
    SL_TRY(count(w, "attention.value_length_mla", value, &value));
    if (!key || !value)
        return sl_fail(w->err, SL_FORMAT, "%s: key '%s.attention.%s_length_mla' is missing",
                       w->gguf->what, w->gguf->architecture, key ? "value" : "key");
    SL_TRY(turned_of(w, key, &turned));
    SL_TRY(set_count(w, "num_key_value_heads", heads));
    SL_TRY(set_count(w, "qk_rope_head_dim", turned));
    SL_TRY(set_count(w, "qk_nope_head_dim", key - turned));
    SL_TRY(set_count(w, "v_head_dim", value));
    return set(w, w->config, "rope_interleave", json_true());
}

static sl_status set_heads(const writer *w) {
    uint64_t hidden = 0, heads = 0, kv_heads = 0, key = 0, value = 0, turned = 0;
    SL_TRY(count(w, "embedding_length", 0, &hidden));
    SL_TRY(count(w, "attention.head_count", 0, &heads));
    if (w->bit == SL_GGUF_DEEPSEEK2) return set_latent_heads(w, heads);
    SL_TRY(count(w, "attention.head_count_kv", heads, &kv_heads));
    SL_TRY(count(w, "attention.key_length", heads ? hidden / heads : 0, &key));
    SL_TRY(count(w, "attention.value_length", key, &value));
    if (value != key)
        return sl_fail(w->err, SL_UNSUPPORTED,
                       "%s: '%s.attention.value_length' is %llu, the key_length (%llu) wanted",
                       w->gguf->what, w->gguf->architecture, (unsigned long long)value,
                       (unsigned long long)key);
    SL_TRY(turned_of(w, key, &turned));
    SL_TRY(set_count(w, "num_key_value_heads", kv_heads));
    SL_TRY(set_count(w, "head_dim", key));
    if (turned == key && !(w->bit & (SL_GGUF_DELTA | SL_GGUF_GLM4MOE))) return SL_OK;
    return set(w, w->config, "partial_rotary_factor", json_real(rotary_share(turned, key)));
}

/* Copies a real number to an object under another name, if it is present. */
static sl_status copy_real(const writer *w, const char *key, json_t *object, const char *name) {
    char text[SL_GGUF_KEY_BYTES];
    double value = 0;
    if (!sl_gguf_find(w->gguf, own_key(w, key, text))) return SL_OK;
    SL_TRY(sl_gguf_get_real(w->gguf, text, &value, w->err));
    return set(w, object, name, json_real(value));
}

/* mscale_all_dim is stored divided by 10, mscale is not stored: in all published models the two are
 * equal. */
static sl_status set_magnitudes(const writer *w, json_t *scaling) {
    char text[SL_GGUF_KEY_BYTES];
    double tenth = 0;
    if (!sl_gguf_find(w->gguf, own_key(w, "rope.scaling.yarn_log_multiplier", text))) return SL_OK;
    SL_TRY(sl_gguf_get_real(w->gguf, text, &tenth, w->err));
    /* Computed in double precision but stored in single. */
    const double all = round(tenth * 10 * 1e6) / 1e6;
    SL_TRY(set(w, scaling, "mscale_all_dim", json_real(all)));
    return set(w, scaling, "mscale", json_real(all));
}

static sl_status fill_scaling(const writer *w, sl_gguf_text type, double factor, json_t *scaling) {
    uint64_t original = 0;
    SL_TRY(set(w, scaling, "rope_type", json_stringn(type.data, type.bytes)));
    SL_TRY(set(w, scaling, "factor", json_real(factor)));
    SL_TRY(count(w, "rope.scaling.original_context_length", 0, &original));
    if (original)
        SL_TRY(set(w, scaling, "original_max_position_embeddings",
                   json_integer((json_int_t)original)));
    if (!sl_gguf_text_is(type, "yarn")) return SL_OK;
    SL_TRY(copy_real(w, "rope.scaling.yarn_beta_fast", scaling, "beta_fast"));
    SL_TRY(copy_real(w, "rope.scaling.yarn_beta_slow", scaling, "beta_slow"));
    SL_TRY(copy_real(w, "rope.scaling.yarn_attn_factor", scaling, "attention_factor"));
    if (w->bit == SL_GGUF_DEEPSEEK2) SL_TRY(set_magnitudes(w, scaling));
    if (w->bit == SL_GGUF_GPT_OSS) SL_TRY(set(w, scaling, "truncate", json_false()));
    return SL_OK;
}

static sl_status set_scaling(const writer *w) {
    char text[SL_GGUF_KEY_BYTES];
    sl_gguf_text type = {"linear", strlen("linear")}; /* llama.cpp's default */
    double factor = 0;
    SL_TRY(sl_gguf_get_real(w->gguf, own_key(w, "rope.scale_linear", text), &factor, w->err));
    SL_TRY(sl_gguf_get_real(w->gguf, own_key(w, "rope.scaling.factor", text), &factor, w->err));
    SL_TRY(sl_gguf_get_text(w->gguf, own_key(w, "rope.scaling.type", text), &type, w->err));
    const bool linear = sl_gguf_text_is(type, "linear"), none = sl_gguf_text_is(type, "none");
    json_t *scaling = json_object();
    sl_status status = SL_OK;
    if (none || (linear && (factor == 0 || factor == 1))) /* overrides the family's default */
        status = set(w, scaling, "rope_type", json_string("default"));
    else
        status = fill_scaling(w, type, factor, scaling);
    if (status == SL_OK) return set(w, w->config, "rope_scaling", scaling);
    json_decref(scaling);
    return status;
}

/* Frequency divisors that llama.cpp computes for Llama 3.1; divisors of one have no effect. */
static sl_status check_divisors(const writer *w) {
    static const char name[] = "rope_freqs.weight";
    if (!sl_gguf_tensor_find(w->gguf, name)) return SL_OK;
    return sl_fail(w->err, SL_UNSUPPORTED, "%s: tensor '%s' (scaled frequencies) is not supported",
                   w->gguf->what, name);
}

sl_status sl_gguf_config_rope(const sl_gguf *gguf, const sl_gguf_architecture *architecture,
                              json_t *config, sl_error *err) {
    const writer w = {gguf, architecture->bit, config, err};
    char text[SL_GGUF_KEY_BYTES];
    double theta = 10000;
    SL_TRY(set_heads(&w));
    SL_TRY(sl_gguf_get_real(gguf, own_key(&w, "rope.freq_base", text), &theta, err));
    if (!(theta > 0))
        return sl_fail(err, SL_FORMAT, "%s: key '%s' is %g, more than 0 wanted", gguf->what, text,
                       theta);
    SL_TRY(set(&w, config, "rope_theta", json_real(theta)));
    SL_TRY(set_scaling(&w));
    return check_divisors(&w);
}
