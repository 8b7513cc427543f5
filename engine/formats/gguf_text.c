/* gguf_text.c - The tokenizer of a GGUF file, translated to the text files that the tokenizer
 * reads.
 *
 * Two kinds are supported: byte-level BPE ("gpt2"), and SentencePiece BPE ("llama"), whose pieces
 * have scores.  A file without a tokenizer gives no texts; any other kind is an error. */
#include "engine/formats/gguf_text.h"
#include "base/utf8.h"
#include "engine/formats/json.h"
#include "engine/formats/source_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPACE "\u2581" /* represents a space in pieces */

typedef struct {
    const sl_gguf *gguf;
    sl_source *source;
    const sl_gguf_value *tokens, *types, *merges; /* types: NULL if all are normal */
    json_t *added, *ends;
    sl_gguf_names vocab;
    sl_gguf_merges piece_merges; /* of SentencePiece, which has no array of them */
    bool pieces;                 /* of SentencePiece */
    sl_error *err;
} reader;

static sl_status no_memory(const reader *r) {
    return sl_no_memory(r->err, "a tokenizer", r->tokens->count);
}

static sl_status check_utf8(const reader *r, const char *key, uint64_t index, sl_gguf_text text) {
    if (sl_utf8_valid_bytes((sl_slice){text.data, text.bytes}) == text.bytes) return SL_OK;
    return sl_fail(r->err, SL_FORMAT, "%s: '%s' %llu is not UTF-8", r->gguf->what, key,
                   (unsigned long long)index);
}

/* Takes ownership of value. */
static sl_status add_text(const reader *r, const char *name, json_t *value) {
    char *dumped = value ? sl_json_dump(value, JSON_COMPACT) : NULL;
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
    SL_TRY(check_utf8(r, key, index, text));
    *out = json_stringn(text.data, text.bytes);
    return *out ? SL_OK : no_memory(r);
}

