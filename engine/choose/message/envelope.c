/* envelope.c - Arguments that are JSON already, alone or with the name around them. */
#include "engine/choose/message/parser_state.h"
#include <string.h>

enum { OPEN, KEY_OR_END, KEY, KEY_TEXT, COLON, VALUE, NEXT };
enum { OTHER, NAME, ARGUMENTS, ID };

/* Line breaks inside strings, which JSON forbids and models write, are escaped. */
static void put_argument_byte(sl_message_parser *p, char byte, bool in_string) {
    if ((unsigned char)byte < 0x20 && in_string)
        sl_parser_arguments_escaped(p, byte);
    else
        sl_parser_arguments(p, &byte, 1);
}

bool sl_parser_args_byte(sl_message_parser *p, char byte, bool *done) {
    if (!p->json_begun) {
        if (sl_is_blank(byte)) return true;
        if (byte != '{') return false;
        p->json_begun = true;
    }
    const bool in_string = sl_json_bytes_in_string(&p->json);
    const sl_json_bytes_result result = sl_json_bytes_push(&p->json, byte);
    p->work++;
    if (result == SL_JSON_BYTES_BAD) return false;
    put_argument_byte(p, byte, in_string);
    *done = result == SL_JSON_BYTES_DONE;
    return true;
}

static int part_of_key(sl_slice key) {
    static const struct {
        const char *key;
        int part;
    } parts[] = {{"name", NAME}, {"arguments", ARGUMENTS}, {"parameters", ARGUMENTS}, {"id", ID}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i].key) == key.bytes && memcmp(parts[i].key, key.text, key.bytes) == 0)
            return parts[i].part;
    return OTHER;
}

static bool key_byte(sl_message_parser *p, char byte) {
    sl_envelope *e = &p->envelope;
    if (byte == '"' && !e->escaped) {
        e->part = (uint8_t)part_of_key((sl_slice){e->key.bytes ? e->key.text : "", e->key.bytes});
        e->at = COLON;
        return true;
    }
    e->escaped = byte == '\\' && !e->escaped;
    sl_parser_put(p, &e->key, &byte, 1);
    return e->key.bytes <= SL_MOST_NAME;
}

/* ---- Values ---- */

/* The character of \uXXXX, with its partner if it has one; *at is moved past it. */
static uint32_t decode_unit(const char **at) {
    uint32_t units[2] = {0};
    for (int i = 0; i < 2; i++) {
        *at += 2;
        for (int k = 0; k < 4; k++, ++*at) {
            const char lower = (char)(**at | 32);
            units[i] = units[i] << 4 | (uint32_t)(lower >= 'a' ? lower - 'a' + 10 : lower - '0');
        }
        if (i == 0 && (units[0] < 0xD800 || units[0] >= 0xDC00)) return units[0];
    }
    return 0x10000 + ((units[0] - 0xD800) << 10) + (units[1] - 0xDC00);
}

/* The text of a JSON string, which was checked; false: it is something else. */
static bool decode(sl_message_parser *p, const sl_text_buffer *from, sl_text_buffer *to) {
    static const char letters[] = "nrtfb", known[] = "\n\r\t\f\b";
    sl_text_buffer_clear(to);
    if (from->bytes < 2 || from->text[0] != '"') return false;
    const char *end = from->text + from->bytes - 1;
    for (const char *at = from->text + 1; at < end;) {
        char character[4] = {*at};
        size_t bytes = 1;
        if (at[0] != '\\') {
            at++;
        } else if (at[1] == 'u') {
            bytes = sl_utf8_encode(decode_unit(&at), character);
        } else {
            const char *letter = strchr(letters, at[1]);
            character[0] = letter ? known[letter - letters] : at[1];
            at += 2;
        }
        sl_parser_put(p, to, character, bytes);
    }
    return true;
}

static bool take_name(sl_message_parser *p) {
    sl_envelope *e = &p->envelope;
    if (e->has_name || !decode(p, &e->value, &p->word) || p->word.bytes == 0) return false;
    if (!sl_parser_name_fits(p->word.text, p->word.bytes)) return false;
    e->has_name = true;
    const bool must_know = p->family->traits & SL_FAMILY_WHOLE && json_object_size(p->schemas);
    return !must_know || json_object_get(p->schemas, p->word.text);
}

