#include "engine/choose/message/json_bytes.h"
#include <string.h>

enum {
    VALUE,     /* a value comes */
    FIRST,     /* or the end of the array */
    FIRST_KEY, /* a key or the end of the object */
    KEY,
    COLON,
    AFTER, /* a comma or the end of the array or object */
    STRING,
    ESCAPE,
    HEX,
    LOW,   /* \ of the low surrogate */
    LOW_U, /* its u */
    WORD,
    MINUS,
    ZERO,
    INTEGER,
    POINT,
    FRACTION,
    EXPONENT, /* after e */
    SIGN,
    POWER,
};

static bool is_space(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static bool in_object(const sl_json_bytes *json) {
    const unsigned level = json->depth - 1u;
    return json->objects[level / 64] >> level % 64 & 1;
}

static sl_json_bytes_result ended(sl_json_bytes *json) {
    json->state = AFTER;
    return json->depth ? SL_JSON_BYTES_MORE : SL_JSON_BYTES_DONE;
}

static sl_json_bytes_result to(sl_json_bytes *json, int state) {
    json->state = (uint8_t)state;
    return SL_JSON_BYTES_MORE;
}

static sl_json_bytes_result open(sl_json_bytes *json, bool object) {
    const unsigned level = json->depth;
    if (level == SL_JSON_BYTES_DEPTH) return SL_JSON_BYTES_BAD;
    const uint64_t bit = UINT64_C(1) << level % 64;
    json->objects[level / 64] =
        object ? json->objects[level / 64] | bit : json->objects[level / 64] & ~bit;
    json->depth++;
    return to(json, object ? FIRST_KEY : FIRST);
}

static sl_json_bytes_result close(sl_json_bytes *json, char byte) {
    if (byte != (in_object(json) ? '}' : ']')) return SL_JSON_BYTES_BAD;
    json->depth--;
    return ended(json);
}

static sl_json_bytes_result string(sl_json_bytes *json, bool key) {
    json->key = key;
    return to(json, STRING);
}

static sl_json_bytes_result begin(sl_json_bytes *json, char byte) {
    static const char *const words[] = {"true", "false", "null"};
    if (is_space(byte)) return SL_JSON_BYTES_MORE;
    if (byte == '"') return string(json, false);
    if (byte == '{' || byte == '[') return open(json, byte == '{');
    if (byte == '-') return to(json, MINUS);
    if (byte == '0') return to(json, ZERO);
    if (is_digit(byte)) return to(json, INTEGER);
    for (int i = 0; i < 3; i++)
        if (byte == words[i][0]) {
            json->word = words[i] + 1;
            return to(json, WORD);
        }
    return SL_JSON_BYTES_BAD;
}

static sl_json_bytes_result after(sl_json_bytes *json, char byte) {
    if (is_space(byte)) return SL_JSON_BYTES_MORE;
    if (byte == ',') return to(json, in_object(json) ? KEY : VALUE);
    return close(json, byte);
}

/* Braces, commas and what comes between them. */
static sl_json_bytes_result structure(sl_json_bytes *json, char byte) {
    if (json->state == AFTER) return json->depth ? after(json, byte) : SL_JSON_BYTES_BAD;
    if (is_space(byte)) return SL_JSON_BYTES_MORE;
    if (json->state == COLON) return byte == ':' ? to(json, VALUE) : SL_JSON_BYTES_BAD;
    if (json->state == FIRST) return byte == ']' ? close(json, byte) : begin(json, byte);
    if (byte == '"') return string(json, true);
    return json->state == FIRST_KEY ? close(json, byte) : SL_JSON_BYTES_BAD;
}

static sl_json_bytes_result hex(sl_json_bytes *json, char byte) {
    static const char digits[] = "0123456789abcdef";
    const char lower = byte >= 'A' && byte <= 'F' ? (char)(byte + 32) : byte;
    const char *found = lower ? strchr(digits, lower) : NULL;
    const uint16_t high = json->unit;
    if (!found) return SL_JSON_BYTES_BAD;
    json->unit = (uint16_t)(high << 4 | (found - digits));
    if (++json->digits % 4) return SL_JSON_BYTES_MORE;
    const bool is_low = json->unit >= 0xDC00 && json->unit < 0xE000;
    if (json->digits == 8) return is_low ? to(json, STRING) : SL_JSON_BYTES_BAD;
    if (is_low) return SL_JSON_BYTES_BAD;
    return to(json, json->unit >= 0xD800 && json->unit < 0xDC00 ? LOW : STRING);
}

static sl_json_bytes_result text(sl_json_bytes *json, char byte) {
    switch (json->state) {
    case STRING:
        if (byte == '\\') return to(json, ESCAPE);
        if (byte != '"') return SL_JSON_BYTES_MORE;
        return json->key ? to(json, COLON) : ended(json);
    case ESCAPE:
        json->digits = 0;
        json->unit = 0;
        if (byte == 'u') return to(json, HEX);
        return byte && strchr("\"\\/bfnrt", byte) ? to(json, STRING) : SL_JSON_BYTES_BAD;
    case HEX:
        return hex(json, byte);
    case LOW:
        return byte == '\\' ? to(json, LOW_U) : SL_JSON_BYTES_BAD;
    default: /* LOW_U */
        json->unit = 0;
        return byte == 'u' ? to(json, HEX) : SL_JSON_BYTES_BAD;
    }
}

/* After a complete number anything else may follow. */
static sl_json_bytes_result number_ends(sl_json_bytes *json, char byte) {
    if (ended(json) == SL_JSON_BYTES_DONE) return SL_JSON_BYTES_PAST;
    return after(json, byte);
}

static sl_json_bytes_result number(sl_json_bytes *json, char byte) {
    const uint8_t state = json->state;
    const bool digit = is_digit(byte);
    switch (state) {
    case MINUS:
        return digit ? to(json, byte == '0' ? ZERO : INTEGER) : SL_JSON_BYTES_BAD;
    case POINT:
        return digit ? to(json, FRACTION) : SL_JSON_BYTES_BAD;
    case EXPONENT:
        if (byte == '+' || byte == '-') return to(json, SIGN);
        return digit ? to(json, POWER) : SL_JSON_BYTES_BAD;
    case SIGN:
        return digit ? to(json, POWER) : SL_JSON_BYTES_BAD;
    default:
        if (digit && state != ZERO) return SL_JSON_BYTES_MORE;
        if (byte == '.' && (state == ZERO || state == INTEGER)) return to(json, POINT);
        if ((byte == 'e' || byte == 'E') && state != POWER) return to(json, EXPONENT);
        return digit ? SL_JSON_BYTES_BAD : number_ends(json, byte);
    }
}

sl_json_bytes_result sl_json_bytes_push(sl_json_bytes *json, char byte) {
    if (json->state == VALUE) return begin(json, byte);
    if (json->state < STRING) return structure(json, byte);
    if (json->state < WORD) return text(json, byte);
    if (json->state > WORD) return number(json, byte);
    if (byte != *json->word) return SL_JSON_BYTES_BAD;
    return *++json->word ? SL_JSON_BYTES_MORE : ended(json);
}

bool sl_json_bytes_in_string(const sl_json_bytes *json) {
    return json->state >= STRING && json->state < WORD;
}

bool sl_json_bytes_valid(sl_slice given) {
    sl_json_bytes json = {0};
    bool complete = false;
    for (size_t i = 0; i < given.bytes; i++) {
        const char byte = given.text[i];
        if ((unsigned char)byte < 0x20 && sl_json_bytes_in_string(&json)) return false;
        const sl_json_bytes_result result =
            complete ? SL_JSON_BYTES_PAST : sl_json_bytes_push(&json, byte);
        if (result == SL_JSON_BYTES_BAD) return false;
        if (result == SL_JSON_BYTES_PAST && !is_space(byte)) return false;
        if (result != SL_JSON_BYTES_MORE) complete = true;
    }
    return complete || sl_json_bytes_push(&json, ' ') == SL_JSON_BYTES_PAST;
}
