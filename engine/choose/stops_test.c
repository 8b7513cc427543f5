/* stops_test.c - Stop texts in streams, against the plain way: after each byte, compare every text.
 * SLUICE_LONG=1 runs a million random cases, else a part of them. */
#include "engine/choose/stops.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_BYTES = 64, MOST_TEXTS = 6, MOST_BYTES = 600, CASES = 20000, LONG_CASES = 1000000 };

static sl_error err;
static uint64_t state = 88172645463325252u;
static uint32_t below(uint32_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 20) % limit);
}

typedef struct {
    char text[MOST_TEXTS][TEXT_BYTES];
    const char *texts[MOST_TEXTS];
    uint32_t count;
    char bytes[MOST_BYTES];
    size_t length;
} random_case;

/* ---- random cases: few characters, of all lengths in UTF-8, and what is no UTF-8 in the stream */

static const char *const characters[] = {"a", "b", "c",    "\n",   "é", "è",
                                         "€", "₭", "🙂", "🙃", "<", "/"};
enum { CHARACTERS = sizeof characters / sizeof characters[0] };

static void random_text(char *out, uint32_t most, uint32_t alphabet) {
    const uint32_t count = 1 + below(most);
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes +=
            (size_t)snprintf(out + bytes, TEXT_BYTES - bytes, "%s", characters[below(alphabet)]);
}

static void make_case(random_case *c) {
    const uint32_t alphabet = 1 + below(CHARACTERS);
    c->count = 1 + below(MOST_TEXTS);
    for (uint32_t i = 0; i < c->count; i++) {
        random_text(c->text[i], 8, alphabet);
        c->texts[i] = c->text[i];
    }
    c->length = 0;
    const size_t length = below(300);
    while (c->length < length) {
        char piece[TEXT_BYTES];
        random_text(piece, 4, alphabet);
        size_t bytes = strlen(piece), from = 0;
        const uint32_t kind = below(40);
        if (kind == 0) piece[below((uint32_t)bytes)] = (char)below(256);
        if (kind == 1) from = below((uint32_t)bytes); /* may be half of a character */
        if (kind < 8 && kind > 3) {                   /* part of a stop text, or all of it */
            memcpy(piece, c->text[below(c->count)], TEXT_BYTES);
            bytes = 1 + below((uint32_t)strlen(piece));
        }
        memcpy(c->bytes + c->length, piece + from, bytes - from);
        c->length += bytes - from;
    }
}

/* ---- the plain way ---- */

static bool ends_in(const char *bytes, size_t length, const char *text, size_t text_bytes) {
    return length >= text_bytes && memcmp(bytes + length - text_bytes, text, text_bytes) == 0;
}

/* The longest text that ends at `end`; -1: none does. */
static int text_at(const random_case *c, size_t end) {
    int found = -1;
    for (uint32_t i = 0; i < c->count; i++)
        if (ends_in(c->bytes, end, c->text[i], strlen(c->text[i])) &&
            (found < 0 || strlen(c->text[i]) > strlen(c->text[found])))
            found = (int)i;
    return found;
}

/* Bytes before `end` that may begin a text. */
static size_t held_at(const random_case *c, size_t end) {
    size_t most = 0;
    for (uint32_t i = 0; i < c->count; i++)
        for (size_t n = 1; n < strlen(c->text[i]); n++)
            if (n > most && ends_in(c->bytes, end, c->text[i], n)) most = n;
    return most;
}

static size_t whole_stream(const char *bytes, size_t count, char *out) {
    sl_text_stream stream = {.count = 0};
    const size_t written = sl_text_stream_push(&stream, bytes, count, out);
    return written + sl_text_stream_finish(&stream, out + written);
}

/* ---- comparison ---- */

typedef struct {
    sl_stop_stream stops;
    sl_text_stream stream;
    char bytes[MOST_BYTES + 64], text[3 * MOST_BYTES + 64];
    size_t length, text_bytes;
} pipeline;

static void take(pipeline *p, const char *bytes, size_t count) {
    memcpy(p->bytes + p->length, bytes, count);
    p->length += count;
    p->text_bytes += sl_text_stream_push(&p->stream, bytes, count, p->text + p->text_bytes);
}

