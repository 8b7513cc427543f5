/* grammar.c - Constrained output (sluice/grammar.h). */
#include "sluice/grammar.h"
#include "api/needs.h"
#include "api/vocabulary.h"
#include "base/structs.h"
#include "engine/choose/grammar/cache.h"
#include "engine/choose/grammar/matcher.h"
#include "engine/session/session.h"
#include <math.h>
#include <string.h>

enum { MAX_FORCED_BYTES = 1024, MAX_FORCED_TOKENS = 2 * MAX_FORCED_BYTES, MAX_CACHED = 1 << 16 };

struct sl_grammar_vocabulary {
    const sl_tokenizer *tokenizer;
    sl_token_tries *tries;
};

struct sl_grammar_state {
    sl_grammar *grammar;
    const sl_grammar_vocabulary *vocabulary;
    sl_matcher *matcher;
    uint32_t *mask; /* scratch of sl_grammar_state_sample for `vocab` logits */
    float *logits;
    sl_candidate *candidates;
    uint32_t vocab;
};

static sl_status take_options(const sl_grammar_options *given, sl_grammar_options *out,
                              sl_error *err) {
    *out = (sl_grammar_options){0};
    return SL_STRUCT_TAKE(sl_grammar_options, out, given, err);
}

sl_status sl_grammar_compile(sl_grammar_kind kind, const char *text, size_t bytes,
                             const sl_grammar_options *given, sl_grammar **out, sl_error *err) {
    sl_grammar_options options;
    SL_NEED((text || !bytes) && out);
    SL_TRY(take_options(given, &options, err));
    return sl_grammar_build(kind, text ? text : "", bytes, &options, out, err);
}

sl_status sl_grammar_compile_tags(const sl_grammar_tag *tags, size_t count, const char *trigger,
                                  const sl_grammar_options *given, sl_grammar **out,
                                  sl_error *err) {
    sl_grammar_options options;
    SL_NEED(tags && trigger && out);
    SL_TRY(take_options(given, &options, err));
    return sl_grammar_build_tags(tags, count, trigger, &options, out, err);
}

void sl_grammar_close(sl_grammar *grammar) {
    sl_grammar_release(grammar);
}

sl_status sl_grammar_cache_create(uint32_t capacity, sl_grammar_cache **out, sl_error *err) {
    SL_NEED(out);
    if (!capacity || capacity > MAX_CACHED)
        return sl_fail(err, SL_INVALID, "grammar cache: capacity %u, wanted 1 to %d", capacity,
                       MAX_CACHED);
    *out = sl_grammar_cache_make(capacity);
    return *out ? SL_OK : sl_no_memory(err, "a grammar cache", capacity);
}

void sl_grammar_cache_destroy(sl_grammar_cache *cache) {
    sl_grammar_cache_free(cache);
}

sl_status sl_grammar_cache_compile(sl_grammar_cache *cache, sl_grammar_kind kind, const char *text,
                                   size_t bytes, const sl_grammar_options *given, sl_grammar **out,
                                   sl_error *err) {
    sl_grammar_options options;
    SL_NEED(cache && (text || !bytes) && out);
    SL_TRY(take_options(given, &options, err));
    if (options.allocator.resize)
        return sl_fail(err, SL_UNSUPPORTED, "grammar cache: an allocator for a single grammar");
    return sl_grammar_cache_get(cache, kind, text ? text : "", bytes, &options, out, err);
}

/* The tokens that end an answer. */
typedef struct {
    const sl_tokenizer *tokenizer;
    const sl_token *ends;
    size_t end_count;
} token_source;

static sl_trie_token read_token(const void *ctx, uint32_t token) {
    const token_source *source = ctx;
    sl_trie_token out = {0};
    out.text = sl_tokenizer_text(source->tokenizer, (int32_t)token, &out.bytes);
    out.control = sl_tokenizer_is_special(source->tokenizer, (int32_t)token);
    for (size_t i = 0; i < source->end_count; i++) out.ends |= source->ends[i] == (sl_token)token;
    return out;
}

static sl_status create_vocabulary(const token_source *source, const sl_allocator *allocator,
                                   sl_grammar_vocabulary **out, sl_error *err) {
    sl_token_tries *tries;
    SL_TRY(sl_token_tries_create(sl_tokenizer_vocab(source->tokenizer), read_token, source,
                                 allocator, &tries, err));
    sl_grammar_vocabulary *made = SL_ARENA_NEW(&tries->arena, sl_grammar_vocabulary);
    if (!made) {
        sl_token_tries_destroy(tries);
        return sl_no_memory(err, "a vocabulary", sizeof *made);
    }
    *made = (sl_grammar_vocabulary){source->tokenizer, tries};
    *out = made;
    return SL_OK;
}

