/* gguf_names.c - The supported GGUF architectures, and the mapping of their tensor names to those
 * of the models.
 *
 * Besides names, GGUF files differ from the checkpoint: some norm gains have one added, A_log is
 * stored as -exp(A_log), and some rows are in another order (gguf_order.c).  These changes are
 * undone when the tensors are read.  Value heads that are stored tiled (head h belongs to key head
 * h mod key heads) instead of grouped stay tiled, and the config says so, since quantised columns
 * cannot be moved. */
#include "engine/formats/gguf.h"
#include "engine/formats/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const sl_gguf_architecture architectures[] = {
    {"qwen35moe", "qwen3_5_moe", SL_GGUF_QWEN35MOE},
    {"qwen35", "qwen3_5", SL_GGUF_QWEN35},
    {"qwen3next", "qwen3_next", SL_GGUF_QWEN3NEXT},
    {"qwen3moe", "qwen3_moe", SL_GGUF_QWEN3MOE},
    {"qwen3", "qwen3", SL_GGUF_QWEN3},
    {"llama", "mixtral", SL_GGUF_LLAMA},
    {"olmoe", "olmoe", SL_GGUF_OLMOE},
    {"deepseek2", "deepseek_v3", SL_GGUF_DEEPSEEK2},
    {"glm4moe", "glm4_moe", SL_GGUF_GLM4MOE},
    {"gpt-oss", "gpt_oss", SL_GGUF_GPT_OSS},
};
enum { ARCHITECTURE_COUNT = sizeof architectures / sizeof architectures[0] };

static sl_status unknown(const sl_gguf *gguf, sl_gguf_text name, sl_error *err) {
    char found[65] = "", known[SL_GGUF_LIST_BYTES] = "";
    size_t length = 0;
    for (int i = 0; i < ARCHITECTURE_COUNT; i++)
        length = sl_gguf_list(known, sizeof known, length,
                              architectures[i].bit == SL_GGUF_LLAMA ? "llama (Mixtral only)"
                                                                    : architectures[i].name);
    memcpy(found, name.data, name.bytes < 64 ? name.bytes : 64);
    return sl_fail(err, SL_UNSUPPORTED, "%s: architecture '%s' is not supported; supported: %s",
                   gguf->what, sl_json_name_fits(found) ? found : "?", known);
}

sl_status sl_gguf_architecture_find(const sl_gguf *gguf, const sl_gguf_architecture **out,
                                    sl_error *err) {
    static const char key[] = "general.architecture";
    sl_gguf_text name = {0};
    SL_TRY(sl_gguf_get_text(gguf, key, &name, err));
    if (!name.data) return sl_gguf_missing(gguf, key, err);
    for (int i = 0; i < ARCHITECTURE_COUNT; i++)
        if (sl_gguf_text_is(name, architectures[i].name)) {
            *out = &architectures[i];
            return SL_OK;
        }
    return unknown(gguf, name, err);
}

/* ---- converters ---- */

static float float_at(const sl_raw_matrix *raw, int64_t i) {
    float value;
    memcpy(&value, raw->parts[0] + (size_t)i * sizeof value, sizeof value);
    return value;
}

static void less_one(const sl_raw_matrix *raw, void *out) {
    float *to = out;
    for (int64_t i = 0; i < raw->rows * raw->cols; i++) to[i] = float_at(raw, i) - 1.0f;
}

static void log_of_negated(const sl_raw_matrix *raw, void *out) {
    float *to = out;
    for (int64_t i = 0; i < raw->rows * raw->cols; i++) to[i] = logf(-float_at(raw, i));
}

static const sl_tensor_form gain = {"gain", less_one}, decay = {"decay", log_of_negated};

/* ---- names ---- */

