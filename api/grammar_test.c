/* grammar_test.c - Constrained output: what jsonschema and Python's re say, masks against a trial
 * of every token, forks, triggers, and grammars that are refused. */
#include "sluice/grammar.h"
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_TOKENS = 8192 };

static sl_vocabulary *vocabulary;
static sl_grammar_vocabulary *tokens;
static uint32_t mask[1 << 14];
static size_t words;
static sl_token end_token;

static int setup(void **state) {
    sl_error err = {0};
    (void)state;
    if (sl_vocabulary_open("models/fable", &vocabulary, &err) != SL_OK) return -1;
    /* The last token of the vocabulary serves as the one that ends a text. */
    end_token = (sl_token)sl_vocabulary_size(vocabulary) - 1;
    if (sl_grammar_vocabulary_create(vocabulary, &end_token, 1, &tokens, &err) != SL_OK) return -1;
    words = (sl_grammar_vocabulary_size(tokens) + 31) / 32;
    return words <= sizeof mask / sizeof *mask ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    sl_grammar_vocabulary_close(tokens);
    sl_vocabulary_close(vocabulary);
    return 0;
}

static int allowed(sl_token token) {
    return mask[token / 32] >> (token % 32) & 1;
}

static sl_grammar *compile_with(sl_grammar_kind kind, const char *text,
                                const sl_grammar_options *options) {
    sl_grammar *grammar = NULL;
    sl_error err = {0};
    const sl_status status = sl_grammar_compile(kind, text, strlen(text), options, &grammar, &err);
    if (status != SL_OK) fail_msg("%s: %s", text, err.message);
    return grammar;
}

static sl_grammar *compile(sl_grammar_kind kind, const char *text) {
    return compile_with(kind, text, NULL);
}

/* Whether the grammar takes the whole text, which is followed token by token. */
static int takes(sl_grammar *grammar, const char *text) {
    static sl_token ids[MOST_TOKENS];
    sl_grammar_state *state = NULL;
    sl_error err = {0};
    size_t count = 0;
    int fine = 1;
    assert_int_equal(
        sl_vocabulary_encode_plain(vocabulary, text, strlen(text), ids, MOST_TOKENS, &count, &err),
        SL_OK);
    assert_true(count <= MOST_TOKENS);
    assert_int_equal(sl_grammar_state_create(grammar, tokens, &state, &err), SL_OK);
    for (size_t i = 0; i < count && fine; i++) {
        assert_int_equal(sl_grammar_state_mask(state, mask, words, &err), SL_OK);
        fine = allowed(ids[i]);
        assert_int_equal(sl_grammar_state_accept(state, ids[i], &err), fine ? SL_OK : SL_INVALID);
    }
    if (fine) {
        assert_int_equal(sl_grammar_state_mask(state, mask, words, &err), SL_OK);
        fine = sl_grammar_state_satisfied(state);
        assert_int_equal(allowed(end_token), fine);
    }
    sl_grammar_state_destroy(state);
    return fine;
}

static json_t *read_line(FILE *file) {
    char *line = NULL;
    size_t room = 0;
    json_t *row = NULL;
    if (getline(&line, &room, file) > 0) row = json_loads(line, 0, NULL);
    free(line);
    return row;
}

static void schemas_agree_with_jsonschema(void **state) {
    FILE *file = fopen("tests/data/grammar/schemas.jsonl", "r");
    size_t refused = 0, compared = 0;
    (void)state;
    assert_non_null(file);
    for (json_t *row; (row = read_line(file)) != NULL; json_decref(row)) {
        char *schema = json_dumps(json_object_get(row, "schema"), JSON_ENCODE_ANY);
        json_t *test;
        size_t index;
        sl_grammar *grammar = NULL;
        sl_error err = {0};
        if (sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), NULL, &grammar,
                               &err) != SL_OK) {
            assert_int_equal(err.status, SL_UNSUPPORTED);
            refused++;
        }
        json_array_foreach(json_object_get(row, "tests"), index, test) {
            const char *text = json_string_value(json_array_get(test, 0));
            if (!grammar) break;
            if (takes(grammar, text) != json_is_true(json_array_get(test, 1)))
                fail_msg("%s with %s", schema, text);
            compared++;
        }
        sl_grammar_close(grammar);
        free(schema);
    }
    fclose(file);
    print_message("%zu instances, %zu schemas refused\n", compared, refused);
    assert_true(compared > 200);
    assert_int_equal(refused, 0);
}

