/* elementwise_int.h - Strip functions of one integer type or bool; included once per type.
 * INTEGER, UNSIGNED, WIDE and IS_SIGNED are as in core/elementwise_integers.h.  NAMED(x) makes a
 * name unique to the type, IF_TYPE(types)(...) expands to its arguments if the row of
 * core/elementwise.def supports the type, and TABLE is the name of the resulting table. */
#define INT(NAME)      NAMED(NAME)
#define RESULT_same    INTEGER
#define RESULT_boolean uint8_t
#include "core/elementwise_integers.h"

#define STRIP_FN(OP, RESULT, ...)                                                                  \
    static void NAMED(strip_##OP)(const strip *s) {                                                \
        const INTEGER *a = s->in[0], *b = s->in[1], *c = s->in[2];                                 \
        const uint32_t attribute = s->attribute;                                                   \
        const int64_t count = s->count;                                                            \
        const int bits = (int)sizeof(INTEGER) * 8;                                                 \
        RESULT *out = s->out;                                                                      \
        (void)attribute, (void)bits;                                                               \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const INTEGER x = a[i], y = b[i], z = c[i];                                            \
            (void)y, (void)z;                                                                      \
            out[i] = (RESULT)(__VA_ARGS__);                                                        \
        }                                                                                          \
    }
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, REAL, LANES, SINGLE, WHOLE,   \
                    SUMMARY)                                                                       \
    IF_TYPE(TYPES)(STRIP_FN(OP, RESULT_##RESULT, WHOLE))
#include "core/elementwise.def"

strip_table TABLE = {
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, ...)                                  \
    IF_TYPE(TYPES)([SL_STEP_##OP] = NAMED(strip_##OP), )
#include "core/elementwise.def"
};
#undef INT
#undef RESULT_same
#undef RESULT_boolean
#undef STRIP_FN
#undef INTEGER
#undef UNSIGNED
#undef WIDE
#undef IS_SIGNED
#undef NAMED
#undef TABLE
