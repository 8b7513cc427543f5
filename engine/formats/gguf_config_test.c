/* gguf_config_test.c - Metadata of every architecture as config.json, and errors. */
#include "tests/support/folder.h"

#include "engine/formats/gguf.h"
#include "tests/support/gguf_maker.h"

enum { BOOL = 7, INT32 = 5 };

/* A required key of an architecture; value 0 ends the list. */
typedef struct {
    const char *key;
    uint32_t value;
} count_key;

#define HEADS                                                                                      \
    {"attention.head_count", 4}, {                                                                 \
        "attention.head_count_kv", 2                                                               \
    }
#define DELTA                                                                                      \
    {"ssm.conv_kernel", 4}, {"ssm.state_size", 32}, {"ssm.group_count", 2},                        \
        {"ssm.time_step_rank", 4}, {                                                               \
        "ssm.inner_size", 96                                                                       \
    }
#define EXPERTS                                                                                    \
    {"expert_count", 8}, {                                                                         \
        "expert_used_count", 3                                                                     \
    }
#define GROUPED                                                                                    \
    EXPERTS, {"expert_feed_forward_length", 64}, {                                                 \
        "expert_shared_count", 1                                                                   \
    }

static const struct {
    const char *name, *model_type;
    count_key keys[16];
} architectures[] = {
    {"qwen35moe",
     "qwen3_5_moe",
     {HEADS,
      DELTA,
      EXPERTS,
      {"expert_feed_forward_length", 64},
      {"expert_shared_feed_forward_length", 48},
      {NULL, 0}}},
    {"qwen35", "qwen3_5", {HEADS, DELTA, {"feed_forward_length", 96}, {NULL, 0}}},
    {"qwen3next",
     "qwen3_next",
     {HEADS,
      DELTA,
      EXPERTS,
      {"expert_feed_forward_length", 64},
      {"expert_shared_feed_forward_length", 48},
      {NULL, 0}}},
    {"qwen3moe", "qwen3_moe", {HEADS, EXPERTS, {"expert_feed_forward_length", 64}, {NULL, 0}}},
    {"qwen3", "qwen3", {HEADS, {"feed_forward_length", 96}, {NULL, 0}}},
    {"llama", "mixtral", {HEADS, EXPERTS, {"feed_forward_length", 96}, {NULL, 0}}},
    {"olmoe", "olmoe", {HEADS, EXPERTS, {"feed_forward_length", 96}, {NULL, 0}}},
    {"deepseek2",
     "deepseek_v3",
     {HEADS,
      GROUPED,
      {"feed_forward_length", 96},
      {"attention.kv_lora_rank", 64},
      {"attention.key_length_mla", 48},
      {"attention.value_length_mla", 32},
      {"rope.dimension_count", 16},
      {"expert_gating_func", 2},
      {NULL, 0}}},
    {"glm4moe", "glm4_moe", {HEADS, GROUPED, {"feed_forward_length", 96}, {NULL, 0}}},
    {"gpt-oss",
     "gpt_oss",
     {HEADS,
      EXPERTS,
      {"expert_feed_forward_length", 64},
      {"attention.sliding_window", 16},
      {NULL, 0}}},
};
enum { ARCHITECTURES = sizeof architectures / sizeof architectures[0], LAYERS = 5 };

static const char *own(int a, const char *key) {
    static char texts[8][96];
    static unsigned next;
    char *text = texts[next++ % 8];
    (void)snprintf(text, sizeof texts[0], "%s.%s", architectures[a].name, key);
    return text;
}

