#include "engine/text/tokenizer_json.h"
#include "engine/formats/json.h"
#include <string.h>

static bool is(sl_slice key, const char *name) {
    return key.bytes == strlen(name) && memcmp(key.text, name, key.bytes) == 0;
}

/* Moves past a list, and keeps what lies between its brackets. */
static bool take_list(sl_tokenizer_json *json, sl_json_scan *scan, sl_slice *out) {
    const char *start = scan->at + 1;
    scan->longest = 0;
    if (!sl_json_scan_skip(scan)) return false;
    *out = (sl_slice){start, (size_t)(scan->at - 1 - start)};
    if (scan->longest > json->longest_string) json->longest_string = scan->longest;
    return true;
}

static bool find_lists(sl_tokenizer_json *json, sl_json_scan *scan, bool in_model);

static bool find_in_pair(sl_tokenizer_json *json, sl_json_scan *scan, bool in_model) {
    sl_slice key;
    if (!sl_json_scan_string(scan, NULL, &key) || !sl_json_scan_take(scan, ':')) return false;
    const char first = sl_json_scan_peek(scan);
    const bool model = !in_model && is(key, "model"), vocab = in_model && is(key, "vocab"),
               merges = in_model && is(key, "merges");
    if (!json->unique_keys) { /* an escape could spell one of the three */
        if (memchr(key.text, '\\', key.bytes)) return false;
        if ((model && json->has_model) || (vocab && json->has_vocab) ||
            (merges && json->has_merges))
            return false;
    }
    json->has_model |= model;
    json->has_vocab |= vocab;
    json->has_merges |= merges;
    if (model && first == '{') return find_lists(json, scan, true);
    if (vocab && first == '{') return take_list(json, scan, &json->vocab);
    if (merges && first == '[') return take_list(json, scan, &json->merges);
    return sl_json_scan_skip(scan);
}

/* Finds the two lists in the text or in its model. */
static bool find_lists(sl_tokenizer_json *json, sl_json_scan *scan, bool in_model) {
    if (!sl_json_scan_take(scan, '{')) return false;
    if (sl_json_scan_peek(scan) == '}') return sl_json_scan_take(scan, '}');
    do
        if (!find_in_pair(json, scan, in_model)) return false;
    while (sl_json_scan_peek(scan) == ',' && sl_json_scan_take(scan, ','));
    return sl_json_scan_take(scan, '}');
}

/* The text without what is in the lists. */
static sl_status read_rest(sl_tokenizer_json *json, sl_slice text, sl_error *err) {
    const bool in_order = (uintptr_t)json->vocab.text <= (uintptr_t)json->merges.text;
    const sl_slice cuts[2] = {in_order ? json->vocab : json->merges,
                              in_order ? json->merges : json->vocab};
    const size_t bytes = text.bytes - cuts[0].bytes - cuts[1].bytes;
    char *rest = sl_resize(json->arena.allocator, NULL, 0, bytes + 1, 1), *to = rest;
    if (!rest) return sl_no_memory(err, "tokenizer.json", bytes);
    const char *from = text.text;
    for (int i = 0; i < 2; i++) {
        if (!cuts[i].text) continue;
        memcpy(to, from, (size_t)(cuts[i].text - from));
        to += cuts[i].text - from;
        from = cuts[i].text + cuts[i].bytes;
    }
    memcpy(to, from, (size_t)(text.text + text.bytes - from));
    sl_json_problem problem;
    json->root = sl_json_parse(rest, bytes, 0, &problem);
    sl_release(json->arena.allocator, rest, bytes + 1, 1);
    return json->root ? SL_OK : sl_json_refuse("tokenizer.json", bytes, &problem, err);
}

sl_status sl_tokenizer_json_open(sl_tokenizer_json *json, sl_slice text, bool unique_keys,
                                 const sl_allocator *allocator, sl_error *err) {
    *json = (sl_tokenizer_json){.unique_keys = unique_keys};
    sl_arena_init(&json->arena, allocator);
    sl_json_scan scan = sl_json_scan_of(text);
    if (sl_utf8_valid_bytes(text) != text.bytes || !find_lists(json, &scan, false))
        return sl_fail(err, SL_FORMAT, "not the usual JSON");
    SL_TRY(read_rest(json, text, err));
    for (int i = 0; i < 2; i++) {
        json->scratch[i] = sl_arena_alloc(&json->arena, json->longest_string + 1, 1);
        if (!json->scratch[i]) return sl_no_memory(err, "a string", json->longest_string);
    }
    return SL_OK;
}

void sl_tokenizer_json_close(sl_tokenizer_json *json) {
    json_decref(json->root);
    sl_arena_deinit(&json->arena);
}
