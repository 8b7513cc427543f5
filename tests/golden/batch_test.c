/* batch_test.c - The logits of a sequence are the same bits alone and in batches with random
 * company: sequences that join and leave, prompts in parts beside single tokens.  On a GPU (the
 * emulated one, or with SLUICE_CUDA=device the machine's, alone) where the model is opened as
 * deterministic. */
#include "sluice/batch.h"
#include "tests/support/described.h"
#include "tests/support/rounds.h"
#include "tests/support/shared.h"
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const families[] = {
    "qwen3_5_moe_a", "qwen3_next", "qwen3_moe",   "qwen3",   "mixtral",
    "olmoe",         "glm4_moe",   "deepseek_v3", "gpt_oss",
};
enum {
    FAMILY_COUNT = sizeof families / sizeof families[0],
    MOST = 18,      /* sequences at once, */
    SEQUENCES = 24, /* in all, */
    DECODED = 8,    /* tokens that each decodes, */
    PROMPT = 150,   /* and those of its prompt, at most */
    CONTEXT = 256
};

/* How much is tried. */
typedef struct {
    uint32_t most, sequences, decoded, prompt;
    int seeds;
} workload;
static const workload usual = {16, SEQUENCES, DECODED, PROMPT, 0};

/* A sequence with what it gives alone. */
typedef struct {
    size_t prompt;
    sl_token tokens[PROMPT + DECODED];
    float
        *logits; /* [DECODED][vocab]: after the prompt, and after each further token but the last */
} sequence;

/* Of the logits of sequences in company with those that they have alone. */
typedef struct {
    uint32_t differing; /* rows with other bits */
    double largest;     /* difference, as a share of the largest logit */
} comparison;

typedef struct {
    sl_model *model;
    sl_error err;
    uint32_t vocab;
    uint64_t random;
    workload load;
    bool any_bits; /* differences are counted, and do not end the test */
    comparison found;
    sequence all[SEQUENCES];
} fixture;

static void must(fixture *f, sl_status status) {
    if (status != SL_OK) fail_msg("%s", f->err.message);
}

static uint32_t draw(fixture *f, uint32_t below) {
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->random >> 33) % below;
}

static sl_token choose(fixture *f, sl_session *session) {
    const sl_sampling greedy = {.struct_size = sizeof greedy};
    sl_token token = 0;
    must(f, sl_session_sample(session, &greedy, &token, &f->err));
    return token;
}

static const float *logits_of(fixture *f, const sequence *s, size_t step) {
    return s->logits + step * f->vocab;
}

static void run_alone(fixture *f, sequence *s) {
    sl_session *session = NULL;
    must(f, sl_session_create(f->model, NULL, &session, &f->err));
    must(f, sl_session_extend(session, s->tokens, s->prompt, &f->err));
    for (size_t i = 0; i < f->load.decoded; i++) {
        sl_token *next = &s->tokens[s->prompt + i];
        memcpy(s->logits + i * f->vocab, sl_session_logits(session, NULL),
               f->vocab * sizeof(float));
        *next = choose(f, session);
        if (i + 1 < f->load.decoded) must(f, sl_session_extend(session, next, 1, &f->err));
    }
    sl_session_destroy(session);
}

static void make_sequences(fixture *f) {
    f->vocab = test_model_info(f->model).vocab;
    for (uint32_t i = 0; i < f->load.sequences; i++) {
        sequence *s = &f->all[i];
        s->logits = calloc((size_t)DECODED * f->vocab, sizeof *s->logits);
        assert_non_null(s->logits);
        s->prompt = 1 + draw(f, i % 3 ? f->load.prompt : 5);
        for (size_t t = 0; t < s->prompt; t++) s->tokens[t] = (sl_token)draw(f, f->vocab);
        run_alone(f, s);
    }
}

/* A sequence in the batch. */
typedef struct {
    sequence *s; /* NULL: nobody */
    sl_session *session;
    bool begun;
    size_t step;          /* logits compared */
    bool added, computed; /* to the batch, by itself */
} member;

static void join(fixture *f, member *m, sequence *s) {
    *m = (member){.s = s};
    must(f, sl_session_create(f->model, NULL, &m->session, &f->err));
}

