/* words_test.c - The hand-written matchers against PCRE2 on random text of all scripts, and the
 * character classes against PCRE2's. */
#include "engine/text/character.h"
#include "engine/text/pattern.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACED "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    FOLDED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACED,
    FOLDED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACED,
    FOLDED
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACED,
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
    "+" FOLDED "?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}"
    "\\p{M}]*" FOLDED "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACED,
    "\\p{N}{1,3}",
    "\\p{N}",
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
    ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
};
enum { PATTERNS = sizeof patterns / sizeof *patterns, CLASSES = SL_CHARACTER_SYMBOL + 1 };

static const char *const class_patterns[CLASSES] = {
    "[^\\s\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}]",
    "\\s",
    "[\\p{Lu}\\p{Lt}]",
    "\\p{Ll}",
    "[\\p{Lm}\\p{Lo}]",
    "\\p{M}",
    "[\\p{Nd}\\p{Nl}]",
    "\\p{No}",
    "\\p{Pc}",
    "[\\p{Pd}\\p{Ps}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}]",
    "\\p{S}",
};

static uint64_t state;
static uint32_t random_below(uint32_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 33) % limit);
}

static sl_slice slice_of(const char *text) {
    return (sl_slice){text, strlen(text)};
}

typedef struct {
    sl_arena arena;
    sl_matcher matcher;
    sl_pattern classes[CLASSES], ours[PATTERNS], theirs[PATTERNS];
} fixture;

static int set_up(void **out) {
    static fixture f;
    sl_error err = {0};
    f = (fixture){.matcher = {.text_bytes = 4096}};
    sl_arena_init(&f.arena, NULL);
    for (int i = 0; i < CLASSES; i++)
        if (sl_pattern_init_general(&f.classes[i], slice_of(class_patterns[i]), &f.arena, &err))
            return -1;
    for (int i = 0; i < PATTERNS; i++)
        if (sl_pattern_init(&f.ours[i], slice_of(patterns[i]), false, &f.arena, &err) ||
            sl_pattern_init_general(&f.theirs[i], slice_of(patterns[i]), &f.arena, &err))
            return -1;
    *out = &f;
    return 0;
}

static int tear_down(void **in) {
    fixture *f = *in;
    for (int i = 0; i < CLASSES; i++) sl_pattern_deinit(&f->classes[i]);
    for (int i = 0; i < PATTERNS; i++) {
        sl_pattern_deinit(&f->ours[i]);
        sl_pattern_deinit(&f->theirs[i]);
    }
    sl_matcher_deinit(&f->matcher);
    sl_arena_deinit(&f->arena);
    return 0;
}

static bool matches(fixture *f, const sl_pattern *pattern, uint32_t character) {
    char text[4];
    const sl_slice slice = {text, sl_utf8_encode(character, text)};
    sl_span span = {0, 0};
    assert_int_equal(sl_pattern_find(pattern, &f->matcher, slice, 0, &span, NULL), SL_OK);
    return span.start == 0 && span.end == slice.bytes;
}

static int class_index(uint32_t character) {
    return __builtin_ctz(sl_character_set(character));
}

/* PCRE2 may know fewer characters, which it classifies as "other"; all others must agree. */
static void test_classes(void **in) {
    fixture *f = *in;
    uint32_t unknown = 0, known = 0;
    for (uint32_t c = 0; c < 0x110000; c++) {
        if ((c >= 0xD800 && c < 0xE000) || (c >= 0x40000 && c < 0xE0000)) continue;
        const int ours = class_index(c);
        if (matches(f, &f->classes[ours], c)) {
            known++;
        } else {
            if (!matches(f, &f->classes[SL_CHARACTER_OTHER], c))
                fail_msg("U+%04X is not of class %d", c, ours);
            unknown++;
        }
    }
    print_message("%u characters agree, %u are newer than PCRE2's tables\n", known, unknown);
    assert_true(known > 150000 && unknown < 20000);
}

/* A random character whose class both know: of a random script, or one that patterns mention. */
static uint32_t random_character(fixture *f) {
    static const char often[] = " \n\r\t  '''sStTdDmMrReEvVlLaAbBzZ0123456789!?/.,-_(\"#{";
    static const uint32_t rare[] = {0x17F,  0xA0,    0x3000,  0x85,   0x2028, 0x301,  0x663,
                                    0xBD,   0x1C5,   0x2B0,   0x5D0,  0x4E00, 0x3042, 0x30FC,
                                    0x180E, 0x1F600, 0xE0101, 0xFE0F, 0x200D};
    const uint32_t kind = random_below(8);
    if (kind < 4) return (unsigned char)often[random_below(sizeof often - 1)];
    if (kind < 6) return rare[random_below(sizeof rare / sizeof *rare)];
    for (;;) {
        const uint32_t c = random_below(kind == 6 ? 0x3000 : 0x20000);
        if (c >= 0xD800 && c < 0xE000) continue;
        if (matches(f, &f->classes[class_index(c)], c)) return c;
    }
}

static void check_text(fixture *f, sl_slice text) {
    for (int i = 0; i < PATTERNS; i++) {
        for (size_t from = 0; from < text.bytes;) {
            sl_span ours, theirs;
            assert_int_equal(sl_pattern_find(&f->ours[i], &f->matcher, text, from, &ours, NULL),
                             SL_OK);
            assert_int_equal(sl_pattern_find(&f->theirs[i], &f->matcher, text, from, &theirs, NULL),
                             SL_OK);
            if (ours.start != theirs.start || ours.end != theirs.end)
                fail_msg("pattern %d in '%.*s' from %zu: %zu to %zu, wanted %zu to %zu", i,
                         (int)text.bytes, text.text, from, ours.start, ours.end, theirs.start,
                         theirs.end);
            from = ours.end;
        }
    }
}

static void test_matchers(void **in) {
    fixture *f = *in;
    state = 88172645463325252u;
    for (int i = 0; i < PATTERNS; i++) assert_true(f->ours[i].match && f->theirs[i].code);
    for (int round = 0; round < 20000; round++) {
        char text[256];
        size_t bytes = 0;
        const uint32_t count = 1 + random_below(round % 2 ? 6 : 40);
        for (uint32_t i = 0; i < count; i++)
            bytes += sl_utf8_encode(random_character(f), text + bytes);
        check_text(f, (sl_slice){text, bytes});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_matchers),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
