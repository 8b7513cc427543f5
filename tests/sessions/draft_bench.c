/* draft_bench.c - draft_bench MODEL [TOKENS]: what a draft of 8 tokens costs beside one token, and
 * what going back to its half costs, from what its pass kept and by computing tokens again.  Each
 * is the best of several, behind a context of TOKENS (default 256). */
#include "base/clock.h"
#include "sluice/sessions.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { DRAFT = 8, STAY = 4, ROUNDS = 20 };

static sl_error err;

static void must(sl_status status) {
    if (status == SL_OK) return;
    (void)fprintf(stderr, "%s\n", err.message);
    exit(1);
}

typedef struct {
    sl_session *session;
    sl_token *tokens;
    size_t count; /* behind which the drafts are */
    float *logits;
} bench;

static double one_token(const bench *b) {
    const double start = sl_clock_seconds();
    must(sl_session_extend(b->session, b->tokens + b->count, 1, &err));
    return sl_clock_seconds() - start;
}

static double draft(const bench *b) {
    const double start = sl_clock_seconds();
    must(sl_session_draft(b->session, b->tokens + b->count, DRAFT, b->logits, &err));
    return sl_clock_seconds() - start;
}

/* As many tokens that are no draft. */
static double several(const bench *b) {
    const double start = sl_clock_seconds();
    must(sl_session_extend(b->session, b->tokens + b->count, DRAFT, &err));
    return sl_clock_seconds() - start;
}

/* Goes back, and brings the state to the tokens that stay, with one more. */
static double go_back(const bench *b) {
    const double start = sl_clock_seconds();
    must(sl_session_rewind(b->session, b->count + STAY, &err));
    must(sl_session_extend(b->session, b->tokens + b->count + STAY, 1, &err));
    return sl_clock_seconds() - start;
}

static void measure(const bench *b) {
    double one = 1e9, drafted = 1e9, kept = 1e9, again = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const double t = one_token(b);
        must(sl_session_rewind(b->session, b->count, &err));
        const double a = draft(b), c = go_back(b);
        must(sl_session_rewind(b->session, b->count, &err));
        (void)several(b);
        const double d = go_back(b);
        must(sl_session_rewind(b->session, b->count, &err));
        one = t < one ? t : one;
        drafted = a < drafted ? a : drafted;
        kept = c < kept ? c : kept;
        again = d < again ? d : again;
    }
    (void)printf("one token                             %8.3f ms\n", one * 1e3);
    (void)printf("a draft of %d                          %8.3f ms\n", DRAFT, drafted * 1e3);
    (void)printf("back to %d of them, and one token      %8.3f ms\n", STAY, kept * 1e3);
    (void)printf("the same behind tokens without draft  %8.3f ms\n", again * 1e3);
}

int main(int count, char **words) {
    if (count < 2) {
        (void)fprintf(stderr, "usage: draft_bench MODEL [TOKENS]\n");
        return 2;
    }
    bench b = {.count = count > 2 ? strtoul(words[2], NULL, 10) : 256};
    const sl_model_options options = {.struct_size = sizeof options,
                                      .device = "cpu",
                                      .draft_tokens = DRAFT,
                                      .context_tokens = (uint32_t)b.count + 2 * DRAFT};
    sl_model *model;
    sl_model_info info = {.struct_size = sizeof info};
    must(sl_model_open(words[1], &options, &model, &err));
    must(sl_model_describe(model, &info, &err));
    must(sl_session_create(model, NULL, &b.session, &err));
    const size_t all = b.count + (size_t)2 * DRAFT;
    b.tokens = calloc(all, sizeof *b.tokens);
    b.logits = calloc((size_t)DRAFT * info.vocab, sizeof *b.logits);
    const bool has_room = b.tokens && b.logits;
    for (size_t i = 0; has_room && i < all; i++)
        b.tokens[i] = (sl_token)((i * 7919 + i * i * 31) % info.vocab);
    if (has_room) {
        must(sl_session_extend(b.session, b.tokens, b.count, &err));
        measure(&b);
    }
    sl_session_destroy(b.session);
    sl_model_close(model);
    free(b.tokens);
    free(b.logits);
    return !has_room;
}
