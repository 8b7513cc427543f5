/* sync_test.c - Bringing sessions to given tokens: what is reused for ten ways in which
 * conversations change, from the session alone, from memory and from disk, and that it computes
 * what a session would that began anew. */
#include "engine/session/prefixes.h"
#include "tests/support/conversation.h"
#include "tests/support/relative_error.h"
#include "tests/support/rounds.h"

enum { CONTEXT = 2048, ROLE = 3 };

static const char attention_only[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1280, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"tie_word_embeddings\": false}";

static const char *const paths[] = {"models/fable", NULL /* is made */};
static const char *path_of(int which) {
    return which == 0 ? paths[0] : test_path("m.sluice");
}

static sl_model *open_with(int which, uint64_t cache, const char *folder, sl_note_fn *note) {
    sl_model *model = open_model(path_of(which), (sl_model_options){.context_tokens = CONTEXT,
                                                                    .max_sessions = 4,
                                                                    .compile = "exact",
                                                                    .prefix_cache_bytes = cache});
    const sl_disk_cache_options disk = {.struct_size = sizeof disk, .folder = folder, .note = note};
    if (folder) must(sl_model_cache_on_disk(model, &disk, &err));
    return model;
}

/* ---- conversations ---- */

typedef struct {
    sl_token tokens[CONTEXT];
    size_t count;
} prompt;

static sl_token end_token;

static void put(prompt *p, uint32_t what, size_t count) {
    assert_true(p->count + count <= CONTEXT);
    draw_tokens(p->tokens + p->count, count, 1000, what);
    for (size_t i = 0; i < count; i++) p->tokens[p->count + i] += 100;
    p->count += count;
}

/* A message as templates write it: a role, a body, the mark of its end, a newline. */
static void say(prompt *p, sl_token role, uint32_t what, size_t count) {
    p->tokens[p->count++] = ROLE;
    p->tokens[p->count++] = role;
    put(p, what, count);
    p->tokens[p->count++] = end_token;
    p->tokens[p->count++] = 5;
}

enum { SYSTEM = 10, USER, ASSISTANT, TOOL };
enum { THOUGHT = 160 };

static void answer(prompt *p, uint32_t what, bool thinks) {
    p->tokens[p->count++] = ROLE;
    p->tokens[p->count++] = ASSISTANT;
    if (thinks) put(p, what + 1000, THOUGHT);
    put(p, what, 90);
    p->tokens[p->count++] = end_token;
    p->tokens[p->count++] = 5;
}
static void ask_answer(prompt *p) {
    p->tokens[p->count++] = ROLE;
    p->tokens[p->count++] = ASSISTANT;
}

/* Two turns; `thinks` says which answers have their thoughts. */
static void two_turns(prompt *p, const bool thinks[2]) {
    p->count = 0;
    say(p, SYSTEM, 1, 300);
    say(p, USER, 2, 70);
    answer(p, 3, thinks[0]);
    say(p, USER, 4, 60);
    answer(p, 5, thinks[1]);
}

static const bool both[] = {true, true}, neither[] = {false, false};

/* ---- the ways in which they change ---- */

static void goes_on(prompt *p) {
    two_turns(p, both);
    say(p, USER, 6, 50);
    ask_answer(p);
}
static void thinking_dropped(prompt *p) {
    two_turns(p, neither);
    say(p, USER, 6, 50);
    ask_answer(p);
}
static void system_changed(prompt *p) {
    goes_on(p);
    p->tokens[4]++;
}
static void end_of_system_changed(prompt *p) {
    goes_on(p);
    p->tokens[295]++;
}
static void answer_regenerated(prompt *p) {
    p->count = 0;
    say(p, SYSTEM, 1, 300);
    say(p, USER, 2, 70);
    answer(p, 3, true);
    say(p, USER, 4, 60);
    ask_answer(p);
}
static void question_edited(prompt *p) {
    answer_regenerated(p);
    p->tokens[p->count - 20]++;
}
static void forked_in_the_middle(prompt *p) {
    p->count = 0;
    say(p, SYSTEM, 1, 300);
    say(p, USER, 2, 70);
    answer(p, 3, true);
    say(p, USER, 40, 80);
    ask_answer(p);
}
static void tool_result_appended(prompt *p) {
    two_turns(p, both);
    say(p, TOOL, 8, 120);
    ask_answer(p);
}
static void new_conversation(prompt *p) {
    p->count = 0;
    say(p, SYSTEM, 1, 300);
    say(p, USER, 50, 60);
    ask_answer(p);
}
static void title_asked(prompt *p) {
    p->count = 0;
    say(p, SYSTEM, 60, 40);
    say(p, USER, 61, 30);
    ask_answer(p);
}

static const struct {
    const char *name;
    void (*prompt)(prompt *p);
    bool detour;              /* something else is asked for before */
    size_t hybrid, attention; /* tokens that are reused at least, with the cache */
} edits[] = {
    {"goes on", goes_on, false, 900, 900},
    {"thinking dropped", thinking_dropped, false, 370, 370},
    {"system message changed", system_changed, false, 0, 0},
    {"end of system changed", end_of_system_changed, false, 0, 290},
    {"last answer regenerated", answer_regenerated, false, 680, 690},
    {"last question edited", question_edited, false, 620, 670},
    {"forked in the middle", forked_in_the_middle, false, 620, 620},
    {"tool result appended", tool_result_appended, false, 900, 900},
    {"back from a side request", goes_on, true, 900, 900},
    {"new conversation, same system", new_conversation, false, 300, 300},
};
enum { EDITS = sizeof edits / sizeof edits[0] };

/* The conversation as it happened: prompts are read, answers are generated one token at a time. */
static void live_through(sl_session *session) {
    prompt whole;
    const sl_sync_options options = {.struct_size = sizeof options};
    two_turns(&whole, both);
    const size_t first = 304 + 74 + 2, second = 304 + 74 + 2 + THOUGHT + 92 + 64 + 2;
    must(sl_session_sync(session, whole.tokens, first, &options, NULL, &err));
    for (size_t i = first; i < first + THOUGHT + 91; i++)
        must(sl_session_extend(session, &whole.tokens[i], 1, &err));
    must(sl_session_end_turn(session, &err));
    must(sl_session_sync(session, whole.tokens, second, &options, NULL, &err));
    for (size_t i = second; i + 1 < whole.count; i++)
        must(sl_session_extend(session, &whole.tokens[i], 1, &err));
    must(sl_session_end_turn(session, &err));
}

/* Within the rounding of another division into forward passes, for which golden_test allows 2e-5; a
 * wrong state is off by a hundred times as much (wrong_states_are_seen). */
static void same_logits(const float *found, const float *wanted, size_t count) {
    const double error = relative_error(found, wanted, count);
    if (!(error <= 2e-5)) fail_msg("relative error %g", error);
}

static void check_against_new(sl_model *model, sl_session *session, const prompt *p) {
    sl_session *fresh = new_session(model, 0, 0);
    const size_t vocab = model->config.vocab;
    must(sl_session_extend(fresh, p->tokens, p->count, &err));
    float *wanted = copy_logits(fresh), *found = copy_logits(session);
    same_logits(found, wanted, vocab);
    free(wanted), free(found);
    sl_session_destroy(fresh);
    const sl_token *tokens;
    assert_int_equal(sl_session_tokens(session, &tokens), p->count);
    assert_memory_equal(tokens, p->tokens, p->count * sizeof *tokens);
}

static sl_sync_report sync_to(sl_session *session, const prompt *p) {
    sl_sync_report report = {.struct_size = sizeof report};
    const sl_stats before = test_session_stats(session);
    must(sl_session_sync(session, p->tokens, p->count, NULL, &report, &err));
    const sl_stats after = test_session_stats(session);
    assert_int_equal(report.tokens, p->count);
    assert_int_equal(after.prefill_tokens + after.decode_tokens - before.prefill_tokens -
                         before.decode_tokens,
                     p->count - report.reused);
    assert_true(report.text[0] && report.reused <= report.same && report.same <= p->count);
    return report;
}

static sl_sync_report try_edit(int which, uint64_t cache, int edit) {
    prompt p;
    sl_model *model = open_with(which, cache, NULL, NULL);
    end_token = which == 0 ? model->text.end_tokens[0] : 7;
    sl_session *session = new_session(model, 0, 0);
    live_through(session);
    if (edits[edit].detour) {
        title_asked(&p);
        (void)sync_to(session, &p);
    }
    edits[edit].prompt(&p);
    const sl_sync_report report = sync_to(session, &p);
    check_against_new(model, session, &p);
    if (model->prefixes) assert_true(sl_prefix_tree_verify(model->prefixes));
    sl_session_destroy(session);
    sl_model_close(model);
    return report;
}

static void ten_edits(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        print_message("  %-32s %7s | %21s | %s\n", which ? "attention only" : "hybrid", "tokens",
                      "reused, session alone", "with 32 MB of cache");
        for (int i = 0; i < EDITS; i += is_slow_run() ? 4 : 1) {
            const sl_sync_report alone = try_edit(which, 0, i);
            const sl_sync_report cached = try_edit(which, 32 << 20, i);
            print_message("  %-32s %7zu | %10zu (%7zu) | %6zu (%7zu) of %-7s %s\n", edits[i].name,
                          cached.tokens, alone.reused, alone.tokens - alone.reused, cached.reused,
                          cached.tokens - cached.reused, cached.source, cached.text);
            assert_true(cached.reused >= alone.reused);
            assert_true(cached.reused >= (which ? edits[i].attention : edits[i].hybrid));
        }
    }
}

