/* kv_pages_test.c - Pages of the KV cache: references, copy on write, and what happens when there
 * are none left. */
#include "engine/session/kv_pages.h"
#include "engine/session/prefix_tree.h"
#include "engine/session/session.h"
#include "sluice/batch.h"
#include "sluice/sessions.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sl_error err;
static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static void expect_message(const char *text) {
    if (!strstr(err.message, text)) fail_msg("'%s', wanted '%s'", err.message, text);
}

/* ---- the pool, with a number for the bytes of each page ---- */

enum { COUNT = 40, SLOTS = 4, EACH = 8, MOST = EACH * SL_KV_PAGE };

static int bytes[COUNT];
static bool fails;
static sl_status copy(void *ctx, int32_t from, int32_t to, sl_error *error) {
    (void)ctx;
    if (fails) return sl_fail(error, SL_DEVICE, "no copy");
    bytes[to] = bytes[from];
    return SL_OK;
}

static sl_kv_pages *new_pages(uint32_t count) {
    sl_kv_pages *pages;
    must(sl_kv_pages_create(
        &(sl_kv_pages_options){.count = count, .slots = SLOTS, .most = EACH, .copy = copy}, &pages,
        &err));
    return pages;
}

static uint32_t free_pages(const sl_kv_pages *pages) {
    return sl_kv_pages_describe(pages).free;
}

static void pages_are_taken_and_given_back(void **state) {
    (void)state;
    sl_kv_pages *pages = new_pages(COUNT);
    uint32_t count;
    must(sl_kv_pages_write(pages, 1, 0, 1, &err));
    must(sl_kv_pages_write(pages, 1, 1, 64, &err));
    assert_int_equal(free_pages(pages), COUNT - 1);
    must(sl_kv_pages_write(pages, 1, 64, 200, &err));
    (void)sl_kv_pages_of(pages, 1, &count);
    assert_int_equal(count, 4);
    sl_kv_pages_truncate(pages, 1, 129);
    assert_int_equal(free_pages(pages), COUNT - 3);
    sl_kv_pages_truncate(pages, 1, 128);
    assert_int_equal(free_pages(pages), COUNT - 2);
    assert_int_equal(sl_kv_pages_write(pages, 1, 0, MOST + 1, &err), SL_INVALID);
    assert_int_equal(sl_kv_pages_write(pages, SLOTS, 0, 1, &err), SL_INVALID);
    sl_kv_pages_truncate(pages, 1, 0);
    assert_int_equal(free_pages(pages), COUNT);
    sl_kv_pages_destroy(pages);
}

static void shared_pages_are_copied_when_they_are_written(void **state) {
    (void)state;
    sl_kv_pages *pages = new_pages(COUNT);
    must(sl_kv_pages_write(pages, 0, 0, 100, &err));
    const int32_t *first = sl_kv_pages_of(pages, 0, NULL), *second = sl_kv_pages_of(pages, 1, NULL);
    bytes[first[0]] = 10, bytes[first[1]] = 11;
    sl_kv_pages_share(pages, 0, 1, 100);
    assert_int_equal(free_pages(pages), COUNT - 2);
    fails = true;
    assert_int_equal(sl_kv_pages_write(pages, 1, 100, 101, &err), SL_DEVICE);
    assert_int_equal(first[1], second[1]);
    assert_int_equal(free_pages(pages), COUNT - 2);
    fails = false;
    must(sl_kv_pages_write(pages, 1, 100, 130, &err)); /* the border, and a page more */
    assert_int_equal(first[0], second[0]);
    assert_int_not_equal(first[1], second[1]);
    assert_int_equal(bytes[second[1]], 11);
    assert_int_equal(free_pages(pages), COUNT - 4);
    must(sl_kv_pages_write(pages, 0, 100, 101, &err)); /* is alone with it now */
    must(sl_kv_pages_write(pages, 0, 0, 1, &err));     /* the whole page is lost: no copy */
    assert_int_equal(sl_kv_pages_describe(pages).copies, 1);
    assert_int_not_equal(first[0], second[0]);
    for (uint32_t slot = 0; slot < 2; slot++) sl_kv_pages_truncate(pages, slot, 0);
    assert_int_equal(free_pages(pages), COUNT);
    sl_kv_pages_destroy(pages);
}

