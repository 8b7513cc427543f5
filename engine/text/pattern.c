#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pattern.h"
#include <pcre2.h>
#include <string.h>

enum {
    MAX_PATTERN_BYTES = 1 << 14,
    /* A search begins with a window of the text and a limit that do for all but strange patterns.
     * Both grow when they do not, at the cost of steps that all searches in a text share. */
    FIRST_WINDOW_BYTES = 256,
    FIRST_LIMIT = 4096,
    GROWTH = 4,
    BASE_STEPS = 32 << 20, /* plus STEPS_PER_BYTE of the text */
    STEPS_PER_BYTE = 64,
};

/* ---- translation to PCRE2's dialect ---- */

/* Unicode's White_Space as a character class.  PCRE2's own \s also matches U+180E. */
#define SPACES                                                                                     \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"

#define EXPANSION (sizeof SPACES + 4)

typedef struct {
    char *text;
    size_t bytes;
} builder;

static void put(builder *out, const char *text, size_t bytes) {
    memcpy(out->text + out->bytes, text, bytes);
    out->bytes += bytes;
}

static void put_escape(builder *out, const char *escape, bool in_class) {
    if (escape[1] == 's' && in_class)
        put(out, SPACES, sizeof SPACES - 1);
    else if (escape[1] == 's')
        put(out, "[" SPACES "]", sizeof SPACES + 1);
    else if (escape[1] == 'S' && in_class)
        put(out, "\\S\\x{180E}", 10);
    else if (escape[1] == 'S')
        put(out, "[^" SPACES "]", sizeof SPACES + 2);
    else
        put(out, escape, 2);
}

/* Rewrites what PCRE2 would interpret differently; nested sets, which it cannot express, are an
 * error.  `out` has room for EXPANSION bytes per byte of text. */
static sl_status translate(sl_slice text, builder *out, sl_error *err) {
    /* Index of the first member of the open character class; 0: none is open. */
    size_t class_start = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        const char *at = text.text + i;
        const char next = i + 1 < text.bytes ? at[1] : '\0';
        if (*at == '\\' && i + 1 < text.bytes) {
            put_escape(out, at, class_start != 0);
            i++;
            continue;
        }
        if (class_start && ((*at == '[' && next != ':') || (*at == '&' && next == '&')))
            return sl_fail(err, SL_UNSUPPORTED, "set operation at byte %zu of pattern '%.*s'", i,
                           (int)text.bytes, text.text);
        put(out, at, 1);
        if (*at == '[' && !class_start) {
            class_start = i + (next == '^' ? 2 : 1);
            if (next == '^') put(out, text.text + ++i, 1);
        } else if (*at == '[') { /* a POSIX class, [:name:] */
            const char *end = memchr(at, ']', text.bytes - i);
            if (end) put(out, at + 1, (size_t)(end - at));
            if (end) i += (size_t)(end - at);
        } else if (*at == ']' && i != class_start) {
            class_start = 0;
        }
    }
    return SL_OK;
}

/* ---- patterns ---- */

static sl_status compile(sl_slice text, uint32_t options, pcre2_code **out, sl_error *err) {
    int code;
    PCRE2_SIZE where;
    *out =
        pcre2_compile((PCRE2_SPTR)text.text, text.bytes, options | PCRE2_UTF, &code, &where, NULL);
    if (*out) return SL_OK;
    PCRE2_UCHAR message[128] = "";
    (void)pcre2_get_error_message(code, message, sizeof message);
    return sl_fail(err, SL_FORMAT, "pattern '%.*s' is invalid at byte %zu: %s",
                   (int)(text.bytes < 256 ? text.bytes : 256), text.text, (size_t)where,
                   (const char *)message);
}

