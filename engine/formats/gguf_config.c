/* gguf_config.c - Translates the metadata of a GGUF file back to the config.json of the checkpoint,
 * as far as the models read it.  The reader of config.json checks ranges and relations. */
#include "engine/formats/gguf.h"
#include "engine/formats/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALL = SL_GGUF_ALL,
    DELTA = SL_GGUF_DELTA,
    DEEPSEEK2 = SL_GGUF_DEEPSEEK2,
    GPT_OSS = SL_GGUF_GPT_OSS,
    GROUPED = SL_GGUF_DEEPSEEK2 | SL_GGUF_GLM4MOE, /* expert groups, sigmoid scores */
    MOE = SL_GGUF_ALL & ~SL_GGUF_DENSE,
    /* Uses the key num_local_experts. */
    LOCAL = SL_GGUF_LLAMA | SL_GGUF_GPT_OSS,
    SPARSE = SL_GGUF_QWEN35MOE | SL_GGUF_QWEN3NEXT | SL_GGUF_QWEN3MOE, /* experts in all layers */
};

enum { REQUIRED = -2, LEFT_OUT = -1 };

static const struct {
    uint32_t architectures;
    const char *key, *name;
    int64_t fallback; /* or REQUIRED, or LEFT_OUT */
} counts[] = {
    {ALL, "context_length", "max_position_embeddings", LEFT_OUT},
    {ALL, "embedding_length", "hidden_size", REQUIRED},
    {ALL, "attention.head_count", "num_attention_heads", REQUIRED},
    {ALL & ~GPT_OSS & ~SPARSE, "feed_forward_length", "intermediate_size", REQUIRED},
    {SPARSE, "feed_forward_length", "intermediate_size", LEFT_OUT},
    {GPT_OSS, "expert_feed_forward_length", "intermediate_size", REQUIRED},
    {MOE & ~LOCAL & ~GROUPED, "expert_count", "num_experts", REQUIRED},
    {LOCAL, "expert_count", "num_local_experts", REQUIRED},
    {GROUPED, "expert_count", "n_routed_experts", REQUIRED},
    {MOE, "expert_used_count", "num_experts_per_tok", REQUIRED},
    {SPARSE | GROUPED, "expert_feed_forward_length", "moe_intermediate_size", REQUIRED},
    {SL_GGUF_QWEN35MOE | SL_GGUF_QWEN3NEXT, "expert_shared_feed_forward_length",
     "shared_expert_intermediate_size", REQUIRED},
    {GROUPED, "expert_shared_count", "n_shared_experts", REQUIRED},
    {GROUPED, "expert_group_count", "n_group", 1},
    {GROUPED, "expert_group_used_count", "topk_group", 1},
    {GROUPED, "leading_dense_block_count", "first_k_dense_replace", 0},
    {DEEPSEEK2, "attention.q_lora_rank", "q_lora_rank", LEFT_OUT},
    {DEEPSEEK2, "attention.kv_lora_rank", "kv_lora_rank", REQUIRED},
    {DELTA, "ssm.conv_kernel", "linear_conv_kernel_dim", REQUIRED},
    {DELTA, "ssm.state_size", "linear_key_head_dim", REQUIRED},
    {DELTA, "ssm.group_count", "linear_num_key_heads", REQUIRED},
    {DELTA, "ssm.time_step_rank", "linear_num_value_heads", REQUIRED},
    {DELTA, "full_attention_interval", "full_attention_interval", LEFT_OUT},
    {GPT_OSS, "attention.sliding_window", "sliding_window", REQUIRED},
};

static const struct {
    uint32_t architectures;
    const char *key, *name;
    double fallback; /* or REQUIRED, or LEFT_OUT */
} reals[] = {
    {ALL, "attention.layer_norm_rms_epsilon", "rms_norm_eps", REQUIRED},
    {GROUPED, "expert_weights_scale", "routed_scaling_factor", 1},
    {SL_GGUF_OLMOE, "attention.clamp_kqv", "clip_qkv", LEFT_OUT},
};

/* Values that llama.cpp hard-codes for the architecture if the file has no key. */
static const struct {
    uint32_t architectures;
    const char *key, *name;
    bool fallback;
} flags[] = {
    {SL_GGUF_QWEN3MOE | SL_GGUF_QWEN3NEXT, "expert_weights_norm", "norm_topk_prob", true},
    {SL_GGUF_OLMOE | GROUPED, "expert_weights_norm", "norm_topk_prob", false},
};