/* Adds what the sequence needs next; at random it pauses, gets few rows, or computes by itself. */
static void add(fixture *f, sl_batch *batch, member *m) {
    static const uint32_t most[] = {0, 1, 17, 64, 64, 130};
    m->added = m->computed = false;
    if (!m->s || draw(f, 8) == 0) return;
    const sl_token *tokens = m->s->tokens;
    size_t count = m->begun ? 0 : m->s->prompt;
    if (m->step) {
        tokens += m->s->prompt + m->step - 1;
        count = sl_session_length(m->session) < m->s->prompt + m->step;
    }
    const sl_status status =
        sl_batch_add(batch, m->session, tokens, count, most[draw(f, sizeof most / sizeof most[0])],
                     NULL, &f->err);
    m->added = status == SL_OK;
    m->begun |= m->added;
    if (status != SL_OK) assert_non_null(strstr(f->err.message, "no room for"));
}

static void note_difference(fixture *f, const float *logits, const float *wanted) {
    double size = 0, most = 0;
    for (uint32_t i = 0; i < f->vocab; i++) {
        size = fmax(size, fabs((double)wanted[i]));
        most = fmax(most, fabs((double)logits[i] - (double)wanted[i]));
    }
    if (!(most <= f->found.largest * size)) f->found.largest = most / size; /* also NaN */
    f->found.differing += memcmp(logits, wanted, f->vocab * sizeof *logits) != 0;
}

/* Compares the logits, if the sequence has any; it leaves after the last. */
static bool compare(fixture *f, sl_batch *batch, member *m, const char *name, uint64_t seed) {
    if (!m->added && !m->computed) return false;
    if (m->added) must(f, sl_batch_session_status(batch, m->session, &f->err));
    const float *logits = sl_session_logits(m->session, NULL);
    if (!logits) return false;
    note_difference(f, logits, logits_of(f, m->s, m->step));
    if (!f->any_bits && f->found.differing)
        fail_msg("%s, seed %llu: logits differ at step %zu of a prompt of %zu", name,
                 (unsigned long long)seed, m->step, m->s->prompt);
    if (!f->any_bits) assert_int_equal(choose(f, m->session), m->s->tokens[m->s->prompt + m->step]);
    if (++m->step < f->load.decoded) return true;
    sl_session_destroy(m->session);
    m->s = NULL;
    return true;
}

/* Returns how many logits were compared. */
static uint32_t run_together(fixture *f, const char *name, uint64_t seed) {
    const uint32_t places = 2 + (uint32_t)(seed * 5 % (f->load.most - 1));
    member members[MOST] = {0};
    sl_batch *batch = NULL;
    uint32_t next = 0, compared = 0;
    f->random = seed;
    must(f, sl_batch_create(f->model, NULL, &batch, &f->err));
    while (compared < f->load.sequences * f->load.decoded) {
        bool any = false;
        for (uint32_t i = 0; i < places; i++) {
            if (!members[i].s && next < f->load.sequences && draw(f, 3) == 0)
                join(f, &members[i], &f->all[next++]);
            add(f, batch, &members[i]);
            any |= members[i].added;
        }
        if (any) must(f, sl_batch_run(batch, &f->err));
        for (uint32_t i = 0; i < places; i++)
            compared += compare(f, batch, &members[i], name, seed);
    }
    sl_batch_destroy(batch);
    return compared;
}

static uint64_t programs_compiled(fixture *f) {
    sl_session *any = NULL;
    must(f, sl_session_create(f->model, NULL, &any, &f->err));
    const uint64_t count = test_session_stats(any).programs_compiled;
    sl_session_destroy(any);
    return count;
}

/* On the CPU the first difference ends the test. */
static comparison check_load(const char *path, const char *name, sl_model_options options,
                             workload load) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const bool on_cuda = options.device && strcmp(options.device, "cuda") == 0;
    options.struct_size = sizeof options;
    options.max_sessions = load.most;
    options.context_tokens = CONTEXT;
    options.threads = options.threads ? options.threads : 2;
    must(f, sl_model_open(path, &options, &f->model, &f->err));
    f->random = 1;
    f->load = load;
    f->any_bits = on_cuda;
    make_sequences(f);
    const uint64_t before = programs_compiled(f);
    uint32_t compared = 0;
    for (int seed = 0; seed < load.seeds; seed++) compared += run_together(f, name, (uint64_t)seed);
    assert_int_equal(compared, (uint32_t)load.seeds * load.sequences * load.decoded);
    if (!on_cuda) assert_int_equal(programs_compiled(f), before);
    const comparison found = f->found;
    for (uint32_t i = 0; i < load.sequences; i++) free(f->all[i].logits);
    sl_model_close(f->model);
    free(f);
    print_message("  %s: %u logits", name, compared);
    print_message(found.differing ? ", %u of them with other bits, %.2g apart\n" : "\n",
                  found.differing, found.largest);
    return found;
}