/* All required keys except `without`. */
static void begin(gguf_maker *m, int a, const char *without) {
    *m = (gguf_maker){0};
    gguf_text(m, "general.architecture", architectures[a].name);
    const count_key usual[] = {{"block_count", LAYERS}, {"embedding_length", 128}};
    for (int i = 0; i < 2; i++)
        if (!without || strcmp(usual[i].key, without) != 0)
            gguf_u32(m, own(a, usual[i].key), usual[i].value);
    for (const count_key *k = architectures[a].keys; k->key; k++)
        if (!without || strcmp(k->key, without) != 0) gguf_u32(m, own(a, k->key), k->value);
    if (!without || strcmp(without, "attention.layer_norm_rms_epsilon") != 0)
        gguf_f32(m, own(a, "attention.layer_norm_rms_epsilon"), 1e-6f);
    gguf_tensor(m, "token_embd.weight", (const uint64_t[]){2, 7, 0}, 0, NULL, 56);
}

static int find(const char *name) {
    for (int a = 0; a < ARCHITECTURES; a++)
        if (strcmp(architectures[a].name, name) == 0) return a;
    fail();
    return 0;
}

static sl_source *open_made(gguf_maker *m, sl_error *err) {
    sl_source *source = NULL;
    gguf_write(m, test_path("made.gguf"));
    gguf_release(m);
    *err = (sl_error){0};
    return sl_source_open(test_path("made.gguf"), NULL, &source, err) == SL_OK ? source : NULL;
}

static json_t *config_of(gguf_maker *m) {
    sl_error err;
    size_t bytes = 0;
    sl_source *source = open_made(m, &err);
    if (!source) fail_msg("%s", err.message);
    json_t *config = json_loads(sl_source_text(source, "config.json", &bytes), 0, NULL);
    assert_non_null(config);
    sl_source_close(source);
    return config;
}

static void expect_number(json_t *config, const char *key, double wanted) {
    const json_t *value = json_object_get(config, key);
    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    if (json_number_value(value) != wanted)
        fail_msg("'%s' is %g, wanted %g", key, json_number_value(value), wanted);
}

static void every_architecture_has_a_config(void **state) {
    (void)state;
    for (int a = 0; a < ARCHITECTURES; a++) {
        gguf_maker m;
        begin(&m, a, NULL);
        json_t *config = config_of(&m);
        assert_string_equal(json_string_value(json_object_get(config, "model_type")),
                            architectures[a].model_type);
        expect_number(config, "num_hidden_layers", LAYERS);
        expect_number(config, "hidden_size", 128);
        expect_number(config, "vocab_size", 7);
        expect_number(config, "rope_theta", 10000);
        assert_true(json_is_true(json_object_get(config, "tie_word_embeddings")));
        json_decref(config);
    }
}

/* Each missing required key is named in the message. */
static void keys_that_are_missing(void **state) {
    (void)state;
    for (int a = 0; a < ARCHITECTURES; a++)
        for (const count_key *k = architectures[a].keys; k->key; k++) {
            gguf_maker m;
            sl_error err;
            char message[128];
            if (strcmp(k->key, "attention.head_count_kv") == 0 ||
                strcmp(k->key, "rope.dimension_count") == 0 ||
                strcmp(k->key, "expert_gating_func") == 0)
                continue; /* these have a default */
            begin(&m, a, k->key);
            assert_null(open_made(&m, &err));
            (void)snprintf(message, sizeof message, "made.gguf: key '%s' is missing",
                           own(a, k->key));
            if (strcmp(own(a, k->key), "llama.expert_count") == 0)
                (void)snprintf(message, sizeof message,
                               "made.gguf: architecture 'llama' without experts is not supported");
            expect_message(&err, message);
        }
}

