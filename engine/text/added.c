#include "engine/text/added.h"
#include "engine/text/character.h"
#include <stdlib.h>
#include <string.h>

/* A word character: alphabetic, mark, digit, connector or joiner. */
static bool is_word(uint32_t c) {
    enum { WORD = SL_LETTERS | SL_MARKS | SL_IN(NUMBER) | SL_IN(CONNECTOR) };
    return (sl_character_set(c) & WORD) || c == 0x200C || c == 0x200D ||
           (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

static int compare_contents(const void *left, const void *right) {
    const sl_slice a = ((const sl_added_token *)left)->content;
    const sl_slice b = ((const sl_added_token *)right)->content;
    const int order = memcmp(a.text, b.text, a.bytes < b.bytes ? a.bytes : b.bytes);
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

void sl_added_set_index(sl_added_set *set) {
    if (set->count > 1) qsort(set->tokens, set->count, sizeof *set->tokens, compare_contents);
    for (size_t i = 0; i < set->count; i++)
        set->starts[(unsigned char)set->tokens[i].content.text[0]] = true;
}

/* Binary search in a range of tokens that agree before byte `depth`: the first whose byte there is
 * >= byte.  A token that ends at `depth` sorts before all others. */
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

/* The bytes that two slices have in common from depth on. */
static size_t common_bytes(sl_slice a, sl_slice b, size_t depth) {
    const size_t least = a.bytes < b.bytes ? a.bytes : b.bytes;
    size_t end = depth;
    while (end + 64 <= least && memcmp(a.text + end, b.text + end, 64) == 0) end += 64;
    while (end < least && a.text[end] == b.text[end]) end++;
    return end - depth;
}

/* The longest token at the front of text, or NULL: narrows the range of candidates byte by byte.
 * plain: special tokens do not count.  Takes the steps from *left. */
static const sl_added_token *longest_at(const sl_added_set *set, sl_slice text, bool plain,
                                        uint64_t *left) {
    const sl_added_token *longest = NULL;
    sl_span range = {0, set->count};
    for (size_t depth = 0; depth < text.bytes && range.start < range.end && *left; depth++) {
        if (range.end - range.start == 1) {
            const sl_added_token *only = &set->tokens[range.start];
            const size_t same = common_bytes(only->content, text, depth);
            *left -= same / 16 < *left ? same / 16 : *left;
            const bool whole = depth + same == only->content.bytes;
            return whole && !(plain && only->special) ? only : longest;
        }
        --*left;
        const int byte = (unsigned char)text.text[depth];
        const size_t start = lower_bound(set, range, depth, byte);
        range.end = lower_bound(set, (sl_span){start, range.end}, depth, byte + 1);
        range.start = start;
        if (start < range.end && set->tokens[start].content.bytes == depth + 1 &&
            !(plain && set->tokens[start].special))
            longest = &set->tokens[start];
    }
    return longest;
}

static bool touches_word(sl_slice text, sl_span span) {
    uint32_t before, after;
    return (sl_utf8_decode_last(sl_slice_part(text, 0, span.start), &before) && is_word(before)) ||
           (sl_utf8_decode(sl_slice_part(text, span.end, text.bytes), &after) && is_word(after));
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

static int compare_offsets(const void *left, const void *right) {
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;
    return (a > b) - (a < b);
}

static bool is_plain(const sl_plain_text *plain, size_t at) {
    return plain->everywhere || (plain->count && bsearch(&at, plain->offsets, plain->count,
                                                         sizeof at, compare_offsets) != NULL);
}

size_t sl_added_set_find_special(const sl_added_set *set, sl_slice text, size_t from) {
    size_t first = text.bytes;
    for (size_t i = 0; i < set->count; i++) {
        const sl_slice name = set->tokens[i].name;
        if (!set->tokens[i].special || name.bytes == 0 || from >= first) continue;
        const char *at = memmem(text.text + from, text.bytes - from, name.text, name.bytes);
        if (at && (size_t)(at - text.text) < first) first = (size_t)(at - text.text);
    }
    return first;
}

sl_status sl_added_set_find(const sl_added_set *set, sl_slice text, size_t from,
                            const sl_plain_text *plain, sl_added_search *search, sl_error *err) {
    sl_added_match *out = &search->match;
    uint64_t *left = &search->left;
    for (size_t at = from; set->count > 0 && at < text.bytes; at++) {
        if (!set->starts[(unsigned char)text.text[at]]) continue;
        const sl_added_token *token =
            longest_at(set, sl_slice_part(text, at, text.bytes), is_plain(plain, at), left);
        if (*left == 0)
            return sl_fail(err, SL_UNSUPPORTED,
                           "added tokens take too many steps to find in %zu bytes of text",
                           text.bytes);
        if (!token) continue;
        sl_span span = {at, at + token->content.bytes};
        if (token->single_word && touches_word(text, span)) {
            at = span.end - 1; /* the search continues after a rejected match */
            continue;
        }
        take_spaces(token, text, from, &span);
        *out = (sl_added_match){span, token->id};
        return SL_OK;
    }
    *out = (sl_added_match){{text.bytes, text.bytes}, -1};
    return SL_OK;
}
