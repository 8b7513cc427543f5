/* utf8.h - Characters of valid UTF-8, and the few properties that Python's string methods need. */
#ifndef SL_ENGINE_TEXT_JINJA_UTF8_H
#define SL_ENGINE_TEXT_JINJA_UTF8_H
#include "base/utf8.h"
#include "engine/text/jinja/jinja.h"

/* The character at text (not empty) and its width in bytes. */
uint32_t sl_jinja_utf8_decode(jinja_text text, size_t *out_width);
size_t sl_jinja_utf8_count(jinja_text text);
/* The byte offset of character `index`; text.bytes if it is past the end. */
size_t sl_jinja_utf8_offset(jinja_text text, size_t index);

bool sl_jinja_is_space(uint32_t character);     /* as str.isspace */
bool sl_jinja_is_printable(uint32_t character); /* approximately str.isprintable */
/* Case mapping and letters of ASCII, Latin-1, Greek and Cyrillic; other characters have no case. */
uint32_t sl_jinja_upper(uint32_t character);
uint32_t sl_jinja_lower(uint32_t character);
bool sl_jinja_is_alpha(uint32_t character);
jinja_text sl_jinja_strip_left(jinja_text text);
jinja_text sl_jinja_strip_right(jinja_text text);
#endif