/* How far apart logits are after one token of a thousand differs, or one block of the cache does:
 * far beyond what other tests allow.  Another division into passes is within it. */
static void wrong_states_are_seen(void **state) {
    (void)state;
    prompt p;
    for (int which = 0; which < 2; which++) {
        sl_model *model = open_with(which, 0, NULL, NULL);
        end_token = 7;
        goes_on(&p);
        sl_session *right = new_session(model, 0, 0), *other = new_session(model, 1, 0);
        must(sl_session_extend(right, p.tokens, p.count, &err));
        float *wanted = copy_logits(right);
        must(sl_session_extend(other, p.tokens, p.count, &err));
        float *found = copy_logits(other);
        const double divided = relative_error(found, wanted, model->config.vocab);
        p.tokens[p.count - 40]++;
        must(sl_session_rewind(other, 0, &err));
        must(sl_session_extend(other, p.tokens, p.count, &err));
        const double wrong =
            relative_error(sl_session_logits(other, NULL), wanted, model->config.vocab);
        print_message("  single tokens: %.2g, a wrong token: %.2g\n", divided, wrong);
        assert_true(divided <= 2e-5 && wrong >= 1e-3);
        free(wanted), free(found);
        sl_session_destroy(right);
        sl_session_destroy(other);
        sl_model_close(model);
    }
}

