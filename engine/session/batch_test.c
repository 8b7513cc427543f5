/* batch_test.c - Batches on the bundled demo model: what concerns one session does not concern the
 * others, and failures leave a state that goes on with the same bits. */
#include "base/memory.h"
#include "engine/session/rounding.h"
#include "sluice/batch.h"
#include "tests/support/described.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MODEL "models/fable/fable.sluice"
enum { PROMPT = 100, CONTEXT = 192 };
static sl_error err;
static sl_token prompt[CONTEXT];

static void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static sl_model *open_model(const char *path, sl_model_options options) {
    sl_model *model = NULL;
    options.struct_size = sizeof options;
    options.max_sessions = 4;
    options.context_tokens = CONTEXT;
    must(sl_model_open(path, &options, &model, &err));
    for (size_t i = 0; i < CONTEXT; i++) prompt[i] = (sl_token)((i * 7919 + i * i * 31) % 1200);
    return model;
}

static sl_session *open_session(sl_model *model) {
    sl_session *session = NULL;
    must(sl_session_create(model, NULL, &session, &err));
    return session;
}

static sl_batch *open_batch(sl_model *model, uint32_t most_rows) {
    const sl_batch_options options = {.struct_size = sizeof options, .most_rows = most_rows};
    sl_batch *batch = NULL;
    must(sl_batch_create(model, &options, &batch, &err));
    return batch;
}

static uint32_t add(sl_batch *batch, sl_session *session, const sl_token *tokens, size_t count) {
    uint32_t rows = 0;
    must(sl_batch_add(batch, session, tokens, count, 0, &rows, &err));
    return rows;
}

static void refuses(sl_batch *batch, sl_session *session, const sl_token *tokens, size_t count,
                    const char *why) {
    const size_t length = sl_session_length(session);
    assert_int_equal(sl_batch_add(batch, session, tokens, count, 0, NULL, &err), SL_INVALID);
    if (!strstr(err.message, why)) fail_msg("'%s', wanted '%s'", err.message, why);
    assert_int_equal(sl_session_length(session), length);
}

static void has_same_logits(const sl_session *a, const sl_session *b) {
    size_t count = 0;
    const float *x = sl_session_logits(a, &count), *y = sl_session_logits(b, NULL);
    assert_non_null(x);
    assert_non_null(y);
    assert_memory_equal(x, y, count * sizeof *x);
}

static void errors_concern_one_session(void **state) {
    (void)state;
    sl_model *model = open_model(MODEL, (sl_model_options){.threads = 2}), *other;
    sl_session *a = open_session(model), *b = open_session(model), *alone = open_session(model);
    sl_batch *batch = open_batch(model, 0);
    refuses(batch, a, &(sl_token){-1}, 1, "token 0 is -1, the vocabulary has");
    refuses(batch, a, prompt, 0, "a session without tokens to compute");
    assert_int_equal(sl_batch_run(batch, &err), SL_INVALID);
    must(sl_session_extend(a, prompt, CONTEXT, &err));
    refuses(batch, a, prompt, 1, "1 tokens after 192 do not fit the context of 192");
    assert_int_equal(add(batch, b, prompt, PROMPT), PROMPT);
    refuses(batch, b, prompt, 1, "the session is in a batch that has not run yet");
    other = open_model(MODEL, (sl_model_options){.threads = 1});
    sl_session *stranger = open_session(other);
    refuses(batch, stranger, prompt, 1, "the session is of another model than the batch");
    must(sl_batch_run(batch, &err));
    must(sl_session_extend(alone, prompt, PROMPT, &err));
    has_same_logits(b, alone);
    assert_int_equal(sl_batch_session_status(batch, a, &err), SL_INVALID);
    assert_int_equal(sl_batch_run(batch, &err), SL_INVALID);
    sl_session_destroy(stranger);
    sl_model_close(other);
    sl_batch_destroy(batch);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(alone);
    sl_model_close(model);
}