/* An object, a string that has one in it, or null for none. */
static bool take_arguments(sl_message_parser *p) {
    sl_envelope *e = &p->envelope;
    e->has_arguments = true;
    if (e->streams) return true;
    if (e->value.bytes == 0) return false;
    const char first = e->value.text[0];
    if (first == '"') {
        if (!decode(p, &e->value, &e->arguments)) return false;
        size_t at = 0;
        while (at < e->arguments.bytes && sl_is_blank(e->arguments.text[at])) at++;
        return at < e->arguments.bytes && e->arguments.text[at] == '{' &&
               sl_json_bytes_valid((sl_slice){e->arguments.text, e->arguments.bytes});
    }
    if (first != '{' && first != 'n') return false;
    sl_text_buffer_clear(&e->arguments);
    if (first == '{') sl_parser_put(p, &e->arguments, e->value.text, e->value.bytes);
    return true;
}

static bool is_letter_or_digit(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

/* Only a family that names calls by ids is taken at its word. */
static void take_id(sl_message_parser *p) {
    if (!(p->family->traits & SL_FAMILY_SHORT_ID) || p->open) return;
    if (!decode(p, &p->envelope.value, &p->id)) return;
    bool good = p->id.bytes == 9;
    for (size_t i = 0; good && i < p->id.bytes; i++) good = is_letter_or_digit(p->id.text[i]);
    if (!good) sl_text_buffer_clear(&p->id);
}

static bool end_value(sl_message_parser *p) {
    sl_envelope *e = &p->envelope;
    e->at = NEXT;
    if (e->part == NAME) return take_name(p);
    if (e->part == ARGUMENTS) return take_arguments(p);
    if (e->part == ID) take_id(p);
    return true;
}

static bool begin_value(sl_message_parser *p, char byte) {
    sl_envelope *e = &p->envelope;
    p->json_begun = true;
    if (e->part != ARGUMENTS) return true;
    if (e->has_arguments) return false;
    e->streams = byte == '{' && e->has_name;
    if (e->streams) sl_parser_open_call(p, p->word.text, p->word.bytes);
    return true;
}

static void keep_byte(sl_message_parser *p, char byte, bool in_string) {
    sl_envelope *e = &p->envelope;
    char escaped[6] = {byte};
    if (e->streams && e->part == ARGUMENTS) {
        put_argument_byte(p, byte, in_string);
    } else if (e->part != OTHER) {
        const bool escapes = (unsigned char)byte < 0x20 && in_string;
        sl_parser_put(p, &e->value, escaped, escapes ? sl_parser_escape(byte, escaped) : 1);
    }
}

static bool next_byte(sl_message_parser *p, char byte, bool *done);

static bool value_byte(sl_message_parser *p, char byte, bool *done) {
    if (!p->json_begun && sl_is_blank(byte)) return true;
    if (!p->json_begun && !begin_value(p, byte)) return false;
    const bool in_string = sl_json_bytes_in_string(&p->json);
    const sl_json_bytes_result result = sl_json_bytes_push(&p->json, byte);
    if (result == SL_JSON_BYTES_BAD) return false;
    if (result == SL_JSON_BYTES_PAST) return end_value(p) && next_byte(p, byte, done);
    keep_byte(p, byte, in_string);
    return result == SL_JSON_BYTES_MORE || end_value(p);
}

/* ---- Between values ---- */

static bool end(sl_message_parser *p, bool *done) {
    const sl_envelope *e = &p->envelope;
    if (!e->has_name) return false;
    *done = true;
    if (e->streams) return true;
    sl_parser_open_call(p, p->word.text, p->word.bytes);
    sl_parser_arguments(p, e->arguments.bytes ? e->arguments.text : "{}",
                        e->arguments.bytes ? e->arguments.bytes : 2);
    return true;
}

static bool begin_key(sl_message_parser *p) {
    p->envelope.at = KEY_TEXT;
    p->envelope.escaped = false;
    sl_text_buffer_clear(&p->envelope.key);
    return true;
}

static bool next_byte(sl_message_parser *p, char byte, bool *done) {
    sl_envelope *e = &p->envelope;
    if (sl_is_blank(byte)) return true;
    if (byte == '}') return end(p, done);
    e->at = KEY;
    return byte == ',';
}

bool sl_parser_envelope_byte(sl_message_parser *p, char byte, bool *done) {
    sl_envelope *e = &p->envelope;
    p->work++;
    if (e->at == KEY_TEXT) return key_byte(p, byte);
    if (e->at == VALUE) return value_byte(p, byte, done);
    if (sl_is_blank(byte)) return true;
    switch (e->at) {
    case OPEN:
        e->at = KEY_OR_END;
        return byte == '{';
    case KEY_OR_END:
    case KEY:
        return byte == '"' && begin_key(p);
    case COLON:
        e->at = VALUE;
        p->json = (sl_json_bytes){0};
        p->json_begun = false;
        sl_text_buffer_clear(&e->value);
        return byte == ':';
    default:
        return next_byte(p, byte, done);
    }
}