static void grouped_experts_and_latent_heads(void **state) {
    (void)state;
    gguf_maker m;
    const int a = find("deepseek2");
    begin(&m, a, NULL);
    gguf_u32(&m, own(a, "nextn_predict_layers"), 1);
    gguf_u32(&m, own(a, "leading_dense_block_count"), 2);
    gguf_flag(&m, own(a, "expert_weights_norm"), 1);
    gguf_f32(&m, own(a, "expert_weights_scale"), 2.5f);
    gguf_text(&m, own(a, "rope.scaling.type"), "yarn");
    gguf_f32(&m, own(a, "rope.scaling.factor"), 40);
    gguf_u32(&m, own(a, "rope.scaling.original_context_length"), 4096);
    gguf_f32(&m, own(a, "rope.scaling.yarn_log_multiplier"), 0.0707f);
    json_t *config = config_of(&m), *scaling = json_object_get(config, "rope_scaling");
    expect_number(config, "num_hidden_layers", LAYERS - 1);
    expect_number(config, "num_key_value_heads", 4);
    expect_number(config, "qk_nope_head_dim", 32);
    expect_number(config, "qk_rope_head_dim", 16);
    expect_number(config, "v_head_dim", 32);
    expect_number(config, "n_group", 1);
    expect_number(config, "topk_group", 1);
    expect_number(config, "first_k_dense_replace", 2);
    expect_number(config, "routed_scaling_factor", 2.5);
    assert_true(json_is_true(json_object_get(config, "norm_topk_prob")));
    assert_true(json_is_true(json_object_get(config, "rope_interleave")));
    assert_string_equal(json_string_value(json_object_get(scaling, "rope_type")), "yarn");
    expect_number(scaling, "factor", 40);
    expect_number(scaling, "original_max_position_embeddings", 4096);
    expect_number(scaling, "mscale", 0.707);
    expect_number(scaling, "mscale_all_dim", 0.707);
    json_decref(config);
}

static void expect_layers(json_t *config, const char *wanted) {
    static const char *const names[] = {"full_attention", "linear_attention", "sliding_attention"};
    const json_t *list = json_object_get(config, "layer_types");
    assert_int_equal(json_array_size(list), strlen(wanted));
    for (size_t i = 0; wanted[i]; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        assert_string_equal(name, names[wanted[i] == 'f' ? 0 : wanted[i] == 'l' ? 1 : 2]);
    }
    json_decref(config);
}

static void kinds_of_layers(void **state) {
    (void)state;
    gguf_maker m;
    int a = find("gpt-oss");
    begin(&m, a, NULL);
    expect_layers(config_of(&m), "sfsfs");
    begin(&m, a, NULL);
    gguf_u32(&m, own(a, "attention.sliding_window_pattern"), 3);
    expect_layers(config_of(&m), "ssfss");
    begin(&m, a, NULL);
    gguf_array(&m, own(a, "attention.sliding_window_pattern"), BOOL, LAYERS);
    gguf_bytes(&m, (const uint8_t[]){0, 1, 1, 0, 1}, LAYERS);
    expect_layers(config_of(&m), "fssfs");
    a = find("qwen35");
    begin(&m, a, NULL);
    gguf_array(&m, own(a, "attention.recurrent_layers"), BOOL, LAYERS);
    gguf_bytes(&m, (const uint8_t[]){1, 0, 1, 1, 0}, LAYERS);
    expect_layers(config_of(&m), "lfllf");
}

/* Values per layer are accepted if they are all the same. */
static void numbers_for_each_layer(void **state) {
    (void)state;
    const int a = find("glm4moe");
    for (int different = 0; different < 2; different++) {
        gguf_maker m;
        sl_error err;
        begin(&m, a, "expert_feed_forward_length");
        gguf_array(&m, own(a, "expert_feed_forward_length"), INT32, LAYERS);
        for (int32_t i = 0; i < LAYERS; i++) {
            const int32_t value = 64 + different * i;
            gguf_bytes(&m, &value, sizeof value);
        }
        if (!different) {
            json_t *config = config_of(&m);
            expect_number(config, "moe_intermediate_size", 64);
            json_decref(config);
            continue;
        }
        assert_null(open_made(&m, &err));
        expect_message(&err, "is 64 for the first layer, 65 for layer 1; only one for all");
    }
}

enum { NUMBER, REAL, WORD, FLAG, MATRIX };

