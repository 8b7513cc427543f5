/* gguf_qwen35moe.c - Qwen3.5/3.6-MoE as llama.cpp's converter writes it.
 *
 * What differs from the checkpoint: one is added to norm gains that are stored as their difference
 * from it, -exp(A_log) takes the place of A_log, and value heads lie tiled (head h belongs to key
 * head h mod key heads) where the checkpoint has them grouped.  The first two are undone when the
 * vectors are read; the last is a matter of the config, since quantised columns cannot move. */
#include "engine/formats/gguf.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void less_one(const sl_raw_matrix *raw, void *out) {
    const float *from = (const float *)(const void *)raw->parts[0];
    float *to = out;
    for (int64_t i = 0; i < raw->rows * raw->cols; i++) to[i] = from[i] - 1.0f;
}

static void log_of_negated(const sl_raw_matrix *raw, void *out) {
    const float *from = (const float *)(const void *)raw->parts[0];
    float *to = out;
    for (int64_t i = 0; i < raw->rows * raw->cols; i++) to[i] = logf(-from[i]);
}

static const sl_tensor_form gain = {"gain", less_one}, decay = {"decay", log_of_negated};

static const sl_gguf_name whole[] = {
    {"token_embd.weight", "model.embed_tokens.weight", NULL, false},
    {"output_norm.weight", "model.norm.weight", &gain, false},
    {"output.weight", "lm_head.weight", NULL, false},
    {NULL, NULL, NULL, false},
};

static const sl_gguf_name layered[] = {
    {"attn_norm.weight", "input_layernorm.weight", &gain, false},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", &gain, false},
    {"attn_q.weight", "self_attn.q_proj.weight", NULL, false},
    {"attn_k.weight", "self_attn.k_proj.weight", NULL, false},
    {"attn_v.weight", "self_attn.v_proj.weight", NULL, false},
    {"attn_output.weight", "self_attn.o_proj.weight", NULL, false},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", &gain, false},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", &gain, false},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", NULL, false},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight", NULL, false},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight", NULL, false},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight", NULL, false},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight", NULL, false},
    {"ssm_a", "linear_attn.A_log", &decay, false},
    {"ssm_dt.bias", "linear_attn.dt_bias", NULL, false},
    {"ssm_norm.weight", "linear_attn.norm.weight", NULL, false},
    {"ssm_out.weight", "linear_attn.out_proj.weight", NULL, false},
    {"ffn_gate_inp.weight", "mlp.gate.weight", NULL, false},
    {"ffn_gate_exps.weight", "mlp.experts.gate_proj", NULL, false},
    {"ffn_up_exps.weight", "mlp.experts.up_proj", NULL, false},
    {"ffn_down_exps.weight", "mlp.experts.down_proj", NULL, false},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight", NULL, true},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight", NULL, false},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight", NULL, false},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", NULL, false},
    {NULL, NULL, NULL, false},
};

/* Counts that config.json has under another name.  The reader of config.json checks their ranges
 * and has a default for most; these it must have. */
static const struct {
    const char *key, *name;
    bool required;
} counts[] = {
    {"qwen35moe.context_length", "max_position_embeddings", false},
    {"qwen35moe.embedding_length", "hidden_size", true},
    {"qwen35moe.attention.head_count", "num_attention_heads", true},
    {"qwen35moe.attention.head_count_kv", "num_key_value_heads", true},
    {"qwen35moe.attention.key_length", "head_dim", true},
    {"qwen35moe.expert_count", "num_experts", true},
    {"qwen35moe.expert_used_count", "num_experts_per_tok", true},
    {"qwen35moe.expert_feed_forward_length", "moe_intermediate_size", true},
    {"qwen35moe.expert_shared_feed_forward_length", "shared_expert_intermediate_size", true},
    {"qwen35moe.ssm.conv_kernel", "linear_conv_kernel_dim", true},
    {"qwen35moe.ssm.state_size", "linear_key_head_dim", true},
    {"qwen35moe.ssm.group_count", "linear_num_key_heads", true},
    {"qwen35moe.ssm.time_step_rank", "linear_num_value_heads", true},
    {"qwen35moe.full_attention_interval", "full_attention_interval", false},
};

typedef struct {
    const sl_gguf *gguf;
    json_t *config;
    sl_error *err;
} writer;

/* The reader of config.json takes no number above this one anyway. */
static sl_status required(const writer *w, const char *key, uint64_t *out) {
    *out = UINT64_MAX;
    SL_TRY(sl_gguf_get_count(w->gguf, key, out, w->err));
    if (*out == UINT64_MAX) return sl_gguf_missing(w->gguf, key, w->err);
    if (*out <= UINT32_MAX) return SL_OK;
    return sl_fail(w->err, SL_FORMAT, "%s: key '%s' is %llu, more than any model has",
                   w->gguf->what, key, (unsigned long long)*out);
}

static sl_status set(const writer *w, const char *name, json_t *value) {
    return json_object_set_new(w->config, name, value) == 0 ? SL_OK : sl_no_memory(w->err, name, 0);
}

static sl_status set_counts(const writer *w) {
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t value = 0;
        if (!counts[i].required && !sl_gguf_find(w->gguf, counts[i].key)) continue;
        SL_TRY(required(w, counts[i].key, &value));
        SL_TRY(set(w, counts[i].name, json_integer((json_int_t)value)));
    }
    return SL_OK;
}