sl_status sl_grammar_vocabulary_of_model(const sl_model *model, sl_grammar_vocabulary **out,
                                         sl_error *err) {
    SL_NEED(model && out);
    const token_source source = {model->text.tokenizer, model->text.end_tokens,
                                 model->text.end_count};
    if (!source.tokenizer) return sl_fail(err, SL_UNSUPPORTED, "the model has no tokenizer.json");
    return create_vocabulary(&source, &model->allocator, out, err);
}

sl_status sl_grammar_vocabulary_create(const sl_vocabulary *vocabulary, const sl_token *end_tokens,
                                       size_t end_count, sl_grammar_vocabulary **out,
                                       sl_error *err) {
    SL_NEED(vocabulary && (end_tokens || !end_count) && out);
    const token_source source = {sl_vocabulary_tokenizer(vocabulary), end_tokens, end_count};
    return create_vocabulary(&source, NULL, out, err);
}

void sl_grammar_vocabulary_close(sl_grammar_vocabulary *vocabulary) {
    if (vocabulary) sl_token_tries_destroy(vocabulary->tries);
}

uint32_t sl_grammar_vocabulary_size(const sl_grammar_vocabulary *vocabulary) {
    SL_NEED_OR(0, vocabulary);
    return vocabulary->tries->vocab;
}

static sl_status create_state(sl_grammar *grammar, const sl_grammar_vocabulary *vocabulary,
                              sl_grammar_state **out, sl_error *err) {
    sl_grammar_state *state = sl_allocate(NULL, sizeof *state, _Alignof(sl_grammar_state));
    if (!state) return sl_no_memory(err, "the state of a grammar", sizeof *state);
    sl_grammar_take(grammar);
    state->grammar = grammar;
    state->vocabulary = vocabulary;
    *out = state;
    return SL_OK;
}

sl_status sl_grammar_state_create(sl_grammar *grammar, const sl_grammar_vocabulary *vocabulary,
                                  sl_grammar_state **out, sl_error *err) {
    sl_grammar_state *state = NULL;
    SL_NEED(grammar && vocabulary && out);
    SL_TRY(create_state(grammar, vocabulary, &state, err));
    const sl_automaton *automaton = sl_grammar_automaton(grammar);
    const sl_status status = sl_matcher_create(automaton, vocabulary->tries,
                                               automaton->pool.allocator, &state->matcher, err);
    if (status == SL_OK)
        *out = state;
    else
        sl_grammar_state_destroy(state);
    return status;
}

sl_status sl_grammar_state_fork(const sl_grammar_state *state, sl_grammar_state **out,
                                sl_error *err) {
    sl_grammar_state *made = NULL;
    SL_NEED(state && out);
    SL_TRY(create_state(state->grammar, state->vocabulary, &made, err));
    const sl_status status = sl_matcher_fork(state->matcher, &made->matcher, err);
    if (status == SL_OK)
        *out = made;
    else
        sl_grammar_state_destroy(made);
    return status;
}

static void free_scratch(sl_grammar_state *state) {
    const uint32_t vocab = state->vocab;
    sl_release(NULL, state->mask, sl_mask_words(vocab) * sizeof *state->mask, sizeof(uint32_t));
    sl_release(NULL, state->logits, vocab * sizeof *state->logits, sizeof(float));
    sl_release(NULL, state->candidates, sl_choose_candidates(vocab) * sizeof *state->candidates,
               _Alignof(sl_candidate));
    state->mask = NULL;
    state->logits = NULL;
    state->candidates = NULL;
}

static sl_status make_scratch(sl_grammar_state *state, uint32_t vocab, sl_error *err) {
    if (state->candidates && state->vocab == vocab) return SL_OK;
    free_scratch(state);
    state->vocab = vocab;
    state->mask = sl_allocate(NULL, sl_mask_words(vocab) * sizeof *state->mask, sizeof(uint32_t));
    state->logits = sl_allocate(NULL, vocab * sizeof *state->logits, sizeof(float));
    state->candidates = sl_allocate(NULL, sl_choose_candidates(vocab) * sizeof *state->candidates,
                                    _Alignof(sl_candidate));
    if (state->mask && state->logits && state->candidates) return SL_OK;
    free_scratch(state);
    return sl_no_memory(err, "masked logits", vocab * sizeof *state->logits);
}

