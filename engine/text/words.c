#include "engine/text/words.h"
#include "engine/text/character.h"
#include <string.h>

typedef const unsigned char *place;

/* ---- characters of well-formed UTF-8 ---- */

/* The class of the character at `at`, as a set; *out_next is after it.  0 at the end. */
static inline unsigned look(place at, place end, place *out_next) {
    if (at == end) {
        *out_next = end;
        return 0;
    }
    uint32_t character = *at;
    if (character < 0x80) {
        *out_next = at + 1;
    } else if (character < 0xE0) {
        character = (character & 0x1F) << 6 | (at[1] & 0x3Fu);
        *out_next = at + 2;
    } else if (character < 0xF0) {
        character = (character & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
        *out_next = at + 3;
    } else {
        character = (character & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 |
                    (at[3] & 0x3Fu);
        *out_next = at + 4;
    }
    return sl_character_set(character);
}

/* The end of the run of characters in set. */
static inline place skip(place at, place end, unsigned set) {
    place next;
    while (look(at, end, &next) & set) at = next;
    return at;
}

static inline bool is_newline(unsigned char byte) {
    return byte == '\r' || byte == '\n';
}

static inline place skip_newlines(place at, place end, bool slashes) {
    while (at < end && (is_newline(*at) || (slashes && *at == '/'))) at++;
    return at;
}

/* ---- subpatterns that several patterns share ---- */

/* 's|'t|'re|'ve|'m|'ll|'d, ignoring case if folded; the long s (U+017F) then counts as an s. */
static size_t match_contraction(place at, place end, bool folded) {
    const size_t left = (size_t)(end - at);
    if (left < 2 || at[0] != '\'') return 0;
    const unsigned char fold = folded ? 0x20 : 0;
    const unsigned char first = at[1] | fold, second = left > 2 ? at[2] | fold : 0;
    switch (first) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
        return second == 'e' ? 3 : 0;
    case 'l':
        return second == 'l' ? 3 : 0;
    default:
        return folded && left > 2 && at[1] == 0xC5 && at[2] == 0xBF ? 3 : 0;
    }
}

/* \s*[\r
 * ]+|\s+(?!\S)|\s+ at a space; without `lines` the first alternative is omitted. */
static size_t match_spaces(place at, place end, bool lines) {
    place here = at, last = at, line_end = at, next;
    while (look(here, end, &next) & SL_SPACES) {
        if (is_newline(*here)) line_end = next;
        last = here;
        here = next;
    }
    if (lines && line_end > at) return (size_t)(line_end - at);
    if (here == end || last == at) return (size_t)(here - at);
    return (size_t)(last - at); /* the last space belongs to the next word */
}

/* \p{N}{1,most} */
static size_t match_numbers(place at, place end, int most) {
    place here = at, next;
    while (most-- > 0 && look(here, end, &next) & SL_NUMBERS) here = next;
    return (size_t)(here - at);
}

/* " ?[signs]+[\r
 * ]*", with slashes allowed among the newlines. */
static inline size_t match_signs(place at, place end, unsigned signs, bool slashes) {
    place start = at + (*at == ' '), here = skip(start, end, signs);
    return here > start ? (size_t)(skip_newlines(here, end, slashes) - at) : 0;
}

/* ---- patterns ---- */

static size_t match_gpt2(place at, place end) {
    const size_t contraction = match_contraction(at, end, false);
    if (contraction) return contraction;
    place start = at + (*at == ' '), next;
    const unsigned set = look(start, end, &next);
    if (set & SL_LETTERS) return (size_t)(skip(next, end, SL_LETTERS) - at);
    if (set & SL_NUMBERS) return (size_t)(skip(next, end, SL_NUMBERS) - at);
    if (set & ~(unsigned)SL_SPACES)
        return (size_t)(skip(next, end, ~(unsigned)(SL_SPACES | SL_LETTERS | SL_NUMBERS)) - at);
    return match_spaces(at, end, false);
}

/* A contraction, a word with at most one other character before it, digits, signs, or spaces;
 * `letters` are the characters of words. */
static inline size_t match_plain(place at, place end, unsigned letters, int digits) {
    const size_t contraction = match_contraction(at, end, true);
    if (contraction) return contraction;
    place next, after;
    const unsigned set = look(at, end, &next);
    if (set & letters) return (size_t)(skip(next, end, letters) - at);
    if (set & SL_NUMBERS) return match_numbers(at, end, digits);
    if (!is_newline(*at) && look(next, end, &after) & letters)
        return (size_t)(skip(after, end, letters) - at);
    const size_t signs = match_signs(at, end, ~(SL_SPACES | letters | SL_NUMBERS), false);
    return signs ? signs : match_spaces(at, end, true);
}

static size_t match_llama3(place at, place end) {
    return match_plain(at, end, SL_LETTERS, 3);
}
static size_t match_qwen2(place at, place end) {
    return match_plain(at, end, SL_LETTERS, 1);
}
static size_t match_qwen35(place at, place end) {
    return match_plain(at, end, SL_LETTERS | SL_MARKS, 1);
}

enum {
    CAPITALS = SL_IN(UPPER) | SL_IN(LETTER) | SL_MARKS, /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
    SMALLS = SL_IN(LOWER) | SL_IN(LETTER) | SL_MARKS,   /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
};

/* [CAPITALS]*[SMALLS]+ at `at`: its end, or NULL.  If no small letter follows the capitals,
 * backtracks to the last capital that is also in SMALLS. */
static place match_smalls(place at, place end) {
    place here = at, both = NULL, next;
    for (unsigned set; (set = look(here, end, &next)) & CAPITALS; here = next)
        if (set & SMALLS) both = next;
    place smalls = skip(here, end, SMALLS);
    return smalls > here ? smalls : both;
}

/* The end of the word at `at` by the two alternatives of gpt4o, after an optional lead character;
 * NULL: no match. */
static place match_cased(place at, place end) {
    place here = match_smalls(at, end);
    if (here) return here;
    here = skip(at, end, CAPITALS);
    return here > at ? skip(here, end, SMALLS) : NULL;
}

/* A mark may be the lead character of a word as well as a part of it. */
static place match_cased_word(place at, place end, unsigned set, place next) {
    if (set & SL_LETTERS) return match_cased(at, end);
    if (is_newline(*at) || set & SL_NUMBERS) return NULL;
    place here = match_smalls(next, end);
    if (!here && set & SL_MARKS) here = match_smalls(at, end);
    return here ? here : match_cased(next, end);
}

static size_t match_gpt4o(place at, place end) {
    place next;
    const unsigned set = look(at, end, &next);
    if (set & SL_NUMBERS) return match_numbers(at, end, 3);
    place word = match_cased_word(at, end, set, next);
    if (word) return (size_t)(word - at) + match_contraction(word, end, true);
    const size_t signs =
        match_signs(at, end, ~(unsigned)(SL_SPACES | SL_LETTERS | SL_NUMBERS), true);
    return signs ? signs : match_spaces(at, end, true);
}

static size_t match_three_digits(place at, place end) {
    return match_numbers(at, end, 3);
}
static size_t match_digit(place at, place end) {
    return match_numbers(at, end, 1);
}

/* Ideographs, hiragana and katakana: three bytes each. */
static size_t match_deepseek_ideographs(place at, place end) {
    place here = at;
    for (; end - here >= 3 && here[0] >= 0xE3 && here[0] <= 0xE9; here += 3) {
        const uint32_t c = (here[0] & 0xFu) << 12 | (here[1] & 0x3Fu) << 6 | (here[2] & 0x3Fu);
        if (!(c >= 0x4E00 && c <= 0x9FA5) && !(c >= 0x3040 && c <= 0x30FF)) break;
    }
    return (size_t)(here - at);
}

static inline bool is_ascii_letter(unsigned char byte) {
    return (unsigned char)((byte | 0x20) - 'a') < 26;
}

static size_t match_deepseek(place at, place end) {
    place next, after;
    const unsigned set = look(at, end, &next), letters = SL_LETTERS | SL_MARKS;
    if (*at < 0x80 && set & SL_SIGNS && next < end && is_ascii_letter(*next)) {
        while (next < end && is_ascii_letter(*next)) next++;
        return (size_t)(next - at);
    }
    if (set & letters) return (size_t)(skip(next, end, letters) - at);
    if (!is_newline(*at) && !(set & SL_SIGNS) && look(next, end, &after) & letters)
        return (size_t)(skip(after, end, letters) - at);
    const size_t signs = match_signs(at, end, SL_SIGNS, false);
    return signs ? signs : match_spaces(at, end, true);
}

/* ---- the table of known patterns ---- */

#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACED "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LEAD   "[^\\r\\n\\p{L}\\p{N}]?"
#define SIGNS  " ?[^\\s\\p{L}\\p{N}]+"
#define UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const struct {
    const char *pattern;
    sl_word_match *match;
} known[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     match_gpt2},
    /* llama 3, glm 4, olmo 2 and others */
    {FOLDED "|" LEAD "\\p{L}+|\\p{N}{1,3}|" SIGNS "[\\r\\n]*|" SPACED, match_llama3},
    {FOLDED "|" LEAD "\\p{L}+|\\p{N}|" SIGNS "[\\r\\n]*|" SPACED, match_qwen2},
    {FOLDED "|" LEAD "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACED,
     match_qwen35},
    /* gpt-4o, gpt-oss */
    {LEAD UPPERS "*" LOWERS "+" FOLDED "?|" LEAD UPPERS "+" LOWERS "*" FOLDED "?|\\p{N}{1,3}|" SIGNS
                 "[\\r\\n/]*|" SPACED,
     match_gpt4o},
    /* deepseek v3, which splits in three steps */
    {"\\p{N}{1,3}", match_three_digits},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
     match_deepseek_ideographs},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     match_deepseek},
    {"\\p{N}", match_digit},
};

sl_word_match *sl_word_match_find(sl_slice pattern) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].pattern) == pattern.bytes &&
            memcmp(known[i].pattern, pattern.text, pattern.bytes) == 0)
            return known[i].match;
    return NULL;
}