/* Layers for predicting further tokens come last and are not run. */
static sl_status set_layers(const writer *w) {
    uint64_t layers = 0, further = 0;
    SL_TRY(required(w, "qwen35moe.block_count", &layers));
    SL_TRY(sl_gguf_get_count(w->gguf, "qwen35moe.nextn_predict_layers", &further, w->err));
    if (further >= layers)
        return sl_fail(w->err, SL_FORMAT, "%s: %llu of %llu layers are for prediction",
                       w->gguf->what, (unsigned long long)further, (unsigned long long)layers);
    return set(w, "num_hidden_layers", json_integer((json_int_t)(layers - further)));
}

static sl_status set_value_heads(const writer *w) {
    uint64_t inner = 0, heads = 0, value_length = 0, key_length = 0;
    SL_TRY(required(w, "qwen35moe.ssm.inner_size", &inner));
    SL_TRY(required(w, "qwen35moe.ssm.time_step_rank", &heads));
    if (heads == 0 || inner % heads)
        return sl_fail(w->err, SL_FORMAT,
                       "%s: 'qwen35moe.ssm.inner_size' is %llu, a multiple of "
                       "'qwen35moe.ssm.time_step_rank' (%llu) wanted",
                       w->gguf->what, (unsigned long long)inner, (unsigned long long)heads);
    SL_TRY(required(w, "qwen35moe.attention.key_length", &key_length));
    value_length = key_length;
    SL_TRY(sl_gguf_get_count(w->gguf, "qwen35moe.attention.value_length", &value_length, w->err));
    if (value_length != key_length)
        return sl_fail(w->err, SL_UNSUPPORTED,
                       "%s: 'qwen35moe.attention.value_length' is %llu, the key_length (%llu) "
                       "wanted",
                       w->gguf->what, (unsigned long long)value_length,
                       (unsigned long long)key_length);
    SL_TRY(set(w, "linear_value_heads_tiled", json_true()));
    return set(w, "linear_value_head_dim", json_integer((json_int_t)(inner / heads)));
}

/* The share of a head that is turned: the reader multiplies, cuts off and must get `turned`. */
static double rotary_share(uint64_t turned, uint64_t head) {
    const double share = (double)turned / (double)head;
    return (uint64_t)(share * (double)head) < turned ? nextafter(share, 1.0) : share;
}

static sl_status set_reals(const writer *w) {
    double theta = 0, eps = 0;
    uint64_t turned = 0, head = 0;
    SL_TRY(required(w, "qwen35moe.attention.key_length", &head));
    SL_TRY(required(w, "qwen35moe.rope.dimension_count", &turned));
    SL_TRY(sl_gguf_get_real(w->gguf, "qwen35moe.rope.freq_base", &theta, w->err));
    SL_TRY(sl_gguf_get_real(w->gguf, "qwen35moe.attention.layer_norm_rms_epsilon", &eps, w->err));
    if (!(theta > 0)) return sl_gguf_missing(w->gguf, "qwen35moe.rope.freq_base", w->err);
    if (!(eps > 0))
        return sl_gguf_missing(w->gguf, "qwen35moe.attention.layer_norm_rms_epsilon", w->err);
    if (turned == 0 || turned > head)
        return sl_fail(w->err, SL_FORMAT,
                       "%s: 'qwen35moe.rope.dimension_count' is %llu of a head of %llu",
                       w->gguf->what, (unsigned long long)turned, (unsigned long long)head);
    SL_TRY(set(w, "rope_theta", json_real(theta)));
    SL_TRY(set(w, "rms_norm_eps", json_real(eps)));
    return set(w, "partial_rotary_factor", json_real(rotary_share(turned, head)));
}

/* What only the tensors tell. */
static sl_status set_vocab(const writer *w) {
    const sl_gguf_tensor *table = sl_gguf_tensor_find(w->gguf, "token_embd.weight");
    if (!table || table->shape.rank != 2)
        return sl_fail(w->err, SL_FORMAT, "%s: tensor 'token_embd.weight' is missing or no matrix",
                       w->gguf->what);
    SL_TRY(set(w, "vocab_size", json_integer(table->shape.dims[0])));
    const bool tied = sl_gguf_tensor_find(w->gguf, "output.weight") == NULL;
    return set(w, "tie_word_embeddings", json_boolean(tied));
}

static sl_status fill(const writer *w) {
    SL_TRY(set(w, "model_type", json_string("qwen3_5_moe")));
    SL_TRY(set_counts(w));
    SL_TRY(set_layers(w));
    SL_TRY(set_value_heads(w));
    SL_TRY(set_reals(w));
    return set_vocab(w);
}

static sl_status make_config(const sl_gguf *gguf, sl_arena *arena, const char **out_text,
                             size_t *out_bytes, sl_error *err) {
    const writer w = {gguf, json_object(), err};
    if (!w.config) return sl_no_memory(err, "a config", 0);
    sl_status status = fill(&w);
    char *text = status == SL_OK ? json_dumps(w.config, JSON_INDENT(1)) : NULL;
    if (text) {
        *out_bytes = strlen(text);
        *out_text = sl_arena_copy_text(arena, text, *out_bytes);
    }
    if (status == SL_OK && (!text || !*out_text)) status = sl_no_memory(err, "a config", 0);
    free(text);
    json_decref(w.config);
    return status;
}

const sl_gguf_architecture sl_gguf_qwen35moe = {"qwen35moe", whole, layered, make_config};