/* Whether a token is a known end of an answer in chats; the file itself names only one or two. */
static bool ends_answers(sl_gguf_text text) {
    static const char *const ends[] = {"<|im_end|>", "<|endoftext|>",   "<|eot_id|>", "<|eom_id|>",
                                       "<|return|>", "<|end_of_text|>", "<|call|>",   "[EOT]"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (sl_gguf_text_is(text, ends[i])) return true;
    return false;
}

static sl_status add_special(const reader *r, uint64_t id, int64_t type, sl_gguf_text text) {
    const bool special = type == SL_GGUF_TOKEN_CONTROL || type == SL_GGUF_TOKEN_UNKNOWN;
    json_t *content = NULL;
    SL_TRY(text_of(r, "tokenizer.ggml.tokens", id, text, &content));
    if (json_array_append_new(r->added,
                              json_pack("{s:I, s:o, s:b, s:b}", "id", (json_int_t)id, "content",
                                        content, "special", special, "normalized", 0)) != 0)
        return no_memory(r);
    return SL_OK;
}

static int64_t type_of(const reader *r, uint64_t id) {
    return r->types ? sl_gguf_integer_at(r->types, id) : SL_GGUF_TOKEN_NORMAL;
}

/* Whether plain text may become this token, unless another has the same text. */
static bool is_plain(const reader *r, uint64_t id, sl_gguf_text text) {
    const int64_t type = type_of(r, id);
    return type != SL_GGUF_TOKEN_UNUSED && type != SL_GGUF_TOKEN_CONTROL &&
           type != SL_GGUF_TOKEN_USER && !memchr(text.data, 0, text.bytes);
}

/* If two tokens have the same text, the first keeps it. */
static sl_status add_token(reader *r, uint64_t id, const uint8_t *at) {
    const uint8_t *place = at;
    const sl_gguf_text text = sl_gguf_next_text(&place);
    const int64_t type = type_of(r, id);
    if (type == SL_GGUF_TOKEN_UNUSED) return SL_OK;
    SL_TRY(check_utf8(r, "tokenizer.ggml.tokens", id, text));
    if (is_plain(r, id, text)) sl_gguf_names_enter(&r->vocab, at);
    if (type == SL_GGUF_TOKEN_CONTROL || type == SL_GGUF_TOKEN_USER ||
        (r->pieces && type == SL_GGUF_TOKEN_UNKNOWN))
        SL_TRY(add_special(r, id, type, text));
    if (type != SL_GGUF_TOKEN_CONTROL || !ends_answers(text)) return SL_OK;
    return json_array_append_new(r->ends, json_integer((json_int_t)id)) == 0 ? SL_OK : no_memory(r);
}

static sl_status add_tokens(reader *r) {
    const uint8_t *at = r->tokens->data;
    SL_TRY(sl_gguf_names_init(&r->vocab, r->tokens->count, &r->source->allocator, r->err));
    for (uint64_t i = 0; i < r->tokens->count; i++) {
        SL_TRY(add_token(r, i, at));
        (void)sl_gguf_next_text(&at);
    }
    if (r->pieces)
        return sl_gguf_merge_pieces(r->gguf, r->tokens, &r->vocab, &r->piece_merges, r->err);
    at = r->merges ? r->merges->data : NULL;
    for (uint64_t i = 0; r->merges && i < r->merges->count; i++)
        SL_TRY(check_utf8(r, "tokenizer.ggml.merges", i, sl_gguf_next_text(&at)));
    return SL_OK;
}

/* The id under a key, or -1. */
static sl_status special_id(const reader *r, const char *key, int64_t *out) {
    uint64_t id = UINT64_MAX;
    SL_TRY(sl_gguf_get_count(r->gguf, key, &id, r->err));
    *out = id < r->tokens->count ? (int64_t)id : -1;
    return SL_OK;
}

/* The text of the token under a key, owned by the caller; NULL if there is none. */
static sl_status special_text(const reader *r, const char *key, json_t **out) {
    int64_t id = -1;
    *out = NULL;
    SL_TRY(special_id(r, key, &id));
    if (id < 0) return SL_OK;
    const uint8_t *at = r->tokens->data;
    sl_gguf_text text = {0};
    for (int64_t i = 0; i <= id; i++) text = sl_gguf_next_text(&at);
    return text_of(r, "tokenizer.ggml.tokens", (uint64_t)id, text, out);
}

/* ---- tokenizer.json ---- */

typedef struct {
    const char *flag, *key; /* key of the flag, and of the token */
    bool adds;
    int64_t id;
    json_t *text;
} edge;

static sl_status read_edge(const reader *r, edge *e) {
    SL_TRY(sl_gguf_get_flag(r->gguf, e->flag, &e->adds, r->err));
    SL_TRY(special_id(r, e->key, &e->id));
    SL_TRY(special_text(r, e->key, &e->text));
    e->adds = e->adds && e->text;
    return SL_OK;
}

static int append_edge(const edge *e, json_t *steps, json_t *tokens) {
    if (!e->adds) return 0;
    const char *text = json_string_value(e->text);
    return json_array_append_new(
               steps, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", e->text, "type_id", 0)) |
           json_object_set_new(tokens, text,
                               json_pack("{s:O, s:[I], s:[O]}", "id", e->text, "ids",
                                         (json_int_t)e->id, "tokens", e->text));
}

/* The tokens added before and after a text; null if there are none. */
static sl_status post_processor(const reader *r, edge *begin, edge *end, json_t **out) {
    json_t *steps = json_array(), *tokens = json_object();
    const int failed = append_edge(begin, steps, tokens) |
                       json_array_append_new(steps, json_pack("{s:{s:s, s:i}}", "Sequence", "id",
                                                              "A", "type_id", 0)) |
                       append_edge(end, steps, tokens);
    *out = failed || (!begin->adds && !end->adds)
               ? json_null()
               : json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single", steps,
                           "pair", steps, "special_tokens", tokens);
    json_decref(steps);
    json_decref(tokens);
    return failed || !*out ? no_memory(r) : SL_OK;
}

static sl_status make_post_processor(const reader *r, bool begins, json_t **out) {
    edge begin = {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", begins, -1, NULL};
    edge end = {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false, -1, NULL};
    sl_status status = read_edge(r, &begin);
    if (status == SL_OK) status = read_edge(r, &end);
    if (status == SL_OK) status = post_processor(r, &begin, &end, out);
    json_decref(begin.text);
    json_decref(end.text);
    return status;
}

static void write_vocab(const reader *r, sl_gguf_json *json) {
    const uint8_t *next = r->tokens->data;
    bool begun = false;
    for (uint64_t id = 0; id < r->tokens->count; id++) {
        char number[32];
        const uint8_t *at = next;
        const sl_gguf_text text = sl_gguf_next_text(&next);
        if (!is_plain(r, id, text) || sl_gguf_names_find(&r->vocab, text) != at) continue;
        if (begun) sl_gguf_json_put(json, ",", 1);
        begun = true;
        sl_gguf_json_string(json, text);
        const int digits = snprintf(number, sizeof number, ":%llu", (unsigned long long)id);
        sl_gguf_json_put(json, number, (size_t)digits);
    }
}

static void write_merges(const reader *r, sl_gguf_json *json) {
    const uint8_t *at = r->merges ? r->merges->data : NULL;
    for (uint64_t i = 0; !r->pieces && r->merges && i < r->merges->count; i++) {
        if (i > 0) sl_gguf_json_put(json, ",", 1);
        sl_gguf_json_string(json, sl_gguf_next_text(&at));
    }
    for (size_t i = 0; i < r->piece_merges.count; i++) {
        const sl_gguf_merge *merge = &r->piece_merges.items[i];
        sl_gguf_json_put(json, i > 0 ? ",[" : "[", i > 0 ? 2 : 1);
        sl_gguf_json_string(json, (sl_gguf_text){merge->piece.data, merge->left});
        sl_gguf_json_put(json, ",", 1);
        sl_gguf_json_string(json, (sl_gguf_text){merge->piece.data + merge->left,
                                                 merge->piece.bytes - merge->left});
        sl_gguf_json_put(json, "]", 1);
    }
}

/* rest: the text of the tokenizer without vocabulary and merges; it ends with the model. */
static void write_tokenizer(const reader *r, const char *rest, sl_gguf_json *json) {
    static const char vocab[] = ",\"vocab\":{", merges[] = "},\"merges\":[", end[] = "]}}";
    json->bytes = 0;
    sl_gguf_json_put(json, rest, strlen(rest) - strlen("}}"));
    sl_gguf_json_put(json, vocab, sizeof vocab - 1);
    write_vocab(r, json);
    sl_gguf_json_put(json, merges, sizeof merges - 1);
    write_merges(r, json);
    sl_gguf_json_put(json, end, sizeof end - 1);
}

/* value: the tokenizer without vocabulary and merges, the model last; it is taken over. */
static sl_status add_tokenizer(const reader *r, json_t *value) {
    static const char name[] = "tokenizer.json";
    char *rest = value ? sl_json_dump(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!rest) return no_memory(r);
    sl_gguf_json json = {0};
    write_tokenizer(r, rest, &json);
    json.out = sl_arena_alloc(sl_source_text_arena(r->source, name), json.bytes + 1, 1);
    if (json.out) write_tokenizer(r, rest, &json);
    free(rest);
    if (!json.out) return no_memory(r);
    return sl_source_add_text(r->source, name, json.out, json.bytes, r->err);
}

static sl_status add_byte_level(const reader *r) {
    sl_gguf_pre pre = {0};
    json_t *post = NULL;
    SL_TRY(sl_gguf_pre_find(r->gguf, &pre, r->err));
    const sl_status status = make_post_processor(r, pre.begins, &post);
    if (status != SL_OK) {
        json_decref(pre.normalizer);
        json_decref(pre.pre_tokenizer);
        return status;
    }
    return add_tokenizer(r, json_pack("{s:o, s:o, s:o, s:{s:s}, s:O, s:{s:s, s:b}}", "normalizer",
                                      pre.normalizer, "pre_tokenizer", pre.pre_tokenizer,
                                      "post_processor", post, "decoder", "type", "ByteLevel",
                                      "added_tokens", r->added, "model", "type", "BPE",
                                      "ignore_merges", pre.ignore_merges));
}

/* SentencePiece: spaces become U+2581, one of which is added at the start; characters without a
 * piece become byte tokens. */
static sl_status add_pieces(const reader *r) {
    bool prefix = true;
    json_t *post = NULL, *unknown = NULL;
    SL_TRY(sl_gguf_get_flag(r->gguf, "tokenizer.ggml.add_space_prefix", &prefix, r->err));
    SL_TRY(special_text(r, "tokenizer.ggml.unknown_token_id", &unknown));
    const sl_status status = make_post_processor(r, true, &post);
    if (status != SL_OK) {
        json_decref(unknown);
        return status;
    }
    json_t *normalizers = json_array();
    if (prefix)
        sl_json_append(&normalizers, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE));
    sl_json_append(&normalizers, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern",
                                           "String", " ", "content", SPACE));
    json_t *decoder =
        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}, {s:s, s:s, s:i, s:i}]}", "type",
                  "Sequence", "decoders", "type", "Replace", "pattern", "String", SPACE, "content",
                  " ", "type", "ByteFallback", "type", "Fuse", "type", "Strip", "content", " ",
                  "start", prefix ? 1 : 0, "stop", 0);
    return add_tokenizer(r, json_pack("{s:{s:s, s:o}, s:n, s:o, s:o, s:O, s:{s:s, s:b, s:b, s:o*}}",
                                      "normalizer", "type", "Sequence", "normalizers", normalizers,
                                      "pre_tokenizer", "post_processor", post, "decoder", decoder,
                                      "added_tokens", r->added, "model", "type", "BPE",
                                      "byte_fallback", 1, "fuse_unk", 1, "unk_token", unknown));
}

