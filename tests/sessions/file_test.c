/* file_test.c - Sessions in files: restored ones compute the same bits, and whatever a file is that
 * is not whole and of this model, it is refused by name. */
#include "engine/session/state_file.h"
#include "tests/support/conversation.h"

enum { BEFORE = 45, SINGLE = 5, AFTER = 8, TOKENS = BEFORE + SINGLE + AFTER };

static const char *const families[] = {
    "qwen3_5_moe_a", "qwen3_next", "qwen3_moe",   "qwen3",   "mixtral",
    "olmoe",         "glm4_moe",   "deepseek_v3", "gpt_oss",
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static sl_token tokens[TOKENS];

/* Saves in the middle of a conversation, closes the model, and continues in another one. */
static void check_restored(const char *path, sl_model_options options, uint32_t other_context) {
    sl_model *model = open_model(path, options);
    const uint32_t vocab = model->config.vocab;
    draw_tokens(tokens, TOKENS, vocab, 1);
    sl_session *session = new_session(model, 16, 0);
    must(sl_session_extend(session, tokens, BEFORE, &err));
    free(follow(session, tokens + BEFORE, SINGLE));
    must(sl_session_save(session, test_path("s.kv"), "a note", 6, &err));
    float *logits = copy_logits(session);
    float *wanted = follow(session, tokens + BEFORE + SINGLE, AFTER);
    must(sl_session_rewind(session, BEFORE + 1, &err));
    float *rewound = follow(session, tokens + BEFORE + 1, SINGLE);
    sl_session_destroy(session);
    sl_model_close(model);

    options.context_tokens = other_context;
    model = open_model(path, options);
    session = new_session(model, 7, 0);
    must(sl_session_extend(session, tokens + 3, 20, &err)); /* is replaced */
    char *note = NULL;
    size_t bytes = 0;
    must(sl_session_load(session, test_path("s.kv"), &note, &bytes, &err));
    assert_int_equal(bytes, 6);
    assert_string_equal(note, "a note");
    sl_free(note);
    const sl_token *found;
    assert_int_equal(sl_session_tokens(session, &found), BEFORE + SINGLE);
    assert_memory_equal(found, tokens, (BEFORE + SINGLE) * sizeof *found);
    same_bits("restored", sl_session_logits(session, NULL), logits, vocab);
    float *again = follow(session, tokens + BEFORE + SINGLE, AFTER);
    same_bits("continued", again, wanted, (size_t)AFTER * vocab);
    must(sl_session_rewind(session, BEFORE + 1, &err));
    float *back = follow(session, tokens + BEFORE + 1, SINGLE);
    same_bits("rewound", back, rewound, (size_t)SINGLE * vocab);
    sl_session_destroy(session);
    sl_model_close(model);
    free(logits), free(wanted), free(rewound), free(again), free(back);
}

static void every_architecture_continues_with_the_same_bits(void **state) {
    (void)state;
    static const char *const kinds[] = {"f32", "f16", "i16"};
    for (size_t i = 0; i < FAMILIES; i++) {
        char name[64], path[512];
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i]);
        if (!shared_path(name, path, sizeof path)) skip();
        for (size_t k = 0; k < 3; k++) {
            print_message("  %s, %s\n", families[i], kinds[k]);
            check_restored(path, (sl_model_options){.kv = kinds[k], .context_tokens = 80}, 96);
        }
    }
}

static void so_does_the_reference_evaluator(void **state) {
    (void)state;
    char path[512];
    if (!shared_path("models/golden/qwen3_next", path, sizeof path)) skip();
    check_restored(path, (sl_model_options){.device = "ref", .context_tokens = 64}, 64);
}

static void so_do_quantised_weights(void **state) {
    (void)state;
    check_restored("models/fable", (sl_model_options){.context_tokens = 200}, 0);
}

/* What is not computed yet, or has no logits, is not there after restoring either. */
static void pending_tokens_stay_pending(void **state) {
    (void)state;
    sl_model *model = open_model("models/fable", (sl_model_options){.max_sessions = 2});
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    sl_session *a = new_session(model, 0, 0), *b = new_session(model, 0, 0);
    sl_token first, second;
    must(sl_session_save(a, test_path("none.kv"), NULL, 0, &err));
    must(sl_session_extend(a, tokens, 20, &err));
    for (int i = 0; i < 4; i++) must(sl_session_next(a, &greedy, &first, &err));
    must(sl_session_save(a, test_path("s.kv"), NULL, 0, &err));
    must(sl_session_load(b, test_path("s.kv"), NULL, NULL, &err));
    assert_int_equal(sl_session_length(b), 24);
    assert_int_equal(b->computed, a->computed);
    assert_null(sl_session_logits(b, NULL));
    must(sl_session_next(a, &greedy, &first, &err));
    must(sl_session_next(b, &greedy, &second, &err));
    assert_int_equal(first, second);
    must(sl_session_load(b, test_path("none.kv"), NULL, NULL, &err));
    assert_int_equal(sl_session_length(b), 0);
    must(sl_session_extend(b, tokens, 3, &err));
    sl_session_destroy(a);
    sl_session_destroy(b);
    sl_model_close(model);
}

