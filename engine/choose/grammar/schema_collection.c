/* schema_collection.c - What stands between brackets in any order: properties, and items that
 * differ.
 */
#include "engine/choose/grammar/schema_internal.h"
#include "engine/formats/json.h"
#include <stdlib.h>
#include <string.h>

sl_expr sl_schema_colon(compiler *c) {
    return sl_expr_concat(c->pool, sl_expr_byte(c->pool, ':'), c->whitespace);
}

collection_places sl_schema_open_collection(compiler *c, const sl_collection *given,
                                            const char brackets[2], uint32_t from, uint32_t to) {
    sl_automaton *m = c->automaton;
    const uint32_t begun = sl_automaton_state(m), opened = sl_automaton_state(m);
    const uint32_t more = sl_automaton_state(m), last = sl_automaton_state(m);
    const uint32_t close = sl_automaton_state(m);
    const sl_expr bracket = sl_expr_byte(c->pool, (unsigned char)brackets[0]);
    const sl_expr comma = sl_expr_concat(c->pool, sl_expr_byte(c->pool, ','), c->whitespace);
    collection_places x = {.next = sl_automaton_state(m), .written = sl_automaton_state(m)};
    sl_automaton_text(m, from, sl_expr_concat(c->pool, bracket, c->whitespace), begun);
    x.collection = sl_automaton_collection(m, given, begun, opened);
    sl_automaton_edge(m, SL_EDGE_MORE, opened, x.collection, x.next);
    sl_automaton_edge(m, SL_EDGE_CLOSE, opened, x.collection, close);
    sl_automaton_edge(m, SL_EDGE_MORE, x.written, x.collection, more);
    sl_automaton_text(m, more, comma, x.next);
    sl_automaton_edge(m, SL_EDGE_CLOSE, x.written, x.collection, last);
    sl_automaton_text(m, last, c->whitespace, close);
    sl_automaton_text(m, close, sl_expr_byte(c->pool, (unsigned char)brackets[1]), to);
    return x;
}

uint32_t sl_schema_member(compiler *c, const collection_places *x, sl_expr name, bool required) {
    sl_automaton *m = c->automaton;
    const uint32_t member = sl_automaton_member(m, required);
    const uint32_t before = sl_automaton_state(m), named = sl_automaton_state(m);
    const uint32_t value = sl_automaton_state(m);
    sl_automaton_edge(m, SL_EDGE_MEMBER, x->next, member, before);
    sl_automaton_text(m, before, name, named);
    sl_automaton_edge(m, SL_EDGE_TAKE, named, member, value);
    return value;
}

sl_status sl_schema_name_member(compiler *c, const collection_places *x, const char *name,
                                bool required, uint32_t *out) {
    json_t *own = json_string(name);
    char *text = own ? sl_json_dump(own, JSON_ENCODE_ANY) : NULL;
    json_decref(own);
    if (!text) return sl_no_memory(c->err, "a JSON schema", 0);
    const sl_expr literal = sl_expr_literal(c->pool, text, strlen(text));
    *out = sl_schema_member(c, x, sl_expr_concat(c->pool, literal, sl_schema_colon(c)), required);
    free(text);
    return SL_OK;
}