/* ---- reports and refusals ---- */

static void reports_say_why(void **state) {
    (void)state;
    prompt p;
    for (int which = 0; which < 2; which++) {
        sl_model *model = open_with(which, 0, NULL, NULL);
        end_token = 7;
        sl_session *session = new_session(model, 0, 1);
        goes_on(&p);
        sl_sync_report report = sync_to(session, &p);
        assert_int_equal(report.reason, SL_REUSE_NOTHING_KEPT);
        assert_string_equal(report.source, "nothing");
        report = sync_to(session, &p);
        assert_int_equal(report.reason, SL_REUSE_ALL);
        assert_int_equal(report.reused, p.count);
        put(&p, 9, 10);
        report = sync_to(session, &p);
        assert_int_equal(report.reason, SL_REUSE_NEW_TOKENS);
        assert_int_equal(report.reused, p.count - 10);
        p.tokens[p.count - 3]++;
        report = sync_to(session, &p);
        assert_int_equal(report.reason, which ? SL_REUSE_OTHER_TOKENS : SL_REUSE_NO_CHECKPOINT);
        p.count -= 20;
        report = sync_to(session, &p);
        assert_int_equal(report.reason, which ? SL_REUSE_LAST_TOKEN : SL_REUSE_NO_CHECKPOINT);
        check_against_new(model, session, &p);
        assert_int_equal(sl_session_sync(session, p.tokens, 0, NULL, NULL, &err), SL_INVALID);
        assert_int_equal(sl_session_sync(session, p.tokens, CONTEXT + 1, NULL, NULL, &err),
                         SL_INVALID);
        p.tokens[3] = -1;
        assert_int_equal(sl_session_sync(session, p.tokens, p.count, NULL, NULL, &err), SL_INVALID);
        assert_int_equal(sl_session_length(session), p.count);
        sl_session_destroy(session);
        sl_model_close(model);
    }
}

static int stop_at_once(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)ctx, (void)what, (void)done, (void)total;
    return 1;
}

static void what_is_cancelled_can_go_on(void **state) {
    (void)state;
    prompt p;
    sl_model *model = open_with(0, 1 << 20, NULL, NULL);
    sl_session *session = new_session(model, 0, 0);
    const sl_sync_options options = {.struct_size = sizeof options, .progress = stop_at_once};
    goes_on(&p);
    assert_int_equal(sl_session_sync(session, p.tokens, p.count, &options, NULL, &err),
                     SL_CANCELLED);
    sl_session_cancel(session);
    assert_int_equal(sl_session_sync(session, p.tokens, p.count, NULL, NULL, &err), SL_CANCELLED);
    (void)sync_to(session, &p);
    check_against_new(model, session, &p);
    sl_session_destroy(session);
    sl_model_close(model);
}

