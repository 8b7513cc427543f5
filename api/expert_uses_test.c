/* expert_uses_test.c - Uses of experts are those that the router chose, and add up to the totals.
 */
#include "sluice/inspect.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

enum { LAYERS = 8, EXPERTS = 32, CHUNK = 8, PROMPT = 21, ANSWER = 6, KEYS = LAYERS * EXPERTS };
static sl_error err;

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_model *open_model(double share) {
    sl_model *model = NULL;
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "cpu",
                                      .threads = 2,
                                      .expert_budget_share = share,
                                      .context_tokens = 64};
    must(sl_model_open("models/fable", &options, &model, &err));
    return model;
}

/* Counts what the router chose; an expert counts once per pass. */
static sl_status count_chosen(void *ctx, const sl_layer_item *item, sl_error *unused) {
    (void)unused;
    uint32_t *uses = ctx;
    unsigned layer = 0;
    int end = 0;
    (void)sscanf(item->name, "layers.%u.experts%n", &layer, &end);
    if (!end || item->name[end]) return SL_OK;
    bool chosen[EXPERTS] = {0};
    const int32_t *experts = item->data;
    for (uint32_t i = 0; i < item->rows * item->columns; i++) chosen[experts[i]] = true;
    for (uint32_t e = 0; e < EXPERTS; e++) uses[layer * EXPERTS + e] += chosen[e];
    return SL_OK;
}

static void extend(sl_session *session, const sl_token *tokens, size_t count, uint32_t *uses) {
    const sl_layer_options layers = {
        .struct_size = sizeof layers, .layers = count_chosen, .ctx = uses};
    must(sl_session_extend_layers(session, tokens, count, &layers, &err));
}

/* A conversation; returns what was in memory at its end. */
static uint32_t compare(double share, bool all_fit) {
    sl_model *model = open_model(share);
    sl_session *session = NULL;
    const sl_session_options options = {.struct_size = sizeof options, .chunk_tokens = CHUNK};
    must(sl_session_create(model, &options, &session, &err));
    uint32_t chosen[KEYS] = {0}, kept = 0;
    sl_token tokens[PROMPT + ANSWER];
    for (int i = 0; i < PROMPT + ANSWER; i++) tokens[i] = 11 + 7 * i;
    extend(session, tokens, PROMPT, chosen);
    for (int i = 0; i < ANSWER; i++) extend(session, tokens + PROMPT + i, 1, chosen);

    sl_expert_use uses[KEYS];
    sl_expert_totals totals = {.struct_size = sizeof totals};
    sl_stats stats = {.struct_size = sizeof stats};
    sl_model_info info = {.struct_size = sizeof info};
    must(sl_model_expert_uses(model, uses, KEYS, &totals, &err));
    must(sl_session_stats(session, &stats, &err));
    must(sl_model_describe(model, &info, &err));
    assert_int_equal(totals.layers, LAYERS);
    assert_int_equal(totals.experts, EXPERTS);
    uint64_t sum = 0, misses = 0;
    for (int key = 0; key < KEYS; key++) {
        assert_int_equal(uses[key].uses, chosen[key]);
        assert_true(uses[key].misses <= uses[key].uses && uses[key].in_memory <= 1);
        assert_true(!uses[key].in_memory || uses[key].uses);
        if (all_fit) assert_int_equal(uses[key].in_memory, chosen[key] > 0);
        if (all_fit) assert_int_equal(uses[key].misses, chosen[key] > 0);
        sum += uses[key].uses;
        misses += uses[key].misses;
        kept += uses[key].in_memory;
    }
    assert_int_equal(sum, stats.expert_hits + stats.expert_misses);
    assert_int_equal(misses, stats.expert_misses);
    assert_int_equal(totals.hits, stats.expert_hits);
    assert_int_equal(totals.misses, stats.expert_misses);
    assert_int_equal(totals.first_reads, stats.expert_first_reads);
    assert_int_equal(totals.bytes_read, stats.bytes_read);
    assert_true(kept > 0 && kept <= info.slot_count);
    assert_true(all_fit || misses > totals.first_reads);
    sl_session_destroy(session);
    sl_model_close(model);
    return kept;
}

static void test_uses_are_what_the_router_chose(void **unused) {
    (void)unused;
    assert_true(compare(1, true) > compare(0.15, false));
}

static void test_refused(void **unused) {
    (void)unused;
    sl_model *model = open_model(1);
    sl_expert_use uses[KEYS];
    sl_expert_totals totals = {.struct_size = sizeof totals};
    assert_int_equal(sl_model_expert_uses(model, uses, KEYS - 1, &totals, &err), SL_INVALID);
    assert_string_equal(err.message, "room for the uses of 255 experts, wanted 256");
    assert_int_equal(sl_model_expert_uses(NULL, uses, KEYS, &totals, &err), SL_INVALID);
    assert_int_equal(sl_model_expert_uses(model, uses, KEYS, NULL, &err), SL_INVALID);
    must(sl_model_expert_uses(model, NULL, 0, &totals, &err));
    assert_int_equal(totals.hits + totals.misses, 0);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses_are_what_the_router_chose),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
