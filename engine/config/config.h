/* config.h - A model's dimensions, read from config.json.
 *
 * Keys are Hugging Face's.  Each family defines which of them it has
 * and their defaults. */
#ifndef SL_ENGINE_CONFIG_CONFIG_H
#define SL_ENGINE_CONFIG_CONFIG_H
#include "base/memory.h"
#include <stdbool.h>

typedef struct {
    bool linear;     /* a gated delta net instead of attention */
    bool sparse;     /* routed experts instead of one dense network */
    uint32_t window; /* attention window in positions, including its own; 0: all */
} sl_layer_config;

/* RoPE scaling; the numbers are those of the op rope_table. */
typedef enum { SL_ROPE_DEFAULT, SL_ROPE_LINEAR, SL_ROPE_LLAMA3, SL_ROPE_YARN } sl_rope_scaling;

typedef struct {
    uint32_t dims;
    float theta;
    bool interleaved; /* pairs (2j, 2j+1), not (j, j + dims/2) */
    sl_rope_scaling scaling;
    float factor, original; /* original: the context length before scaling */
    float low, high;        /* llama3: frequency factors; yarn: beta_slow, beta_fast */
    bool truncate;          /* yarn: round the ends of the ramp to integers */
    float magnitude;        /* of cosines and sines; 0: 1 */
} sl_rope_config;

typedef struct {
    const char *model_type;
    uint32_t vocab, hidden, layers, context; /* context: max_position_embeddings */
    const sl_layer_config *layer;            /* [layers] */
    uint32_t query_heads, kv_heads, head_dim;
    uint32_t query_rank, latent_rank, nope_dim, rope_dim, value_dim; /* of latent attention */
    sl_rope_config rope;
    float norm_eps, norm_offset; /* offset: added to stored gains */
    float score_scale;           /* of queries times keys */
    float clip_qkv;              /* 0: not clipped */
    bool attention_bias, qk_norm;
    uint32_t delta_key_heads, delta_value_heads, delta_key_dim, delta_value_dim, conv_width;
    bool delta_tiled; /* value head h belongs to key head h % key heads, not h / (their ratio) */
    uint32_t experts, experts_used, expert_width; /* experts: 0 when no layer has any */
    uint32_t shared_width, dense_width;           /* of shared experts; of layers without experts */
    uint32_t expert_groups, expert_groups_kept;
    float routed_scale, swiglu_limit, swiglu_alpha;
    bool normalise_routes, tied_embeddings;
    uint32_t further_layers; /* multi-token prediction layers after the others; not run */
} sl_model_config;

/* Groups of keys. */
typedef enum {
    SL_KEYS_HEADS = 1 << 0,       /* num_key_value_heads, head_dim */
    SL_KEYS_LATENT = 1 << 1,      /* q_lora_rank, kv_lora_rank, qk_nope_head_dim, ... */
    SL_KEYS_DELTA = 1 << 2,       /* linear_num_key_heads, ... */
    SL_KEYS_DENSE = 1 << 3,       /* intermediate_size is a dense network's */
    SL_KEYS_EXPERTS = 1 << 4,     /* num_experts or its synonyms, num_experts_per_tok */
    SL_KEYS_NARROW = 1 << 5,      /* moe_intermediate_size is an expert's width */
    SL_KEYS_WIDE = 1 << 6,        /* intermediate_size is */
    SL_KEYS_SHARED = 1 << 7,      /* shared_expert_intermediate_size */
    SL_KEYS_GROUPS = 1 << 8,      /* n_group, topk_group, n_shared_experts, first_k_dense_replace */
    SL_KEYS_SPARSE_STEP = 1 << 9, /* decoder_sparse_step, mlp_only_layers */
    SL_KEYS_NORM_TOPK = 1 << 10,  /* norm_topk_prob */
    SL_KEYS_LAYER_TYPES = 1 << 11, /* layer_types */
    SL_KEYS_WINDOW = 1 << 12,      /* sliding_window */
    SL_KEYS_USE_WINDOW = 1 << 13,  /* use_sliding_window, off unless it says otherwise */
    SL_KEYS_PARTIAL = 1 << 14,     /* partial_rotary_factor */
    SL_KEYS_QK_NORM = 1 << 15,     /* use_qk_norm */
    SL_KEYS_BIAS = 1 << 16,        /* attention_bias */
    SL_KEYS_SWIGLU = 1 << 17,      /* swiglu_limit, swiglu_alpha */
    SL_KEYS_CLIP = 1 << 18,        /* clip_qkv */
} sl_config_keys;

/* The kinds of layers if layer_types is absent. */
typedef enum {
    SL_LAYERS_FULL,        /* attention to all positions */
    SL_LAYERS_WINDOW,      /* every layer has the window, where there is one */
    SL_LAYERS_LATE_WINDOW, /* those from max_window_layers on have it */
    SL_LAYERS_ALTERNATE,   /* every other layer has it, the first too */
    SL_LAYERS_INTERVAL,    /* delta nets, attention every full_attention_interval layers */
} sl_layer_pattern;

typedef struct {
    const char *model_type;
    const char *also[2]; /* other model_types of the same, or NULL */
    uint32_t keys;       /* sl_config_keys */
    sl_layer_pattern pattern;
    sl_model_config defaults;     /* sizes that are 0 must be in config.json */
    float partial_rotary;         /* share of a head that RoPE rotates; 0: all */
    uint32_t window, dense_first; /* defaults of sliding_window and first_k_dense_replace */
    const char *rope_scaling;     /* JSON of what rope_scaling is when absent, or NULL */
} sl_config_family;

/* The families that are supported. */
typedef struct {
    const sl_config_family *(*find)(const char *model_type); /* NULL: unknown */
    const char *(*names)(char *text, size_t capacity);       /* model_types of all, for a message */
} sl_config_families;
enum { SL_CONFIG_NAMES_BYTES = 256 };

/* Accepts flat configs and nested text_config.  Unknown model_type, activation or rope type,
 * missing or invalid numbers are errors that name the
 * key, what was found and what is supported. */
SL_CHECKED sl_status sl_config_parse(const char *json, size_t bytes,
                                     const sl_config_families *families, sl_arena *arena,
                                     sl_model_config *out, sl_error *err);
#endif
