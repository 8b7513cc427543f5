/* json_scan.h - Reads JSON where it stands, without making values of it: for lists that are too
 * long for a tree.  The text must be UTF-8.
 *
 * What is refused need not be malformed: these functions know only what such lists contain. */
#ifndef SL_ENGINE_TEXT_JSON_SCAN_H
#define SL_ENGINE_TEXT_JSON_SCAN_H
#include "base/utf8.h"

typedef struct {
    const char *at, *end;
    bool begun;     /* an item was read, the next one follows a comma */
    bool failed;    /* something was refused; stays so */
    size_t longest; /* bytes of the longest string so far, as written */
} sl_json_scan;

static inline sl_json_scan sl_json_scan_of(sl_slice text) {
    return (sl_json_scan){.at = text.text, .end = text.text + text.bytes};
}

/* Moves to the next item of a list whose brackets lie outside of the text; false at its end. */
bool sl_json_scan_next(sl_json_scan *scan);
/* Moves past this byte and white space before it; false if something else is there. */
bool sl_json_scan_take(sl_json_scan *scan, char byte);
/* The byte after white space, 0 at the end. */
char sl_json_scan_peek(sl_json_scan *scan);

/* Reads a string.  One with escapes is decoded to scratch, which has room for the string as it is
 * written; without scratch it is returned with them. */
bool sl_json_scan_string(sl_json_scan *scan, char *scratch, sl_slice *out);
/* Reads an integer from 0 to 2^53. */
bool sl_json_scan_count(sl_json_scan *scan, uint64_t *out);
/* Moves past one value of any kind: only strings and the number of brackets are looked at. */
bool sl_json_scan_skip(sl_json_scan *scan);
#endif
