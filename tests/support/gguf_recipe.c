#include "tests/support/gguf_recipe.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const gguf_recipe *recipe;
    uint32_t layer;
    const char *from;    /* after "model.layers.N."; %u: the expert */
    const int64_t *dims; /* of the GGUF tensor, outermost first */
    float *out;
    size_t count;
} job;

static size_t number(const job *j, const char *key) {
    const json_t *value = json_object_get(j->recipe->config, key);
    assert(json_is_integer(value));
    return (size_t)json_integer_value(value);
}

static size_t floats_of(const sl_tensor_item *item, float *out) {
    if (strcmp(item->dtype, "f32") == 0) {
        memcpy(out, item->data, item->bytes);
        return item->bytes / 4;
    }
    assert(strcmp(item->dtype, "bf16") == 0);
    for (size_t i = 0; i < item->bytes / 2; i++) {
        uint16_t half;
        memcpy(&half, (const char *)item->data + 2 * i, 2);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(&out[i], &bits, 4);
    }
    return item->bytes / 2;
}

/* The tensor of that name, of an expert or whole. */
static size_t load(const job *j, uint32_t expert, float *out) {
    char suffix[128], name[192];
    sl_tensor_item item;
    sl_error err = {0};
    const char *mark = strstr(j->from, "%u");
    if (mark)
        (void)snprintf(suffix, sizeof suffix, "%.*s%u%s", (int)(mark - j->from), j->from, expert,
                       mark + 2);
    else
        (void)snprintf(suffix, sizeof suffix, "%s", j->from);
    (void)snprintf(name, sizeof name, "model.layers.%u.%s", j->layer, suffix);
    if (sl_tensors_find(j->recipe->tensors, name, &item, &err) != SL_OK &&
        sl_tensors_find(j->recipe->tensors, suffix, &item, &err) != SL_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return floats_of(&item, out);
}

static void same(const job *j) {
    const size_t count = load(j, 0, j->out);
    assert(count == j->count);
    (void)count;
}

static void plus_one(const job *j) {
    same(j);
    for (size_t i = 0; i < j->count; i++) j->out[i] += 1.0f;
}

static void negative_exp(const job *j) {
    same(j);
    for (size_t i = 0; i < j->count; i++) j->out[i] = -expf(j->out[i]);
}

static void stack(const job *j) {
    const size_t each = j->count / (size_t)j->dims[0];
    for (uint32_t e = 0; e < (uint32_t)j->dims[0]; e++) (void)load(j, e, j->out + e * each);
}

/* A copy of what is in the checkpoint, as many times larger than the tensor. */
static float *loaded(const job *j, size_t times) {
    float *in = malloc(times * j->count * sizeof *in);
    assert(in);
    const size_t count = load(j, 0, in);
    assert(count <= times * j->count);
    (void)count;
    return in;
}

static void interleave_halves(const job *j) {
    const size_t cols = j->count / (size_t)j->dims[0], head = number(j, "head_dim"),
                 half = head / 2;
    float *in = loaded(j, 1);
    for (size_t row = 0; row < (size_t)j->dims[0]; row++) {
        const size_t start = row - row % head, at = row % head;
        memcpy(j->out + row * cols, in + (start + at % 2 * half + at / 2) * cols,
               cols * sizeof *in);
    }
    free(in);
}

/* Value heads from grouped to tiled: rows after the first `skip`, `each` of a head. */
static void tile_rows(const job *j, size_t skip, size_t each) {
    const size_t cols = j->count / (size_t)j->dims[0];
    const size_t keys = number(j, "linear_num_key_heads");
    const size_t heads = number(j, "linear_num_value_heads"), per = heads / keys;
    float *in = loaded(j, 1);
    memcpy(j->out, in, skip * cols * sizeof *in);
    for (size_t h = 0; h < heads; h++)
        memcpy(j->out + (skip + h * each) * cols,
               in + (skip + (h % keys * per + h / keys) * each) * cols, each * cols * sizeof *in);
    free(in);
}

static size_t key_rows(const job *j) {
    return number(j, "linear_num_key_heads") * number(j, "linear_key_head_dim");
}
static void tile_qkv(const job *j) {
    tile_rows(j, 2 * key_rows(j), number(j, "linear_value_head_dim"));
}
static void tile_values(const job *j) {
    tile_rows(j, 0, number(j, "linear_value_head_dim"));
}
static void tile_heads(const job *j) {
    tile_rows(j, 0, 1);
}
static void tile_decays(const job *j) {
    tile_rows(j, 0, 1);
    for (size_t i = 0; i < j->count; i++) j->out[i] = -expf(j->out[i]);
}

static void tile_columns(const job *j) {
    const size_t keys = number(j, "linear_num_key_heads"), d = number(j, "linear_value_head_dim");
    const size_t heads = number(j, "linear_num_value_heads"), per = heads / keys;
    float *in = loaded(j, 1);
    for (size_t row = 0; row < (size_t)j->dims[0]; row++)
        for (size_t h = 0; h < heads; h++)
            memcpy(j->out + (row * heads + h) * d,
                   in + (row * heads + h % keys * per + h / keys) * d, d * sizeof *in);
    free(in);
}

/* Of in_proj_qkvz, for each key head: `rows` of them from `start`. */
static float *take_rows(const job *j, const float *in, float *out, size_t start, size_t rows) {
    const size_t cols = number(j, "hidden_size"), keys = number(j, "linear_num_key_heads");
    const size_t values =
        number(j, "linear_num_value_heads") / keys * number(j, "linear_value_head_dim");
    const size_t stride = 2 * number(j, "linear_key_head_dim") + 2 * values;
    for (size_t g = 0; g < keys; g++, out += rows * cols)
        memcpy(out, in + (g * stride + start) * cols, rows * cols * sizeof *in);
    return out;
}

static void split_qkv(const job *j) {
    const size_t d = number(j, "linear_key_head_dim"), keys = number(j, "linear_num_key_heads");
    const size_t values = (size_t)j->dims[0] / keys - 2 * d;
    float *in = loaded(j, 2);
    float *at = take_rows(j, in, j->out, 0, d);
    at = take_rows(j, in, at, d, d);
    (void)take_rows(j, in, at, 2 * d, values);
    free(in);
}

static void split_z(const job *j) {
    const size_t d = number(j, "linear_key_head_dim"), keys = number(j, "linear_num_key_heads");
    const size_t values = (size_t)j->dims[0] / keys;
    float *in = loaded(j, 4);
    (void)take_rows(j, in, j->out, 2 * d + values, values);
    free(in);
}

/* Experts stored [in, out]: every `step`th output from `first`. */
static void transpose(const job *j, size_t first, size_t step) {
    const size_t experts = (size_t)j->dims[0], rows = (size_t)j->dims[1], cols = (size_t)j->dims[2];
    float *in = loaded(j, step), *to = j->out;
    for (size_t e = 0; e < experts; e++)
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++)
                *to++ = in[(e * cols + c) * rows * step + r * step + first];
    free(in);
}
static void transpose_all(const job *j) {
    transpose(j, 0, 1);
}
static void transpose_even(const job *j) {
    transpose(j, 0, 2);
}
static void transpose_odd(const job *j) {
    transpose(j, 1, 2);
}

