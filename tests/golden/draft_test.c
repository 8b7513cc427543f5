/* draft_test.c - Drafts: the logits of their tokens are the same bits as those of one token after
 * the other, and so is what follows after some of them were taken back, without a forward pass that
 * computes anything again. */
#include "sluice/sessions.h"
#include "tests/support/described.h"
#include "tests/support/relative_error.h"
#include "tests/support/rounds.h"
#include "tests/support/shared.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *const families[] = {
    "qwen3_5_moe_a", "qwen3_next", "qwen3_moe",   "qwen3",   "mixtral",
    "olmoe",         "glm4_moe",   "deepseek_v3", "gpt_oss",
};
enum {
    FAMILY_COUNT = sizeof families / sizeof families[0],
    PROMPT = 70,
    DECODED = 60,
    DRAFT = 9 /* tokens, at most */
};

typedef struct {
    sl_model *model;
    sl_session *session;
    sl_error err;
    uint32_t vocab;
    uint64_t random;
    bool evaluates;
    sl_token tokens[PROMPT + DECODED];
    float *logits;  /* [DECODED][vocab]: after each token from the last of the prompt on */
    float *drafted; /* [DRAFT][vocab] */
} fixture;

static void must(fixture *f, sl_status status) {
    if (status != SL_OK) fail_msg("%s", f->err.message);
}

static uint32_t draw(fixture *f, uint32_t below) {
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->random >> 33) % below;
}

static void begin_session(fixture *f) {
    must(f, sl_session_create(f->model, NULL, &f->session, &f->err));
    must(f, sl_session_extend(f->session, f->tokens, PROMPT, &f->err));
}

/* Random tokens, one after the other. */
static void decode_alone(fixture *f) {
    for (size_t i = 0; i < PROMPT + DECODED; i++) f->tokens[i] = (sl_token)draw(f, f->vocab);
    begin_session(f);
    for (size_t i = 0; i < DECODED; i++) {
        memcpy(f->logits + i * f->vocab, sl_session_logits(f->session, NULL),
               f->vocab * sizeof *f->logits);
        must(f, sl_session_extend(f->session, f->tokens + PROMPT + i, 1, &f->err));
    }
    sl_session_destroy(f->session);
}

/* The evaluator keeps rows of a draft as floats, and everything else as doubles. */
static void same_logits(fixture *f, const float *found, size_t step, const char *name) {
    const float *wanted = f->logits + step * f->vocab;
    assert_non_null(found);
    const bool same = f->evaluates ? relative_error(found, wanted, f->vocab) < 1e-6
                                   : memcmp(found, wanted, f->vocab * sizeof *found) == 0;
    if (!same) fail_msg("%s: logits differ after %zu tokens", name, PROMPT + step);
}

/* A draft of some tokens that are right and some that are not, of which those that are right stay,
 * or fewer.  Returns how many. */
static size_t draft(fixture *f, size_t step, const char *name) {
    const size_t left = DECODED - 1 - step, right = 1 + draw(f, DRAFT < left ? DRAFT : left);
    const size_t count = right + draw(f, DRAFT - (uint32_t)right + 1);
    sl_token tokens[DRAFT];
    for (size_t i = 0; i < count; i++)
        tokens[i] = i < right ? f->tokens[PROMPT + step + i] : (sl_token)draw(f, f->vocab);
    must(f, sl_session_draft(f->session, tokens, count, f->drafted, &f->err));
    for (size_t i = 0; i < right; i++)
        same_logits(f, f->drafted + i * f->vocab, step + 1 + i, name);
    assert_memory_equal(sl_session_logits(f->session, NULL), f->drafted + (count - 1) * f->vocab,
                        f->vocab * sizeof *f->drafted);
    must(f, sl_session_rewind(f->session, PROMPT + step + right, &f->err));
    const size_t kept = draw(f, 3) ? right : 1 + draw(f, (uint32_t)right);
    must(f, sl_session_rewind(f->session, PROMPT + step + kept, &f->err));
    return kept;
}

static void decode_with_drafts(fixture *f, const char *name) {
    begin_session(f);
    for (size_t step = 0; step + 1 < DECODED;) {
        if (draw(f, 3)) {
            step += draft(f, step, name);
            continue;
        }
        must(f, sl_session_extend(f->session, f->tokens + PROMPT + step, 1, &f->err));
        same_logits(f, sl_session_logits(f->session, NULL), ++step, name);
    }
    assert_int_equal(test_session_stats(f->session).recomputed_tokens, 0);
    sl_session_destroy(f->session);
}

static fixture *open_model(const char *path, sl_model_options options) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    options.struct_size = sizeof options;
    options.draft_tokens = DRAFT;
    options.context_tokens = PROMPT + DECODED + DRAFT;
    if (!options.device) options.device = "cpu";
    must(f, sl_model_open(path, &options, &f->model, &f->err));
    f->random = 1;
    f->evaluates = strcmp(options.device, "ref") == 0;
    f->vocab = test_model_info(f->model).vocab;
    f->logits = calloc((size_t)DECODED * f->vocab, sizeof *f->logits);
    f->drafted = calloc((size_t)DRAFT * f->vocab, sizeof *f->drafted);
    assert_non_null(f->logits);
    assert_non_null(f->drafted);
    return f;
}