/* No property that the schema names is written twice; `ordered` keeps their order. */
static void properties_come_in_any_order(void **state) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{},\"c\":{}},"
        "\"required\":[\"a\",\"c\"]}";
    static const struct {
        const char *text;
        int any, ordered;
    } cases[] = {
        {"{\"a\": 1, \"c\": 2}", 1, 1},
        {"{\"a\": 1, \"b\": 0, \"c\": 2}", 1, 1},
        {"{\"a\": 1, \"z\": 0, \"c\": 2, \"y\": 0}", 1, 1},
        {"{\"c\": 1, \"a\": 2}", 1, 0},
        {"{\"b\": 1, \"c\": 2, \"a\": 3}", 1, 0},
        {"{\"z\": 0, \"b\": 1, \"a\": 3, \"c\": 2}", 1, 0},
        {"{\"a\": 1, \"c\": 2, \"b\": 3}", 1, 0},
        {"{\"a\": 1, \"c\": 2, \"a\": 3}", 0, 0},
        {"{\"a\": 1, \"a\": 2, \"c\": 3}", 0, 0},
        {"{\"c\": 1, \"b\": 2}", 0, 0},
        {"{\"c\": 1, \"a\": \"2\"}", 0, 0},
    };
    const sl_grammar_options ordered = {.struct_size = sizeof ordered, .ordered = 1};
    (void)state;
    sl_grammar *any = compile(SL_GRAMMAR_JSON_SCHEMA, schema);
    sl_grammar *kept = compile_with(SL_GRAMMAR_JSON_SCHEMA, schema, &ordered);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (takes(any, cases[i].text) != cases[i].any) fail_msg("any order: %s", cases[i].text);
        if (takes(kept, cases[i].text) != cases[i].ordered) fail_msg("ordered: %s", cases[i].text);
    }
    sl_grammar_close(any);
    sl_grammar_close(kept);
}

/* Many properties cost no more than they are: all of them, first backwards, then without one. */
static void objects_may_be_large(void **state) {
    enum { PROPERTIES = 200 };
    char schema[PROPERTIES * 40] = "", text[PROPERTIES * 12] = "{";
    size_t used = (size_t)snprintf(schema, sizeof schema, "{\"type\":\"object\",\"required\":[");
    (void)state;
    for (int i = 0; i < PROPERTIES; i++)
        used += (size_t)snprintf(schema + used, sizeof schema - used, "%s\"p%d\"", i ? "," : "", i);
    used += (size_t)snprintf(schema + used, sizeof schema - used, "],\"properties\":{");
    for (int i = 0; i < PROPERTIES; i++)
        used += (size_t)snprintf(schema + used, sizeof schema - used,
                                 "%s\"p%d\":{\"type\":\"integer\"}", i ? "," : "", i);
    (void)snprintf(schema + used, sizeof schema - used, "},\"additionalProperties\":false}");
    used = 1;
    for (int i = PROPERTIES; i-- > 0;)
        used += (size_t)snprintf(text + used, sizeof text - used, "\"p%d\": %d%s", i, i % 10,
                                 i ? ", " : "");
    sl_grammar *grammar = compile(SL_GRAMMAR_JSON_SCHEMA, schema);
    (void)snprintf(text + used, sizeof text - used, "}");
    assert_true(takes(grammar, text));
    char *last = strrchr(text, ',');
    assert_non_null(last);
    (void)snprintf(last, sizeof text - (size_t)(last - text), "}");
    assert_false(takes(grammar, text));
    sl_grammar_close(grammar);
}

