/* cursor.h - A cursor for parsing text; accepts any bytes and validates them.
 *
 * Parse errors are SL_FORMAT, with line and column in the message. */
#ifndef SL_COMPILER_CURSOR_H
#define SL_COMPILER_CURSOR_H
#include "base/memory.h"
#include "core/type.h"

typedef struct {
    const char *at;
    size_t bytes;
} sl_slice;

typedef struct {
    const char *text, *at, *end;
    sl_error *err;
    uint32_t depth; /* nesting of bodies */
} sl_cursor;

/* Writes an error message with the position of `where`. */
void sl_cursor_explain(const sl_cursor *c, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define FAIL_AT(c, where, ...) (sl_cursor_explain((c), (where), __VA_ARGS__), SL_FORMAT)
/* The next character that is neither blank nor in a comment; 0 at the end. */
char sl_cursor_peek(sl_cursor *c);
bool sl_cursor_accept(sl_cursor *c, char wanted);
SL_CHECKED sl_status sl_cursor_expect(sl_cursor *c, char wanted);
/* Fails with "expected <wanted>" at the current position. */
SL_CHECKED sl_status sl_cursor_unexpected(sl_cursor *c, const char *wanted);

/* Words are identifiers, which may contain dots; numbers are not parsed here. */
SL_CHECKED sl_status sl_cursor_word(sl_cursor *c, const char *what, sl_slice *out);
SL_CHECKED sl_status sl_cursor_number(sl_cursor *c, sl_slice *out);
SL_CHECKED sl_status sl_cursor_quoted(sl_cursor *c, sl_arena *arena, const char *what, char **out);
bool sl_starts_word(char c);
bool sl_slice_is(sl_slice word, const char *text);

/* Conversion of numbers. */
SL_CHECKED sl_status sl_slice_integer(const sl_cursor *c, sl_slice number, int64_t least,
                                      int64_t most, int64_t *out);
SL_CHECKED sl_status sl_slice_unsigned(const sl_cursor *c, sl_slice number, uint64_t *out);
SL_CHECKED sl_status sl_slice_double(const sl_cursor *c, sl_slice number, double *out);
SL_CHECKED sl_status sl_slice_float(const sl_cursor *c, sl_slice number, float *out);
/* f16 or bf16. */
SL_CHECKED sl_status sl_slice_half(const sl_cursor *c, sl_slice number, sl_dtype dtype,
                                   uint16_t *out);
#endif
