/* mutate_words.h - For fuzzers whose input is text, such as graphs and templates: half of the
 * mutations replace, add, remove or repeat words and replace numbers by others, the other half
 * change bytes.  The fuzzer defines mutation_word, which gives the words of its language. */
#ifndef SL_TESTS_SUPPORT_MUTATE_WORDS_H
#define SL_TESTS_SUPPORT_MUTATE_WORDS_H
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
/* Any word of the language, chosen by a number. */
static const char *mutation_word(uint32_t pick);

enum { MUTATION_MOST_WORDS = 1 << 14 };

typedef struct {
    size_t start, end;
} word_span;
typedef struct {
    uint32_t count, numbers;
    word_span words[MUTATION_MOST_WORDS];
} word_list;

static uint32_t word_state;
static uint32_t word_draw(uint32_t below) {
    word_state = word_state * 1664525u + 1013904223u;
    return (word_state >> 8) % below;
}

static int is_word_letter(uint8_t c) {
    return isalnum(c) || c == '_' || c == '.';
}

/* Words, and punctuation letter by letter. */
static void find_words(const uint8_t *data, size_t size, word_list *out) {
    out->count = out->numbers = 0;
    for (size_t i = 0; i < size && out->count < MUTATION_MOST_WORDS;) {
        const size_t start = i++;
        if (isspace(data[start])) continue;
        while (is_word_letter(data[start]) && i < size && is_word_letter(data[i])) i++;
        out->numbers += isdigit(data[start]) != 0;
        out->words[out->count++] = (word_span){start, i};
    }
}

static long long other_number(long long old) {
    static const long long extremes[] = {0,    1,         2,         3,         4,        5,  7,
                                         8,    16,        -1,        -2,        31,       64, 127,
                                         1000, INT32_MAX, INT32_MIN, INT64_MAX, 1ll << 40};
    const uint32_t way = word_draw(4);
    if (way == 0 && old < INT64_MAX) return old + 1;
    if (way == 1 && old > INT64_MIN) return old - 1;
    return extremes[word_draw(sizeof extremes / sizeof extremes[0])];
}

/* Puts text in place of a span; the new size, or the old one where there is no room. */
static size_t replace_span(uint8_t *data, size_t size, size_t most, word_span span,
                           const char *text, size_t bytes) {
    const size_t tail = size - span.end, fresh = span.start + bytes + tail;
    if (fresh > most) return size;
    memmove(data + span.start + bytes, data + span.end, tail);
    memcpy(data + span.start, text, bytes);
    return fresh;
}

static size_t mutate_number(uint8_t *data, size_t size, size_t most, const word_list *list) {
    uint32_t wanted = word_draw(list->numbers), w = 0;
    for (; !isdigit(data[list->words[w].start]) || wanted > 0; w++)
        wanted -= isdigit(data[list->words[w].start]) != 0;
    word_span span = list->words[w];
    char text[32];
    long long old = 0;
    size_t i = span.start;
    for (; i < span.end && isdigit(data[i]); i++)
        if (old < INT64_MAX / 16) old = old * 10 + (data[i] - '0');
    span.end = i;
    const int bytes = snprintf(text, sizeof text, "%lld", other_number(old));
    return replace_span(data, size, most, span, text, (size_t)bytes);
}

/* Several words, copied from elsewhere in the text, in place of one or before it. */
static size_t copy_words(uint8_t *data, size_t size, size_t most, const word_list *list,
                         word_span at) {
    enum { MOST_BYTES = 512 };
    char text[MOST_BYTES];
    const uint32_t from = word_draw(list->count), left = list->count - from;
    const uint32_t last = from + word_draw(left < 32 ? left : 32);
    const size_t start = list->words[from].start, bytes = list->words[last].end - start;
    if (bytes > sizeof text) return size;
    memcpy(text, data + start, bytes);
    if (word_draw(2)) at.end = at.start;
    return replace_span(data, size, most, at, text, bytes);
}

static size_t mutate_word(uint8_t *data, size_t size, size_t most, const word_list *list) {
    const uint32_t pick = word_draw(list->count), left = list->count - pick;
    word_span span = list->words[pick];
    const char *word = mutation_word(word_draw(UINT32_MAX));
    char text[160];
    switch (word_draw(5)) {
    case 0: /* remove some */
        span.end = list->words[pick + word_draw(left < 8 ? left : 8)].end;
        return replace_span(data, size, most, span, "", 0);
    case 1: /* add one */
        (void)snprintf(text, sizeof text, " %s ", word);
        span.end = span.start;
        return replace_span(data, size, most, span, text, strlen(text));
    case 2:
        return copy_words(data, size, most, list, span);
    default:
        return replace_span(data, size, most, span, word, strlen(word));
    }
}

static size_t mutate_text(uint8_t *data, size_t size, size_t most) {
    static word_list list;
    for (uint32_t i = 1 + word_draw(3); i > 0; i--) {
        find_words(data, size, &list);
        if (!list.count) return size;
        size = list.numbers && word_draw(2) ? mutate_number(data, size, most, &list)
                                            : mutate_word(data, size, most, &list);
    }
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
    word_state = seed;
    if (!size || size > most || word_draw(2)) return LLVMFuzzerMutate(data, size, most);
    return mutate_text(data, size, most);
}
#endif
