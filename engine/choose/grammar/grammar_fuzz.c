/* grammar_fuzz.c - Any text as a grammar of each kind: it is refused, or its masks and what it
 * accepts agree, within the limits.  The first byte chooses the kind. */
#include "engine/choose/grammar/grammar.h"
#include "engine/choose/grammar/matcher.h"
#include "tests/support/mutate_words.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {"{\"type\":\"object\",\"properties\":{",
                                    "\"a\":{\"type\":\"string\"}",
                                    "\"required\":[\"a\"]",
                                    "\"additionalProperties\":",
                                    "\"patternProperties\":{\"^a\":",
                                    "\"pattern\":\"",
                                    "\"minLength\":3",
                                    "\"maxLength\":9",
                                    "\"minimum\":-1.5",
                                    "\"multipleOf\":7",
                                    "\"anyOf\":[",
                                    "\"oneOf\":[",
                                    "\"allOf\":[",
                                    "\"not\":{",
                                    "\"if\":",
                                    "\"$ref\":\"#\"",
                                    "\"enum\":[1,\"x\",null]",
                                    "\"const\":",
                                    "\"items\":",
                                    "\"minItems\":2",
                                    "\"format\":\"date\"",
                                    "true",
                                    "false",
                                    "}",
                                    "]",
                                    ",",
                                    "root ::= ",
                                    "a ::= \"x\"",
                                    "[a-z]",
                                    "{2,3}",
                                    "(?!",
                                    "(?=",
                                    "\\d",
                                    "\\u00e4",
                                    "|",
                                    "*",
                                    "+",
                                    "^",
                                    "$",
                                    ")",
                                    "\n"};

static const char *mutation_word(uint32_t pick) {
    return words[pick % (sizeof words / sizeof *words)];
}

enum { VOCAB = 320 };
/* All bytes, and some longer tokens. */
static sl_trie_token read_token(const void *ctx, uint32_t token) {
    static const char *const longer[] = {"{\"", "\":",  "\",",  "aa",    "abc",
                                         "12",  "true", "}}",   "\"a\"", "\xC3\xA4",
                                         " a",  ", \"", "null", "0.",    "-1"};
    static char bytes[256];
    (void)ctx;
    if (token < 256) {
        bytes[token] = (char)token;
        return (sl_trie_token){.text = &bytes[token], .bytes = 1};
    }
    if (token - 256 < sizeof longer / sizeof *longer)
        return (sl_trie_token){.text = longer[token - 256], .bytes = strlen(longer[token - 256])};
    return (sl_trie_token){.text = "", .control = token == VOCAB - 2, .ends = token == VOCAB - 1};
}

static void follow(sl_matcher *m, uint32_t seed) {
    uint32_t mask[VOCAB / 32];
    for (int step = 0; step < 6; step++) {
        sl_error err;
        uint32_t chosen = UINT32_MAX;
        if (sl_matcher_mask(m, mask, VOCAB / 32, &err) != SL_OK) return;
        for (uint32_t i = 0; i < VOCAB; i++) {
            const uint32_t t = (seed + i * 7) % VOCAB;
            const sl_trie_token token = read_token(NULL, t);
            const bool allowed = mask[t / 32] >> (t % 32) & 1;
            const sl_status status =
                sl_matcher_accept(m, (sl_token)t, token.text, token.bytes, &err);
            if (status == SL_OK && sl_matcher_rollback(m, 1, &err) != SL_OK) __builtin_trap();
            if (status != SL_OK && status != SL_INVALID) return; /* a limit */
            if (allowed != (status == SL_OK)) __builtin_trap();
            if (allowed && chosen == UINT32_MAX) chosen = t;
        }
        if (chosen == UINT32_MAX) __builtin_trap(); /* there is always a way on */
        if (chosen == VOCAB - 1) return;
        const sl_trie_token token = read_token(NULL, chosen);
        if (sl_matcher_accept(m, (sl_token)chosen, token.text, token.bytes, &err) != SL_OK)
            __builtin_trap();
        seed = seed * 1664525u + 1013904223u;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static sl_token_tries *tries;
    const sl_grammar_options options = {.struct_size = sizeof options};
    sl_grammar *grammar;
    sl_matcher *m;
    sl_error err;
    if (!size || size > 4096) return 0;
    if (!tries && sl_token_tries_create(VOCAB, read_token, NULL, NULL, &tries, &err) != SL_OK)
        return 0;
    if (sl_grammar_build((sl_grammar_kind)(data[0] % 4), (const char *)data + 1, size - 1, &options,
                         &grammar, &err) != SL_OK)
        return 0;
    if (sl_matcher_create(sl_grammar_automaton(grammar), tries, NULL, &m, &err) == SL_OK) {
        follow(m, (uint32_t)size);
        sl_matcher_destroy(m);
    }
    sl_grammar_release(grammar);
    return 0;
}
