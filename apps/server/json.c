#include "apps/server/json.h"
#include "sluice/sluice.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts that grow ---- */

static bool reserve(server_text *text, size_t more) {
    if (text->failed) return false;
    if (text->length + more < text->capacity) return true;
    size_t capacity = text->capacity ? text->capacity * 2 : 256;
    while (capacity <= text->length + more) capacity *= 2;
    char *larger = realloc(text->bytes, capacity);
    if (!larger) {
        text->failed = true;
        return false;
    }
    text->bytes = larger;
    text->capacity = capacity;
    return true;
}

void server_text_add(server_text *text, const char *bytes, size_t count) {
    if (count == 0 || !reserve(text, count)) return;
    memcpy(text->bytes + text->length, bytes, count);
    text->length += count;
    text->bytes[text->length] = '\0';
}

void server_text_print(server_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int count = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (count < 0 || !reserve(text, (size_t)count + 1)) return;
    va_start(args, format);
    (void)vsnprintf(text->bytes + text->length, (size_t)count + 1, format, args);
    va_end(args);
    text->length += (size_t)count;
}

void server_text_free(server_text *text) {
    free(text->bytes);
    *text = (server_text){0};
}

/* ---- JSON of clients ---- */

/* The value of four hexadecimal digits; -1 if they are none. */
static int read_hex(const char *at, const char *end) {
    int value = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *found = memchr(digits, at[i] | ('A' <= at[i] && at[i] <= 'Z' ? 32 : 0), 16);
        if (!found) return -1;
        value = value * 16 + (int)(found - digits);
    }
    return value;
}

/* Of an escape \uXXXX whose digits are at `at`: replaces what stands for no character.  Returns
 * where to go on. */
static char *repair_escape(char *at, const char *end) {
    const int unit = read_hex(at, end);
    if (unit < 0) return at;
    const bool high = unit >= 0xd800 && unit < 0xdc00;
    if (high && end - at >= 10 && at[4] == '\\' && at[5] == 'u') {
        const int low = read_hex(at + 6, end);
        if (low >= 0xdc00 && low < 0xe000) return at + 10;
    }
    if (unit == 0 || (unit >= 0xd800 && unit < 0xe000)) memcpy(at, "fffd", 4);
    return at + 4;
}

static void repair(char *body, size_t bytes) {
    char *const end = body + bytes;
    for (char *at = body; (at = memchr(at, '\\', (size_t)(end - at)));) {
        if (end - at < 2) return;
        at = at[1] == 'u' ? repair_escape(at + 2, end) : at + 2;
    }
}

json_t *server_json_parse(char *body, size_t bytes, server_error *err) {
    json_error_t problem;
    repair(body, bytes);
    json_t *value = json_loadb(body, bytes, 0, &problem);
    if (json_is_object(value)) return value;
    if (value)
        (void)server_refuse(err, 400, NULL, "the body is not a JSON object");
    else
        (void)server_refuse(err, 400, NULL, "the body is not valid JSON: %s (line %d, column %d)",
                            problem.text, problem.line, problem.column);
    json_decref(value);
    return NULL;
}

json_t *server_json_get(const json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

const char *server_json_string(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

bool server_json_whole(const json_t *object, const char *name, int64_t least, int64_t most,
                       int64_t *out, server_error *err) {
    const json_t *value = server_json_get(object, name);
    if (!value) return true;
    const double real = json_number_value(value);
    /* Some clients write 5 as 5.0. */
    const bool whole = json_is_integer(value) || (json_is_real(value) && real > -9e15 &&
                                                  real < 9e15 && real == (double)(int64_t)real);
    if (whole) *out = json_is_integer(value) ? json_integer_value(value) : (int64_t)real;
    if (whole && *out >= least && *out <= most) return true;
    return server_refuse(err, 400, name, "%s: expected a whole number from %lld to %lld", name,
                         (long long)least, (long long)most);
}

bool server_json_flag(const json_t *object, const char *name, bool *out, server_error *err) {
    const json_t *value = server_json_get(object, name);
    if (!value) return true;
    if (!json_is_boolean(value))
        return server_refuse(err, 400, name, "%s: expected true or false", name);
    *out = json_is_true(value);
    return true;
}

/* ---- JSON for clients ---- */

enum { FLAGS = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(10) };

char *server_json_dump(const json_t *value) {
    return value ? json_dumps(value, FLAGS) : NULL;
}

static int add_piece(const char *bytes, size_t count, void *text) {
    server_text_add(text, bytes, count);
    return ((server_text *)text)->failed ? -1 : 0;
}

void server_json_print(server_text *text, json_t *value) {
    if (!value || json_dump_callback(value, add_piece, text, FLAGS) != 0) text->failed = true;
    json_decref(value);
}

json_t *server_json_text(const char *bytes, size_t count) {
    json_t *value = json_stringn(bytes, count);
    if (value) return value;
    char *made = malloc(3 * (count + 4));
    sl_text_stream stream = {0};
    if (!made) return NULL;
    size_t length = sl_text_stream_push(&stream, bytes, count, made);
    length += sl_text_stream_finish(&stream, made + length);
    value = json_stringn(made, length);
    free(made);
    return value;
}