/* Keys that would change results in ways that no model here supports. */
static const struct {
    const char *key;
    double only; /* the value that has no effect */
} refused[] = {
    {"attention.temperature_scale", 0},
    {"attention.max_alibi_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"rope.scaling.attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", 1},
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

typedef struct {
    const sl_gguf *gguf;
    uint32_t bit; /* bit of the architecture */
    json_t *config;
    sl_error *err;
} writer;

static const char *own_key(const writer *w, const char *key, char text[SL_GGUF_KEY_BYTES]) {
    return sl_gguf_own_key(w->gguf, key, text);
}

static bool has(const writer *w, const char *key) {
    char text[SL_GGUF_KEY_BYTES];
    return sl_gguf_find(w->gguf, own_key(w, key, text)) != NULL;
}

/* A value per layer is accepted if all layers have the same. */
static sl_status one_for_all(const writer *w, const char *key, uint64_t *out) {
    const sl_gguf_value *list = NULL;
    SL_TRY(sl_gguf_get_array(w->gguf, key, SL_GGUF_I32, &list, w->err));
    const int64_t first = list->count ? sl_gguf_integer_at(list, 0) : -1;
    for (uint64_t i = 1; i < list->count; i++)
        if (sl_gguf_integer_at(list, i) != first)
            return sl_fail(
                w->err, SL_UNSUPPORTED,
                "%s: key '%s' is %lld for the first layer, %lld for layer %llu; only one "
                "for all is supported",
                w->gguf->what, key, (long long)first, (long long)sl_gguf_integer_at(list, i),
                (unsigned long long)i);
    if (first < 0) return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is empty", w->gguf->what, key);
    *out = (uint64_t)first;
    return SL_OK;
}

/* config.json's reader accepts no number above 32 bits anyway. */
static sl_status required(const writer *w, const char *short_key, uint64_t *out) {
    char text[SL_GGUF_KEY_BYTES];
    const char *key = own_key(w, short_key, text);
    const sl_gguf_value *value = sl_gguf_find(w->gguf, key);
    *out = 0;
    if (!value) return sl_gguf_missing(w->gguf, key, w->err);
    if (value->is_array)
        SL_TRY(one_for_all(w, key, out));
    else
        SL_TRY(sl_gguf_get_count(w->gguf, key, out, w->err));
    if (*out <= UINT32_MAX) return SL_OK;
    return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is %llu, more than any model has",
                   w->gguf->what, key, (unsigned long long)*out);
}

static sl_status set(const writer *w, const char *name, json_t *value) {
    return json_object_set_new(w->config, name, value) == 0 ? SL_OK : sl_no_memory(w->err, name, 0);
}

static sl_status set_count(const writer *w, const char *name, uint64_t value) {
    return set(w, name, json_integer((json_int_t)value));
}

static sl_status set_counts(const writer *w) {
    for (size_t i = 0; i < COUNT(counts); i++) {
        uint64_t value = (uint64_t)counts[i].fallback;
        if (!(counts[i].architectures & w->bit)) continue;
        if (has(w, counts[i].key) || counts[i].fallback == REQUIRED)
            SL_TRY(required(w, counts[i].key, &value));
        else if (counts[i].fallback == LEFT_OUT)
            continue;
        SL_TRY(set_count(w, counts[i].name, value));
    }
    return SL_OK;
}

static sl_status set_reals(const writer *w) {
    char text[SL_GGUF_KEY_BYTES];
    for (size_t i = 0; i < COUNT(reals); i++) {
        const double fallback = reals[i].fallback;
        double value = fallback;
        if (!(reals[i].architectures & w->bit)) continue;
        SL_TRY(sl_gguf_get_real(w->gguf, own_key(w, reals[i].key, text), &value, w->err));
        if (!has(w, reals[i].key) && fallback == REQUIRED)
            return sl_gguf_missing(w->gguf, text, w->err);
        if (!has(w, reals[i].key) && fallback == LEFT_OUT) continue;
        if (!(value > 0))
            return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is %g, more than 0 wanted",
                           w->gguf->what, text, value);
        SL_TRY(set(w, reals[i].name, json_real(value)));
    }
    return SL_OK;
}

static sl_status set_flags(const writer *w) {
    char text[SL_GGUF_KEY_BYTES];
    for (size_t i = 0; i < COUNT(flags); i++) {
        bool value = flags[i].fallback;
        if (!(flags[i].architectures & w->bit)) continue;
        SL_TRY(sl_gguf_get_flag(w->gguf, own_key(w, flags[i].key, text), &value, w->err));
        SL_TRY(set(w, flags[i].name, json_boolean(value)));
    }
    return SL_OK;
}