enum {
    ALL = SL_GGUF_ALL,
    DELTA = SL_GGUF_DELTA,
    PLAIN = SL_GGUF_ALL & ~SL_GGUF_DELTA,
    LLAMA = SL_GGUF_LLAMA,
    GPT_OSS = SL_GGUF_GPT_OSS,
    NEXT = SL_GGUF_QWEN3NEXT,
    QWEN35 = SL_GGUF_QWEN35MOE | SL_GGUF_QWEN35,
    GATED = SL_GGUF_QWEN35MOE | SL_GGUF_QWEN3NEXT, /* shared expert with a gate */
    SHARED = SL_GGUF_DEEPSEEK2 | SL_GGUF_GLM4MOE,  /* shared experts without one */
    /* RoPE pairs as in the checkpoint */
    STRAIGHT = SL_GGUF_ALL & ~SL_GGUF_LLAMA,
    ROUTED = SL_GGUF_ALL & ~SL_GGUF_DENSE & ~LLAMA & ~GPT_OSS, /* experts with the usual name */
};

#define SAME(archs, suffix, name)                                                                  \
    { archs, suffix, name, NULL, SL_GGUF_ROWS_ALL, false }
#define AS(archs, suffix, name, form)                                                              \
    { archs, suffix, name, &form, SL_GGUF_ROWS_ALL, false }
