/* grammar.c - Compiles grammars, whatever they are written in. */
#include "engine/choose/grammar/grammar.h"
#include "engine/choose/grammar/regex.h"
#include "engine/choose/grammar/schema.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WHITESPACE = 40, MAX_WHITESPACE = 10000, MAX_CHOICES = 100000, MAX_TAGS = 10000 };

struct sl_grammar {
    const sl_allocator *allocator;
    sl_allocator own;
    sl_automaton automaton;
    _Atomic uint32_t users;
};

const sl_automaton *sl_grammar_automaton(const sl_grammar *grammar) {
    return &grammar->automaton;
}

void sl_grammar_take(sl_grammar *grammar) {
    grammar->users++;
}

void sl_grammar_release(sl_grammar *grammar) {
    if (!grammar || --grammar->users) return;
    const sl_allocator own = grammar->own;
    sl_automaton_deinit(&grammar->automaton);
    sl_release(&own, grammar, sizeof *grammar, _Alignof(sl_grammar));
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static sl_status add_choices(const json_t *list, sl_automaton *a, uint32_t rule, sl_error *err) {
    const size_t count = json_array_size(list);
    const json_t *item;
    size_t index, kept = 0;
    if (!count || count > MAX_CHOICES)
        return sl_fail(err, SL_INVALID, "choices: %zu texts, wanted 1 to %d", count, MAX_CHOICES);
    const char **words = sl_allocate(a->pool.allocator, count * sizeof *words, sizeof *words);
    if (!words) return sl_no_memory(err, "choices", count);
    sl_status status = SL_OK;
    json_array_foreach(list, index, item) {
        words[index] = json_string_value(item);
        if (!words[index]) {
            status = sl_fail(err, SL_INVALID, "choices: item %zu is no text", index);
            goto done;
        }
    }
    qsort(words, count, sizeof *words, by_text);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(words[kept - 1], words[i]) != 0) words[kept++] = words[i];
    sl_automaton_words(a, a->rules[rule].start, words, kept, a->rules[rule].end);
done:
    sl_release(a->pool.allocator, words, count * sizeof *words, sizeof *words);
    return status;
}

static sl_status compile_choices(const char *text, size_t bytes, sl_automaton *a, uint32_t *rule,
                                 sl_error *err) {
    json_error_t problem;
    json_t *list = json_loadb(text, bytes, 0, &problem);
    if (!json_is_array(list)) {
        json_decref(list);
        return sl_fail(err, SL_INVALID, "choices: %s",
                       list ? "wanted an array of texts" : problem.text);
    }
    *rule = sl_automaton_rule(a);
    sl_status status = sl_automaton_check(a, err);
    if (status == SL_OK) status = add_choices(list, a, *rule, err);
    json_decref(list);
    return status;
}

static sl_status compile_regex(const char *text, size_t bytes, sl_automaton *a, uint32_t *rule,
                               sl_error *err) {
    sl_expr e;
    SL_TRY(sl_regex_parse(&a->pool, text, bytes, SL_REGEX_WHOLE, &e, err));
    *rule = sl_automaton_rule(a);
    SL_TRY(sl_automaton_check(a, err));
    sl_automaton_text(a, a->rules[*rule].start, e, a->rules[*rule].end);
    return SL_OK;
}

typedef struct {
    sl_grammar_kind kind;
    const char *text;
    size_t bytes;
} source;

static sl_status compile(const source *s, const sl_grammar_options *options, sl_automaton *a,
                         uint32_t *rule, sl_error *err) {
    const uint32_t whitespace = options->compact      ? 0
                                : options->whitespace ? options->whitespace
                                                      : DEFAULT_WHITESPACE;
    const sl_schema_options schema = {whitespace, options->ordered != 0, options->closed != 0};
    if (whitespace > MAX_WHITESPACE)
        return sl_fail(err, SL_INVALID, "grammar: whitespace of %u characters, at most %d",
                       whitespace, MAX_WHITESPACE);
    switch (s->kind) {
    case SL_GRAMMAR_JSON_SCHEMA:
        return sl_schema_compile(s->text, s->bytes, &schema, a, rule, err);
    case SL_GRAMMAR_REGEX:
        return compile_regex(s->text, s->bytes, a, rule, err);
    case SL_GRAMMAR_GBNF:
        return sl_gbnf_compile(s->text, s->bytes, a, rule, err);
    case SL_GRAMMAR_CHOICES:
        return compile_choices(s->text, s->bytes, a, rule, err);
    }
    return sl_fail(err, SL_INVALID, "grammar: there is no kind %d", (int)s->kind);
}

