/* made_state.h - For tests of caches: states that are made up, so that the bytes that belong to any
 * tokens are known without computing. */
#ifndef SL_TESTS_SUPPORT_MADE_STATE_H
#define SL_TESTS_SUPPORT_MADE_STATE_H
#include "engine/session/prefixes.h"
#include "engine/session/slot.h"
#include "tests/support/conversation.h"

#include <xxhash.h>

enum { MOST = 400, WORDS = 40 };

static sl_model *models[2]; /* with recurrent state, and without */
static sl_model *at;        /* the one that is tested */
static uint64_t block_bytes, recurrent_bytes;

static const char attention_only[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 1280, \"hidden_size\": 64,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 32, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"moe_intermediate_size\": 32, \"tie_word_embeddings\": false}";

/* ---- made-up states: bytes that follow from the tokens before ---- */

static inline void fill(void *out, uint64_t bytes, uint64_t seed) {
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        const uint64_t word = seed * 0x9e3779b97f4a7c15ull + i;
        memcpy((char *)out + i, &word, 8);
    }
}

static inline sl_status give_recurrent(void *ctx, uint32_t index, void *out, sl_error *error) {
    const sl_state_content *content = ctx;
    (void)error;
    memset(out, 0, recurrent_bytes);
    fill(out, recurrent_bytes, XXH3_64bits(content->tokens, content->lengths[index] * 4));
    return SL_OK;
}

/* A position at a time, because a block may be used in part: its elements of a position are all
 * that sl_block_clear leaves. */
static inline void make_block(const sl_token *tokens, uint64_t block, uint64_t end, void *out) {
    fill(out, block_bytes, 1);
    /* What identifies a block are the tokens up to its first position, which all its users share.
     */
    fill(out, block_bytes, XXH3_64bits(tokens, (block * 16 + 1) * 4));
    if (end < (block + 1) * 16) sl_block_clear(at->forward, out, (uint32_t)(end - block * 16));
}

static inline sl_status give_blocks(void *ctx, uint64_t first, uint64_t count, void *out,
                                    sl_error *error) {
    const sl_state_content *content = ctx;
    (void)error;
    for (uint64_t i = 0; i < count; i++)
        make_block(content->tokens, first + i, (first + i + 1) * 16, (char *)out + i * block_bytes);
    return SL_OK;
}

typedef struct {
    sl_state_content content;
    uint64_t lengths[4];
    sl_token tokens[MOST];
} made;

static uint32_t seed;
static inline uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* A walk through a small language: tokens depend on few choices, so that prefixes are shared. */
static inline void make_tokens(sl_token *out, uint64_t count) {
    uint64_t i = 0;
    while (i < count) {
        const uint32_t word = draw(3), length = 5 + draw(WORDS);
        for (uint32_t j = 0; j < length && i < count; j++)
            out[i++] = (sl_token)(word * 50 + j % 50);
    }
}

static inline void make(made *m, uint64_t count) {
    make_tokens(m->tokens, count);
    uint32_t states = 0;
    for (uint64_t length = 1 + draw(120); recurrent_bytes && length < count && states < 3;
         length += 1 + draw(120))
        m->lengths[states++] = length;
    if (recurrent_bytes) m->lengths[states++] = count;
    m->content = (sl_state_content){.forward = at->forward,
                                    .fingerprint = &at->fingerprint,
                                    .vocab = at->config.vocab,
                                    .to = count,
                                    .token_count = count,
                                    .tokens = m->tokens,
                                    .lengths = m->lengths,
                                    .length_count = states,
                                    .recurrent = give_recurrent,
                                    .blocks = give_blocks,
                                    .ctx = &m->content};
}

/* Puts a made state into pages, of which a slot has references. */
static inline void put_in_pages(made *m) {
    enum { SLOT = 1 };
    static char blocks[1 << 21];
    const uint64_t count = sl_blocks_of(m->content.to);
    sl_kv_pages *pages = sl_forward_kv_pages(at->forward);
    assert_true(count * block_bytes <= sizeof blocks);
    must(give_blocks(&m->content, 0, count, blocks, &err));
    sl_kv_pages_truncate(pages, SLOT, 0);
    must(sl_slot_write_blocks(at->forward, SLOT, 0, count, blocks, &err));
    m->content.pages = sl_kv_pages_of(pages, SLOT, NULL);
}

static inline void use_model(int which) {
    at = models[which];
    block_bytes = sl_slot_block_bytes(at->forward);
    recurrent_bytes = sl_forward_recurrent_bytes(at->forward);
}

/* The slot has the blocks of these tokens. */
static inline void check_slot(const sl_token *tokens, uint64_t length) {
    static char found[1 << 20], wanted[1 << 20];
    assert_true(block_bytes <= sizeof found);
    for (uint64_t b = 0; b * 16 < length; b++) {
        const uint64_t end = length < (b + 1) * 16 ? length : (b + 1) * 16;
        must(sl_slot_read_blocks(at->forward, 0, b, 1, found, &err));
        if (end % 16) sl_block_clear(at->forward, found, (uint32_t)(end % 16));
        make_block(tokens, b, end, wanted);
        assert_memory_equal(found, wanted, block_bytes);
    }
}

static inline void check_recurrent(const sl_token *tokens, uint64_t length, const void *found) {
    static char wanted[1 << 22];
    assert_true(recurrent_bytes <= sizeof wanted);
    fill(wanted, recurrent_bytes, XXH3_64bits(tokens, length * 4));
    assert_memory_equal(found, wanted, recurrent_bytes / 8 * 8);
}

static inline void spoil_slot(void) {
    static char junk[1 << 20];
    memset(junk, 0x5a, block_bytes);
    for (uint64_t b = 0; b < MOST / 16; b++)
        must(sl_slot_write_blocks(at->forward, 0, b, 1, junk, &err));
}

static inline int open_models(void **state) {
    if (make_test_folder(state) != 0) return -1;
    const sl_synth_options options = {.struct_size = sizeof options, .force = 1};
    write_test_file("config.json", attention_only, sizeof attention_only - 1);
    must(sl_synth_write(test_path("config.json"), test_path("m.sluice"), &options, &err));
    const sl_model_options open = {
        .context_tokens = MOST, .max_sessions = 2, .prefix_cache_bytes = 64 << 20};
    models[0] = open_model("models/fable", open);
    models[1] = open_model(test_path("m.sluice"), open);
    return 0;
}
static inline void close_models(void) {
    sl_model_close(models[0]);
    sl_model_close(models[1]);
}
#endif
