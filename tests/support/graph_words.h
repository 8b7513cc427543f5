/* graph_words.h - The words of the text form of graphs, for mutate_words.h. */
#ifndef SL_TESTS_SUPPORT_GRAPH_WORDS_H
#define SL_TESTS_SUPPORT_GRAPH_WORDS_H
#include "core/ops.h"
#include "tests/support/mutate_words.h"

static const char *mutation_word(uint32_t pick) {
    static const char *const words[] = {
        "graph",  "symbol",   "input",  "weight", "constant", "state",     "output",
        "label",  "{",        "}",      "(",      ")",        "[",         "]",
        ",",      "=",        "%1",     "%2",     "%3",       "\"y\"",     "->",
        "causal", "true",     "false",  "none",   "gelu",     "silu",      "-",
        "1e-5",   "nan",      "inf",    "0x7fff", "n",        "#",         "axis = 1",
        "eps",    "f32[2,3]", "i64[1]", "bool[]", "f16[0,4]", "groups = 2"};
    enum { WORDS = sizeof words / sizeof words[0] };
    const uint32_t kind = pick % 4, at = pick / 4;
    if (kind == 0) return sl_op_info_of((sl_op)(at % SL_OP_COUNT))->name;
    if (kind == 1) return sl_dtype_infos[at % SL_DTYPE_COUNT].name;
    return words[at % WORDS];
}
#endif
