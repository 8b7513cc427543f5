/* requests.h - For tests of schedulers: requests, what came of them, and company for them. */
#ifndef SL_TESTS_SUPPORT_REQUESTS_H
#define SL_TESTS_SUPPORT_REQUESTS_H
#include "sluice/batch.h"
#include "tests/support/conversation.h"
#include "tests/support/rounds.h"

#define MODEL "models/fable"
enum { CONTEXT = 1024, LIVE = 6, MOST = 60, PROMPT = 700 };

static inline void on_note(void *ctx, const char *line) {
    (void)ctx;
    fail_msg("%s", line);
}

/* folder: of a cache on disk; NULL: none.  With exact activations, another division of a prompt is
 * within rounding. */
static inline sl_model *open_with(const char *path, uint64_t cache, const char *folder) {
    sl_model *model = open_model(path, (sl_model_options){.context_tokens = CONTEXT,
                                                          .max_sessions = LIVE + 2,
                                                          .compile = "exact",
                                                          .prefix_cache_bytes = cache});
    const sl_disk_cache_options disk = {
        .struct_size = sizeof disk, .folder = folder, .note = on_note};
    if (folder) must(sl_model_cache_on_disk(model, &disk, &err));
    return model;
}

static inline sl_scheduler *new_scheduler(sl_model *model, sl_scheduler_options options) {
    sl_scheduler *scheduler = NULL;
    options.struct_size = sizeof options;
    must(sl_scheduler_create(model, &options, &scheduler, &err));
    return scheduler;
}

static inline void run_out(sl_scheduler *scheduler) {
    uint32_t left = 1;
    for (int step = 0; left; step++) {
        must(sl_scheduler_step(scheduler, &left, &err));
        assert_true(step < 10000);
    }
}

/* A request and what came of it. */
typedef struct {
    sl_request given;
    sl_ticket *ticket;
    sl_token found[MOST];
    size_t count;
    sl_ticket_end end;
    int ends;
    size_t constrain_at; /* tokens after which its grammar begins */
    size_t logprobs;     /* entries of the sampler */
    double logprob_sum;
    sl_logprob *scores; /* [prompt][each]; NULL: none are wanted */
    size_t scored;
} request;

static inline int take_token(void *ctx, sl_ticket *ticket, sl_token token) {
    request *r = ctx;
    assert_true(r->count < MOST);
    r->found[r->count++] = token;
    if (r->constrain_at && r->count == r->constrain_at) sl_ticket_constrain(ticket);
    uint32_t entries = 0;
    const sl_logprob *items =
        r->given.sampler ? sl_sampler_logprobs(r->given.sampler, &entries) : NULL;
    if (items) assert_int_equal(items[0].token, token);
    for (uint32_t i = 0; i < entries; i++) r->logprob_sum += items[i].logprob;
    r->logprobs += entries;
    return 0;
}

static inline void take_end(void *ctx, sl_ticket *ticket, sl_ticket_end end) {
    request *r = ctx;
    (void)ticket;
    r->end = end;
    r->ends++;
}

static inline void submit(sl_scheduler *scheduler, request *r) {
    r->given.struct_size = sizeof r->given;
    r->given.token = take_token;
    r->given.end = take_end;
    r->given.ctx = r;
    r->count = r->logprobs = r->scored = 0;
    r->logprob_sum = 0;
    r->ends = 0;
    must(sl_scheduler_submit(scheduler, &r->given, &r->ticket, &err));
}

static inline void end_with(request *r, sl_ticket_end end) {
    assert_int_equal(r->ends, 1);
    if (r->end == SL_END_FAILED) must(sl_ticket_status(r->ticket, &err));
    assert_int_equal(r->end, end);
    sl_ticket_release(r->ticket);
}

static inline void same_tokens(const request *r, const sl_token *wanted, size_t count) {
    assert_int_equal(r->count, count);
    assert_memory_equal(r->found, wanted, count * sizeof *wanted);
}

/* ---- company: requests that decode and read prompts at the same time ---- */

typedef struct {
    sl_token prompt[PROMPT];
    request requests[3];
} company;

static inline company *join(sl_model *model, sl_scheduler *scheduler) {
    company *c = calloc(1, sizeof *c);
    assert_non_null(c);
    draw_tokens(c->prompt, PROMPT, 1000, 77);
    for (int i = 0; i < 3; i++) {
        c->requests[i].given =
            (sl_request){.session = new_session(model, 0, 0),
                         .prompt = c->prompt + i,
                         .prompt_count = 3 + (size_t)i * (is_slow_run() ? 70 : 130),
                         .most_tokens = MOST - (size_t)i * 7};
        submit(scheduler, &c->requests[i]);
        must(sl_scheduler_step(scheduler, NULL, &err));
    }
    return c;
}

static inline void leave(company *c) {
    for (int i = 0; i < 3; i++) {
        end_with(&c->requests[i], SL_END_COUNT);
        sl_session_destroy(c->requests[i].given.session);
    }
    free(c);
}
#endif