/* A block that is used in part has nothing of the tokens that were there before. */
static void files_have_nothing_of_rewound_tokens(void **state) {
    (void)state;
    static const sl_model_options how[] = {
        {.kv = "f32"}, {.kv = "f16"}, {.kv = "i16"}, {.device = "ref", .context_tokens = 64}};
    char path[512];
    if (!shared_path("models/golden/qwen3", path, sizeof path)) skip();
    for (size_t i = 0; i < sizeof how / sizeof how[0]; i++) {
        uint8_t *files[2];
        size_t bytes[2];
        sl_model *model = open_model(path, how[i]);
        draw_tokens(tokens, TOKENS, model->config.vocab, 1);
        for (size_t more = 0; more < 2; more++) {
            sl_session *session = new_session(model, 0, 0);
            must(sl_session_extend(session, tokens, BEFORE, &err));
            must(sl_session_extend(session, tokens + BEFORE, more ? 10 : 1, &err));
            must(sl_session_rewind(session, BEFORE, &err));
            must(sl_session_save(session, test_path("s.kv"), NULL, 0, &err));
            sl_session_destroy(session);
            files[more] = read_test_file("s.kv", &bytes[more]);
        }
        sl_model_close(model);
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(files[0], files[1], bytes[0]);
        free(files[0]), free(files[1]);
    }
}

/* ---- refusals ---- */

static struct {
    sl_model *model;
    sl_session *session;
    uint8_t *bytes;
    size_t count;
} saved;

static void save_fable(void) {
    saved.model = open_model("models/fable", (sl_model_options){.context_tokens = 128});
    saved.session = new_session(saved.model, 0, 0);
    must(sl_session_extend(saved.session, tokens, 50, &err));
    must(sl_session_save(saved.session, test_path("s.kv"), "xyz", 3, &err));
    saved.bytes = read_test_file("s.kv", &saved.count);
}
static void drop_saved(void) {
    sl_session_destroy(saved.session);
    sl_model_close(saved.model);
    free(saved.bytes);
}

static void refuse(const char *name, sl_status wanted, const char *words) {
    char *note = NULL;
    err = (sl_error){0};
    const sl_status status = sl_session_load(saved.session, test_path(name), &note, NULL, &err);
    if (status != wanted)
        fail_msg("%s: status %d (%s), wanted %d", name, status, err.message, wanted);
    expect_message(&err, words);
    expect_message(&err, name);
    assert_null(strchr(err.message, '\n'));
    assert_null(note);
}

/* Every length that a file may be cut to, and every byte that may be wrong: all of the header, and
 * some of the parts. */
static void truncated_and_damaged_files_are_refused(void **state) {
    (void)state;
    save_fable();
    sl_state_header header;
    memcpy(&header, saved.bytes, sizeof header);
    for (size_t length = 0; length < saved.count; length += length < 4096 ? 61 : 77777) {
        write_test_file("cut.kv", saved.bytes, length);
        refuse("cut.kv", SL_FORMAT, "cut.kv: ");
    }
    uint32_t seed = 7;
    for (size_t at = 0; at < saved.count;) {
        const uint8_t right = saved.bytes[at];
        saved.bytes[at] = (uint8_t)(right ^ (1u << (at % 8)));
        write_test_file("bad.kv", saved.bytes, saved.count);
        refuse("bad.kv", SL_FORMAT, "bad.kv: ");
        saved.bytes[at] = right;
        seed = seed * 1664525u + 1013904223u;
        at += at < header.header_bytes ? 1 + (seed >> 20) % 60 : 1 + (seed >> 12) % 100000;
    }
    /* A damaged part may leave the session empty, but usable. */
    must(sl_session_load(saved.session, test_path("s.kv"), NULL, NULL, &err));
    assert_int_equal(sl_session_length(saved.session), 50);
    drop_saved();
}

