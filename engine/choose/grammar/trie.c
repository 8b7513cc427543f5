/* trie.c - Builds the tries of a vocabulary. */
#include "engine/choose/grammar/trie.h"
#include "base/sizes.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN_BYTES = 1 << 16, MAX_VOCAB = 1 << 24 };

typedef struct {
    const char *text;
    uint32_t bytes, token;
} entry;

static int compare(const void *a, const void *b) {
    const entry *x = a, *y = b;
    const uint32_t shorter = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int order = shorter ? memcmp(x->text, y->text, shorter) : 0;
    if (order) return order;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static uint32_t shared_prefix(const entry *a, const entry *b) {
    const uint32_t shorter = a->bytes < b->bytes ? a->bytes : b->bytes;
    uint32_t same = 0;
    while (same < shorter && a->text[same] == b->text[same]) same++;
    return same;
}

static size_t count_nodes(const entry *entries, size_t count) {
    size_t nodes = 0;
    for (size_t i = 0; i < count; i++)
        nodes += entries[i].bytes - (i ? shared_prefix(&entries[i - 1], &entries[i]) : 0);
    return nodes;
}

/* entries: no empty texts; they are sorted here.  open: room for max_bytes + 1. */
static bool build(sl_arena *arena, entry *entries, size_t count, uint32_t *open, sl_trie *out) {
    qsort(entries, count, sizeof *entries, compare);
    const size_t nodes = count_nodes(entries, count);
    out->nodes = SL_ARENA_NEW_ARRAY(arena, sl_trie_node, nodes + 1);
    out->tokens = SL_ARENA_NEW_ARRAY(arena, uint32_t, count + 1);
    if (nodes >= UINT32_MAX || !out->nodes || !out->tokens) return false;
    uint32_t made = 0, depth = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t same = i ? shared_prefix(&entries[i - 1], &entries[i]) : 0;
        while (depth > same) out->nodes[open[depth--]].next = made;
        while (depth < entries[i].bytes) {
            const sl_trie_node node = {.byte = (unsigned char)entries[i].text[depth],
                                       .depth = (depth + 1) & 0xFFFFFF,
                                       .first = (uint32_t)i};
            out->nodes[made] = node;
            open[++depth] = made++;
        }
        out->tokens[i] = entries[i].token;
    }
    while (depth) out->nodes[open[depth--]].next = made;
    out->nodes[made].first = (uint32_t)count;
    out->count = made;
    out->token_count = (uint32_t)count;
    return true;
}

/* Bytes of the text's first characters that are body, and their number. */
static uint32_t body_bytes(const char *text, size_t bytes, uint32_t *characters) {
    size_t at = 0;
    for (*characters = 0; at < bytes; ++*characters) {
        uint32_t c;
        const size_t length = sl_utf8_decode((sl_slice){text + at, bytes - at}, &c);
        if (!length || c < 0x20 || c == '"' || c == '\\') break;
        at += length;
    }
    return (uint32_t)at;
}

static void set_bit(uint32_t *bits, uint32_t i) {
    bits[i / 32] |= UINT32_C(1) << (i % 32);
}

typedef struct {
    entry *all, *no_body, *no_short_body, *tails;
    uint32_t *open;
    size_t all_count, no_body_count, no_short_body_count, tail_count;
} lists;

static void add_token(sl_token_tries *tries, lists *l, uint32_t id, const sl_trie_token *token) {
    const entry whole = {token->text, (uint32_t)token->bytes, id};
    uint32_t characters;
    const uint32_t body = body_bytes(token->text, token->bytes, &characters);
    l->all[l->all_count++] = whole;
    if (whole.bytes > tries->max_bytes) tries->max_bytes = whole.bytes;
    if (body == token->bytes) {
        set_bit(tries->bodies, id);
        if (characters <= SL_SHORT_BODY)
            set_bit(tries->short_bodies, id);
        else
            l->no_short_body[l->no_short_body_count++] = whole;
        return;
    }
    l->no_body[l->no_body_count++] = whole;
    l->no_short_body[l->no_short_body_count++] = whole;
    l->tails[l->tail_count++] = (entry){token->text + body, (uint32_t)token->bytes - body, id};
}

