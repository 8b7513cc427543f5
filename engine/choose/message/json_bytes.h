/* json_bytes.h - Checks JSON byte by byte, as it is generated.
 *
 * Accepts what RFC 8259 does, but control characters inside strings too (models write line breaks
 * there; the caller escapes them), and no surrogate without its partner. */
#ifndef SL_ENGINE_CHOOSE_MESSAGE_JSON_BYTES_H
#define SL_ENGINE_CHOOSE_MESSAGE_JSON_BYTES_H
#include "base/utf8.h"

enum { SL_JSON_BYTES_DEPTH = 512 };

/* One value; begins as zeros. */
typedef struct {
    uint8_t state;
    bool key;                                   /* the string is a key */
    uint8_t digits;                             /* of \uXXXX, so far */
    uint16_t unit;                              /* their value */
    uint16_t depth;                             /* of arrays and objects */
    const char *word;                           /* what is left of true, false or null */
    uint64_t objects[SL_JSON_BYTES_DEPTH / 64]; /* which levels are objects */
} sl_json_bytes;

typedef enum {
    SL_JSON_BYTES_MORE,
    SL_JSON_BYTES_DONE, /* the value ends with this byte */
    SL_JSON_BYTES_PAST, /* it ended before it (a number) */
    SL_JSON_BYTES_BAD,
} sl_json_bytes_result;

sl_json_bytes_result sl_json_bytes_push(sl_json_bytes *json, char byte);
/* The next byte stands inside a string. */
bool sl_json_bytes_in_string(const sl_json_bytes *json);
/* The text is one value, with white space around it. */
bool sl_json_bytes_valid(sl_slice text);
#endif