static void what_a_file_is_of_is_checked(void **state) {
    (void)state;
    char path[512];
    save_fable();
    const uint8_t version = saved.bytes[8];
    saved.bytes[8] = 9;
    write_test_file("new.kv", saved.bytes, saved.count);
    refuse("new.kv", SL_FORMAT, "version 9 of saved sessions, wanted 1");
    saved.bytes[8] = version;
    write_test_file(
        "text.kv",
        "{\"what\": \"is this, and why is it here? It is long enough to be read as a "
        "header, if that were all that was looked at ...................................."
        "................................................................................\"}",
        236);
    refuse("text.kv", SL_FORMAT, "not a saved session");
    refuse("absent.kv", SL_IO, "absent.kv");
    assert_int_equal(sl_session_length(saved.session), 50); /* as it was */
    drop_saved();
    static const struct {
        sl_model_options options;
        sl_status status;
        const char *words;
    } cases[] = {
        {{.kv = "f16"}, SL_FORMAT, "i16 keys and values"},
        {{.compile = "exact", .kv = "i16"}, SL_FORMAT, "exact activations"},
        {{.isa = "baseline"}, SL_FORMAT, "cpu baseline"},
        {{.context_tokens = 49}, SL_INVALID, "50 tokens do not fit the context of 49"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        saved.model = open_model("models/fable", cases[i].options);
        saved.session = new_session(saved.model, 0, 0);
        refuse("s.kv", cases[i].status, cases[i].words);
        sl_session_destroy(saved.session);
        sl_model_close(saved.model);
    }
    if (!shared_path("models/golden/qwen3_5_moe_a", path, sizeof path)) skip();
    saved.model = open_model(path, (sl_model_options){0});
    saved.session = new_session(saved.model, 0, 0);
    refuse("s.kv", SL_FORMAT, "saved with another model: other config");
    sl_session_destroy(saved.session);
    sl_model_close(saved.model);
}

/* Weights of the same shapes, and another tokenizer or template. */
static void other_weights_are_another_model(void **state) {
    (void)state;
    sl_synth_options synth = {
        .struct_size = sizeof synth, .layers = 2, .experts = 8, .vocab = 300, .force = 1};
    sl_fingerprint of[2];
    for (uint64_t i = 0; i < 2; i++) {
        synth.seed = i;
        must(sl_synth_write("small", test_path("m.sluice"), &synth, &err));
        sl_model *model = open_model(test_path("m.sluice"), (sl_model_options){0});
        of[i] = model->fingerprint;
        sl_model_close(model);
    }
    assert_int_equal(sl_fingerprint_check("f", &of[0], &of[0], &err), SL_OK);
    assert_int_equal(sl_fingerprint_check("f", &of[0], &of[1], &err), SL_FORMAT);
    assert_string_equal(err.message, "f: saved with another model: other weights");
    sl_fingerprint other = of[0];
    other.tokenizer++;
    assert_int_equal(sl_fingerprint_check("f", &of[0], &other, &err), SL_FORMAT);
    expect_message(&err, "other tokenizer");
    other = of[0];
    other.chat++;
    assert_int_equal(sl_fingerprint_check("f", &of[0], &other, &err), SL_FORMAT);
    expect_message(&err, "other chat template");
}

static void failed_allocations_are_errors(void **state) {
    (void)state;
    long calls = 0;
    for (sl_status status = SL_NO_MEMORY; status != SL_OK; calls++) {
        failing_memory memory = {.left = 1L << 40};
        sl_model *model =
            open_model("models/fable", (sl_model_options){.allocator = {failing_resize, &memory}});
        sl_session *session = new_session(model, 0, 0);
        must(sl_session_extend(session, tokens, 40, &err));
        memory.left = calls;
        status = sl_session_save(session, test_path("s.kv"), NULL, 0, &err);
        if (status == SL_OK) status = sl_session_load(session, test_path("s.kv"), NULL, NULL, &err);
        if (status != SL_OK) assert_int_equal(status, SL_NO_MEMORY);
        memory.left = 1L << 40;
        sl_session_destroy(session);
        sl_model_close(model);
    }
    assert_in_range(calls, 4, 100);
    (void)remove(test_path("s.kv"));
    assert_int_equal(count_test_files(), 0);
}

int main(void) {
    draw_tokens(tokens, TOKENS, 1000, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_architecture_continues_with_the_same_bits,
                                  empty_test_folder),
        cmocka_unit_test_teardown(so_does_the_reference_evaluator, empty_test_folder),
        cmocka_unit_test_teardown(so_do_quantised_weights, empty_test_folder),
        cmocka_unit_test_teardown(pending_tokens_stay_pending, empty_test_folder),
        cmocka_unit_test_teardown(files_have_nothing_of_rewound_tokens, empty_test_folder),
        cmocka_unit_test_teardown(truncated_and_damaged_files_are_refused, empty_test_folder),
        cmocka_unit_test_teardown(what_a_file_is_of_is_checked, empty_test_folder),
        cmocka_unit_test_teardown(other_weights_are_another_model, empty_test_folder),
        cmocka_unit_test_teardown(failed_allocations_are_errors, empty_test_folder),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