static bool fill(sl_token_tries *tries, sl_trie_token_fn *token, const void *ctx, lists *l,
                 sl_arena *scratch) {
    for (uint32_t id = 0; id < tries->vocab; id++) {
        const sl_trie_token t = token(ctx, id);
        if (t.ends) set_bit(tries->ends, id);
        if (t.control) set_bit(tries->controls, id);
        if (!t.control && !t.ends && t.bytes && t.bytes <= MAX_TOKEN_BYTES)
            add_token(tries, l, id, &t);
    }
    l->open = SL_ARENA_NEW_ARRAY(scratch, uint32_t, (size_t)tries->max_bytes + 1);
    return l->open && build(&tries->arena, l->all, l->all_count, l->open, &tries->all) &&
           build(&tries->arena, l->no_body, l->no_body_count, l->open, &tries->no_body) &&
           build(&tries->arena, l->no_short_body, l->no_short_body_count, l->open,
                 &tries->no_short_body) &&
           build(&tries->arena, l->tails, l->tail_count, l->open, &tries->tails);
}

static bool create(sl_token_tries *tries, sl_trie_token_fn *token, const void *ctx) {
    const size_t words = sl_mask_words(tries->vocab) + 1;
    sl_arena scratch;
    lists l = {0};
    tries->bodies = SL_ARENA_NEW_ARRAY(&tries->arena, uint32_t, words);
    tries->short_bodies = SL_ARENA_NEW_ARRAY(&tries->arena, uint32_t, words);
    tries->controls = SL_ARENA_NEW_ARRAY(&tries->arena, uint32_t, words);
    tries->ends = SL_ARENA_NEW_ARRAY(&tries->arena, uint32_t, words);
    if (!tries->bodies || !tries->short_bodies || !tries->controls || !tries->ends) return false;
    sl_arena_init(&scratch, tries->arena.allocator);
    const size_t most = (size_t)tries->vocab + 1;
    l.all = SL_ARENA_NEW_ARRAY(&scratch, entry, most);
    l.no_body = SL_ARENA_NEW_ARRAY(&scratch, entry, most);
    l.no_short_body = SL_ARENA_NEW_ARRAY(&scratch, entry, most);
    l.tails = SL_ARENA_NEW_ARRAY(&scratch, entry, most);
    const bool fine =
        l.all && l.no_body && l.no_short_body && l.tails && fill(tries, token, ctx, &l, &scratch);
    sl_arena_deinit(&scratch);
    return fine;
}

sl_status sl_token_tries_create(uint32_t vocab, sl_trie_token_fn *token, const void *ctx,
                                const sl_allocator *allocator, sl_token_tries **out,
                                sl_error *err) {
    sl_arena arena;
    if (vocab > MAX_VOCAB)
        return sl_fail(err, SL_UNSUPPORTED, "vocabulary: %u tokens, at most %d are supported",
                       vocab, MAX_VOCAB);
    sl_arena_init(&arena, allocator);
    sl_token_tries *tries = SL_ARENA_NEW(&arena, sl_token_tries);
    if (!tries) return sl_no_memory(err, "a vocabulary", sizeof *tries);
    tries->arena = arena;
    tries->vocab = vocab;
    if (!create(tries, token, ctx)) {
        sl_token_tries_destroy(tries);
        return sl_no_memory(err, "the tries of a vocabulary", vocab);
    }
    *out = tries;
    return SL_OK;
}

void sl_token_tries_destroy(sl_token_tries *tries) {
    if (!tries) return;
    sl_arena arena = tries->arena;
    sl_arena_deinit(&arena);
}