typedef struct {
    sl_kv_pages *pages;
    int32_t held[COUNT];
    int count;
} holder;
static bool give_up(void *ctx) {
    holder *h = ctx;
    if (h->count == 0) return false;
    sl_kv_pages_release(h->pages, h->held[--h->count]);
    return true;
}

static void what_others_hold_is_reclaimed(void **state) {
    (void)state;
    sl_kv_pages *pages = new_pages(EACH);
    holder h = {.pages = pages};
    sl_kv_pages_set_reclaim(pages, give_up, &h);
    must(sl_kv_pages_write(pages, 0, 0, MOST, &err));
    for (; h.count < EACH; h.count++) {
        h.held[h.count] = sl_kv_pages_of(pages, 0, NULL)[h.count];
        sl_kv_pages_retain(pages, h.held[h.count]);
    }
    must(sl_kv_pages_write(pages, 0, 70, 71, &err)); /* no page is free: the others let go of it */
    assert_int_equal(sl_kv_pages_describe(pages).copies, 0);
    sl_kv_pages_truncate(pages, 0, 0);
    assert_int_equal(free_pages(pages), EACH);
    must(sl_kv_pages_write(pages, 0, 0, MOST - 64, &err));
    assert_int_equal(sl_kv_pages_write(pages, 1, 0, 128, &err), SL_NO_MEMORY);
    expect_message("the KV cache is full: all 8 pages of 64 tokens are in use");
    sl_kv_pages_destroy(pages);
}

/* Random lives of sequences: a page belongs to all its users, and no write is seen by others. */
static void random_lives(void **state) {
    (void)state;
    sl_kv_pages *pages = new_pages(COUNT);
    uint32_t lengths[SLOTS] = {0}, seed = 7;
    int expected[SLOTS][EACH] = {{0}};
    for (int round = 0; round < 4000; round++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t slot = seed >> 30, other = seed >> 28 & 3, draw = seed >> 8 & 0xffff;
        if (draw % 3 == 0 && slot != other) {
            lengths[other] = lengths[slot] ? draw % lengths[slot] : 0;
            sl_kv_pages_share(pages, slot, other, lengths[other]);
            memcpy(expected[other], expected[slot], sizeof expected[slot]);
        } else if (draw % 3 == 1) {
            lengths[slot] = lengths[slot] ? draw % lengths[slot] : 0;
            sl_kv_pages_truncate(pages, slot, lengths[slot]);
        } else {
            const uint32_t end = lengths[slot] + draw % 90 + 1;
            if (end > MOST) continue;
            must(sl_kv_pages_write(pages, slot, lengths[slot], end, &err));
            for (uint32_t i = lengths[slot] / SL_KV_PAGE; i * SL_KV_PAGE < end; i++)
                bytes[sl_kv_pages_of(pages, slot, NULL)[i]] = expected[slot][i] = round;
            lengths[slot] = end;
        }
        for (uint32_t s = 0; s < SLOTS; s++)
            for (uint32_t i = 0; i * SL_KV_PAGE < lengths[s]; i++)
                assert_int_equal(bytes[sl_kv_pages_of(pages, s, NULL)[i]], expected[s][i]);
    }
    assert_true(sl_kv_pages_describe(pages).copies > 100);
    for (uint32_t slot = 0; slot < SLOTS; slot++) sl_kv_pages_truncate(pages, slot, 0);
    assert_int_equal(free_pages(pages), COUNT);
    sl_kv_pages_destroy(pages);
}

/* ---- sessions ---- */

enum { CONTEXT = 512, LONG = 400 };
static sl_token prompt[CONTEXT];

static sl_model *open_model(sl_model_options options) {
    sl_model *model = NULL;
    options.struct_size = sizeof options;
    options.context_tokens = CONTEXT;
    options.threads = 2;
    if (!options.max_sessions) options.max_sessions = 4;
    must(sl_model_open("models/fable", &options, &model, &err));
    for (size_t i = 0; i < CONTEXT; i++) prompt[i] = (sl_token)((i * 7919 + i * i * 31) % 1200);
    return model;
}