/* ---- forks ---- */

static void forks_go_on_by_themselves(void **state) {
    (void)state;
    prompt p;
    for (int which = 0; which < 2; which++) {
        sl_model *model = open_with(which, 0, NULL, NULL);
        const size_t vocab = model->config.vocab;
        sl_session *session = new_session(model, 64, 6), *fork;
        goes_on(&p);
        must(sl_session_extend(session, p.tokens, 600, &err));
        must(sl_session_fork(session, &fork, &err));
        same_bits("forked", sl_session_logits(fork, NULL), sl_session_logits(session, NULL), vocab);
        float *other = follow(fork, p.tokens + 700, 20); /* does not disturb the first */
        float *wanted = follow(session, p.tokens + 600, 20);
        must(sl_session_rewind(fork, 600, &err));
        float *found = follow(fork, p.tokens + 600, 20);
        same_bits("continued", found, wanted, 20 * vocab);
        sl_session_destroy(session);
        must(sl_session_rewind(fork, 400, &err));
        must(sl_session_extend(fork, p.tokens + 400, 200, &err));
        free(other), free(wanted), free(found);
        sl_session_destroy(fork);
        sl_session *many[4];
        for (int i = 0; i < 4; i++) many[i] = new_session(model, 0, 0);
        assert_int_equal(sl_session_fork(many[0], &fork, &err), SL_INVALID);
        expect_message(&err, "all 4 sessions of this model are in use");
        for (int i = 0; i < 4; i++) sl_session_destroy(many[i]);
        sl_model_close(model);
    }
}

/* ---- disk ---- */

static int noted;
static void on_note(void *ctx, const char *line) {
    (void)ctx;
    noted++;
    print_message("  note: %s\n", line);
}

static void empty_folder(void) {
    char path[600];
    DIR *folder = opendir(test_path("kv"));
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        (void)snprintf(path, sizeof path, "%s/%s", test_path("kv"), e->d_name);
        (void)remove(path);
    }
    if (folder) (void)closedir(folder);
    (void)rmdir(test_path("kv"));
}

/* Restored states have the bits that were computed: the same next logits as without a restart. */
static void conversations_outlive_the_process(void **state) {
    (void)state;
    prompt p;
    for (int which = 0; which < 2; which++) {
        noted = 0;
        sl_model *model = open_with(which, 0, test_path("kv"), on_note);
        end_token = which == 0 ? model->text.end_tokens[0] : 7;
        sl_session *session = new_session(model, 0, 0);
        live_through(session);
        const size_t kept = session->computed;
        goes_on(&p);
        sl_session *fork;
        must(sl_session_fork(session, &fork, &err));
        must(sl_session_extend(fork, p.tokens + kept, p.count - kept, &err));
        float *wanted = copy_logits(fork);
        sl_session_destroy(fork);
        sl_session_destroy(session);
        sl_model_close(model);

        model = open_with(which, 0, test_path("kv"), on_note);
        session = new_session(model, 0, 0);
        sl_session *other = new_session(model, 0, 0); /* takes pages between the calls */
        const sl_kv_pages *pages = sl_forward_kv_pages(model->forward);
        const uint32_t free_before = sl_kv_pages_describe(pages).free;
        sl_reuse reuse;
        sl_reuse_plan given_up = {.most = p.count, .seconds = 1e-9}, plan = given_up;
        must(sl_session_reuse(session, p.tokens, p.count, &given_up, &reuse, &err));
        assert_true(given_up.unfinished && sl_kv_pages_describe(pages).free < free_before);
        sl_session_restore(session, session->computed);
        assert_int_equal(sl_kv_pages_describe(pages).free, free_before);
        uint32_t calls = 0; /* each reads one piece */
        for (plan.unfinished = true; plan.unfinished && calls < 100; calls++) {
            must(sl_session_reuse(session, p.tokens, p.count, &plan, &reuse, &err));
            must(sl_session_extend(other, p.tokens, 70, &err));
        }
        sl_session_destroy(other);
        print_message("  read in %u calls\n", calls);
        assert_true(calls >= 2 && calls < 100);
        assert_string_equal(reuse.source, "disk");
        assert_int_equal(reuse.reused, kept);
        must(sl_session_extend(session, p.tokens + kept, p.count - kept, &err));
        same_bits("after a restart", sl_session_logits(session, NULL), wanted, model->config.vocab);
        free(wanted);
        thinking_dropped(&p);
        sl_session_destroy(session);
        session = new_session(model, 0, 0);
        const sl_sync_report report = sync_to(session, &p);
        assert_string_equal(report.source, "disk");
        assert_true(report.reused >= 300);
        check_against_new(model, session, &p);
        assert_int_equal(noted, 0);
        sl_session_destroy(session);
        sl_model_close(model);
        empty_folder();
    }
}