static void rooms_are_divided(void **state) {
    (void)state;
    sl_model *model = open_model(MODEL, (sl_model_options){.threads = 2});
    sl_session *a = open_session(model), *b = open_session(model), *alone = open_session(model);
    sl_batch *batch = open_batch(model, 70);
    assert_int_equal(add(batch, a, prompt, PROMPT), 64); /* recurrent layers: whole chunks */
    refuses(batch, b, prompt, 10, "no room for 10 tokens: 64 of 70 rows are taken, by 1 sessions");
    assert_int_equal(add(batch, b, prompt, 6), 6);
    must(sl_batch_run(batch, &err));
    assert_null(sl_session_logits(a, NULL));
    assert_non_null(sl_session_logits(b, NULL));
    assert_int_equal(sl_session_length(a), PROMPT);
    assert_int_equal(add(batch, a, NULL, 0), PROMPT - 64);
    must(sl_batch_run(batch, &err));
    must(sl_session_extend(alone, prompt, PROMPT, &err));
    has_same_logits(a, alone);
    sl_batch_stats stats = {.struct_size = sizeof stats};
    must(sl_batch_describe(batch, &stats, &err));
    assert_int_equal(stats.passes, 2);
    assert_int_equal(stats.rows, PROMPT + 6);
    assert_int_equal(stats.logits, 2);
    const sl_stats of_a = test_session_stats(a);
    assert_int_equal(of_a.prefill_tokens, PROMPT);
    /* What is left of the tokens may be computed by the session's own calls. */
    must(sl_session_rewind(a, 0, &err));
    assert_int_equal(add(batch, a, prompt, PROMPT), 64);
    must(sl_batch_run(batch, &err));
    must(sl_session_extend(a, prompt + PROMPT, 1, &err));
    assert_int_equal(sl_session_length(a), PROMPT + 1);
    sl_batch_destroy(batch);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(alone);
    sl_model_close(model);
}

static void sessions_leave(void **state) {
    (void)state;
    sl_model *model = open_model(MODEL, (sl_model_options){.threads = 2});
    sl_session *a = open_session(model), *b = open_session(model), *c = open_session(model);
    sl_batch *batch = open_batch(model, 0);
    must(sl_session_extend(c, prompt, PROMPT, &err));
    (void)add(batch, a, prompt, PROMPT);
    (void)add(batch, b, prompt, PROMPT);
    sl_session_destroy(a);
    a = open_session(model);
    (void)add(batch, a, prompt, 20);
    sl_session_cancel(a);
    must(sl_batch_run(batch, &err));
    assert_int_equal(sl_batch_session_status(batch, a, &err), SL_CANCELLED);
    assert_string_equal(err.message, "stopped after 0 tokens");
    assert_int_equal(sl_session_length(a), 0);
    must(sl_batch_session_status(batch, b, &err));
    has_same_logits(b, c);
    /* All at once. */
    (void)add(batch, a, prompt, 1);
    (void)add(batch, b, prompt, 1);
    sl_session_cancel(a);
    sl_session_cancel(b);
    must(sl_batch_run(batch, &err));
    assert_int_equal(sl_session_length(b), PROMPT);
    (void)add(batch, a, prompt, PROMPT);
    sl_batch_destroy(batch); /* before it ran: the tokens wait */
    must(sl_session_extend(a, prompt + PROMPT, 1, &err));
    must(sl_session_extend(c, prompt + PROMPT, 1, &err));
    assert_int_equal(sl_session_length(a), sl_session_length(c));
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(c);
    sl_model_close(model);
}

/* A session that is rewound, alone and beside another, computes the same. */
static void rewound_sessions_are_the_same(void **state) {
    (void)state;
    sl_model *model = open_model(MODEL, (sl_model_options){.threads = 2});
    sl_session *a = open_session(model), *b = open_session(model), *alone = open_session(model);
    sl_batch *batch = open_batch(model, 0);
    for (int round = 0; round < 3; round++) {
        const size_t to = round == 0 ? 0 : 30 * (size_t)round;
        must(sl_session_rewind(alone, to, &err));
        must(sl_session_extend(alone, prompt + to, PROMPT - to, &err));
        must(sl_session_rewind(a, to, &err));
        (void)add(batch, a, prompt + to, PROMPT - to);
        (void)add(batch, b, prompt + 7 * round, 5);
        must(sl_batch_run(batch, &err));
        has_same_logits(a, alone);
        /* Rewound while it is in the batch: what it was added with is gone. */
        (void)add(batch, a, prompt + PROMPT, 10);
        (void)add(batch, b, prompt, 1);
        must(sl_session_rewind(a, PROMPT, &err));
        must(sl_batch_run(batch, &err));
        must(sl_batch_session_status(batch, a, &err));
        assert_int_equal(sl_session_length(a), PROMPT);
    }
    sl_batch_destroy(batch);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(alone);
    sl_model_close(model);
}

/* ---- a pass that fails ---- */

static void copy_model(const char *path) {
    FILE *from = fopen(MODEL, "rb"), *to = fopen(path, "wb");
    static char bytes[1 << 16];
    assert_true(from && to);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, from)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, to), n);
    (void)fclose(from);
    assert_int_equal(fclose(to), 0);
}