static sl_session *open_session(sl_model *model) {
    sl_session *session = NULL;
    must(sl_session_create(model, NULL, &session, &err));
    return session;
}

static void has_same_logits(const sl_session *a, const sl_session *b) {
    size_t count = 0;
    const float *x = sl_session_logits(a, &count), *y = sl_session_logits(b, NULL);
    assert_true(x && y);
    assert_memory_equal(x, y, count * sizeof *x);
}

static void a_fork_shares_pages(void **state) {
    (void)state;
    sl_model *model = open_model((sl_model_options){0});
    sl_kv_pages *pages = sl_forward_kv_pages(model->forward);
    sl_session *a = open_session(model), *alone = open_session(model), *b, *c;
    must(sl_session_extend(alone, prompt, LONG, &err));
    must(sl_session_extend(a, prompt, LONG, &err));
    const uint32_t before = free_pages(pages);
    must(sl_session_fork(a, &b, &err));
    must(sl_session_fork(b, &c, &err));
    assert_int_equal(free_pages(pages), before);
    assert_int_equal(sl_kv_pages_describe(pages).copies, 0);
    /* Each goes its own way; of 7 pages only the last one is copied, for two of three. */
    must(sl_session_extend(b, prompt + 7, 3, &err));
    must(sl_session_extend(c, prompt + 9, 3, &err));
    must(sl_session_extend(a, prompt + LONG, 3, &err));
    must(sl_session_extend(alone, prompt + LONG, 3, &err));
    assert_int_equal(sl_kv_pages_describe(pages).copies, 2);
    assert_int_equal(free_pages(pages), before - 2);
    has_same_logits(a, alone);
    must(sl_session_rewind(b, LONG, &err));
    must(sl_session_extend(b, prompt + LONG, 3, &err));
    has_same_logits(b, alone);
    sl_session_destroy(a);
    must(sl_session_extend(c, prompt, 1, &err));
    for (int i = 0; i < 3; i++) sl_session_destroy(i == 0 ? alone : i == 1 ? b : c);
    assert_int_equal(free_pages(pages), sl_kv_pages_describe(pages).count);
    sl_model_close(model);
}

static uint64_t page_bytes_of_model(void) {
    sl_model *model = open_model((sl_model_options){0});
    const uint64_t page = sl_forward_page_bytes(model->forward);
    sl_model_close(model);
    return page;
}

/* Two sessions, and pages for one context and a little more. */
static void only_the_session_without_pages_fails(void **state) {
    (void)state;
    sl_model *model = open_model(
        (sl_model_options){.kv_bytes = (CONTEXT / SL_KV_PAGE + 2) * page_bytes_of_model()});
    sl_kv_pages *pages = sl_forward_kv_pages(model->forward);
    assert_int_equal(sl_kv_pages_describe(pages).count, CONTEXT / SL_KV_PAGE + 2);
    sl_session *a = open_session(model), *b = open_session(model), *alone;
    sl_batch *batch = NULL;
    must(sl_batch_create(model, NULL, &batch, &err));
    must(sl_session_extend(a, prompt, 9 * SL_KV_PAGE - 65, &err)); /* 8 pages */
    must(sl_session_extend(b, prompt, 2 * SL_KV_PAGE, &err));
    must(sl_batch_add(batch, b, prompt, 4, 0, NULL, &err));
    must(sl_batch_add(batch, a, prompt + 1, 1, 0, NULL, &err));
    must(sl_batch_run(batch, &err));
    assert_int_equal(sl_batch_session_status(batch, a, &err), SL_OK);
    assert_int_equal(sl_batch_session_status(batch, b, &err), SL_NO_MEMORY);
    expect_message("the KV cache is full: all 10 pages");
    assert_int_equal(sl_session_length(b), 2 * SL_KV_PAGE);
    assert_non_null(sl_session_logits(a, NULL));
    /* By itself it fails too, and goes on when the other one has given pages back. */
    assert_int_equal(sl_session_extend(b, prompt, 4, &err), SL_NO_MEMORY);
    must(sl_session_rewind(a, SL_KV_PAGE, &err));
    must(sl_session_extend(b, prompt, 4, &err));
    sl_session_destroy(a);
    alone = open_session(model);
    must(sl_session_extend(alone, prompt, 2 * SL_KV_PAGE, &err));
    must(sl_session_extend(alone, prompt, 4, &err));
    has_same_logits(alone, b);
    sl_batch_destroy(batch);
    sl_session_destroy(b);
    sl_session_destroy(alone);
    assert_int_equal(free_pages(pages), sl_kv_pages_describe(pages).count);
    sl_model_close(model);
}