static sl_status create(const sl_grammar_options *options, sl_grammar **out, sl_error *err) {
    const sl_allocator own =
        *sl_allocator_or_default(options->allocator.resize ? &options->allocator : NULL);
    sl_grammar *g = sl_allocate(&own, sizeof *g, _Alignof(sl_grammar));
    if (!g) return sl_no_memory(err, "a grammar", sizeof *g);
    g->own = own;
    g->users = 1;
    const sl_status status = sl_automaton_init(&g->automaton, &g->own, err);
    if (status == SL_OK)
        *out = g;
    else
        sl_grammar_release(g);
    return status;
}

sl_status sl_grammar_build(sl_grammar_kind kind, const char *text, size_t bytes,
                           const sl_grammar_options *options, sl_grammar **out, sl_error *err) {
    sl_grammar *g = NULL;
    SL_TRY(create(options, &g, err));
    sl_automaton *a = &g->automaton;
    sl_status status = compile(&(source){kind, text, bytes}, options, a, &a->root, err);
    if (status == SL_OK) status = sl_automaton_finish(a, NULL, NULL, err);
    if (status == SL_OK)
        *out = g;
    else
        sl_grammar_release(g);
    return status;
}

/* From `from`, what follows the trigger in a tag, its body and its end, to `to`. */
static sl_status add_tag(sl_automaton *a, const sl_grammar_tag *tag, size_t trigger_bytes,
                         const sl_grammar_options *options, uint32_t from, uint32_t to,
                         sl_error *err) {
    const uint32_t begun = sl_automaton_state(a), written = sl_automaton_state(a);
    const char *rest = tag->begin + trigger_bytes;
    uint32_t rule;
    SL_TRY(compile(&(source){tag->kind, tag->body, strlen(tag->body)}, options, a, &rule, err));
    sl_automaton_text(a, from, sl_expr_literal(&a->pool, rest, strlen(rest)), begun);
    sl_automaton_edge(a, SL_EDGE_CALL, begun, rule, written);
    sl_automaton_text(a, written, sl_expr_literal(&a->pool, tag->end, strlen(tag->end)), to);
    return SL_OK;
}

static sl_status add_tags(sl_automaton *a, const sl_grammar_tag *tags, size_t count,
                          const char *trigger, const sl_grammar_options *options, sl_error *err) {
    sl_expr_pool *pool = &a->pool;
    const size_t bytes = strlen(trigger);
    const sl_expr word = sl_expr_literal(pool, trigger, bytes);
    const sl_expr has = sl_expr_concat(pool, SL_EXPR_ALL, sl_expr_concat(pool, word, SL_EXPR_ALL));
    /* Texts that end with the first trigger: what stands before their last byte has none. */
    sl_byte_set any = {0};
    sl_byte_set_add(&any, 0, 255);
    const sl_expr early = sl_expr_concat(pool, has, sl_expr_bytes(pool, &any));
    const sl_expr until =
        sl_expr_and(pool, sl_expr_concat(pool, SL_EXPR_ALL, word), sl_expr_not(pool, early));
    a->root = sl_automaton_rule(a);
    const uint32_t text = sl_automaton_state(a), triggered = sl_automaton_state(a);
    SL_TRY(sl_automaton_check(a, err));
    a->free_target = triggered;
    sl_automaton_skip(a, a->rules[a->root].start, text);
    sl_automaton_text(a, text, until, triggered);
    sl_automaton_text(a, text, sl_expr_not(pool, has), a->rules[a->root].end);
    for (size_t i = 0; i < count; i++) {
        if (!tags[i].begin || !tags[i].body || !tags[i].end)
            return sl_fail(err, SL_INVALID, "tag %zu: a text is NULL", i);
        if (strncmp(tags[i].begin, trigger, bytes) != 0)
            return sl_fail(err, SL_INVALID,
                           "tag %zu begins with '%.40s', wanted the trigger '%.40s'", i,
                           tags[i].begin, trigger);
        SL_TRY(add_tag(a, &tags[i], bytes, options, triggered, text, err));
    }
    return SL_OK;
}

sl_status sl_grammar_build_tags(const sl_grammar_tag *tags, size_t count, const char *trigger,
                                const sl_grammar_options *options, sl_grammar **out,
                                sl_error *err) {
    sl_grammar *g = NULL;
    if (!*trigger || !count || count > MAX_TAGS)
        return sl_fail(err, SL_INVALID, "tags: %zu with a trigger of %zu bytes", count,
                       strlen(trigger));
    SL_TRY(create(options, &g, err));
    sl_status status = add_tags(&g->automaton, tags, count, trigger, options, err);
    if (status == SL_OK) status = sl_automaton_finish(&g->automaton, NULL, NULL, err);
    if (status == SL_OK)
        *out = g;
    else
        sl_grammar_release(g);
    return status;
}