static void check_model(const char *path, const char *name, sl_model_options options,
                        int seed_count) {
    workload load = usual;
    load.seeds = seed_count;
    assert_int_equal(check_load(path, name, options, load).differing, 0);
}

static uint64_t small_budget(const char *path) {
    sl_error err;
    sl_model *model = NULL;
    if (sl_model_open(path, NULL, &model, &err) != SL_OK) fail_msg("%s", err.message);
    const sl_model_info all = test_model_info(model);
    sl_model_close(model);
    if (all.experts == 0) return 0;
    const uint64_t slots = 2 * all.expert_count / all.experts;
    return all.budget_bytes - (all.slot_count - slots) * all.slot_bytes;
}

/* Random companies, joins and leaves for each model. */
static uint32_t seeds(void) {
    return is_long_run() ? 4 : is_slow_run() ? 1 : 2;
}

static void goldens_in_batches(void **state) {
    (void)state;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        char path[512], name[64];
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i]);
        if (!shared_path(name, path, sizeof path)) skip();
        check_model(path, families[i], (sl_model_options){0}, seeds());
        check_model(path, families[i], (sl_model_options){.kv = "i16", .threads = 1}, 1);
    }
}

static void goldens_in_batches_with_two_experts_per_layer(void **state) {
    (void)state;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        char path[512], name[64];
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i]);
        if (!shared_path(name, path, sizeof path)) skip();
        const uint64_t budget = small_budget(path);
        if (budget)
            check_model(path, families[i], (sl_model_options){.expert_budget_bytes = budget},
                        seeds());
    }
}