/* What leaves the memory is found on disk. */
static void what_leaves_memory_goes_to_disk(void **state) {
    (void)state;
    prompt p, q;
    sl_model *model = open_with(1, 300000, test_path("kv"), on_note);
    sl_session *session = new_session(model, 0, 0);
    end_token = 7;
    noted = 0;
    goes_on(&p);
    (void)sync_to(session, &p);
    for (uint32_t i = 0; i < 4; i++) {
        q.count = 0;
        put(&q, 70 + i, 900);
        (void)sync_to(session, &q);
        assert_true(sl_prefix_tree_verify(model->prefixes));
    }
    const sl_sync_report report = sync_to(session, &p);
    assert_string_equal(report.source, "disk");
    assert_true(report.reused > 500);
    check_against_new(model, session, &p);
    assert_int_equal(noted, 0);
    sl_session_destroy(session);
    sl_model_close(model);
    empty_folder();
}

static uint64_t page_bytes_of(int which) {
    sl_model *model = open_with(which, 0, NULL, NULL);
    const uint64_t bytes = sl_forward_page_bytes(model->forward);
    sl_model_close(model);
    return bytes;
}

/* Pages for what is read from disk come from the cache in memory, which writes what it drops to the
 * same folder. */
static void what_is_read_from_disk_takes_the_place_of_others(void **state) {
    (void)state;
    prompt p, q;
    for (int which = 0; which < 2; which++) {
        const uint64_t page = page_bytes_of(which);
        sl_model_options options = {.context_tokens = CONTEXT,
                                    .max_sessions = 4,
                                    .compile = "exact",
                                    .kv_bytes = CONTEXT / SL_KV_PAGE * page};
        const sl_disk_cache_options disk = {
            .struct_size = sizeof disk, .folder = test_path("kv"), .note = on_note};
        sl_model *model = open_with(which, 0, test_path("kv"), on_note);
        sl_session *session = new_session(model, 0, 0), *other;
        end_token = which == 0 ? model->text.end_tokens[0] : 7;
        noted = 0;
        live_through(session);
        sl_session_destroy(session);
        sl_model_close(model);

        options.prefix_cache_bytes = which == 0 ? 6 << 20 : 40 * page;
        model = open_model(path_of(which), options);
        must(sl_model_cache_on_disk(model, &disk, &err));
        const sl_kv_pages *pages = sl_forward_kv_pages(model->forward);
        other = new_session(model, 0, 0);
        q.count = 0;
        put(&q, 60, CONTEXT);
        must(sl_session_extend(other, q.tokens, CONTEXT, &err));
        session = new_session(model, 0, 0);
        for (uint32_t i = 0; sl_kv_pages_describe(pages).free > 4; i++) {
            assert_true(i < 40);
            q.count = 0;
            put(&q, 70 + i, 300);
            (void)sync_to(session, &q);
        }
        goes_on(&p);
        const sl_sync_report report = sync_to(session, &p);
        assert_string_equal(report.source, "disk");
        assert_true(report.reused > 500);
        assert_true(sl_prefix_tree_verify(model->prefixes));
        sl_session_destroy(other);
        check_against_new(model, session, &p);
        assert_int_equal(noted, 0);
        sl_session_destroy(session);
        sl_model_close(model);
        empty_folder();
    }
}