/* ---- the other text files ---- */

static bool holds(const json_t *ids, int64_t id) {
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (json_integer_value(json_array_get(ids, i)) == id) return true;
    return false;
}

/* Tokens that a penalty is for where the file does not say, as llama.cpp has it. */
enum { USUAL_LAST_N = 64 };

/* Adds the sampling settings that the file recommends, under the names of generation_config.json.
 */
static sl_status set_sampling(const reader *r, json_t *config) {
    static const char *const reals[][2] = {
        {"temperature", "general.sampling.temp"},
        {"top_p", "general.sampling.top_p"},
        {"min_p", "general.sampling.min_p"},
        {"repetition_penalty", "general.sampling.penalty_repeat"},
        {"xtc_probability", "general.sampling.xtc_probability"},
        {"xtc_threshold", "general.sampling.xtc_threshold"},
        {"mirostat_tau", "general.sampling.mirostat_tau"},
        {"mirostat_eta", "general.sampling.mirostat_eta"}};
    static const char *const whole[][2] = {{"top_k", "general.sampling.top_k"},
                                           {"repeat_last_n", "general.sampling.penalty_last_n"},
                                           {"mirostat", "general.sampling.mirostat"}};
    int failed = 0;
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        double value = -1;
        SL_TRY(sl_gguf_get_real(r->gguf, reals[i][1], &value, r->err));
        if (value >= 0) failed |= json_object_set_new(config, reals[i][0], json_real(value));
    }
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        const sl_gguf_value *found = sl_gguf_find(r->gguf, whole[i][1]);
        if (found && !found->is_array && (found->kind == SL_GGUF_I32 || found->kind == SL_GGUF_U32))
            failed |= json_object_set_new(config, whole[i][0],
                                          json_integer(sl_gguf_integer_at(found, 0)));
    }
    if (json_object_get(config, "repetition_penalty") && !json_object_get(config, "repeat_last_n"))
        failed |= json_object_set_new(config, "repeat_last_n", json_integer(USUAL_LAST_N));
    return failed ? no_memory(r) : SL_OK;
}