sl_status sl_grammar_state_sample(sl_grammar_state *state, sl_session *session,
                                  const sl_sampling *given, sl_token *out, sl_error *err) {
    sl_sampling sampling = {0};
    size_t count = 0;
    bool any = false;
    SL_NEED(state && session && given && out);
    SL_TRY(SL_STRUCT_TAKE(sl_sampling, &sampling, given, err));
    const float *logits = sl_session_logits(session, &count);
    if (!logits)
        return sl_fail(err, SL_INVALID, "nothing to sample from: extend the session first");
    SL_TRY(make_scratch(state, (uint32_t)count, err));
    SL_TRY(sl_matcher_mask(state->matcher, state->mask, sl_mask_words(state->vocab), err));
    for (uint32_t i = 0; i < state->vocab; i++) {
        const bool allowed = state->mask[i / 32] >> (i % 32) & 1;
        state->logits[i] = allowed ? logits[i] : -INFINITY;
        any |= allowed;
    }
    if (!any) return sl_fail(err, SL_INVALID, "grammar: no token of the vocabulary can come next");
    *out = sl_sample(state->logits, state->vocab, &sampling, sl_session_length(session),
                     state->candidates);
    if (*out < 0 || !(state->mask[*out / 32] >> (*out % 32) & 1))
        return sl_fail(err, SL_FORMAT, "no allowed logit is a number");
    return SL_OK;
}

void sl_grammar_state_destroy(sl_grammar_state *state) {
    if (!state) return;
    free_scratch(state);
    sl_matcher_destroy(state->matcher);
    sl_grammar_release(state->grammar);
    sl_release(NULL, state, sizeof *state, _Alignof(sl_grammar_state));
}

sl_status sl_grammar_state_mask(sl_grammar_state *state, uint32_t *allowed, size_t words,
                                sl_error *err) {
    SL_NEED(state && allowed);
    return sl_matcher_mask(state->matcher, allowed, words, err);
}

sl_status sl_grammar_state_accept(sl_grammar_state *state, sl_token token, sl_error *err) {
    size_t bytes = 0;
    SL_NEED(state);
    const char *text = sl_tokenizer_text(state->vocabulary->tokenizer, token, &bytes);
    return sl_matcher_accept(state->matcher, token, text, bytes, err);
}

sl_status sl_grammar_state_rollback(sl_grammar_state *state, size_t tokens, sl_error *err) {
    SL_NEED(state);
    return sl_matcher_rollback(state->matcher, tokens, err);
}

size_t sl_grammar_state_length(const sl_grammar_state *state) {
    SL_NEED_OR(0, state);
    return sl_matcher_length(state->matcher);
}

int sl_grammar_state_satisfied(const sl_grammar_state *state) {
    SL_NEED_OR(0, state);
    return sl_matcher_accepts(state->matcher);
}

int sl_grammar_state_ended(const sl_grammar_state *state) {
    SL_NEED_OR(0, state);
    return sl_matcher_finished(state->matcher);
}

/* How many of the tokens of the forced bytes are certain. */
static sl_status certain_tokens(sl_grammar_state *state, const char *forced, size_t bytes,
                                const sl_token *tokens, size_t *count, sl_error *err) {
    size_t at = 0;
    for (size_t i = 0; i < *count; i++) {
        size_t length;
        bool spans;
        const char *text = sl_tokenizer_text(state->vocabulary->tokenizer, tokens[i], &length);
        SL_TRY(sl_matcher_spans(state->matcher, forced, bytes, at, &spans, err));
        if (spans || length > bytes - at || memcmp(text, forced + at, length) != 0) {
            *count = i;
            break;
        }
        at += length;
    }
    return SL_OK;
}

sl_status sl_grammar_state_forced(sl_grammar_state *state, sl_token *tokens, size_t capacity,
                                  size_t *out_count, sl_error *err) {
    char forced[MAX_FORCED_BYTES];
    sl_token found[MAX_FORCED_TOKENS];
    size_t bytes = 0, count = 0;
    SL_NEED(state && (tokens || !capacity) && out_count);
    *out_count = 0;
    SL_TRY(sl_matcher_forced(state->matcher, forced, sizeof forced, &bytes, err));
    if (!bytes) return SL_OK;
    const sl_tokenizer_input input = {forced, bytes, {.everywhere = true}};
    SL_TRY(sl_tokenizer_encode_input(state->vocabulary->tokenizer, &input, found, MAX_FORCED_TOKENS,
                                     &count, err));
    if (count > MAX_FORCED_TOKENS) return SL_OK;
    SL_TRY(certain_tokens(state, forced, bytes, found, &count, err));
    if (count > capacity) count = capacity;
    if (count) memcpy(tokens, found, count * sizeof *tokens);
    *out_count = count;
    return SL_OK;
}