#define ROWS(archs, suffix, name, which)                                                           \
    { archs, suffix, name, NULL, SL_GGUF_ROWS_##which, false }
#define ONE_ROW(archs, suffix, name)                                                               \
    { archs, suffix, name, NULL, SL_GGUF_ROWS_ALL, true }

static const sl_gguf_name whole[] = {
    SAME(ALL, "token_embd.weight", "model.embed_tokens.weight"),
    AS(DELTA, "output_norm.weight", "model.norm.weight", gain),
    SAME(PLAIN, "output_norm.weight", "model.norm.weight"),
    SAME(ALL, "output.weight", "lm_head.weight"),
    SAME(0, NULL, NULL),
};

static const sl_gguf_name layered[] = {
    AS(DELTA, "attn_norm.weight", "input_layernorm.weight", gain),
    SAME(PLAIN, "attn_norm.weight", "input_layernorm.weight"),
    AS(DELTA, "post_attention_norm.weight", "post_attention_layernorm.weight", gain),
    SAME(PLAIN, "post_attention_norm.weight", "post_attention_layernorm.weight"),
    SAME(PLAIN, "ffn_norm.weight", "post_attention_layernorm.weight"),
    /* attention */
    ROWS(LLAMA, "attn_q.weight", "self_attn.q_proj.weight", QUERY),
    ROWS(LLAMA, "attn_k.weight", "self_attn.k_proj.weight", KEY),
    ROWS(LLAMA, "attn_q.bias", "self_attn.q_proj.bias", QUERY),
    ROWS(LLAMA, "attn_k.bias", "self_attn.k_proj.bias", KEY),
    SAME(STRAIGHT, "attn_q.weight", "self_attn.q_proj.weight"),
    SAME(STRAIGHT, "attn_k.weight", "self_attn.k_proj.weight"),
    SAME(STRAIGHT, "attn_q.bias", "self_attn.q_proj.bias"),
    SAME(STRAIGHT, "attn_k.bias", "self_attn.k_proj.bias"),
    SAME(ALL, "attn_v.weight", "self_attn.v_proj.weight"),
    SAME(ALL, "attn_v.bias", "self_attn.v_proj.bias"),
    SAME(ALL, "attn_output.weight", "self_attn.o_proj.weight"),
    SAME(ALL, "attn_output.bias", "self_attn.o_proj.bias"),
    AS(DELTA, "attn_q_norm.weight", "self_attn.q_norm.weight", gain),
    AS(DELTA, "attn_k_norm.weight", "self_attn.k_norm.weight", gain),
    SAME(PLAIN, "attn_q_norm.weight", "self_attn.q_norm.weight"),
    SAME(PLAIN, "attn_k_norm.weight", "self_attn.k_norm.weight"),
    SAME(GPT_OSS, "attn_sinks.weight", "self_attn.sinks"),
    /* latent attention */
    SAME(SL_GGUF_DEEPSEEK2, "attn_q_a.weight", "self_attn.q_a_proj.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_q_b.weight", "self_attn.q_b_proj.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_k_b.weight", "self_attn.embed_q.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_v_b.weight", "self_attn.unembed_out.weight"),
    SAME(SL_GGUF_DEEPSEEK2, "attn_kv_b.weight", "self_attn.kv_b_proj.weight"),
    /* delta nets */
    SAME(DELTA, "attn_qkv.weight", "linear_attn.in_proj_qkv.weight"),
    SAME(DELTA, "attn_gate.weight", "linear_attn.in_proj_z.weight"),
    SAME(QWEN35, "ssm_alpha.weight", "linear_attn.in_proj_a.weight"),
    SAME(QWEN35, "ssm_beta.weight", "linear_attn.in_proj_b.weight"),
    ROWS(NEXT, "ssm_ba.weight", "linear_attn.in_proj_a.weight", ALPHA),
    ROWS(NEXT, "ssm_ba.weight", "linear_attn.in_proj_b.weight", BETA),
    ROWS(NEXT, "ssm_in.weight", "linear_attn.in_proj_qkv.weight", QKV),
    ROWS(NEXT, "ssm_in.weight", "linear_attn.in_proj_z.weight", Z),
    SAME(DELTA, "ssm_conv1d.weight", "linear_attn.conv1d.weight"),
    AS(DELTA, "ssm_a", "linear_attn.A_log", decay),
    SAME(DELTA, "ssm_dt.bias", "linear_attn.dt_bias"),
    SAME(DELTA, "ssm_norm.weight", "linear_attn.norm.weight"),
    SAME(DELTA, "ssm_out.weight", "linear_attn.out_proj.weight"),
    /* feed-forward */
    SAME(ALL, "ffn_gate.weight", "mlp.gate_proj.weight"),
    SAME(ALL, "ffn_up.weight", "mlp.up_proj.weight"),
    SAME(ALL, "ffn_down.weight", "mlp.down_proj.weight"),
    SAME(ROUTED, "ffn_gate_inp.weight", "mlp.gate.weight"),
    SAME(LLAMA, "ffn_gate_inp.weight", "block_sparse_moe.gate.weight"),
    SAME(GPT_OSS, "ffn_gate_inp.weight", "mlp.router.weight"),
    SAME(GPT_OSS, "ffn_gate_inp.bias", "mlp.router.bias"),
    SAME(SHARED, "exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    SAME(SHARED, "exp_probs_b", "mlp.gate.e_score_correction_bias"),
    SAME(ALL, "ffn_gate_exps.weight", "mlp.experts.gate_proj"),
    SAME(ALL, "ffn_up_exps.weight", "mlp.experts.up_proj"),
    SAME(ALL, "ffn_down_exps.weight", "mlp.experts.down_proj"),
    SAME(ALL, "ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"),
    SAME(GPT_OSS, "ffn_gate_exps.bias", "mlp.experts.gate_proj_bias"),
    SAME(GPT_OSS, "ffn_up_exps.bias", "mlp.experts.up_proj_bias"),
    SAME(GPT_OSS, "ffn_down_exps.bias", "mlp.experts.down_proj_bias"),
    ONE_ROW(GATED, "ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"),
    SAME(GATED, "ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"),
    SAME(GATED, "ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"),
    SAME(GATED, "ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"),
    SAME(SHARED, "ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"),
    SAME(SHARED, "ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"),
    SAME(SHARED, "ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"),
    SAME(0, NULL, NULL),
};
#undef SAME
#undef AS
#undef ROWS
#undef ONE_ROW

const char *sl_gguf_layer_suffix(const char *name, uint32_t *layer) {
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return NULL;
    char *end;
    const unsigned long number = strtoul(name + 4, &end, 10);
    if (*end != '.' || number > 65535) return NULL;
    *layer = (uint32_t)number;
    return end + 1;
}

const sl_gguf_name *sl_gguf_name_next(const sl_gguf_architecture *architecture, const char *suffix,
                                      bool is_layered, const sl_gguf_name *row) {
    for (row = row ? row + 1 : (is_layered ? layered : whole); row->suffix; row++)
        if (row->architectures & architecture->bit && strcmp(row->suffix, suffix) == 0) return row;
    return NULL;
}