/* A pattern of a schema is searched for, and written in a string. */
static void patterns_agree_with_python(void **state) {
    FILE *file = fopen("tests/data/grammar/patterns.jsonl", "r");
    size_t compared = 0;
    (void)state;
    assert_non_null(file);
    for (json_t *row; (row = read_line(file)) != NULL; json_decref(row)) {
        json_t *schema = json_pack("{s:O}", "pattern", json_object_get(row, "pattern")), *test;
        char *text = json_dumps(schema, 0);
        sl_grammar *grammar = compile(SL_GRAMMAR_JSON_SCHEMA, text);
        size_t index;
        json_array_foreach(json_object_get(row, "tests"), index, test) {
            char *value = json_dumps(json_array_get(test, 0), JSON_ENCODE_ANY);
            if (takes(grammar, value) != json_is_true(json_array_get(test, 1)))
                fail_msg("%s with %s", text, value);
            free(value);
            compared++;
        }
        sl_grammar_close(grammar);
        free(text);
        json_decref(schema);
    }
    fclose(file);
    assert_true(compared > 1000);
}

static void grammars_of_other_kinds(void **state) {
    static const struct {
        sl_grammar_kind kind;
        const char *grammar, *text;
        int takes;
    } cases[] = {
        {SL_GRAMMAR_REGEX, "[a-c]+\\d?", "abc", 1},
        {SL_GRAMMAR_REGEX, "[a-c]+\\d?", "xabc", 0},
        {SL_GRAMMAR_REGEX, "^ab$", "ab", 1},
        {SL_GRAMMAR_REGEX, "^ab$", "abb", 0},
        {SL_GRAMMAR_REGEX, "(?!no)[a-z]+", "none", 0},
        {SL_GRAMMAR_REGEX, "(?!no)[a-z]+", "yes", 1},
        {SL_GRAMMAR_REGEX, "(?i:yes)|\xC3\xA4{2}", "YeS", 1},
        {SL_GRAMMAR_REGEX, "(?i:yes)|\xC3\xA4{2}", "\xC3\xA4\xC3\xA4", 1},
        {SL_GRAMMAR_CHOICES, "[\"yes\", \"no\", \"not yet\"]", "not yet", 1},
        {SL_GRAMMAR_CHOICES, "[\"yes\", \"no\", \"not yet\"]", "not", 0},
        {SL_GRAMMAR_CHOICES, "[\"yes\", \"no\", \"not yet\"]", "no", 1},
        {SL_GRAMMAR_GBNF,
         "root ::= sum\nsum ::= item (\"+\" item)*  # a comment\n"
         "item ::= [0-9]+ | \"(\" sum \")\"",
         "1+(22+3)+((4))", 1},
        {SL_GRAMMAR_GBNF,
         "root ::= sum\nsum ::= item (\"+\" item)*\nitem ::= [0-9]+ | \"(\" sum \")\"", "1+(22+3",
         0},
        {SL_GRAMMAR_GBNF, "root ::= a{2,3} b?\na ::= \"x\" | \"\\u00e4\"\nb ::= [^a-z]",
         "x\xC3\xA4x!", 1},
        {SL_GRAMMAR_GBNF, "root ::= a{2,3} b?\na ::= \"x\" | \"\\u00e4\"\nb ::= [^a-z]", "x!", 0},
        {SL_GRAMMAR_GBNF, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"", "aaacbc", 1},
        {SL_GRAMMAR_GBNF, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"\"", "aabcc", 0},
        {SL_GRAMMAR_GBNF, "root ::= e e e \"x\"\ne ::= \"a\"?", "aax", 1},
        {SL_GRAMMAR_GBNF, "root ::= e e e \"x\"\ne ::= \"a\"?", "aaaax", 0},
        {SL_GRAMMAR_GBNF, "root ::=\n  \"a\"\n  | \"b\"\n", "b", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_grammar *grammar = compile(cases[i].kind, cases[i].grammar);
        if (takes(grammar, cases[i].text) != cases[i].takes)
            fail_msg("%s with %s", cases[i].grammar, cases[i].text);
        sl_grammar_close(grammar);
    }
}

static void what_is_not_supported_is_named(void **state) {
    static const struct {
        sl_grammar_kind kind;
        const char *grammar, *message;
    } cases[] = {
        {SL_GRAMMAR_JSON_SCHEMA, "{\"properties\":{\"a\":{\"uniqueItems\":true}}}",
         "#/properties/a/uniqueItems"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"items\":{\"contains\":{}}}", "#/items/contains"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"http://example.com/x\"}", "#/$ref"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"$ref\":\"#/definitions/none\"}", "#/$ref"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"unevaluatedProperties\":false}", "#/unevaluatedProperties"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"anyOf\":[{\"pattern\":\"(a)\\\\1\"}]}", "#/anyOf/0/pattern"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"not\":{\"items\":{}}}", "#/not/items"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"type\":\"text\"}", "#/type"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"format\":\"iri\"}", "#/format"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"minProperties\":2}", "#/minProperties"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no text"},
        {SL_GRAMMAR_JSON_SCHEMA, "false", "no text"},
        {SL_GRAMMAR_JSON_SCHEMA, "{\"type\":", "JSON schema, byte"},
        {SL_GRAMMAR_REGEX, "a(", "')' is missing"},
        {SL_GRAMMAR_REGEX, "a\\b", "\\b"},
        {SL_GRAMMAR_REGEX, "(?<=a)b", "lookbehind"},
        {SL_GRAMMAR_REGEX, "a{200000}", "100000 times"},
        {SL_GRAMMAR_GBNF, "root ::= root \"a\" | \"b\"", "begin with itself"},
        {SL_GRAMMAR_GBNF, "root ::= a\na ::= b a | \"y\"\nb ::= \"x\"?", "begin with itself"},
        {SL_GRAMMAR_GBNF, "root ::= other", "'other' is missing"},
        {SL_GRAMMAR_GBNF, "root ::= \"a", "line 1"},
        {SL_GRAMMAR_CHOICES, "[]", "choices"},
        {SL_GRAMMAR_CHOICES, "[1]", "choices"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sl_grammar *grammar = NULL;
        sl_error err = {0};
        assert_int_not_equal(sl_grammar_compile(cases[i].kind, cases[i].grammar,
                                                strlen(cases[i].grammar), NULL, &grammar, &err),
                             SL_OK);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s: %s", cases[i].grammar, err.message);
    }
}

/* Texts that are small and would become huge are refused, or cost nothing until they are used. */
static void hostile_grammars_are_bounded(void **state) {
    static const char *const schemas[] = {
        "{\"maxItems\":16000000}",
        "{\"minItems\":16000000}",
        "{\"type\":\"object\",\"maxProperties\":16000000}",
        "{\"minLength\":16000000}",
        "{\"pattern\":\"((((a{1,99999}){1,99999}){1,99999}){1,99999}){1,99999}\"}",
        "{\"pattern\":\"^(([a-z])+.)+[A-Z]([a-z])+$\"}",
        "{\"pattern\":\"(a|b)*a(a|b){5000}\"}",
        "{\"multipleOf\":1e-300}",
        "{\"minimum\":1e308,\"maximum\":1.1e308,\"multipleOf\":99991}",
        "{\"$ref\":\"#\"}",
        "{\"allOf\":[{\"$ref\":\"#\"}]}",
        "{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}",
        "{\"not\":{\"$ref\":\"#\"}}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        sl_grammar *grammar = NULL;
        sl_grammar_state *own = NULL;
        sl_error err = {0};
        if (sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, schemas[i], strlen(schemas[i]), NULL,
                               &grammar, &err) == SL_OK) {
            sl_status status = sl_grammar_state_create(grammar, tokens, &own, &err);
            if (status == SL_OK) status = sl_grammar_state_mask(own, mask, words, &err);
            assert_true(status == SL_OK || status == SL_UNSUPPORTED);
        }
        sl_grammar_state_destroy(own);
        sl_grammar_close(grammar);
    }
    char *deep = malloc(200001);
    assert_non_null(deep);
    memset(deep, '(', 200000);
    deep[200000] = 0;
    sl_grammar *grammar = NULL;
    sl_error err = {0};
    assert_int_not_equal(sl_grammar_compile(SL_GRAMMAR_REGEX, deep, 200000, NULL, &grammar, &err),
                         SL_OK);
    memset(deep, '[', 200000);
    assert_int_not_equal(
        sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, deep, 200000, NULL, &grammar, &err), SL_OK);
    free(deep);
}

/* Small, but with more and more derivatives. */
static void slow_expressions_are_refused(void **state) {
    (void)state;
    static const char slow[] =
        "^(0\"a\":{\"0\"a\":{\"type\":\"string\"}type\":\"string\"}=.*[0-127])"
        "(?!.*x \"a\":{\"type\"`\"string\"} )[#-z]{31,}$";
    sl_grammar *grammar = NULL;
    sl_error err = {0};
    assert_int_equal(sl_grammar_compile(SL_GRAMMAR_REGEX, slow, strlen(slow), NULL, &grammar, &err),
                     SL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "steps to look through"));
}