/* The file loses its end, where experts are, and gets it back. */
static void failed_passes_are_undone(void **state) {
    (void)state;
    char path[] = "/tmp/sluice-batch-XXXXXX";
    struct stat whole;
    assert_int_equal(close(mkstemp(path)), 0);
    copy_model(path);
    assert_int_equal(stat(path, &whole), 0);
    sl_model *model =
        open_model(path, (sl_model_options){.threads = 2, .expert_budget_share = 0.05});
    sl_session *a = open_session(model), *b = open_session(model), *alone = open_session(model);
    sl_batch *batch = open_batch(model, 0);
    (void)add(batch, a, prompt, PROMPT);
    (void)add(batch, b, prompt, 10);
    must(sl_batch_run(batch, &err));
    assert_int_equal(truncate(path, whole.st_size / 8), 0);
    (void)add(batch, a, prompt + PROMPT, 40);
    (void)add(batch, b, prompt + 10, 1);
    assert_int_not_equal(sl_batch_run(batch, &err), SL_OK);
    print_message("  %s\n", err.message);
    assert_int_not_equal(sl_batch_session_status(batch, a, &err), SL_OK);
    assert_int_not_equal(sl_batch_session_status(batch, b, &err), SL_OK);
    assert_int_equal(sl_session_length(a), PROMPT);
    assert_int_equal(sl_session_length(b), 10);
    assert_null(sl_session_logits(a, NULL));
    copy_model(path);
    (void)add(batch, a, prompt + PROMPT, 40);
    (void)add(batch, b, prompt + 10, 1);
    must(sl_batch_run(batch, &err));
    must(sl_session_extend(alone, prompt, PROMPT, &err));
    must(sl_session_extend(alone, prompt + PROMPT, 40, &err));
    has_same_logits(a, alone);
    must(sl_session_rewind(alone, 0, &err));
    must(sl_session_extend(alone, prompt, 10, &err));
    must(sl_session_extend(alone, prompt + 10, 1, &err));
    has_same_logits(b, alone);
    sl_batch_destroy(batch);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(alone);
    sl_model_close(model);
    assert_int_equal(unlink(path), 0);
}

/* Experts that several sessions chose are read once. */
static void experts_are_read_once(void **state) {
    (void)state;
    sl_model *model = open_model(MODEL, (sl_model_options){.threads = 2});
    sl_session *sessions[4];
    sl_batch *batch = open_batch(model, 0);
    for (int round = 0; round < 2; round++) {
        sl_batch_stats before = {.struct_size = sizeof before}, after = before;
        must(sl_batch_describe(batch, &before, &err));
        for (int i = 0; i <= 3 * round; i++) {
            sessions[i] = open_session(model);
            (void)add(batch, sessions[i], prompt, 1);
        }
        must(sl_batch_run(batch, &err));
        must(sl_batch_describe(batch, &after, &err));
        const sl_model_info info = test_model_info(model);
        assert_int_equal(after.expert_hits + after.expert_misses - before.expert_hits -
                             before.expert_misses,
                         (uint64_t)info.layers * info.experts_used);
        for (int i = 0; i <= 3 * round; i++) sl_session_destroy(sessions[i]);
    }
    sl_batch_destroy(batch);
    sl_model_close(model);
}

static void reference_runs_batches_too(void **state) {
    (void)state;
    sl_model *model = open_model(MODEL, (sl_model_options){.device = "ref"});
    sl_session *a = open_session(model), *b = open_session(model), *alone = open_session(model);
    sl_batch *batch = open_batch(model, 0);
    must(sl_session_extend(alone, prompt, 3, &err));
    (void)add(batch, a, prompt, 3);
    (void)add(batch, b, prompt, 1);
    must(sl_batch_run(batch, &err));
    has_same_logits(a, alone);
    sl_batch_destroy(batch);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(alone);
    sl_model_close(model);
}

/* Sizes of programs where each has one: never less, ascending, few, and less than a quarter more.
 */
static void rounded_sizes_are_few(void **state) {
    (void)state;
    uint32_t sizes = 0;
    for (uint32_t rows = 1; rows <= SL_MAX_FORWARD_ROWS; rows++) {
        const uint32_t rounded = sl_rounding_size(rows);
        assert_true(rounded >= rows && rounded <= SL_MAX_FORWARD_ROWS);
        assert_true(4 * (rounded - rows) < rows);
        assert_int_equal(sl_rounding_size(rounded), rounded);
        if (rows > 1) assert_true(rounded >= sl_rounding_size(rows - 1));
        sizes += rounded == rows;
    }
    assert_int_equal(sl_rounding_size(9), 10);
    assert_int_equal(sl_rounding_size(517), 576);
    assert_in_range(sizes, 60, 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_sizes_are_few),
        cmocka_unit_test(errors_concern_one_session),
        cmocka_unit_test(rooms_are_divided),
        cmocka_unit_test(sessions_leave),
        cmocka_unit_test(rewound_sessions_are_the_same),
        cmocka_unit_test(failed_passes_are_undone),
        cmocka_unit_test(experts_are_read_once),
        cmocka_unit_test(reference_runs_batches_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
