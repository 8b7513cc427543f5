#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/pattern.h"
#include <pcre2.h>
#include <string.h>

enum {
    MAX_PATTERN_BYTES = 1 << 14,
    BASE_STEPS = 5000000, /* match limit of one search, plus STEPS_PER_BYTE per byte of text */
    STEPS_PER_BYTE = 16,
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
    (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
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
    const uint64_t steps = BASE_STEPS + STEPS_PER_BYTE * (uint64_t)matcher->text_bytes;
    (void)pcre2_set_match_limit(matcher->context,
                                steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
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

sl_status sl_pattern_find(const sl_pattern *pattern, sl_matcher *matcher, sl_slice text,
                          size_t from, sl_span *out, sl_error *err) {
    if (pattern->match) {
        *out = find_known(pattern->match, text, from);
        return SL_OK;
    }
    SL_TRY(prepare(matcher, err));
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(pattern->code, (PCRE2_SPTR)text.text, text.bytes, from, options,
                            matcher->data, matcher->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        options |= PCRE2_NO_JIT;
        found = pcre2_match(pattern->code, (PCRE2_SPTR)text.text, text.bytes, from, options,
                            matcher->data, matcher->context);
    }
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