/* An additional key or tensor, and the expected message. */
static const struct {
    const char *architecture, *without, *key;
    int kind;
    double value;
    const char *message;
} refused[] = {
    {"llama", "expert_count", "expert_count", NUMBER, 0,
     "architecture 'llama' without experts is not supported ('llama.expert_count' is 0)"},
    {"llama", NULL, "expert_gating_func", NUMBER, 2,
     "experts are chosen by 'llama.expert_gating_func' 2, for 'llama' only 1 is supported"},
    {"deepseek2", "expert_gating_func", "expert_gating_func", NUMBER, 1,
     "experts are chosen by 'deepseek2.expert_gating_func' 1, for 'deepseek2' only 2"},
    {"deepseek2", "expert_gating_func", "x", NUMBER, 1,
     "experts are chosen by 'deepseek2.expert_gating_func' 1, for 'deepseek2' only 2"},
    {"deepseek2", "attention.key_length_mla", "attention.key_length_mla", NUMBER, 15,
     "'deepseek2.rope.dimension_count' is 16 of a head of 15"},
    {"qwen3", NULL, "attention.key_length", WORD, 0,
     "key 'qwen3.attention.key_length' is text, an integer wanted"},
    {"qwen3", NULL, "attention.value_length", NUMBER, 64,
     "'qwen3.attention.value_length' is 64, the key_length (32) wanted"},
    {"qwen3", NULL, "rope.dimension_count", NUMBER, 33,
     "'qwen3.rope.dimension_count' is 33 of a head of 32"},
    {"qwen3", NULL, "rope.freq_base", REAL, -1, "key 'qwen3.rope.freq_base' is -1, more than 0"},
    {"qwen3", NULL, "rope.freq_base", NUMBER, 1,
     "key 'qwen3.rope.freq_base' is u32, a real number wanted"},
    {"qwen3", NULL, "rope.scaling.attn_factor", REAL, 2,
     "key 'qwen3.rope.scaling.attn_factor' is 2, only 1 is supported"},
    {"qwen3", NULL, "final_logit_softcapping", REAL, 30,
     "key 'qwen3.final_logit_softcapping' is 30, only 0 is supported"},
    {"qwen3moe", NULL, "expert_weights_norm", NUMBER, 1,
     "key 'qwen3moe.expert_weights_norm' is u32, a flag wanted"},
    {"qwen3moe", NULL, "nextn_predict_layers", NUMBER, 5,
     "5 of 5 layers are for multi-token prediction"},
    {"qwen3next", "ssm.inner_size", "ssm.inner_size", NUMBER, 97,
     "'qwen3next.ssm.inner_size' is 97, a multiple of 'qwen3next.ssm.time_step_rank' (4)"},
    {"gpt-oss", NULL, "attention.sliding_window_pattern", WORD, 0,
     "key 'gpt-oss.attention.sliding_window_pattern' is text, an integer wanted"},
    {"glm4moe", NULL, "expert_weights_scale", REAL, 0,
     "key 'glm4moe.expert_weights_scale' is 0, more than 0 wanted"},
    {"llama", NULL, "rope_freqs.weight", MATRIX, 0,
     "tensor 'rope_freqs.weight' (scaled frequencies) is not supported"},
};

static void senseless_metadata(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        gguf_maker m;
        sl_error err;
        const int a = find(refused[i].architecture);
        begin(&m, a, refused[i].without);
        const char *key = own(a, refused[i].key);
        switch (refused[i].kind) {
        case NUMBER:
            gguf_u32(&m, key, (uint32_t)refused[i].value);
            break;
        case REAL:
            gguf_f32(&m, key, (float)refused[i].value);
            break;
        case WORD:
            gguf_text(&m, key, "seven");
            break;
        case FLAG:
            gguf_flag(&m, key, refused[i].value != 0);
            break;
        default:
            gguf_tensor(&m, refused[i].key, (const uint64_t[]){4, 0}, 0, NULL, 16);
        }
        if (open_made(&m, &err)) fail_msg("accepted, wanted \"%s\"", refused[i].message);
        expect_message(&err, refused[i].message);
        expect_message(&err, "made.gguf: ");
    }
}

/* ---- tensors ---- */