static sl_status check_refused(const writer *w) {
    char text[SL_GGUF_KEY_BYTES];
    for (size_t i = 0; i < COUNT(refused); i++) {
        double value = refused[i].only;
        SL_TRY(sl_gguf_get_real(w->gguf, own_key(w, refused[i].key, text), &value, w->err));
        if (value != refused[i].only)
            return sl_fail(w->err, SL_UNSUPPORTED, "%s: key '%s' is %g, only %g is supported",
                           w->gguf->what, text, value, refused[i].only);
    }
    return SL_OK;
}

/* How router scores become weights: softmax, or sigmoid with a selection bias. */
static sl_status check_gating(const writer *w) {
    enum { UNSAID, SOFTMAX, SIGMOID, SOFTMAX_OF_CHOSEN };
    char text[SL_GGUF_KEY_BYTES], bias[64];
    uint64_t found = UNSAID, layer = 0;
    const uint64_t wanted = w->bit & GROUPED ? SIGMOID : SOFTMAX;
    SL_TRY(sl_gguf_get_count(w->gguf, own_key(w, "expert_gating_func", text), &found, w->err));
    if (found == UNSAID && w->bit & DEEPSEEK2) {
        /* Files older than this key: those with a bias use sigmoid. */
        if (has(w, "leading_dense_block_count"))
            SL_TRY(required(w, "leading_dense_block_count", &layer));
        (void)snprintf(bias, sizeof bias, "blk.%u.exp_probs_b.bias", (unsigned)layer);
        found = sl_gguf_tensor_find(w->gguf, bias) ? SIGMOID : SOFTMAX;
    }
    if (found == UNSAID || found == wanted) return SL_OK;
    if (w->bit & GPT_OSS && found == SOFTMAX_OF_CHOSEN) return SL_OK;
    return sl_fail(w->err, SL_UNSUPPORTED,
                   "%s: experts are chosen by '%s' %llu, for '%s' only %llu is supported "
                   "(1: softmax, 2: sigmoid)",
                   w->gguf->what, text, (unsigned long long)found, w->gguf->architecture,
                   (unsigned long long)wanted);
}

/* Layers for multi-token prediction come last and are not run. */
static sl_status set_layers(const writer *w, uint32_t *out) {
    char text[SL_GGUF_KEY_BYTES];
    uint64_t layers = 0, further = 0;
    SL_TRY(required(w, "block_count", &layers));
    SL_TRY(sl_gguf_get_count(w->gguf, own_key(w, "nextn_predict_layers", text), &further, w->err));
    if (further >= layers)
        return sl_fail(w->err, SL_FORMAT, "%s: %llu of %llu layers are for multi-token prediction",
                       w->gguf->what, (unsigned long long)further, (unsigned long long)layers);
    if (layers > SL_MAX_LAYERS)
        return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is %llu, at most %d are supported",
                       w->gguf->what, own_key(w, "block_count", text), (unsigned long long)layers,
                       SL_MAX_LAYERS);
    *out = (uint32_t)(layers - further);
    return set_count(w, "num_hidden_layers", *out);
}

/* One of two layer type names per layer, from a list of flags. */
static sl_status set_listed_layers(const writer *w, const char *key, uint32_t layers,
                                   const char *const names[2]) {
    const sl_gguf_value *list = NULL;
    SL_TRY(sl_gguf_get_array(w->gguf, key, SL_GGUF_BOOL, &list, w->err));
    if (list->count < layers)
        return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is a list of %llu for %u layers",
                       w->gguf->what, key, (unsigned long long)list->count, layers);
    json_t *types = json_array();
    for (uint32_t i = 0; i < layers; i++)
        sl_json_append(&types, json_string(names[sl_gguf_integer_at(list, i) != 0]));
    return set(w, "layer_types", types);
}

/* Which layers have the other attention type; delta nets may have an interval instead. */
static sl_status set_layer_types(const writer *w, uint32_t layers) {
    static const char *const delta[] = {"full_attention", "linear_attention"};
    static const char *const sliding[] = {"full_attention", "sliding_attention"};
    char text[SL_GGUF_KEY_BYTES];
    if (w->bit & DELTA && has(w, "attention.recurrent_layers"))
        return set_listed_layers(w, own_key(w, "attention.recurrent_layers", text), layers, delta);
    if (!(w->bit & GPT_OSS)) return SL_OK;
    const char *key = own_key(w, "attention.sliding_window_pattern", text);
    const sl_gguf_value *pattern = sl_gguf_find(w->gguf, key);
    if (pattern && pattern->is_array) return set_listed_layers(w, key, layers, sliding);
    uint64_t period = 2; /* the last layer of each period has full attention */
    SL_TRY(sl_gguf_get_count(w->gguf, key, &period, w->err));
    json_t *types = json_array();
    for (uint32_t i = 0; i < layers; i++)
        sl_json_append(&types, json_string(sliding[period == 0 || i % period + 1 < period]));
    return set(w, "layer_types", types);
}

