#include "engine/text/json_scan.h"
#include <string.h>

static bool refuse(sl_json_scan *scan) {
    scan->failed = true;
    return false;
}

char sl_json_scan_peek(sl_json_scan *scan) {
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
    return scan->at < scan->end ? *scan->at : '\0';
}

bool sl_json_scan_take(sl_json_scan *scan, char byte) {
    if (sl_json_scan_peek(scan) != byte || scan->at == scan->end) return refuse(scan);
    scan->at++;
    return true;
}

bool sl_json_scan_next(sl_json_scan *scan) {
    (void)sl_json_scan_peek(scan);
    if (scan->failed || scan->at == scan->end) return false;
    if (scan->begun && !sl_json_scan_take(scan, ',')) return false;
    scan->begun = true;
    return true;
}

/* ---- strings ---- */

static bool read_hex(const char **at, const char *end, uint32_t *out) {
    *out = 0;
    if (end - *at < 4) return false;
    for (int i = 0; i < 4; i++) {
        const char digit = *(*at)++;
        const uint32_t value = digit >= '0' && digit <= '9'   ? (uint32_t)(digit - '0')
                               : digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a' + 10)
                               : digit >= 'A' && digit <= 'F' ? (uint32_t)(digit - 'A' + 10)
                                                              : 16;
        if (value == 16) return false;
        *out = *out * 16 + value;
    }
    return true;
}

/* What follows \u; a character beyond 16 bits takes two escapes. */
static bool read_character(const char **at, const char *end, uint32_t *out) {
    uint32_t low;
    if (!read_hex(at, end, out) || *out == 0 || (*out >= 0xDC00 && *out <= 0xDFFF)) return false;
    if (*out < 0xD800 || *out > 0xDBFF) return true;
    if (end - *at < 2 || memcmp(*at, "\\u", 2) != 0) return false;
    *at += 2;
    if (!read_hex(at, end, &low) || low < 0xDC00 || low > 0xDFFF) return false;
    *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

/* An escape is never shorter than what it stands for. */
static bool decode(sl_slice raw, char *out, size_t *out_bytes) {
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *at = raw.text, *end = raw.text + raw.bytes;
    char *to = out;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        const char name = *++at; /* a string does not end with a backslash */
        at++;
        uint32_t character;
        const char *found = name ? strchr(names, name) : NULL;
        if (found)
            *to++ = meanings[found - names];
        else if (name == 'u' && read_character(&at, end, &character))
            to += sl_utf8_encode(character, to);
        else
            return false;
    }
    *out_bytes = (size_t)(to - out);
    return true;
}

bool sl_json_scan_string(sl_json_scan *scan, char *scratch, sl_slice *out) {
    bool escaped = false;
    if (!sl_json_scan_take(scan, '"')) return false;
    const char *start = scan->at, *at = start;
    for (; at < scan->end && *at != '"'; at++) {
        if ((unsigned char)*at < ' ') return refuse(scan);
        if (*at == '\\') {
            escaped = true;
            if (++at == scan->end) break;
        }
    }
    if (at == scan->end) return refuse(scan);
    scan->at = at + 1;
    *out = (sl_slice){start, (size_t)(at - start)};
    if (out->bytes > scan->longest) scan->longest = out->bytes;
    if (!escaped || !scratch) return true;
    if (!decode(*out, scratch, &out->bytes)) return refuse(scan);
    out->text = scratch;
    return true;
}

/* ---- other values ---- */

bool sl_json_scan_count(sl_json_scan *scan, uint64_t *out) {
    const uint64_t most = (uint64_t)1 << 53;
    const char first = sl_json_scan_peek(scan), *start = scan->at;
    uint64_t value = 0;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9' && value <= most)
        value = value * 10 + (uint64_t)(*scan->at++ - '0');
    const size_t digits = (size_t)(scan->at - start);
    const bool real =
        scan->at < scan->end && (*scan->at == '.' || *scan->at == 'e' || *scan->at == 'E');
    if (digits == 0 || (digits > 1 && first == '0') || real || value > most) return refuse(scan);
    *out = value;
    return true;
}

bool sl_json_scan_skip(sl_json_scan *scan) {
    size_t depth = 0;
    sl_slice string;
    do {
        const char byte = sl_json_scan_peek(scan);
        if (scan->at == scan->end) return refuse(scan);
        if (byte == '"') {
            if (!sl_json_scan_string(scan, NULL, &string)) return false;
            continue;
        }
        if (byte == '{' || byte == '[') depth++;
        if (byte == '}' || byte == ']') {
            if (depth == 0) return refuse(scan);
            depth--;
        }
        scan->at++;
        if (depth > 0 || byte == '}' || byte == ']') continue;
        while (scan->at < scan->end && !strchr(",]} \n\r\t", *scan->at)) scan->at++;
    } while (depth > 0);
    return true;
}