static uint32_t draw(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}

/* A token of the mask, or -1. */
static sl_token draw_token(uint32_t *seed) {
    const uint32_t count = sl_grammar_vocabulary_size(tokens), start = draw(seed, count);
    for (uint32_t i = 0; i < count; i++)
        if (allowed((sl_token)((start + i) % count))) return (sl_token)((start + i) % count);
    return -1;
}

/* Every bit of every mask on random paths is what accepting that token says. */
static void masks_are_what_is_accepted(void **state) {
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":"
        "\"integer\"}},\"required\":[\"age\"]}",
        "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":20}}",
        "{\"type\":\"string\",\"pattern\":\"^[A-Z][a-z ]*$\"}",
        "{\"type\":\"string\",\"minLength\":18}",
        "{\"additionalProperties\":{\"enum\":[1,\"two\"]},\"properties\":{\"the\":{}},\"type\":"
        "\"object\"}",
        "{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":\"b\"},\"the\":{"
        "\"type\":\"null\"}},\"required\":[\"a\",\"b\"],\"maxProperties\":3}",
        "{\"const\":{\"a\":[1],\"b\":{\"c\":2,\"d\":null},\"c\":\"x\"}}",
        "true",
    };
    uint32_t seed = 7;
    sl_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        sl_grammar *grammar = compile(SL_GRAMMAR_JSON_SCHEMA, schemas[i]);
        sl_grammar_state *own = NULL;
        assert_int_equal(sl_grammar_state_create(grammar, tokens, &own, &err), SL_OK);
        for (int step = 0; step < 12 && !sl_grammar_state_ended(own); step++) {
            assert_int_equal(sl_grammar_state_mask(own, mask, words, &err), SL_OK);
            for (uint32_t t = 0; t < sl_grammar_vocabulary_size(tokens); t++) {
                const int fine = sl_grammar_state_accept(own, (sl_token)t, &err) == SL_OK;
                if (fine) assert_int_equal(sl_grammar_state_rollback(own, 1, &err), SL_OK);
                assert_int_equal(fine, allowed((sl_token)t));
            }
            const sl_token next = draw_token(&seed);
            assert_true(next >= 0); /* never a dead end */
            assert_int_equal(sl_grammar_state_accept(own, next, &err), SL_OK);
        }
        sl_grammar_state_destroy(own);
        sl_grammar_close(grammar);
    }
}

