/* op_attrs.c - Names, defaults and words of attributes, generated from ops.def. */
#include "core/op_attrs.h"
#include <string.h>

/* clang-format off */
#define ATTR(TYPE, NAME)            {#NAME, SL_ATTR_##TYPE, "", NULL},
#define OPTION(TYPE, NAME, INITIAL) {#NAME, SL_ATTR_##TYPE, #INITIAL, NULL},
#define FLAG(NAME, INITIAL)         {#NAME, SL_ATTR_u32, #INITIAL, "false true"},
#define ENUM(NAME, INITIAL, WORDS)  {#NAME, SL_ATTR_u32, #INITIAL, #WORDS},
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, ...) static const sl_attr_row attrs_##NAME[] = {ATTRS {0}};
#include "core/ops.def"
/* clang-format on */

const sl_attr_row *sl_op_attrs(sl_op op) {
    static const sl_attr_row *const rows[] = {
#define OP(NAME, ...) attrs_##NAME,
#include "core/ops.def"
    };
    return rows[op];
}

const sl_attr_row *sl_op_attr(sl_op op, const char *name) {
    for (const sl_attr_row *row = sl_op_attrs(op); row->name; row++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

const char *sl_attr_word(const sl_attr_row *row, uint32_t number, size_t *out_bytes) {
    for (const char *at = row ? row->words : NULL; at && *at; at += *at == ' ') {
        const size_t bytes = strcspn(at, " ");
        *out_bytes = bytes;
        if (number-- == 0) return at;
        at += bytes;
    }
    return NULL;
}

bool sl_attr_word_find(const sl_attr_row *row, const char *word, size_t bytes, uint32_t *out) {
    size_t found;
    const char *at;
    for (*out = 0; (at = sl_attr_word(row, *out, &found)); ++*out)
        if (found == bytes && memcmp(at, word, bytes) == 0) return true;
    return false;
}