/* JIT compilation is optional: without it the pattern is interpreted. */
static void speed_up(const sl_pattern *pattern) {
    (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
}

sl_status sl_pattern_init_general(sl_pattern *pattern, sl_slice text, sl_arena *scratch,
                                  sl_error *err) {
    *pattern = (sl_pattern){0};
    const size_t room = text.bytes * EXPANSION;
    builder ours = {sl_arena_alloc(scratch, room, 1), 0};
    if (!ours.text) return sl_no_memory(err, "pattern", room);
    SL_TRY(translate(text, &ours, err));
    SL_TRY(compile((sl_slice){ours.text, ours.bytes}, PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                   &pattern->code, err));
    speed_up(pattern);
    return SL_OK;
}

sl_status sl_pattern_init(sl_pattern *pattern, sl_slice text, bool literal, sl_arena *scratch,
                          sl_error *err) {
    *pattern = (sl_pattern){0};
    if (text.bytes == 0 || text.bytes > MAX_PATTERN_BYTES)
        return sl_fail(err, SL_FORMAT, "a pattern has %zu bytes, wanted 1 to %d", text.bytes,
                       MAX_PATTERN_BYTES);
    if (literal) {
        SL_TRY(compile(text, PCRE2_LITERAL, &pattern->code, err));
        speed_up(pattern);
        return SL_OK;
    }
    pattern->match = sl_word_match_find(text);
    return pattern->match ? SL_OK : sl_pattern_init_general(pattern, text, scratch, err);
}

void sl_pattern_deinit(sl_pattern *pattern) {
    pcre2_code_free(pattern->code);
    *pattern = (sl_pattern){0};
}

/* ---- matching ---- */

static sl_status prepare(sl_matcher *matcher, sl_error *err) {
    if (matcher->data && matcher->context) return SL_OK;
    if (!matcher->data) matcher->data = pcre2_match_data_create(1, NULL);
    if (!matcher->context) matcher->context = pcre2_match_context_create(NULL);
    if (!matcher->data || !matcher->context) return sl_no_memory(err, "matcher", sizeof *matcher);
    matcher->steps_left = BASE_STEPS + STEPS_PER_BYTE * (uint64_t)matcher->text_bytes;
    return SL_OK;
}

void sl_matcher_deinit(sl_matcher *matcher) {
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    *matcher = (sl_matcher){0};
}

static sl_span find_known(sl_word_match *match, sl_slice text, size_t from) {
    const unsigned char *start = (const unsigned char *)text.text, *end = start + text.bytes;
    for (const unsigned char *at = start + from; at < end;) {
        const size_t bytes = match(at, end);
        if (bytes) return (sl_span){(size_t)(at - start), (size_t)(at - start) + bytes};
        do at++;
        while (at < end && (*at & 0xC0) == 0x80);
    }
    return (sl_span){text.bytes, text.bytes};
}

/* The end of a window of so many bytes at from, between two characters. */
static size_t window_end(sl_slice text, size_t from, size_t bytes) {
    if (bytes >= text.bytes - from) return text.bytes;
    size_t end = from + bytes;
    while (end > from && ((unsigned char)text.text[end] & 0xC0) == 0x80) end--;
    return end;
}

/* One search under way. */
typedef struct {
    sl_slice text;
    size_t from, window;
    uint32_t limit, options;
} search;

static sl_status spend(sl_matcher *matcher, const search *s, uint64_t steps, sl_error *err) {
    if (steps > matcher->steps_left)
        return sl_fail(err, SL_UNSUPPORTED,
                       "a pattern takes too many steps after byte %zu of %zu bytes of text",
                       s->from, s->text.bytes);
    matcher->steps_left -= steps;
    return SL_OK;
}

/* Gives the search what it lacked when it ended with `found`; false: it lacked nothing. */
static sl_status enlarge(sl_matcher *matcher, search *s, int found, bool *out, sl_error *err) {
    const size_t end = window_end(s->text, s->from, s->window);
    *out = true;
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !(s->options & PCRE2_NO_JIT)) {
        s->options |= PCRE2_NO_JIT;
        return SL_OK;
    }
    if (found == PCRE2_ERROR_MATCHLIMIT && s->limit < UINT32_MAX / GROWTH) {
        s->limit *= GROWTH;
        return spend(matcher, s, s->limit, err);
    }
    /* An empty match at the end of the window does not count as one that is partial. */
    const bool cut =
        end < s->text.bytes && (found == PCRE2_ERROR_PARTIAL || found == PCRE2_ERROR_NOMATCH ||
                                (found >= 0 && pcre2_get_ovector_pointer(matcher->data)[1] >= end));
    *out = cut;
    if (!cut) return SL_OK;
    s->window *= GROWTH;
    return spend(matcher, s, window_end(s->text, s->from, s->window) - s->from, err);
}

/* Matches in a window are those in the whole text: what meets the end of the window is partial. */
static sl_status match_in_windows(const sl_pattern *pattern, sl_matcher *matcher, search *s,
                                  int *out, sl_error *err) {
    bool again = true;
    while (again) {
        const size_t end = window_end(s->text, s->from, s->window);
        const uint32_t partial = end < s->text.bytes ? PCRE2_PARTIAL_HARD : 0;
        (void)pcre2_set_match_limit(matcher->context, s->limit);
        *out = pcre2_match(pattern->code, (PCRE2_SPTR)s->text.text, end, s->from,
                           s->options | partial, matcher->data, matcher->context);
        SL_TRY(enlarge(matcher, s, *out, &again, err));
    }
    return SL_OK;
}

sl_status sl_pattern_find(const sl_pattern *pattern, sl_matcher *matcher, sl_slice text,
                          size_t from, sl_span *out, sl_error *err) {
    if (pattern->match) {
        *out = find_known(pattern->match, text, from);
        return SL_OK;
    }
    int found;
    search s = {text, from, FIRST_WINDOW_BYTES, FIRST_LIMIT, PCRE2_NO_UTF_CHECK};
    SL_TRY(prepare(matcher, err));
    SL_TRY(match_in_windows(pattern, matcher, &s, &found, err));
    *out = (sl_span){text.bytes, text.bytes};
    if (found == PCRE2_ERROR_NOMATCH) return SL_OK;
    if (found >= 0) {
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(matcher->data);
        if (span[0] < from || span[1] < span[0])
            return sl_fail(err, SL_UNSUPPORTED, "a pattern matches backwards");
        *out = (sl_span){span[0], span[1]};
        return SL_OK;
    }
    PCRE2_UCHAR message[128] = "";
    (void)pcre2_get_error_message(found, message, sizeof message);
    return sl_fail(err, SL_UNSUPPORTED, "a pattern exceeded its limits after byte %zu of %zu: %s",
                   from, text.bytes, (const char *)message);
}
