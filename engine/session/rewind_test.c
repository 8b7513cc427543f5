/* rewind_test.c - What going back costs: the tokens that are computed again, and the experts that
 * they use.  One model has recurrent state and KV caches, the other KV caches alone. */
#include "tests/support/described.h"
#include "tests/support/folder.h"
#include "tests/support/rounds.h"

#include "engine/session/session.h"
#include "sluice/sluice.h"
#include <math.h>

static const char attention_only[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1280, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"tie_word_embeddings\": false}";
enum { VOCAB = 1280, TOKENS = 1400 };

static sl_error err;
static sl_token tokens[TOKENS];

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static const char *attention_model(void) {
    const sl_synth_options options = {.struct_size = sizeof options, .force = 1};
    write_test_file("config.json", attention_only, sizeof attention_only - 1);
    must(sl_synth_write(test_path("config.json"), test_path("m.sluice"), &options, &err));
    return test_path("m.sluice");
}

typedef struct {
    sl_model *model;
    sl_session *session;
} opened;

static opened open_with(const char *path, uint32_t chunk, uint32_t checkpoints) {
    opened o = {0};
    const sl_model_options options = {
        .struct_size = sizeof options, .device = "cpu", .compile = "exact"};
    const sl_session_options how = {
        .struct_size = sizeof how, .chunk_tokens = chunk, .checkpoints = checkpoints};
    must(sl_model_open(path, &options, &o.model, &err));
    assert_int_equal(test_model_info(o.model).vocab, VOCAB);
    must(sl_session_create(o.model, &how, &o.session, &err));
    return o;
}
static void shut(opened *o) {
    sl_session_destroy(o->session);
    sl_model_close(o->model);
}

static void extend(opened *o, size_t from, size_t count) {
    must(sl_session_extend(o->session, tokens + from, count, &err));
}
static void rewind_to(opened *o, size_t length) {
    must(sl_session_rewind(o->session, length, &err));
}

/* What the calls since the last look have used. */
typedef struct {
    uint64_t experts, recomputed;
} used;
static used look(const opened *o) {
    const sl_stats stats = test_session_stats(o->session);
    return (used){stats.expert_hits + stats.expert_misses, stats.recomputed_tokens};
}
static used since(const opened *o, used before) {
    const used now = look(o);
    return (used){now.experts - before.experts, now.recomputed - before.recomputed};
}

static void same_logits(const opened *o, const float *wanted) {
    const float *found = sl_session_logits(o->session, NULL);
    double difference = 0, size = 0;
    for (size_t i = 0; i < VOCAB; i++) {
        const double off = (double)found[i] - (double)wanted[i];
        difference += off * off;
        size += (double)wanted[i] * (double)wanted[i];
    }
    assert_true(difference <= 2.5e-11 * size);
}

/* A token uses as many experts after rewinding as it does without. */
static void caches_are_cut_back(void **state) {
    (void)state;
    opened o = open_with(attention_model(), 64, 0);
    float wanted[VOCAB];
    extend(&o, 0, 300);
    used before = look(&o);
    extend(&o, 300, 1);
    assert_int_equal(since(&o, before).experts, 2 * 2);
    memcpy(wanted, sl_session_logits(o.session, NULL), sizeof wanted);
    for (size_t i = 301; i < 310; i++) extend(&o, i, 1);
    static const size_t lengths[] = {309, 300, 170, 1};
    for (size_t i = 0; i < 4; i++) {
        rewind_to(&o, lengths[i]);
        before = look(&o);
        extend(&o, lengths[i], 1);
        assert_int_equal(since(&o, before).experts, 2 * 2);
        if (lengths[i] == 300) same_logits(&o, wanted);
    }
    rewind_to(&o, 0);
    extend(&o, 0, 300);
    extend(&o, 300, 1);
    same_logits(&o, wanted);
    assert_int_equal(look(&o).recomputed, 0);
    shut(&o);
}

static void sampling_after_rewinding_computes_one_token(void **state) {
    (void)state;
    opened o = open_with(attention_model(), 64, 0);
    sl_token first, again;
    extend(&o, 0, 200);
    must(sl_session_sample(o.session, &(sl_sampling){.struct_size = sizeof(sl_sampling)}, &first,
                           &err));
    extend(&o, 200, 20);
    rewind_to(&o, 200);
    const used before = look(&o);
    must(sl_session_sample(o.session, &(sl_sampling){.struct_size = sizeof(sl_sampling)}, &again,
                           &err));
    assert_int_equal(again, first);
    assert_int_equal(since(&o, before).experts, 2 * 2);
    assert_int_equal(since(&o, before).recomputed, 1);
    shut(&o);
}

/* Rewinds to `length`, adds one token, and returns how many tokens that computed again. */
static uint64_t cost_of(opened *o, size_t length) {
    rewind_to(o, length);
    const used before = look(o);
    extend(o, length, 1);
    return since(o, before).recomputed;
}

static void recurrent_state_returns_to_the_nearest_checkpoint(void **state) {
    (void)state;
    opened o = open_with("models/fable", 64, 0);
    float wanted[VOCAB];
    extend(&o, 0, 300);
    extend(&o, 300, 1);
    memcpy(wanted, sl_session_logits(o.session, NULL), sizeof wanted);
    for (size_t i = 301; i < 310; i++) extend(&o, i, 1);
    assert_int_equal(cost_of(&o, 305), 5); /* from the end of the first extend */
    assert_int_equal(cost_of(&o, 300), 0);
    same_logits(&o, wanted);
    assert_int_equal(cost_of(&o, 290), 290 - 256); /* from the end of the chunk */
    rewind_to(&o, 290);
    extend(&o, 290, 10);
    extend(&o, 300, 1);
    same_logits(&o, wanted);
    assert_int_equal(cost_of(&o, 100), 100); /* from the start */
    shut(&o);
}

/* Single tokens get checkpoints too, and statistics count what is computed again. */
static void long_generations_have_checkpoints(void **state) {
    (void)state;
    opened o = open_with("models/fable", 64, 0);
    extend(&o, 0, 10);
    for (size_t i = 10; i < 400; i++) extend(&o, i, 1);
    assert_int_equal(cost_of(&o, 390), 390 - 266);
    const sl_stats stats = test_session_stats(o.session);
    assert_int_equal(stats.decode_tokens, 390);
    assert_int_equal(stats.prefill_tokens, 10 + 390 - 266 + 1);
    shut(&o);
}

static void more_checkpoints_recompute_less(void **state) {
    (void)state;
    static const uint32_t kept[] = {1, 2, 4, 8};
    const size_t step = is_slow_run() ? 3 : 1; /* the fewest and the most */
    uint64_t costs[4];
    for (size_t i = 0; i < 4; i += step) {
        opened o = open_with("models/fable", 128, kept[i]);
        extend(&o, 0, TOKENS - 1);
        costs[i] = 0;
        for (size_t length = TOKENS - 50; length > 200; length -= 300)
            costs[i] += cost_of(&o, length);
        const sl_checkpoint_memory memory = sl_checkpoints_memory(o.model->forward, kept[i]);
        assert_int_equal(memory.count, kept[i]);
        assert_int_equal(memory.bytes_each, sl_forward_recurrent_bytes(o.model->forward));
        shut(&o);
    }
    for (size_t i = step; i < 4; i += step) assert_true(costs[i] < costs[i - step]);
    assert_true(costs[3] <= 4 * 256);
}

static void attention_needs_no_checkpoints(void **state) {
    (void)state;
    opened o = open_with(attention_model(), 64, 0);
    assert_int_equal(sl_checkpoints_memory(o.model->forward, 0).count, 0);
    assert_int_equal(o.session->checkpoints.capacity, 0);
    shut(&o);
    o = open_with("models/fable", 64, 0);
    sl_session_destroy(o.session);
    o.session = NULL;
    const sl_session_options many = {.struct_size = sizeof many, .checkpoints = 65};
    assert_int_equal(sl_session_create(o.model, &many, &o.session, &err), SL_INVALID);
    expect_message(&err, "65 checkpoints per session, wanted at most 64");
    shut(&o);
}

int main(void) {
    for (size_t i = 0; i < TOKENS; i++) tokens[i] = (sl_token)((i * 7919 + i * i * 31) % 1200);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_are_cut_back),
        cmocka_unit_test(sampling_after_rewinding_computes_one_token),
        cmocka_unit_test(recurrent_state_returns_to_the_nearest_checkpoint),
        cmocka_unit_test(long_generations_have_checkpoints),
        cmocka_unit_test(more_checkpoints_recompute_less),
        cmocka_unit_test(attention_needs_no_checkpoints),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