static void every_other(const job *j, size_t first) {
    float *in = loaded(j, 2);
    for (size_t i = 0; i < j->count; i++) j->out[i] = in[2 * i + first];
    free(in);
}
static void even(const job *j) {
    every_other(j, 0);
}
static void odd(const job *j) {
    every_other(j, 1);
}

/* kv_b_proj has for each head the rows of keys, then of values. */
static void latent_keys(const job *j) {
    const size_t latent = (size_t)j->dims[1], keys = (size_t)j->dims[2];
    const size_t values = number(j, "v_head_dim");
    float *in = loaded(j, 1 + values / keys + 1), *to = j->out;
    for (size_t h = 0; h < (size_t)j->dims[0]; h++)
        for (size_t c = 0; c < latent; c++)
            for (size_t k = 0; k < keys; k++) *to++ = in[(h * (keys + values) + k) * latent + c];
    free(in);
}

static void latent_values(const job *j) {
    const size_t latent = (size_t)j->dims[2], values = (size_t)j->dims[1];
    const size_t keys = number(j, "qk_nope_head_dim");
    float *in = loaded(j, 1 + keys / values + 1);
    for (size_t h = 0; h < (size_t)j->dims[0]; h++)
        memcpy(j->out + h * values * latent, in + (h * (keys + values) + keys) * latent,
               values * latent * sizeof *in);
    free(in);
}