static void forks_and_rollback(void **state) {
    sl_grammar *grammar = compile(SL_GRAMMAR_REGEX, "(ab|cd)+");
    sl_grammar_state *one = NULL, *two = NULL;
    sl_token ids[16];
    size_t count;
    sl_error err = {0};
    (void)state;
    assert_int_equal(sl_vocabulary_encode_plain(vocabulary, "abcd", 4, ids, 16, &count, &err),
                     SL_OK);
    assert_int_equal(sl_grammar_state_create(grammar, tokens, &one, &err), SL_OK);
    sl_grammar_close(grammar); /* states keep it */
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sl_grammar_state_accept(one, ids[i], &err), SL_OK);
    assert_int_equal(sl_grammar_state_fork(one, &two, &err), SL_OK);
    assert_int_equal(sl_grammar_state_accept(one, end_token, &err), SL_OK);
    assert_true(sl_grammar_state_ended(one));
    assert_int_equal(sl_grammar_state_mask(one, mask, words, &err), SL_OK);
    for (size_t i = 0; i < words; i++) assert_int_equal(mask[i], 0);
    assert_int_equal(sl_grammar_state_rollback(one, count + 2, &err), SL_INVALID);
    assert_int_equal(sl_grammar_state_rollback(one, count + 1, &err), SL_OK);
    assert_false(sl_grammar_state_satisfied(one));
    sl_grammar_state_destroy(one);
    assert_true(sl_grammar_state_satisfied(two));
    assert_int_equal(sl_grammar_state_length(two), count);
    /* Bits beyond the vocabulary are 0, and too few words are refused. */
    memset(mask, 0xFF, sizeof mask);
    assert_int_equal(sl_grammar_state_mask(two, mask, words + 2, &err), SL_OK);
    assert_int_equal(mask[words] | mask[words + 1], 0);
    assert_int_equal(sl_grammar_state_mask(two, mask, words - 1, &err), SL_INVALID);
    sl_grammar_state_destroy(two);
}