static sl_status set_value_heads(const writer *w) {
    uint64_t inner = 0, heads = 0;
    if (!(w->bit & DELTA)) return SL_OK;
    SL_TRY(required(w, "ssm.inner_size", &inner));
    SL_TRY(required(w, "ssm.time_step_rank", &heads));
    if (heads == 0 || inner % heads)
        return sl_fail(w->err, SL_FORMAT,
                       "%s: '%s.ssm.inner_size' is %llu, a multiple of '%s.ssm.time_step_rank' "
                       "(%llu) wanted",
                       w->gguf->what, w->gguf->architecture, (unsigned long long)inner,
                       w->gguf->architecture, (unsigned long long)heads);
    if (w->bit != SL_GGUF_QWEN3NEXT) SL_TRY(set(w, "linear_value_heads_tiled", json_true()));
    return set_count(w, "linear_value_head_dim", inner / heads);
}

/* Settings that can only be derived from the tensors. */
static sl_status set_by_tensors(const writer *w) {
    const sl_gguf_tensor *table = sl_gguf_tensor_find(w->gguf, "token_embd.weight");
    if (!table || table->shape.rank != 2)
        return sl_fail(w->err, SL_FORMAT,
                       "%s: tensor 'token_embd.weight' is missing or not a matrix", w->gguf->what);
    SL_TRY(set_count(w, "vocab_size", (uint64_t)table->shape.dims[0]));
    const bool tied = sl_gguf_tensor_find(w->gguf, "output.weight") == NULL;
    const bool biased = sl_gguf_tensor_find(w->gguf, "blk.0.attn_q.bias") != NULL;
    SL_TRY(set(w, "tie_word_embeddings", json_boolean(tied)));
    SL_TRY(set(w, "attention_bias", json_boolean(biased)));
    if (!(w->bit & SL_GGUF_GLM4MOE)) return SL_OK;
    const bool normed = sl_gguf_tensor_find(w->gguf, "blk.0.attn_q_norm.weight") != NULL;
    return set(w, "use_qk_norm", json_boolean(normed));
}

static sl_status fill(const writer *w, const sl_gguf_architecture *architecture, uint32_t *layers) {
    uint64_t experts = 0;
    char text[SL_GGUF_KEY_BYTES];
    SL_TRY(sl_gguf_get_count(w->gguf, own_key(w, "expert_count", text), &experts, w->err));
    if (w->bit & SL_GGUF_LLAMA && experts == 0)
        return sl_fail(w->err, SL_UNSUPPORTED,
                       "%s: architecture 'llama' without experts is not supported ('%s' is %s); of "
                       "'llama' only Mixtral is",
                       w->gguf->what, text, has(w, "expert_count") ? "0" : "missing");
    SL_TRY(set(w, "model_type", json_string(architecture->model_type)));
    SL_TRY(set_counts(w));
    SL_TRY(set_reals(w));
    SL_TRY(set_flags(w));
    SL_TRY(check_refused(w));
    SL_TRY(check_gating(w));
    SL_TRY(set_layers(w, layers));
    SL_TRY(set_layer_types(w, *layers));
    SL_TRY(set_value_heads(w));
    SL_TRY(sl_gguf_config_rope(w->gguf, architecture, w->config, w->err));
    return set_by_tensors(w);
}

sl_status sl_gguf_config(const sl_gguf *gguf, const sl_gguf_architecture *architecture,
                         sl_arena *arena, sl_gguf_text *out, uint32_t *out_layers, sl_error *err) {
    const writer w = {gguf, architecture->bit, json_object(), err};
    if (!w.config) return sl_no_memory(err, "a config", 0);
    sl_status status = fill(&w, architecture, out_layers);
    char *text = status == SL_OK ? sl_json_dump(w.config, JSON_INDENT(1)) : NULL;
    if (text) *out = (sl_gguf_text){sl_arena_copy_text(arena, text, strlen(text)), strlen(text)};
    if (status == SL_OK && (!text || !out->data)) status = sl_no_memory(err, "a config", 0);
    free(text);
    json_decref(w.config);
    return status;
}