static void rows_in_their_order(void **state) {
    (void)state;
    gguf_maker m;
    sl_error err;
    float rows[8 * 2];
    for (int i = 0; i < 16; i++) rows[i] = (float)i;
    begin(&m, find("llama"), NULL);
    gguf_tensor(&m, "blk.0.attn_q.weight", (const uint64_t[]){1, 16, 0}, 0, rows, sizeof rows);
    gguf_tensor(&m, "blk.0.attn_k.weight", (const uint64_t[]){1, 7, 0}, 0, rows, 28);
    gguf_tensor(&m, "blk.5.attn_k.weight", (const uint64_t[]){1, 8, 0}, 0, rows, 32);
    sl_source *source = open_made(&m, &err);
    if (!source) fail_msg("%s", err.message);
    const void *data = NULL;
    const sl_tensor_entry *q = sl_source_find(source, "model.layers.0.self_attn.q_proj.weight");
    assert_non_null(q);
    assert_int_equal(sl_source_map(source, q, &data, &err), SL_OK);
    static const float wanted[16] = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
    assert_memory_equal(data, wanted, sizeof wanted);
    const char *why = sl_source_skipped(source, "model.layers.0.self_attn.k_proj.weight");
    assert_non_null(why);
    assert_non_null(strstr(why, "'blk.0.attn_k.weight' has 7 rows, which do not divide"));
    /* A tensor of a layer that is not run. */
    assert_non_null(sl_source_find(source, "mtp.blk.5.attn_k.weight"));
    sl_source_close(source);
}

static void one_tensor_as_two(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t rows;
        struct {
            const char *name;
            int64_t rows;
            float first[4];
        } gives[2];
    } cases[] = {
        {"blk.1.ssm_ba.weight",
         8,
         {{"in_proj_b.weight", 4, {0, 1, 4, 5}}, {"in_proj_a.weight", 4, {2, 3, 6, 7}}}},
        {"blk.1.ssm_in.weight",
         2 * 2 * 32 + 2 * 96,
         {{"in_proj_qkv.weight", 2 * 2 * 32 + 96, {0, 1, 2, 3}},
          {"in_proj_z.weight", 96, {112, 113, 114, 115}}}},
    };
    float rows[512];
    for (int i = 0; i < 512; i++) rows[i] = (float)i;
    for (int c = 0; c < 2; c++) {
        gguf_maker m;
        sl_error err;
        begin(&m, find("qwen3next"), NULL);
        gguf_tensor(&m, cases[c].name, (const uint64_t[]){1, cases[c].rows, 0}, 0, rows,
                    4 * cases[c].rows);
        sl_source *source = open_made(&m, &err);
        if (!source) fail_msg("%s", err.message);
        for (int g = 0; g < 2; g++) {
            char name[96];
            const void *data = NULL;
            (void)snprintf(name, sizeof name, "model.layers.1.linear_attn.%s",
                           cases[c].gives[g].name);
            const sl_tensor_entry *entry = sl_source_find(source, name);
            assert_non_null(entry);
            assert_int_equal(entry->type.shape.dims[0], cases[c].gives[g].rows);
            assert_int_equal(sl_source_map(source, entry, &data, &err), SL_OK);
            assert_memory_equal(data, cases[c].gives[g].first, 16);
        }
        sl_source_close(source);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_architecture_has_a_config, empty_test_folder),
        cmocka_unit_test_teardown(keys_that_are_missing, empty_test_folder),
        cmocka_unit_test_teardown(grouped_experts_and_latent_heads, empty_test_folder),
        cmocka_unit_test_teardown(kinds_of_layers, empty_test_folder),
        cmocka_unit_test_teardown(numbers_for_each_layer, empty_test_folder),
        cmocka_unit_test_teardown(senseless_metadata, empty_test_folder),
        cmocka_unit_test_teardown(rows_in_their_order, empty_test_folder),
        cmocka_unit_test_teardown(one_tensor_as_two, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
