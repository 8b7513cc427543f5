/* normalise.c - Normal form C in the standard's three steps over an array of characters:
 * decompose fully, order marks by combining class, compose. */
#include "engine/text/normalise.h"
#include "engine/text/nfc_tables.h"
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11A7, HANGUL_S = 0xAC00 };
enum { L_COUNT = 19, V_COUNT = 21, T_COUNT = 28, S_COUNT = L_COUNT * V_COUNT * T_COUNT };

/* Characters below this are inert: they only change if a mark follows, and never combine with the
 * one before. */
enum { FIRST_MARK = 0x300 };

/* ---- table lookup ---- */

/* Ideographs, from 0x3400 on, neither combine nor decompose; nor does ASCII. */
static bool is_inert(uint32_t character) {
    return character < 0xC0 || (character >= 0x3400 && character < 0xA66F);
}

static uint8_t combining_class(uint32_t character) {
    if (character < FIRST_MARK || is_inert(character)) return 0;
    size_t low = 0, high = COUNT(nfc_classes);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (character > nfc_classes[middle][1])
            low = middle + 1;
        else if (character < nfc_classes[middle][0])
            high = middle;
        else
            return (uint8_t)nfc_classes[middle][2];
    }
    return 0;
}

static const uint32_t *find_decomposition(uint32_t character) {
    size_t low = 0, high = COUNT(nfc_decompositions);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (character == nfc_decompositions[middle][0]) return nfc_decompositions[middle];
        if (character > nfc_decompositions[middle][0])
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static uint32_t compose_hangul(uint32_t first, uint32_t second) {
    if (first >= HANGUL_L && first < HANGUL_L + L_COUNT && second >= HANGUL_V &&
        second < HANGUL_V + V_COUNT)
        return HANGUL_S + ((first - HANGUL_L) * V_COUNT + second - HANGUL_V) * T_COUNT;
    if (first >= HANGUL_S && first < HANGUL_S + S_COUNT && (first - HANGUL_S) % T_COUNT == 0 &&
        second > HANGUL_T && second < HANGUL_T + T_COUNT)
        return first + second - HANGUL_T;
    return 0;
}

/* The composition of first and second, or 0. */
static uint32_t compose_pair(uint32_t first, uint32_t second) {
    const uint64_t wanted = (uint64_t)first << 32 | second;
    size_t low = 0, high = COUNT(nfc_compositions);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const uint32_t *row = nfc_decompositions[nfc_compositions[middle]];
        const uint64_t pair = (uint64_t)row[1] << 32 | row[2];
        if (pair == wanted) return row[0];
        if (pair < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return compose_hangul(first, second);
}

/* ---- decompose, order, compose ---- */

typedef struct {
    uint32_t *characters;
    uint8_t *classes;
    size_t count;
} run;

static void append(run *out, uint32_t character) {
    out->characters[out->count] = character;
    out->classes[out->count++] = combining_class(character);
}

/* The first part of a decomposition may decompose again, the second never does. */
static void decompose(run *out, uint32_t character) {
    const uint32_t *row = is_inert(character) ? NULL : find_decomposition(character);
    if (row) {
        decompose(out, row[1]);
        if (row[2]) append(out, row[2]);
        return;
    }
    const uint32_t hangul = character - HANGUL_S;
    if (hangul >= S_COUNT) {
        append(out, character);
        return;
    }
    append(out, HANGUL_L + hangul / (V_COUNT * T_COUNT));
    append(out, HANGUL_V + hangul / T_COUNT % V_COUNT);
    if (hangul % T_COUNT) append(out, HANGUL_T + hangul % T_COUNT);
}

/* A stable counting sort by combining class: linear for any number of marks. */
static void sort_marks(uint32_t *characters, uint8_t *classes, size_t count, uint32_t *spare) {
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) starts[classes[i] + 1]++;
    for (size_t class = 0; class < 256; class ++) starts[class + 1] += starts[class];
    for (size_t i = 0; i < count; i++) spare[starts[classes[i]]++] = characters[i];
    memcpy(characters, spare, count * sizeof *spare);
    for (size_t i = 0; i < count; i++) classes[i] = combining_class(characters[i]);
}

static void order(run *text, uint32_t *spare) {
    for (size_t start = 0; start < text->count;) {
        size_t end = start;
        bool sorted = true;
        for (; end < text->count && text->classes[end] != 0; end++)
            if (end > start && text->classes[end] < text->classes[end - 1]) sorted = false;
        if (!sorted)
            sort_marks(text->characters + start, text->classes + start, end - start, spare);
        start = end + 1;
    }
}

static void compose(run *text) {
    size_t starter = SIZE_MAX, kept = 0;
    for (size_t i = 0; i < text->count; i++) {
        const uint32_t character = text->characters[i];
        const uint8_t class = text->classes[i];
        /* A mark is blocked by an earlier one of the same or a higher class, a starter by anything
         * in between. */
        const bool adjacent = starter != SIZE_MAX && kept == starter + 1;
        const bool reachable = starter != SIZE_MAX && (adjacent || text->classes[kept - 1] < class);
        const uint32_t whole = reachable ? compose_pair(text->characters[starter], character) : 0;
        if (whole) {
            text->characters[starter] = whole;
            continue;
        }
        if (class == 0) starter = kept;
        text->characters[kept] = character;
        text->classes[kept++] = class;
    }
    text->count = kept;
}

/* ---- whole texts ---- */

/* Whether a character with this first byte may change or combine with the one before it. */
static bool is_involved(char lead) {
    return (unsigned char)lead >= 0xCC; /* the first byte of FIRST_MARK */
}
static bool is_first_byte(char byte) {
    return ((unsigned char)byte & 0xC0) != 0x80;
}

/* The next range at or after `from` that must be normalised: a run of involved characters and the
 * one before it.  {bytes, bytes} if there is none. */
static sl_span next_stretch(sl_slice text, size_t from) {
    size_t start = from, last = from; /* last: start of the character before `start` */
    for (; start < text.bytes && !is_involved(text.text[start]); start++)
        if (is_first_byte(text.text[start])) last = start;
    size_t end = start;
    while (end < text.bytes && (is_involved(text.text[end]) || !is_first_byte(text.text[end])))
        end++;
    return end > start ? (sl_span){last, end} : (sl_span){text.bytes, text.bytes};
}

static size_t copy_text(char *out, sl_slice text) {
    if (text.bytes > 0) memcpy(out, text.text, text.bytes);
    return text.bytes;
}

static size_t write_stretch(char *out, sl_slice stretch, run *scratch, uint32_t *spare) {
    size_t bytes = 0;
    scratch->count = 0;
    for (size_t at = 0; at < stretch.bytes;) {
        uint32_t character = 0;
        at += sl_utf8_decode(sl_slice_part(stretch, at, stretch.bytes), &character);
        decompose(scratch, character);
    }
    order(scratch, spare);
    compose(scratch);
    for (size_t i = 0; i < scratch->count; i++)
        bytes += sl_utf8_encode(scratch->characters[i], out + bytes);
    return bytes;
}

/* A character of n bytes decomposes into at most 1.5 n, and NFC is at most three times as long. */
sl_status sl_normalise_nfc(sl_slice text, sl_arena *arena, sl_slice *out, sl_error *err) {
    size_t longest = 0, room = text.bytes;
    sl_span span = next_stretch(text, 0);
    for (; span.start < text.bytes; span = next_stretch(text, span.end)) {
        const size_t bytes = span.end - span.start;
        if (bytes > longest) longest = bytes;
        room += 2 * bytes;
    }
    *out = text;
    if (longest == 0) return SL_OK;
    char *fresh = sl_arena_alloc(arena, room, 1);
    uint32_t *spare = SL_ARENA_NEW_ARRAY(arena, uint32_t, 2 * longest);
    run scratch = {SL_ARENA_NEW_ARRAY(arena, uint32_t, 2 * longest),
                   SL_ARENA_NEW_ARRAY(arena, uint8_t, 2 * longest), 0};
    if (!fresh || !spare || !scratch.characters || !scratch.classes)
        return sl_no_memory(err, "normalised text", room + 18 * (uint64_t)longest);
    size_t done = 0, bytes = 0;
    while (done < text.bytes) {
        span = next_stretch(text, done);
        bytes += copy_text(fresh + bytes, sl_slice_part(text, done, span.start));
        bytes += write_stretch(fresh + bytes, sl_slice_part(text, span.start, span.end), &scratch,
                               spare);
        done = span.end;
    }
    *out = (sl_slice){fresh, bytes};
    return SL_OK;
}