/* End tokens that the file names come first. */
static sl_status add_generation_config(const reader *r) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    size_t named = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id = -1;
        SL_TRY(special_id(r, keys[i], &id));
        if (id < 0 || holds(r->ends, id)) continue;
        if (json_array_insert_new(r->ends, named++, json_integer(id)) != 0) return no_memory(r);
    }
    json_t *config = json_pack("{s:O}", "eos_token_id", r->ends);
    const sl_status status = config ? set_sampling(r, config) : no_memory(r);
    if (status == SL_OK) return add_text(r, "generation_config.json", config);
    json_decref(config);
    return status;
}

static sl_status add_specials(const reader *r) {
    static const char *const keys[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                          {"eos_token", "tokenizer.ggml.eos_token_id"},
                                          {"unk_token", "tokenizer.ggml.unknown_token_id"}};
    json_t *config = json_object();
    sl_status status = config ? SL_OK : no_memory(r);
    for (size_t i = 0; status == SL_OK && i < sizeof keys / sizeof keys[0]; i++) {
        json_t *text = NULL;
        status = special_text(r, keys[i][1], &text);
        if (text && json_object_set_new(config, keys[i][0], text) != 0) status = no_memory(r);
    }
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

/* *out is false if the file has no tokenizer. */
static sl_status find_arrays(reader *r, bool *out) {
    static const char key[] = "tokenizer.ggml.model";
    sl_gguf_text model = {0};
    SL_TRY(sl_gguf_get_text(r->gguf, key, &model, r->err));
    *out = model.data && !sl_gguf_text_is(model, "none") && !sl_gguf_text_is(model, "no_vocab");
    if (!*out) return SL_OK;
    r->pieces = sl_gguf_text_is(model, "llama");
    if (!r->pieces && !sl_gguf_text_is(model, "gpt2"))
        return sl_fail(r->err, SL_UNSUPPORTED,
                       "%s: key '%s' is neither 'gpt2' (byte-level BPE) nor 'llama' (SentencePiece "
                       "BPE), which are supported",
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
    r.added = json_array();
    r.ends = json_array();
    sl_status status = r.added && r.ends ? SL_OK : no_memory(&r);
    if (status == SL_OK) status = add_tokens(&r);
    if (status == SL_OK) status = r.pieces ? add_pieces(&r) : add_byte_level(&r);
    if (status == SL_OK) status = add_generation_config(&r);
    if (status == SL_OK) status = add_specials(&r);
    if (status == SL_OK) status = add_template(gguf, source, err);
    sl_gguf_names_deinit(&r.vocab);
    free(r.piece_merges.items);
    json_decref(r.added);
    json_decref(r.ends);
    return status;
}
