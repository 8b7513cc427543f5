/* op_attrs.h - What an op's row says about its attributes, for the text form. */
#ifndef SL_CORE_OP_ATTRS_H
#define SL_CORE_OP_ATTRS_H
#include "core/ops.h"

typedef struct {
    const char *name;
    sl_attr_kind kind;
    const char *initial; /* the default, as text; "": the attribute is required */
    const char *words;   /* of an enum or a bool: its values 0, 1, .. by name; NULL: a number */
} sl_attr_row;

/* The attributes of an op in the order of its row; the last one is followed by a NULL name. */
const sl_attr_row *sl_op_attrs(sl_op op);
const sl_attr_row *sl_op_attr(sl_op op, const char *name); /* NULL: it has none of that name */

/* The number that a word stands for; false if it is none of the words. */
bool sl_attr_word_find(const sl_attr_row *row, const char *word, size_t bytes, uint32_t *out);
/* The word for a number, which is not terminated; NULL if the attribute has none for it. */
const char *sl_attr_word(const sl_attr_row *row, uint32_t number, size_t *out_bytes);
#endif
