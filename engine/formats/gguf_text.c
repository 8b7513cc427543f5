/* gguf_text.c - The tokenizer of a GGUF file as the texts that the tokenizer's reader knows.
 *
 * Only byte-level BPE ("gpt2") so far.  A file without tokenizer gives no texts; one with a kind or
 * a pre-tokenizer that is not known fails.  How text is cut is in no file, only its name is:
 * another pre-tokenizer is one more row. */
#include "engine/formats/gguf.h"
#include "engine/formats/json.h"
#include "engine/formats/source_internal.h"
#include <stdlib.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES       "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name;    /* tokenizer.ggml.pre */
    const char *pattern; /* NULL: the one that ByteLevel has */
    bool nfc;            /* as the tokenizers published under this name do */
    bool ignore_merges;
} splits[] = {
    {"qwen2",
     CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     true, false},
    {"qwen35",
     CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                  " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
     true, false},
    {"llama-bpe",
     CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
                  " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     false, true},
    {"gpt-2", NULL, false, false},
};
enum { SPLIT_COUNT = sizeof splits / sizeof splits[0] };

enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5 };

typedef struct {
    const sl_gguf *gguf;
    sl_source *source;
    const sl_gguf_value *tokens, *types, *merges; /* types: NULL when all are normal */
    json_t *vocab, *added, *merge_list;
    sl_error *err;
} reader;

static sl_status no_memory(const reader *r) {
    return sl_no_memory(r->err, "a tokenizer", r->tokens->count);
}

/* value is taken over. */
static sl_status add_text(const reader *r, const char *name, json_t *value) {
    char *dumped = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!dumped) return no_memory(r);
    const size_t bytes = strlen(dumped);
    const char *text = sl_arena_copy_text(&r->source->arena, dumped, bytes);
    free(dumped);
    if (!text) return no_memory(r);
    return sl_source_add_text(r->source, name, text, bytes, r->err);
}

static sl_status text_of(const reader *r, const char *key, uint64_t index, sl_gguf_text text,
                         json_t **out) {
    *out = json_stringn(text.data, text.bytes);
    if (*out) return SL_OK;
    return sl_fail(r->err, SL_FORMAT, "%s: '%s' %llu is not UTF-8", r->gguf->what, key,
                   (unsigned long long)index);
}

/* The first of two tokens with the same text keeps it. */
static sl_status add_token(const reader *r, uint64_t id, sl_gguf_text text) {
    const int64_t type = r->types ? sl_gguf_integer_at(r->types, id) : TYPE_NORMAL;
    if (type == TYPE_UNUSED) return SL_OK;
    json_t *content = NULL;
    SL_TRY(text_of(r, "tokenizer.ggml.tokens", id, text, &content));
    int failed = 0;
    if (type == TYPE_CONTROL || type == TYPE_USER)
        failed = json_array_append_new(
            r->added, json_pack("{s:I, s:O, s:b, s:b}", "id", (json_int_t)id, "content", content,
                                "special", type == TYPE_CONTROL, "normalized", 0));
    else if (strlen(json_string_value(content)) == text.bytes &&
             !json_object_get(r->vocab, json_string_value(content)))
        failed =
            json_object_set_new(r->vocab, json_string_value(content), json_integer((json_int_t)id));
    json_decref(content);
    return failed ? no_memory(r) : SL_OK;
}

static sl_status add_tokens(const reader *r) {
    const uint8_t *at = r->tokens->data;
    for (uint64_t i = 0; i < r->tokens->count; i++) SL_TRY(add_token(r, i, sl_gguf_next_text(&at)));
    at = r->merges ? r->merges->data : NULL;
    for (uint64_t i = 0; r->merges && i < r->merges->count; i++) {
        json_t *merge = NULL;
        SL_TRY(text_of(r, "tokenizer.ggml.merges", i, sl_gguf_next_text(&at), &merge));
        if (json_array_append_new(r->merge_list, merge) != 0) return no_memory(r);
    }
    return SL_OK;
}

static json_t *pre_tokenizer(const char *pattern) {
    json_t *bytes = json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                              "use_regex", pattern == NULL);
    if (!pattern) return bytes;
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers",
                     "type", "Split", "pattern", "Regex", pattern, "behavior", "Isolated", "invert",
                     0, bytes);
}

static sl_status find_split(const reader *r, int *out) {
    static const char key[] = "tokenizer.ggml.pre";
    sl_gguf_text name = {0};
    SL_TRY(sl_gguf_get_text(r->gguf, key, &name, r->err));
    if (!name.data) return sl_gguf_missing(r->gguf, key, r->err);
    for (*out = 0; *out < SPLIT_COUNT; ++*out)
        if (sl_gguf_text_is(name, splits[*out].name)) return SL_OK;
    char found[65] = "", known[SL_GGUF_LIST_BYTES] = "";
    size_t length = 0;
    for (int i = 0; i < SPLIT_COUNT; i++)
        length = sl_gguf_list(known, sizeof known, length, splits[i].name);
    memcpy(found, name.data, name.bytes < 64 ? name.bytes : 64);
    return sl_fail(r->err, SL_UNSUPPORTED, "%s: key '%s' is '%s', known are %s", r->gguf->what, key,
                   sl_json_name_fits(found) ? found : "?", known);
}

