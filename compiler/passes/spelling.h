/* spelling.h - Lexing the texts of patterns.def and idioms.def.  Errors in them are bugs of ours:
 * asserted. */
#ifndef SL_COMPILER_PASSES_SPELLING_H
#define SL_COMPILER_PASSES_SPELLING_H
#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { SL_WORD_BYTES = 24 }; /* ops have longer names than values */

static inline bool sl_accept(const char **at, char c) {
    while (**at == ' ') (*at)++;
    if (**at != c) return false;
    (*at)++;
    return true;
}

static inline void sl_expect(const char **at, char c) {
    const bool found = sl_accept(at, c);
    assert(found);
    (void)found;
}

/* Letters, digits, _ and the characters of `more`. */
static inline void sl_read_word(const char **at, const char *more, char word[SL_WORD_BYTES]) {
    size_t n = 0;
    while (**at == ' ') (*at)++;
    while (**at && (isalnum((unsigned char)**at) || **at == '_' || strchr(more, **at))) {
        assert(n < SL_WORD_BYTES - 1);
        word[n++] = *(*at)++;
    }
    word[n] = 0;
}
#endif
