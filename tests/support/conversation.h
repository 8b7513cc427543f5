/* conversation.h - For tests of sessions: models, sessions and what they compute. */
#ifndef SL_TESTS_SUPPORT_CONVERSATION_H
#define SL_TESTS_SUPPORT_CONVERSATION_H
#include "tests/support/described.h"
#include "tests/support/folder.h"
#include "tests/support/shared.h"

#include "engine/session/session.h"
#include "sluice/sessions.h"

static sl_error err;

static inline void must(sl_status status) {
    if (status != SL_OK) fail_msg("%s", err.message);
}

static inline sl_model *open_model(const char *path, sl_model_options options) {
    sl_model *model = NULL;
    options.struct_size = sizeof options;
    if (!options.device) options.device = "cpu";
    if (!options.threads) options.threads = 1; /* waits for no other work of the machine */
    must(sl_model_open(path, &options, &model, &err));
    return model;
}

static inline sl_session *new_session(sl_model *model, uint32_t chunk, uint32_t checkpoints) {
    sl_session *session = NULL;
    const sl_session_options options = {
        .struct_size = sizeof options, .chunk_tokens = chunk, .checkpoints = checkpoints};
    must(sl_session_create(model, &options, &session, &err));
    return session;
}

/* The logits after the last token, which stay valid; released with free. */
static inline float *copy_logits(sl_session *session) {
    size_t count;
    const float *logits = sl_session_logits(session, &count);
    assert_non_null(logits);
    float *copy = malloc(count * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, logits, count * sizeof *copy);
    return copy;
}

/* Extends by single tokens, with the logits after each: [count][vocab], released with free. */
static inline float *follow(sl_session *session, const sl_token *tokens, size_t count) {
    const size_t vocab = session->model->config.vocab;
    float *all = malloc(count * vocab * sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) {
        must(sl_session_extend(session, &tokens[i], 1, &err));
        memcpy(all + i * vocab, sl_session_logits(session, NULL), vocab * sizeof *all);
    }
    return all;
}

static inline void same_bits(const char *what, const float *found, const float *wanted,
                             size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits, others;
        memcpy(&bits, &found[i], sizeof bits);
        memcpy(&others, &wanted[i], sizeof others);
        if (bits != others)
            fail_msg("%s: logit %zu is %.9g, wanted %.9g", what, i, (double)found[i],
                     (double)wanted[i]);
    }
}

/* Tokens that look random and are the same in every run. */
static inline void draw_tokens(sl_token *out, size_t count, uint32_t vocab, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (sl_token)((seed >> 8) % vocab);
    }
}
#endif
