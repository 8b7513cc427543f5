#include "engine/text/added.h"
#include <stdlib.h>
#include <string.h>

/* A character that makes a token part of a word: alphabetic, mark, digit, connector or joiner. */
static const char word_pattern[] =
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200C}\\x{200D}\\x{24B6}-\\x{24E9}"
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}]";

static int compare_contents(const void *left, const void *right) {
    const sl_slice a = ((const sl_added_token *)left)->content;
    const sl_slice b = ((const sl_added_token *)right)->content;
    const int order = memcmp(a.text, b.text, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

sl_status sl_added_set_index(sl_added_set *set, sl_arena *scratch, sl_error *err) {
    bool wants_words = false;
    if (set->count > 1) qsort(set->tokens, set->count, sizeof *set->tokens, compare_contents);
    for (size_t i = 0; i < set->count; i++) {
        set->starts[(unsigned char)set->tokens[i].content.text[0]] = true;
        wants_words |= set->tokens[i].single_word;
    }
    if (!wants_words) return SL_OK;
    return sl_pattern_init(&set->word, (sl_slice){word_pattern, sizeof word_pattern - 1}, false,
                           scratch, err);
}

void sl_added_set_deinit(sl_added_set *set) {
    sl_pattern_deinit(&set->word);
}

/* The first of tokens[low..high), which agree before byte depth, whose byte there is >= byte; a
 * content that ends there comes before all. */
static size_t lower_bound(const sl_added_set *set, sl_span range, size_t depth, int byte) {
    while (range.start < range.end) {
        const size_t middle = (range.start + range.end) / 2;
        const sl_slice content = set->tokens[middle].content;
        const int found = depth < content.bytes ? (unsigned char)content.text[depth] : -1;
        if (found < byte)
            range.start = middle + 1;
        else
            range.end = middle;
    }
    return range.start;
}

/* The longest token at the front of text, or NULL: narrows the range of candidates byte by byte. */
static const sl_added_token *longest_at(const sl_added_set *set, sl_slice text) {
    const sl_added_token *longest = NULL;
    sl_span range = {0, set->count};
    for (size_t depth = 0; depth < text.bytes && range.start < range.end; depth++) {
        const int byte = (unsigned char)text.text[depth];
        const size_t start = lower_bound(set, range, depth, byte);
        range.end = lower_bound(set, (sl_span){start, range.end}, depth, byte + 1);
        range.start = start;
        if (start < range.end && set->tokens[start].content.bytes == depth + 1)
            longest = &set->tokens[start];
    }
    return longest;
}

/* Whether the character of this length at text belongs to a word. */
static sl_status is_word(const sl_added_set *set, const sl_matcher *matcher, sl_slice character,
                         bool *out, sl_error *err) {
    sl_span match = {0, 0};
    *out = false;
    if (character.bytes == 0) return SL_OK;
    SL_TRY(sl_pattern_find(&set->word, matcher, character, 0, &match, err));
    *out = match.end > match.start;
    return SL_OK;
}

static sl_status touches_word(const sl_added_set *set, const sl_matcher *matcher, sl_slice text,
                              sl_span span, bool *out, sl_error *err) {
    uint32_t character;
    const size_t before = sl_utf8_decode_last(sl_slice_part(text, 0, span.start), &character);
    const size_t after = sl_utf8_decode(sl_slice_part(text, span.end, text.bytes), &character);
    SL_TRY(is_word(set, matcher, sl_slice_part(text, span.start - before, span.start), out, err));
    if (*out) return SL_OK;
    return is_word(set, matcher, sl_slice_part(text, span.end, span.end + after), out, err);
}

static void take_spaces(const sl_added_token *token, sl_slice text, size_t from, sl_span *span) {
    uint32_t character;
    while (token->takes_spaces_before) {
        const size_t bytes =
            sl_utf8_decode_last(sl_slice_part(text, from, span->start), &character);
        if (bytes == 0 || !sl_utf8_is_space(character)) break;
        span->start -= bytes;
    }
    while (token->takes_spaces_after) {
        const size_t bytes = sl_utf8_decode(sl_slice_part(text, span->end, text.bytes), &character);
        if (bytes == 0 || !sl_utf8_is_space(character)) break;
        span->end += bytes;
    }
}

sl_status sl_added_set_find(const sl_added_set *set, const sl_matcher *matcher, sl_slice text,
                            size_t from, sl_added_match *out, sl_error *err) {
    *out = (sl_added_match){{text.bytes, text.bytes}, -1};
    for (size_t at = from; set->count > 0 && at < text.bytes; at++) {
        if (!set->starts[(unsigned char)text.text[at]]) continue;
        const sl_added_token *token = longest_at(set, sl_slice_part(text, at, text.bytes));
        if (!token) continue;
        sl_span span = {at, at + token->content.bytes};
        bool touches = false;
        if (token->single_word) SL_TRY(touches_word(set, matcher, text, span, &touches, err));
        if (touches) {
            at = span.end - 1; /* the search goes on after a token that was refused */
            continue;
        }
        take_spaces(token, text, from, &span);
        *out = (sl_added_match){span, token->id};
        return SL_OK;
    }
    return SL_OK;
}
