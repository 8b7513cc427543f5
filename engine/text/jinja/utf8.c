/* utf8.c - Characters of valid UTF-8. */
#include "engine/text/jinja/utf8.h"

uint32_t sl_jinja_utf8_decode(jinja_text text, size_t *out_width) {
    const unsigned char *data = (const unsigned char *)text.data;
    const unsigned char lead = data[0];
    if (lead < 0x80) {
        *out_width = 1;
        return lead;
    }
    *out_width = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    uint32_t character = lead & (0x7Fu >> *out_width);
    for (size_t i = 1; i < *out_width; i++) character = character << 6 | (data[i] & 0x3Fu);
    return character;
}

static bool continues(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

size_t sl_jinja_utf8_count(jinja_text text) {
    size_t count = 0;
    for (size_t i = 0; i < text.bytes; i++) count += !continues(text.data[i]);
    return count;
}

size_t sl_jinja_utf8_offset(jinja_text text, size_t index) {
    for (size_t i = 0; i < text.bytes; i++)
        if (!continues(text.data[i]) && index-- == 0) return i;
    return text.bytes;
}

bool sl_jinja_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool sl_jinja_is_printable(uint32_t c) {
    if (c < 0x7F) return c >= 0x20;
    if (c <= 0xA0 || c == 0xAD || sl_jinja_is_space(c)) return false;
    if ((c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E)) return false;
    if ((c >= 0x2060 && c <= 0x206F) || (c >= 0xE000 && c <= 0xF8FF)) return false;
    return c != 0xFEFF && !(c >= 0xFFF0 && c <= 0xFFFB) && (c & 0xFFFE) != 0xFFFE && c < 0xE0000;
}

uint32_t sl_jinja_upper(uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    if (c >= 0xE0 && c <= 0xFE && c != 0xF7) return c - 32;
    if (c >= 0x3B1 && c <= 0x3C9) return c == 0x3C2 ? 0x3A3 : c - 32;
    if (c >= 0x430 && c <= 0x44F) return c - 32;
    if (c >= 0x450 && c <= 0x45F) return c - 80;
    return c;
}

uint32_t sl_jinja_lower(uint32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    if (c >= 0xC0 && c <= 0xDE && c != 0xD7) return c + 32;
    if (c >= 0x391 && c <= 0x3A9 && c != 0x3A2) return c + 32;
    if (c >= 0x410 && c <= 0x42F) return c + 32;
    if (c >= 0x400 && c <= 0x40F) return c + 80;
    return c;
}

bool sl_jinja_is_alpha(uint32_t c) {
    if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z';
    if (c < 0x100)
        return c == 0xAA || c == 0xB5 || c == 0xBA || (c >= 0xC0 && c != 0xD7 && c != 0xF7);
    return sl_jinja_is_printable(c) && !(c >= 0x2000 && c <= 0x2BFF) &&
           !(c >= 0x3001 && c <= 0x3004) && !(c >= 0x3008 && c <= 0x3030) &&
           !(c >= 0xFF00 && c <= 0xFF20) && !(c >= 0x1F000 && c <= 0x1FAFF);
}

jinja_text sl_jinja_strip_left(jinja_text text) {
    while (text.bytes) {
        size_t width;
        if (!sl_jinja_is_space(sl_jinja_utf8_decode(text, &width))) break;
        text = (jinja_text){text.data + width, text.bytes - width};
    }
    return text;
}

jinja_text sl_jinja_strip_right(jinja_text text) {
    while (text.bytes) {
        size_t start = text.bytes - 1, width;
        while (continues(text.data[start])) start--;
        const jinja_text last = {text.data + start, text.bytes - start};
        if (!sl_jinja_is_space(sl_jinja_utf8_decode(last, &width))) break;
        text.bytes = start;
    }
    return text;
}