static sl_status add_tokenizer(const reader *r) {
    int split = 0;
    SL_TRY(find_split(r, &split));
    SL_TRY(add_tokens(r));
    json_t *normalizer = splits[split].nfc ? json_pack("{s:s}", "type", "NFC") : json_null();
    return add_text(r, "tokenizer.json",
                    json_pack("{s:o, s:o, s:O, s:{s:s, s:b, s:O, s:O}}", "normalizer", normalizer,
                              "pre_tokenizer", pre_tokenizer(splits[split].pattern), "added_tokens",
                              r->added, "model", "type", "BPE", "ignore_merges",
                              splits[split].ignore_merges, "vocab", r->vocab, "merges",
                              r->merge_list));
}

/* The id under a key, or -1. */
static sl_status special_id(const reader *r, const char *key, int64_t *out) {
    uint64_t id = UINT64_MAX;
    SL_TRY(sl_gguf_get_count(r->gguf, key, &id, r->err));
    *out = id < r->tokens->count ? (int64_t)id : -1;
    return SL_OK;
}

static sl_status add_ends(const reader *r) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    json_t *ids = json_array();
    sl_status status = ids ? SL_OK : no_memory(r);
    for (size_t i = 0; status == SL_OK && i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id = -1;
        status = special_id(r, keys[i], &id);
        if (status == SL_OK && id >= 0 && json_array_append_new(ids, json_integer(id)) != 0)
            status = no_memory(r);
    }
    if (status == SL_OK)
        return add_text(r, "generation_config.json", json_pack("{s:o}", "eos_token_id", ids));
    json_decref(ids);
    return status;
}

static sl_status set_special(const reader *r, json_t *config, const char *name, const char *key) {
    int64_t id = -1;
    SL_TRY(special_id(r, key, &id));
    if (id < 0) return SL_OK;
    const uint8_t *at = r->tokens->data;
    sl_gguf_text text = {0};
    for (int64_t i = 0; i <= id; i++) text = sl_gguf_next_text(&at);
    json_t *content = NULL;
    SL_TRY(text_of(r, "tokenizer.ggml.tokens", (uint64_t)id, text, &content));
    return json_object_set_new(config, name, content) == 0 ? SL_OK : no_memory(r);
}

static sl_status add_specials(const reader *r) {
    json_t *config = json_object();
    sl_status status = config ? SL_OK : no_memory(r);
    if (status == SL_OK)
        status = set_special(r, config, "bos_token", "tokenizer.ggml.bos_token_id");
    if (status == SL_OK)
        status = set_special(r, config, "eos_token", "tokenizer.ggml.eos_token_id");
    if (status == SL_OK) return add_text(r, "tokenizer_config.json", config);
    json_decref(config);
    return status;
}

static sl_status add_template(const sl_gguf *gguf, sl_source *source, sl_error *err) {
    sl_gguf_text chat = {0};
    SL_TRY(sl_gguf_get_text(gguf, "tokenizer.chat_template", &chat, err));
    if (!chat.data) return SL_OK;
    const char *text = sl_arena_copy_text(&source->arena, chat.data, chat.bytes);
    if (!text) return sl_no_memory(err, "a chat template", chat.bytes);
    return sl_source_add_text(source, "chat_template.jinja", text, chat.bytes, err);
}

/* False: the file has no tokenizer. */
static sl_status find_arrays(reader *r, bool *out) {
    static const char key[] = "tokenizer.ggml.model";
    sl_gguf_text model = {0};
    SL_TRY(sl_gguf_get_text(r->gguf, key, &model, r->err));
    *out = model.data && !sl_gguf_text_is(model, "none") && !sl_gguf_text_is(model, "no_vocab");
    if (!*out) return SL_OK;
    if (!sl_gguf_text_is(model, "gpt2"))
        return sl_fail(r->err, SL_UNSUPPORTED,
                       "%s: key '%s' is not 'gpt2' (byte-level BPE), the only tokenizer supported",
                       r->gguf->what, key);
    SL_TRY(sl_gguf_get_array(r->gguf, "tokenizer.ggml.tokens", SL_GGUF_TEXT, &r->tokens, r->err));
    SL_TRY(sl_gguf_get_array(r->gguf, "tokenizer.ggml.merges", SL_GGUF_TEXT, &r->merges, r->err));
    SL_TRY(sl_gguf_get_array(r->gguf, "tokenizer.ggml.token_type", SL_GGUF_I32, &r->types, r->err));
    if (!r->tokens) return sl_gguf_missing(r->gguf, "tokenizer.ggml.tokens", r->err);
    if (!r->types || r->types->count == r->tokens->count) return SL_OK;
    return sl_fail(r->err, SL_FORMAT, "%s: %llu 'tokenizer.ggml.token_type' for %llu tokens",
                   r->gguf->what, (unsigned long long)r->types->count,
                   (unsigned long long)r->tokens->count);
}

sl_status sl_gguf_add_texts(const sl_gguf *gguf, sl_source *source, sl_error *err) {
    reader r = {.gguf = gguf, .source = source, .err = err};
    bool there = false;
    SL_TRY(find_arrays(&r, &there));
    if (!there) return SL_OK;
    r.vocab = json_object();
    r.added = json_array();
    r.merge_list = json_array();
    sl_status status = r.vocab && r.added && r.merge_list ? SL_OK : no_memory(&r);
    if (status == SL_OK) status = add_tokenizer(&r);
    if (status == SL_OK) status = add_ends(&r);
    if (status == SL_OK) status = add_specials(&r);
    if (status == SL_OK) status = add_template(gguf, source, err);
    json_decref(r.vocab);
    json_decref(r.added);
    json_decref(r.merge_list);
    return status;
}