static void tags_begin_with_their_trigger(void **state) {
    static const sl_grammar_tag tags[] = {
        {"<call>f:", SL_GRAMMAR_JSON_SCHEMA, "{\"type\":\"integer\"}", "</call>"},
        {"<call>g:", SL_GRAMMAR_REGEX, "[a-z]+", "</call>"}};
    static const struct {
        const char *text;
        int takes;
    } cases[] = {{"", 1},
                 {"any <text> at all", 1},
                 {"so <call>f:12</call> and <call>g:abc</call>.", 1},
                 {"so <call>f:1x</call>", 0},
                 {"so <call>h", 0},
                 {"so <call>g:abc", 0},
                 {"<ca", 1},
                 {"<<call>g:a</call>", 1}};
    sl_grammar *grammar = NULL;
    sl_error err = {0};
    (void)state;
    assert_int_equal(sl_grammar_compile_tags(tags, 2, "<call>", NULL, &grammar, &err), SL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (takes(grammar, cases[i].text) != cases[i].takes) fail_msg("%s", cases[i].text);
    sl_grammar_close(grammar);
    assert_int_equal(sl_grammar_compile_tags(tags, 2, "<tool>", NULL, &grammar, &err), SL_INVALID);
}

static void forced_tokens_are_the_only_ones(void **state) {
    sl_grammar_options compact = {.struct_size = sizeof compact, .compact = 1};
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"temperature\":{\"type\":"
                                 "\"integer\"}},\"required\":[\"temperature\"],"
                                 "\"additionalProperties\":false}";
    sl_grammar *grammar = NULL;
    sl_grammar_state *own = NULL;
    sl_token forced[64];
    size_t count = 0, bytes, total = 0;
    char text[256] = "";
    sl_error err = {0};
    (void)state;
    assert_int_equal(sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &compact,
                                        &grammar, &err),
                     SL_OK);
    assert_int_equal(sl_grammar_state_create(grammar, tokens, &own, &err), SL_OK);
    assert_int_equal(sl_grammar_state_forced(own, forced, 64, &count, &err), SL_OK);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const char *piece = sl_vocabulary_text(vocabulary, forced[i], &bytes);
        assert_true(total + bytes < sizeof text);
        memcpy(text + total, piece, bytes);
        total += bytes;
        assert_int_equal(sl_grammar_state_accept(own, forced[i], &err), SL_OK);
    }
    assert_memory_equal(text, "{\"temperature\":", total);
    assert_true(total >= strlen("{\"temperature"));
    sl_grammar_state_destroy(own);
    sl_grammar_close(grammar);
}