static void close_model(fixture *f) {
    sl_model_close(f->model);
    free(f->logits);
    free(f->drafted);
    free(f);
}

static void check_model(const char *path, const char *name, sl_model_options options) {
    fixture *f = open_model(path, options);
    decode_alone(f);
    for (int round = 0; round < rounds_of_kinds(3, 1); round++) decode_with_drafts(f, name);
    close_model(f);
}

static void fable_with_drafts(void **state) {
    (void)state;
    check_model("models/fable", "fable", (sl_model_options){0});
    check_model("models/fable", "fable, exact", (sl_model_options){.compile = "exact"});
    check_model("models/fable", "fable, several sessions", (sl_model_options){.max_sessions = 3});
    check_model("models/fable", "fable, a tenth of the experts",
                (sl_model_options){.expert_budget_share = 0.1});
}

static void goldens_with_drafts(void **state) {
    (void)state;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        char path[512], name[64];
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i]);
        if (!shared_path(name, path, sizeof path)) skip();
        check_model(path, families[i], (sl_model_options){0});
        check_model(path, families[i], (sl_model_options){.kv = "i16", .threads = 1});
        if (strcmp(families[i], "qwen3_next") == 0)
            check_model(path, "the evaluator", (sl_model_options){.device = "ref"});
    }
}

/* Where the rows of a draft are kept no more, going back computes tokens again. */
static void another_draft_takes_its_place(void **state) {
    (void)state;
    fixture *f = open_model("models/fable", (sl_model_options){.max_sessions = 2});
    decode_alone(f);
    begin_session(f);
    sl_session *first = f->session;
    must(f, sl_session_draft(first, f->tokens + PROMPT, 6, f->drafted, &f->err));
    begin_session(f);
    must(f, sl_session_draft(f->session, f->tokens + PROMPT, 3, f->drafted, &f->err));
    must(f, sl_session_rewind(first, PROMPT + 4, &f->err));
    must(f, sl_session_extend(first, f->tokens + PROMPT + 4, 1, &f->err));
    assert_int_equal(test_session_stats(first).recomputed_tokens, 4);
    must(f, sl_session_rewind(f->session, PROMPT + 2, &f->err));
    must(f, sl_session_extend(f->session, f->tokens + PROMPT + 2, 1, &f->err));
    same_logits(f, sl_session_logits(f->session, NULL), 3, "the other session");
    assert_int_equal(test_session_stats(f->session).recomputed_tokens, 0);
    sl_session_destroy(first);
    sl_session_destroy(f->session);
    close_model(f);
}

/* Tokens that replace those of a draft are not taken for them. */
static void replaced_tokens_leave_the_draft(void **state) {
    (void)state;
    fixture *f = open_model("models/fable", (sl_model_options){0});
    decode_alone(f);
    begin_session(f);
    sl_token wrong[6];
    for (size_t i = 0; i < 6; i++) wrong[i] = (f->tokens[PROMPT + i] + 1) % (sl_token)f->vocab;
    must(f, sl_session_draft(f->session, wrong, 6, f->drafted, &f->err));
    must(f, sl_session_rewind(f->session, PROMPT, &f->err));
    for (size_t i = 0; i < 5; i++)
        must(f, sl_session_extend(f->session, f->tokens + PROMPT + i, 1, &f->err));
    must(f, sl_session_rewind(f->session, PROMPT + 4, &f->err));
    must(f, sl_session_extend(f->session, f->tokens + PROMPT + 4, 1, &f->err));
    assert_int_equal(test_session_stats(f->session).recomputed_tokens, 4);
    sl_session_destroy(f->session);
    close_model(f);
}

static void drafts_are_refused(void **state) {
    (void)state;
    fixture *f = open_model("models/fable", (sl_model_options){0});
    begin_session(f);
    sl_token tokens[DRAFT + 1] = {0};
    assert_int_equal(sl_session_draft(f->session, tokens, DRAFT + 1, f->drafted, &f->err),
                     SL_INVALID);
    assert_string_equal(f->err.message, "a draft of 10 tokens, the model was opened for at most 9");
    tokens[1] = -1;
    assert_int_equal(sl_session_draft(f->session, tokens, 2, f->drafted, &f->err), SL_INVALID);
    assert_int_equal(sl_session_length(f->session), PROMPT);
    assert_int_equal(sl_session_draft(f->session, tokens, 0, f->drafted, &f->err), SL_INVALID);
    sl_session_destroy(f->session);
    close_model(f);
    sl_model *model = NULL;
    sl_error err;
    const sl_model_options options = {.struct_size = sizeof options, .draft_tokens = 65};
    assert_int_equal(sl_model_open("models/fable", &options, &model, &err), SL_INVALID);
    assert_string_equal(err.message, "drafts of 65 tokens, wanted at most 64");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fable_with_drafts),
        cmocka_unit_test(goldens_with_drafts),
        cmocka_unit_test(another_draft_takes_its_place),
        cmocka_unit_test(replaced_tokens_leave_the_draft),
        cmocka_unit_test(drafts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