/* A prefix whose pages a session has too is not dropped before one whose loss gives pages back. */
static void what_sessions_use_is_given_up_last(void **state) {
    (void)state;
    prompt shared = {.count = 0}, alone = {.count = 0}, other = {.count = 0};
    const uint64_t page = page_bytes_of(1);
    sl_model *model =
        open_model(path_of(1), (sl_model_options){.context_tokens = CONTEXT,
                                                  .max_sessions = 4,
                                                  .compile = "exact",
                                                  .kv_bytes = CONTEXT / SL_KV_PAGE * page,
                                                  .prefix_cache_bytes = 20 * page});
    const sl_kv_pages *pages = sl_forward_kv_pages(model->forward);
    sl_session *a = new_session(model, 0, 0), *b = new_session(model, 0, 0);
    put(&shared, 1, 600);
    put(&alone, 2, 300);
    put(&other, 3, CONTEXT);
    (void)sync_to(a, &shared);
    (void)sync_to(b, &alone);
    must(sl_session_rewind(b, 0, &err));
    must(sl_session_extend(b, other.tokens, CONTEXT, &err));
    sl_session *c = new_session(model, 0, 0);
    const size_t needed = ((size_t)sl_kv_pages_describe(pages).free + 1) * SL_KV_PAGE;
    assert_int_equal(sl_prefix_tree_find(model->prefixes, alone.tokens, 300, 300).same, 300);
    must(sl_session_extend(c, other.tokens + 5, needed, &err));
    assert_int_equal(sl_prefix_tree_find(model->prefixes, shared.tokens, 600, 600).same, 600);
    assert_int_equal(sl_prefix_tree_find(model->prefixes, alone.tokens, 300, 300).same, 0);
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_session_destroy(c);
    sl_model_close(model);
}

/* Random conversations in several sessions: always the logits of a session that begins anew. */
static void random_conversations(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        sl_model *model = open_with(which, 3 << 20, test_path("kv"), on_note);
        sl_session *sessions[3];
        uint32_t seed = 5;
        for (int i = 0; i < 3; i++) sessions[i] = new_session(model, 0, 0);
        size_t reused = 0, tokens = 0;
        for (int i = 0; i < (is_long_run() ? 240 : 30); i++) { /* the first ones reuse little */
            prompt p = {.count = 0};
            for (int m = 0; m < 5; m++) {
                seed = seed * 1664525u + 1013904223u;
                say(&p, (sl_token)(10 + m % 2), (uint32_t)m * 10 + (seed >> 28) % 2,
                    40 + 10 * (size_t)m);
            }
            p.count -= (seed >> 16) % 30;
            sl_session *session = sessions[(seed >> 12) % 3];
            const sl_sync_report report = sync_to(session, &p);
            reused += report.reused;
            tokens += p.count;
            check_against_new(model, session, &p);
            if ((seed >> 20) % 3 == 0) must(sl_session_end_turn(session, &err));
            assert_true(sl_prefix_tree_verify(model->prefixes));
        }
        print_message("  %zu of %zu tokens reused\n", reused, tokens);
        assert_true(reused > tokens / 3);
        for (int i = 0; i < 3; i++) sl_session_destroy(sessions[i]);
        sl_model_close(model);
        empty_folder();
    }
}

/* The promise includes the cache, which stays below its budget. */
static void the_cache_is_part_of_the_promise(void **state) {
    (void)state;
    sl_memory_use with = {.struct_size = sizeof with}, without = {.struct_size = sizeof without};
    sl_model *model = open_with(1, 0, NULL, NULL);
    must(sl_model_memory(model, &without, &err));
    sl_model_close(model);
    model = open_with(1, 64 << 20, NULL, NULL);
    must(sl_model_memory(model, &with, &err));
    sl_model_close(model);
    assert_int_equal(without.prefix_bytes, 0);
    assert_int_equal(with.prefix_bytes, 64 << 20);
    assert_true(with.promised_bytes >= without.promised_bytes + (64 << 20));
}

static int set_up(void **state) {
    if (make_test_folder(state) != 0) return -1;
    const sl_synth_options options = {.struct_size = sizeof options, .force = 1};
    write_test_file("config.json", attention_only, sizeof attention_only - 1);
    must(sl_synth_write(test_path("config.json"), test_path("m.sluice"), &options, &err));
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_edits),
        cmocka_unit_test(wrong_states_are_seen),
        cmocka_unit_test(reports_say_why),
        cmocka_unit_test(what_is_cancelled_can_go_on),
        cmocka_unit_test(forks_go_on_by_themselves),
        cmocka_unit_test(conversations_outlive_the_process),
        cmocka_unit_test(what_leaves_memory_goes_to_disk),
        cmocka_unit_test(what_is_read_from_disk_takes_the_place_of_others),
        cmocka_unit_test(what_sessions_use_is_given_up_last),
        cmocka_unit_test(random_conversations),
        cmocka_unit_test(the_cache_is_part_of_the_promise),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