/* Prefixes take the pages that sessions leave, and give them up when these need them. */
static void prefixes_give_way(void **state) {
    (void)state;
    const uint64_t page = page_bytes_of_model();
    sl_model *model = open_model((sl_model_options){.kv_bytes = CONTEXT / SL_KV_PAGE * page,
                                                    .prefix_cache_bytes = 24 * page});
    sl_kv_pages *pages = sl_forward_kv_pages(model->forward);
    sl_session *a = open_session(model), *b = open_session(model);
    sl_sync_report report = {.struct_size = sizeof report};
    must(sl_session_sync(a, prompt, LONG, NULL, &report, &err));
    must(sl_session_end_turn(a, &err));
    const uint64_t copies = sl_kv_pages_describe(pages).copies;
    const uint32_t before = free_pages(pages);
    must(sl_session_sync(b, prompt, LONG, NULL, &report, &err));
    assert_true(report.reused > LONG / 2);
    assert_true(before - free_pages(pages) <= 2 &&
                sl_kv_pages_describe(pages).copies <= copies + 1);
    has_same_logits(a, b);
    sl_session_destroy(a);
    sl_session_destroy(b);
    const sl_prefix_tree_use kept = sl_prefix_tree_describe(model->prefixes);
    assert_true(kept.pages > 0);
    assert_int_equal(free_pages(pages) + kept.pages, sl_kv_pages_describe(pages).count);
    sl_session *all[4];
    for (int i = 0; i < 4; i++) all[i] = open_session(model);
    err.message[0] = 0;
    for (int i = 0; i < 4; i++)
        if (sl_session_extend(all[i], prompt + 1, LONG, &err) != SL_OK) break;
    assert_int_equal(sl_prefix_tree_describe(model->prefixes).pages, 0);
    expect_message("the KV cache is full");
    assert_true(sl_prefix_tree_verify(model->prefixes));
    for (int i = 0; i < 4; i++) sl_session_destroy(all[i]);
    assert_int_equal(free_pages(pages), sl_kv_pages_describe(pages).count);
    sl_model_close(model);
}

static void limits_are_checked(void **state) {
    (void)state;
    const sl_model_options little = {
        .struct_size = sizeof little, .context_tokens = CONTEXT, .kv_bytes = 1000};
    sl_model *model = NULL;
    assert_int_equal(sl_model_open("models/fable", &little, &model, &err), SL_INVALID);
    expect_message("KV memory hold 0 tokens, wanted at least the context of 512");
    model = open_model((sl_model_options){0});
    sl_session_options options = {.struct_size = sizeof options, .context_tokens = CONTEXT + 1};
    sl_session *session;
    assert_int_equal(sl_session_create(model, &options, &session, &err), SL_INVALID);
    expect_message("a context of 513 tokens, the model was opened with 512");
    options.context_tokens = 100;
    must(sl_session_create(model, &options, &session, &err));
    assert_int_equal(sl_session_extend(session, prompt, 101, &err), SL_INVALID);
    expect_message("101 tokens after 0 do not fit the context of 100; open the session with a");
    must(sl_session_extend(session, prompt, 100, &err));
    const sl_sampling sampling = {.struct_size = sizeof sampling};
    sl_token token;
    assert_int_equal(sl_session_next(session, &sampling, &token, &err), SL_INVALID);
    expect_message("the context of 100 tokens is full; open the session with a larger one");
    sl_session_destroy(session);
    sl_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_taken_and_given_back),
        cmocka_unit_test(shared_pages_are_copied_when_they_are_written),
        cmocka_unit_test(what_others_hold_is_reclaimed),
        cmocka_unit_test(random_lives),
        cmocka_unit_test(a_fork_shares_pages),
        cmocka_unit_test(only_the_session_without_pages_fails),
        cmocka_unit_test(prefixes_give_way),
        cmocka_unit_test(limits_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
