/* character.h - Character classes of Unicode 16. */
#ifndef SL_ENGINE_TEXT_CHARACTER_H
#define SL_ENGINE_TEXT_CHARACTER_H
#include "engine/text/class_tables.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum { /* numbered as in make_unicode_tables.py */
               SL_CHARACTER_OTHER,
               SL_CHARACTER_SPACE,  /* White_Space */
               SL_CHARACTER_UPPER,  /* Lu, Lt */
               SL_CHARACTER_LOWER,  /* Ll */
               SL_CHARACTER_LETTER, /* Lm, Lo */
               SL_CHARACTER_MARK,
               SL_CHARACTER_NUMBER,      /* Nd, Nl */
               SL_CHARACTER_FRACTION,    /* No */
               SL_CHARACTER_CONNECTOR,   /* Pc */
               SL_CHARACTER_PUNCTUATION, /* P without Pc */
               SL_CHARACTER_SYMBOL,
} sl_character_class;

/* Sets of classes. */
#define SL_IN(CLASS) (1u << SL_CHARACTER_##CLASS)
enum {
    SL_SPACES = SL_IN(SPACE),
    SL_LETTERS = SL_IN(UPPER) | SL_IN(LOWER) | SL_IN(LETTER),
    SL_MARKS = SL_IN(MARK),
    SL_NUMBERS = SL_IN(NUMBER) | SL_IN(FRACTION),
    SL_SIGNS = SL_IN(CONNECTOR) | SL_IN(PUNCTUATION) | SL_IN(SYMBOL),
};

/* The set that contains only the character's class. */
static inline unsigned sl_character_set(uint32_t character) {
    enum { VARIATION_FIRST = 0xE0100, VARIATION_COUNT = 240 };
    if (character >= sizeof class_blocks * 256)
        return character - VARIATION_FIRST < VARIATION_COUNT ? SL_MARKS : SL_IN(OTHER);
    const uint64_t word = class_words[class_blocks[character >> 8] * 16 + (character >> 4 & 15)];
    return 1u << (word >> 4 * (character & 15) & 15);
}
#endif