#define DELTA  " qwen35moe qwen35 qwen3next "
#define QWEN35 " qwen35moe qwen35 "
#define SHARED " deepseek2 glm4moe "

static const struct {
    const char *only; /* " names of architectures ", NULL: all; the first row that fits counts */
    const char *suffix;
    void (*make)(const job *);
    const char *from;
} rows[] = {
    {NULL, "token_embd.weight", same, "model.embed_tokens.weight"},
    {NULL, "output.weight", same, "lm_head.weight"},
    {DELTA, "output_norm.weight", plus_one, "model.norm.weight"},
    {NULL, "output_norm.weight", same, "model.norm.weight"},
    {DELTA, "attn_norm.weight", plus_one, "input_layernorm.weight"},
    {NULL, "attn_norm.weight", same, "input_layernorm.weight"},
    {DELTA, "post_attention_norm.weight", plus_one, "post_attention_layernorm.weight"},
    {NULL, "post_attention_norm.weight", same, "post_attention_layernorm.weight"},
    {NULL, "ffn_norm.weight", same, "post_attention_layernorm.weight"},
    {" llama ", "attn_q.weight", interleave_halves, "self_attn.q_proj.weight"},
    {" llama ", "attn_k.weight", interleave_halves, "self_attn.k_proj.weight"},
    {NULL, "attn_q.weight", same, "self_attn.q_proj.weight"},
    {NULL, "attn_k.weight", same, "self_attn.k_proj.weight"},
    {NULL, "attn_v.weight", same, "self_attn.v_proj.weight"},
    {NULL, "attn_output.weight", same, "self_attn.o_proj.weight"},
    {NULL, "attn_q.bias", same, "self_attn.q_proj.bias"},
    {NULL, "attn_k.bias", same, "self_attn.k_proj.bias"},
    {NULL, "attn_v.bias", same, "self_attn.v_proj.bias"},
    {NULL, "attn_output.bias", same, "self_attn.o_proj.bias"},
    {DELTA, "attn_q_norm.weight", plus_one, "self_attn.q_norm.weight"},
    {DELTA, "attn_k_norm.weight", plus_one, "self_attn.k_norm.weight"},
    {NULL, "attn_q_norm.weight", same, "self_attn.q_norm.weight"},
    {NULL, "attn_k_norm.weight", same, "self_attn.k_norm.weight"},
    {NULL, "attn_sinks.weight", same, "self_attn.sinks"},
    {NULL, "attn_q_a.weight", same, "self_attn.q_a_proj.weight"},
    {NULL, "attn_q_a_norm.weight", same, "self_attn.q_a_layernorm.weight"},
    {NULL, "attn_q_b.weight", same, "self_attn.q_b_proj.weight"},
    {NULL, "attn_kv_a_mqa.weight", same, "self_attn.kv_a_proj_with_mqa.weight"},
    {NULL, "attn_kv_a_norm.weight", same, "self_attn.kv_a_layernorm.weight"},
    {NULL, "attn_k_b.weight", latent_keys, "self_attn.kv_b_proj.weight"},
    {NULL, "attn_v_b.weight", latent_values, "self_attn.kv_b_proj.weight"},
    {QWEN35, "attn_qkv.weight", tile_qkv, "linear_attn.in_proj_qkv.weight"},
    {QWEN35, "attn_gate.weight", tile_values, "linear_attn.in_proj_z.weight"},
    {QWEN35, "ssm_alpha.weight", tile_heads, "linear_attn.in_proj_a.weight"},
    {QWEN35, "ssm_beta.weight", tile_heads, "linear_attn.in_proj_b.weight"},
    {QWEN35, "ssm_conv1d.weight", tile_qkv, "linear_attn.conv1d.weight"},
    {QWEN35, "ssm_a", tile_decays, "linear_attn.A_log"},
    {QWEN35, "ssm_dt.bias", tile_heads, "linear_attn.dt_bias"},
    {QWEN35, "ssm_out.weight", tile_columns, "linear_attn.out_proj.weight"},
    {" qwen3next ", "attn_qkv.weight", split_qkv, "linear_attn.in_proj_qkvz.weight"},
    {" qwen3next ", "attn_gate.weight", split_z, "linear_attn.in_proj_qkvz.weight"},
    {" qwen3next ", "ssm_ba.weight", same, "linear_attn.in_proj_ba.weight"},
    {" qwen3next ", "ssm_conv1d.weight", same, "linear_attn.conv1d.weight"},
    {" qwen3next ", "ssm_a", negative_exp, "linear_attn.A_log"},
    {" qwen3next ", "ssm_dt.bias", same, "linear_attn.dt_bias"},
    {" qwen3next ", "ssm_out.weight", same, "linear_attn.out_proj.weight"},
    {NULL, "ssm_norm.weight", same, "linear_attn.norm.weight"},
    {NULL, "ffn_gate.weight", same, "mlp.gate_proj.weight"},
    {NULL, "ffn_up.weight", same, "mlp.up_proj.weight"},
    {NULL, "ffn_down.weight", same, "mlp.down_proj.weight"},
    {" llama ", "ffn_gate_inp.weight", same, "block_sparse_moe.gate.weight"},
    {" gpt-oss ", "ffn_gate_inp.weight", same, "mlp.router.weight"},
    {NULL, "ffn_gate_inp.weight", same, "mlp.gate.weight"},
    {NULL, "ffn_gate_inp.bias", same, "mlp.router.bias"},
    {NULL, "exp_probs_b.bias", same, "mlp.gate.e_score_correction_bias"},
    {" llama ", "ffn_gate_exps.weight", stack, "block_sparse_moe.experts.%u.w1.weight"},
    {" llama ", "ffn_up_exps.weight", stack, "block_sparse_moe.experts.%u.w3.weight"},
    {" llama ", "ffn_down_exps.weight", stack, "block_sparse_moe.experts.%u.w2.weight"},
    {" gpt-oss ", "ffn_gate_exps.weight", transpose_even, "mlp.experts.gate_up_proj"},
    {" gpt-oss ", "ffn_up_exps.weight", transpose_odd, "mlp.experts.gate_up_proj"},
    {" gpt-oss ", "ffn_down_exps.weight", transpose_all, "mlp.experts.down_proj"},
    {" gpt-oss ", "ffn_gate_exps.bias", even, "mlp.experts.gate_up_proj_bias"},
    {" gpt-oss ", "ffn_up_exps.bias", odd, "mlp.experts.gate_up_proj_bias"},
    {" gpt-oss ", "ffn_down_exps.bias", same, "mlp.experts.down_proj_bias"},
    {NULL, "ffn_gate_exps.weight", stack, "mlp.experts.%u.gate_proj.weight"},
    {NULL, "ffn_up_exps.weight", stack, "mlp.experts.%u.up_proj.weight"},
    {NULL, "ffn_down_exps.weight", stack, "mlp.experts.%u.down_proj.weight"},
    {SHARED, "ffn_gate_shexp.weight", same, "mlp.shared_experts.gate_proj.weight"},
    {SHARED, "ffn_up_shexp.weight", same, "mlp.shared_experts.up_proj.weight"},
    {SHARED, "ffn_down_shexp.weight", same, "mlp.shared_experts.down_proj.weight"},
    {NULL, "ffn_gate_shexp.weight", same, "mlp.shared_expert.gate_proj.weight"},
    {NULL, "ffn_up_shexp.weight", same, "mlp.shared_expert.up_proj.weight"},
    {NULL, "ffn_down_shexp.weight", same, "mlp.shared_expert.down_proj.weight"},
    {NULL, "ffn_gate_inp_shexp.weight", same, "mlp.shared_expert_gate.weight"},
};

bool gguf_recipe_fill(const gguf_recipe *recipe, const sl_gguf_tensor *tensor, float *out) {
    char wanted[32];
    (void)snprintf(wanted, sizeof wanted, " %s ", recipe->architecture);
    job j = {recipe, 0, NULL, tensor->shape.dims, out, tensor->bytes / sizeof *out};
    const char *suffix = tensor->name, *dot = NULL;
    if (strncmp(suffix, "blk.", 4) == 0 && (dot = strchr(suffix + 4, '.')) != NULL) {
        j.layer = (uint32_t)strtoul(suffix + 4, NULL, 10);
        suffix = dot + 1;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].suffix, suffix) != 0) continue;
        if (rows[i].only && !strstr(rows[i].only, wanted)) continue;
        j.from = rows[i].from;
        rows[i].make(&j);
        return true;
    }
    return false;
}