/* Quantised weights with activations in 8 bits, and without. */
static void quantised_goldens_in_batches(void **state) {
    (void)state;
    static const char *const quants[] = {"q4", "q8"};
    char folder[] = "/tmp/sluice-batch-XXXXXX", pack[64];
    sl_error err;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(pack, sizeof pack, "%s/golden.sluice", folder);
    for (int i = 0; i < 2 * FAMILY_COUNT; i++) {
        char path[512], name[64];
        (void)snprintf(name, sizeof name, "models/golden/%s", families[i / 2]);
        if (!shared_path(name, path, sizeof path)) break;
        const sl_pack_options options = {
            .struct_size = sizeof options, .quant = quants[i % 2], .force = 1};
        if (sl_pack_write(path, pack, &options, &err) != SL_OK) fail_msg("%s", err.message);
        check_model(pack, families[i / 2], (sl_model_options){0}, seeds());
        check_model(pack, families[i / 2], (sl_model_options){.compile = "exact"}, 1);
        assert_int_equal(unlink(pack), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void fable_in_batches(void **state) {
    (void)state;
    static const char *const isas[] = {"baseline", "avx2", "avx512", "neon"};
    for (int i = 0; i < 4; i++) {
        sl_model *model = NULL;
        sl_error err;
        const sl_model_options options = {.struct_size = sizeof options, .isa = isas[i]};
        const sl_status status = sl_model_open("models/fable", &options, &model, &err);
        sl_model_close(model);
        if (status == SL_UNSUPPORTED) {
            print_message("  %s: this machine lacks it\n", isas[i]);
            continue;
        }
        check_model("models/fable", isas[i], (sl_model_options){.isa = isas[i]}, 1);
    }
    check_model("models/fable", "a tenth of the experts",
                (sl_model_options){.expert_budget_share = 0.1}, seeds());
}

/* ---- on a GPU ---- */

static bool is_on_device(void) {
    const char *which = getenv("SLUICE_CUDA");
    return which && strcmp(which, "device") == 0;
}

/* The emulated driver is found by its soname once it is loaded. */
static bool has_cuda(void) {
    const char *driver = getenv("SLUICE_CUDA_EMULATOR");
    return is_on_device() || (driver && dlopen(driver, RTLD_NOW | RTLD_GLOBAL));
}

/* Deterministic: returns how many rows have other bits; otherwise it is printed how far they are
 * apart, which depends on whether another expert is chosen somewhere (runtime/cuda/rows_test.c has
 * bounds for each op). */
static uint32_t check_on_cuda(const char *path, const char *name) {
    const workload load = is_on_device()  ? (workload){18, 12, 4, 60, 1}
                          : is_long_run() ? (workload){18, 12, 3, 24, 1}
                                          : (workload){6, 7, 2, 20, 1};
    sl_model_options options = {.device = "cuda", .deterministic = 1};
    const uint32_t differing = check_load(path, name, options, load).differing;
    options.deterministic = 0;
    assert_true(isfinite(check_load(path, name, options, load).largest));
    return differing;
}

/* One token of each of the first `count` sessions. */
static uint64_t programs_after(fixture *f, sl_batch *batch, sl_session **sessions, int count) {
    static const sl_token token = 1;
    for (int i = 0; i < count; i++)
        must(f, sl_batch_add(batch, sessions[i], &token, 1, 0, NULL, &f->err));
    must(f, sl_batch_run(batch, &f->err));
    for (int i = 0; i < count; i++) must(f, sl_batch_session_status(batch, sessions[i], &f->err));
    return programs_compiled(f);
}

/* One program serves nine and ten rows, and it stays when others are needed. */
static void sizes_share_programs_on_cuda(void **state) {
    (void)state;
    enum { SESSIONS = 10 };
    char path[512];
    fixture f = {0};
    sl_session *sessions[SESSIONS];
    sl_batch *batch = NULL;
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "cuda",
                                      .max_sessions = SESSIONS + 1,
                                      .context_tokens = CONTEXT};
    if (!has_cuda() || !shared_path("models/golden/qwen3_5_moe_a", path, sizeof path)) skip();
    must(&f, sl_model_open(path, &options, &f.model, &f.err));
    for (int i = 0; i < SESSIONS; i++)
        must(&f, sl_session_create(f.model, NULL, &sessions[i], &f.err));
    must(&f, sl_batch_create(f.model, NULL, &batch, &f.err));
    const uint64_t nine = programs_after(&f, batch, sessions, 9);
    assert_int_equal(programs_after(&f, batch, sessions, 10), nine);
    for (int count = 1; count <= 6; count++)
        assert_true(programs_after(&f, batch, sessions, count) <= nine + (uint64_t)count);
    assert_int_equal(programs_after(&f, batch, sessions, 9),
                     programs_after(&f, batch, sessions, 6));
    sl_batch_destroy(batch);
    for (int i = 0; i < SESSIONS; i++) sl_session_destroy(sessions[i]);
    sl_model_close(f.model);
}

/* Each family as it is and packed; one of either where time is short. */
static void goldens_on_cuda(void **state) {
    (void)state;
    static const char *const few[] = {"qwen3_5_moe_a", "gpt_oss"};
    const bool all = is_long_run() || is_on_device();
    char folder[] = "/tmp/sluice-batch-XXXXXX", pack[64];
    sl_error err;
    uint32_t differing = 0;
    if (!has_cuda()) skip();
    assert_non_null(mkdtemp(folder));
    (void)snprintf(pack, sizeof pack, "%s/golden.sluice", folder);
    for (int i = 0; i < (all ? FAMILY_COUNT : 2); i++) {
        char path[512], name[64];
        (void)snprintf(name, sizeof name, "models/golden/%s", all ? families[i] : few[i]);
        if (!shared_path(name, path, sizeof path)) break;
        const sl_pack_options options = {.struct_size = sizeof options, .quant = "q4", .force = 1};
        if (all || i > 0) differing += check_on_cuda(path, name);
        if (!all && i > 0) break;
        if (sl_pack_write(path, pack, &options, &err) != SL_OK) fail_msg("%s", err.message);
        differing += check_on_cuda(pack, name);
        assert_int_equal(unlink(pack), 0);
    }
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(differing, 0);
}

static void fable_on_cuda(void **state) {
    (void)state;
    if (!has_cuda() || !(is_long_run() || is_on_device())) skip();
    assert_int_equal(check_on_cuda("models/fable", "fable"), 0);
}

int main(void) {
    const struct CMUnitTest on_cuda[] = {
        cmocka_unit_test(sizes_share_programs_on_cuda),
        cmocka_unit_test(goldens_on_cuda),
        cmocka_unit_test(fable_on_cuda),
    };
    if (is_on_device()) return cmocka_run_group_tests(on_cuda, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens_in_batches),
        cmocka_unit_test(goldens_in_batches_with_two_experts_per_layer),
        cmocka_unit_test(quantised_goldens_in_batches),
        cmocka_unit_test(fable_in_batches),
        cmocka_unit_test(sizes_share_programs_on_cuda),
        cmocka_unit_test(goldens_on_cuda),
        cmocka_unit_test(fable_on_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