static void check_case(const random_case *c, int number) {
    static char out[MOST_BYTES + 64], wanted_text[3 * MOST_BYTES + 64];
    static pipeline p;
    sl_text_matcher *m;
    if (sl_stop_texts_create(c->texts, c->count, NULL, &m, &err) != SL_OK)
        fail_msg("case %d: %s", number, err.message);
    p = (pipeline){.length = 0};
    size_t end = 0, wanted = 0, given = 0; /* `end`: of the first match, or of everything */
    int found = -1;
    while (end < c->length && found < 0) found = text_at(c, ++end);
    wanted = found >= 0 ? end - strlen(c->text[found]) : c->length;
    while (given < c->length) {
        size_t piece = 1 + below(9);
        if (piece > c->length - given) piece = c->length - given;
        const size_t written = sl_stop_texts_push(m, &p.stops, c->bytes + given, piece, out);
        given += piece;
        take(&p, out, written);
        const size_t now = found >= 0 && given >= end ? wanted : given - held_at(c, given);
        if (p.length != now)
            fail_msg("case %d: %zu bytes of %zu given out, wanted %zu", number, p.length, given,
                     now);
    }
    take(&p, out, sl_stop_texts_finish(m, &p.stops, out));
    p.text_bytes += sl_text_stream_finish(&p.stream, p.text + p.text_bytes);
    if (p.length != wanted || memcmp(p.bytes, c->bytes, wanted) != 0)
        fail_msg("case %d: %zu bytes, wanted %zu", number, p.length, wanted);
    const bool is_right =
        found < 0 ? p.stops.found == 0
                  : p.stops.found && strcmp(c->text[p.stops.found - 1], c->text[found]) == 0;
    if (!is_right) fail_msg("case %d: found %u, wanted text %d", number, p.stops.found, found);
    const size_t wanted_bytes = whole_stream(c->bytes, wanted, wanted_text);
    if (p.text_bytes != wanted_bytes || memcmp(p.text, wanted_text, wanted_bytes) != 0)
        fail_msg("case %d: another text", number);
    sl_text_matcher_destroy(m);
}

static void random_cases(void **unused) {
    (void)unused;
    static random_case c;
    const char *of_environment = getenv("SLUICE_LONG");
    const int count = of_environment && of_environment[0] == '1' ? LONG_CASES : CASES;
    for (int i = 0; i < count; i++) {
        make_case(&c);
        check_case(&c, i);
    }
    print_message("%d cases\n", count);
}

/* ---- single cases ---- */

static void across_tokens_and_inside_one(void **unused) {
    (void)unused;
    const char *texts[] = {"STOP", "</s>"};
    sl_text_matcher *m;
    char out[64];
    assert_int_equal(sl_stop_texts_create(texts, 2, NULL, &m, &err), SL_OK);
    sl_stop_stream s = {.node = 0};
    assert_int_equal(sl_stop_texts_push(m, &s, "go ST", 5, out), 3);
    assert_memory_equal(out, "go ", 3);
    sl_stop_stream other = s; /* a copy goes its own way */
    assert_int_equal(sl_stop_texts_push(m, &s, "OP it", 5, out), 0);
    assert_int_equal(s.found, 1);
    assert_int_equal(sl_stop_texts_push(m, &s, "more", 4, out), 0);
    assert_int_equal(sl_stop_texts_finish(m, &s, out), 0);
    assert_int_equal(sl_stop_texts_push(m, &other, "STOLEN x</s>y", 13, out), 10);
    assert_memory_equal(out, "STSTOLEN x", 10);
    assert_int_equal(other.found, 2);
    sl_text_matcher_destroy(m);
}

static void what_is_no_stop_text_is_refused(void **unused) {
    (void)unused;
    sl_text_matcher *m = NULL;
    const char *empty[] = {"a", ""}, *broken[] = {"\xc3"};
    static char large[SL_MATCHER_MOST_BYTES + 2];
    memset(large, 'x', sizeof large - 1);
    const char *too_long[] = {large};
    assert_int_equal(sl_stop_texts_create(empty, 2, NULL, &m, &err), SL_INVALID);
    assert_string_equal(err.message, "stop text 1 is empty");
    assert_int_equal(sl_stop_texts_create(broken, 1, NULL, &m, &err), SL_INVALID);
    assert_string_equal(err.message, "stop text 0 is not valid UTF-8");
    assert_int_equal(sl_stop_texts_create(too_long, 1, NULL, &m, &err), SL_INVALID);
    large[SL_MATCHER_MOST_BYTES] = '\0';
    assert_int_equal(sl_stop_texts_create(too_long, 1, NULL, &m, &err), SL_OK);
    assert_int_equal(m->deepest, SL_MATCHER_MOST_BYTES);
    sl_text_matcher_destroy(m);
    assert_int_equal(sl_stop_texts_create(NULL, 0, NULL, &m, &err), SL_OK);
    sl_stop_stream s = {.node = 0};
    char out[4];
    assert_int_equal(sl_stop_texts_push(m, &s, "abc", 3, out), 3);
    sl_text_matcher_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(across_tokens_and_inside_one),
        cmocka_unit_test(what_is_no_stop_text_is_refused),
        cmocka_unit_test(random_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