static void caches_keep_grammars(void **state) {
    sl_grammar_cache *cache = NULL;
    sl_grammar *first = NULL, *again = NULL, *other = NULL;
    sl_error err = {0};
    (void)state;
    assert_int_equal(sl_grammar_cache_create(0, &cache, &err), SL_INVALID);
    assert_int_equal(sl_grammar_cache_create(1, &cache, &err), SL_OK);
    assert_int_equal(sl_grammar_cache_compile(cache, SL_GRAMMAR_REGEX, "a", 1, NULL, &first, &err),
                     SL_OK);
    assert_int_equal(sl_grammar_cache_compile(cache, SL_GRAMMAR_REGEX, "a", 1, NULL, &again, &err),
                     SL_OK);
    assert_ptr_equal(first, again);
    assert_int_equal(sl_grammar_cache_compile(cache, SL_GRAMMAR_REGEX, "b", 1, NULL, &other, &err),
                     SL_OK);
    assert_ptr_not_equal(first, other);
    sl_grammar_cache_destroy(cache);
    assert_true(takes(first, "a"));
    sl_grammar_close(first);
    sl_grammar_close(again);
    sl_grammar_close(other);
}

/* An allocator of which the n-th call fails, and that counts what is not given back. */
static long calls_left, blocks;
static void *failing(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    (void)ctx;
    (void)old_bytes;
    (void)align;
    if (!new_bytes) {
        blocks -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (calls_left-- <= 0) return NULL;
    blocks += ptr == NULL;
    return realloc(ptr, new_bytes);
}

static void every_allocation_may_fail(void **state) {
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^x+y?$\"},\"b\":{\"enum\":[1,"
        "\"c\"]}},\"required\":[\"b\"],\"not\":{\"required\":[\"a\",\"c\"]}}";
    sl_grammar_options options = {.struct_size = sizeof options, .allocator = {failing, NULL}};
    sl_status status = SL_NO_MEMORY;
    (void)state;
    for (long n = 0; status != SL_OK; n += 1 + n / 20) {
        sl_grammar *grammar = NULL;
        sl_grammar_state *own = NULL;
        sl_error err = {0};
        calls_left = n;
        blocks = 0;
        status = sl_grammar_compile(SL_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &options,
                                    &grammar, &err);
        if (status == SL_OK) status = sl_grammar_state_create(grammar, tokens, &own, &err);
        if (status == SL_OK) status = sl_grammar_state_mask(own, mask, words, &err);
        if (status != SL_OK && status != SL_NO_MEMORY) fail_msg("%ld: %s", n, err.message);
        sl_grammar_state_destroy(own);
        sl_grammar_close(grammar);
        assert_int_equal(blocks, 0);
        assert_true(n < 100000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schemas_agree_with_jsonschema),
        cmocka_unit_test(properties_come_in_any_order),
        cmocka_unit_test(objects_may_be_large),
        cmocka_unit_test(patterns_agree_with_python),
        cmocka_unit_test(grammars_of_other_kinds),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(hostile_grammars_are_bounded),
        cmocka_unit_test(slow_expressions_are_refused),
        cmocka_unit_test(masks_are_what_is_accepted),
        cmocka_unit_test(forks_and_rollback),
        cmocka_unit_test(tags_begin_with_their_trigger),
        cmocka_unit_test(forced_tokens_are_the_only_ones),
        cmocka_unit_test(caches_keep_grammars),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
