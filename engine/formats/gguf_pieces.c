/* gguf_pieces.c - SentencePiece BPE vocabularies have a score per piece and no merges.  Any two
 * neighbours whose concatenation is a piece may merge, highest score first: equivalent to a list of
 * merges in order of descending score. */
#include "engine/formats/gguf_text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    sl_gguf_text piece;
    float score;
    uint32_t left; /* bytes of the first half */
} merge;

typedef struct {
    merge *items;
    size_t count, capacity;
} merge_list;

static bool is_piece(json_t *vocab, const char *text, size_t bytes) {
    return json_object_getn(vocab, text, bytes) != NULL;
}

static bool add(merge_list *list, merge item) {
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 1024;
        merge *items = realloc(list->items, capacity * sizeof *items);
        if (!items) return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return true;
}

/* Adds all ways to split a piece in two between characters. */
static bool add_halves(merge_list *list, json_t *vocab, sl_gguf_text piece, float score) {
    for (uint32_t at = 1; at < piece.bytes; at++) {
        if (((uint8_t)piece.data[at] & 0xc0) == 0x80) continue;
        if (is_piece(vocab, piece.data, at) && is_piece(vocab, piece.data + at, piece.bytes - at) &&
            !add(list, (merge){piece, score, at}))
            return false;
    }
    return true;
}

/* Descending score; ties: the longer left half first, then in order of addition. */
static int by_score(const void *left, const void *right) {
    const merge *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->left != b->left) return a->left > b->left ? -1 : 1;
    if (a->piece.bytes != b->piece.bytes) return a->piece.bytes > b->piece.bytes ? -1 : 1;
    return a->piece.data < b->piece.data ? -1 : a->piece.data > b->piece.data;
}

static sl_status collect(const sl_gguf *gguf, const sl_gguf_value *tokens,
                         const sl_gguf_value *scores, json_t *vocab, merge_list *list,
                         sl_error *err) {
    enum { MOST_BYTES = 256 }; /* of a piece; each is split at every position */
    const uint8_t *at = tokens->data;
    for (uint64_t i = 0; i < tokens->count; i++) {
        const sl_gguf_text piece = sl_gguf_next_text(&at);
        if (!is_piece(vocab, piece.data, piece.bytes)) continue;
        if (piece.bytes > MOST_BYTES)
            return sl_fail(err, SL_UNSUPPORTED,
                           "%s: 'tokenizer.ggml.tokens' %llu has %llu bytes, at most %d supported",
                           gguf->what, (unsigned long long)i, (unsigned long long)piece.bytes,
                           MOST_BYTES);
        const float score = sl_gguf_real_at(scores, i);
        if (!isfinite(score))
            return sl_fail(err, SL_FORMAT,
                           "%s: 'tokenizer.ggml.scores' %llu is not a finite number", gguf->what,
                           (unsigned long long)i);
        if (!add_halves(list, vocab, piece, score))
            return sl_no_memory(err, "merges", list->capacity * sizeof *list->items);
    }
    return SL_OK;
}

static sl_status append_all(const merge_list *list, json_t *merges, sl_error *err) {
    for (size_t i = 0; i < list->count; i++) {
        const merge *m = &list->items[i];
        const size_t rest = (size_t)m->piece.bytes - m->left;
        json_t *pair =
            json_pack("[s%, s%]", m->piece.data, (size_t)m->left, m->piece.data + m->left, rest);
        if (!pair || json_array_append_new(merges, pair) != 0)
            return sl_no_memory(err, "merges", list->count);
    }
    return SL_OK;
}

sl_status sl_gguf_merge_pieces(const sl_gguf *gguf, const sl_gguf_value *tokens, json_t *vocab,
                               json_t *merges, sl_error *err) {
    static const char key[] = "tokenizer.ggml.scores";
    const sl_gguf_value *scores = NULL;
    merge_list list = {0};
    SL_TRY(sl_gguf_get_array(gguf, key, SL_GGUF_F32, &scores, err));
    if (!scores) return sl_gguf_missing(gguf, key, err);
    if (scores->count < tokens->count)
        return sl_fail(err, SL_FORMAT, "%s: %llu '%s' for %llu tokens", gguf->what,
                       (unsigned long long)scores->count, key, (unsigned long long)tokens->count);
    sl_status status = collect(gguf, tokens, scores, vocab, &list, err);
    if (status == SL_OK && list.count > 1)
        qsort(list.items, list.count, sizeof *list.items, by_score);
    if (status == SL_OK) status = append_all(&list, merges, err);
    free(list.items);
    return status;
}
