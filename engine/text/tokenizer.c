/* tokenizer.c - Reads a tokenizer.json and runs text through its stages:
 *
 *   added tokens in the raw text -> normaliser -> added tokens in the normalised text
 *   -> pre-tokenizer (splitter) -> byte pair encoding
 *
 * Bytes that are not UTF-8 pass through every stage as separate words, so that decoding gives back
 * any text (unless the vocabulary has no token for some byte). */
#include "engine/text/tokenizer.h"
#include "engine/formats/json.h"
#include "engine/text/added.h"
#include "engine/text/bpe.h"
#include "engine/text/frame.h"
#include "engine/text/normaliser.h"
#include "engine/text/split.h"
#include <stdlib.h>
#include <string.h>

enum { AS_IT_IS, NORMALISED, ADDED_SETS };

struct sl_tokenizer {
    sl_arena arena;
    sl_token_table tokens;
    sl_bpe bpe;
    sl_splitter splitter;
    sl_added_set added[ADDED_SETS];
    sl_normaliser normaliser;
    sl_decoder decoder;
    sl_frame frame;
};

/* ---- reading tokenizer.json ---- */

/* Replaces the content of an added token by its normalised form, from which its text follows. */
static sl_status normalise_added(sl_tokenizer *tokenizer, sl_matcher *matcher, int32_t id,
                                 sl_slice *content, sl_error *err) {
    matcher->text_bytes += content->bytes;
    SL_TRY(sl_normaliser_run(&tokenizer->normaliser, matcher, *content, &tokenizer->arena, content,
                             err));
    if (tokenizer->decoder.byte_level) return SL_OK;
    char *text = sl_arena_alloc(&tokenizer->arena, content->bytes + 1, 1);
    if (!text) return sl_no_memory(err, "an added token", content->bytes);
    const size_t bytes = sl_decoder_run(&tokenizer->decoder, *content, text);
    sl_token_table_set_text(&tokenizer->tokens, (uint32_t)id, (sl_slice){text, bytes});
    return SL_OK;
}

/* The token table has checked every id and content. */
static sl_status read_added_token(sl_tokenizer *tokenizer, sl_matcher *matcher, json_t *json,
                                  sl_error *err) {
    const int32_t id = (int32_t)json_integer_value(json_object_get(json, "id"));
    const bool normalised = json_is_true(json_object_get(json, "normalized"));
    sl_added_token token = {
        .content = sl_token_table_name(&tokenizer->tokens, (uint32_t)id),
        .name = sl_token_table_name(&tokenizer->tokens, (uint32_t)id),
        .id = id,
        .special = tokenizer->tokens.entries[id].special,
        .single_word = json_is_true(json_object_get(json, "single_word")),
        .takes_spaces_before = json_is_true(json_object_get(json, "lstrip")),
        .takes_spaces_after = json_is_true(json_object_get(json, "rstrip")),
    };
    if (token.content.bytes == 0) return SL_OK;
    if (normalised) SL_TRY(normalise_added(tokenizer, matcher, id, &token.content, err));
    if (token.content.bytes == 0) return SL_OK;
    sl_added_set *set = &tokenizer->added[normalised ? NORMALISED : AS_IT_IS];
    set->tokens[set->count++] = token;
    return SL_OK;
}

static sl_status read_added(sl_tokenizer *tokenizer, json_t *json, sl_error *err) {
    const size_t count = json_array_size(json);
    size_t index;
    json_t *each;
    for (int i = 0; i < ADDED_SETS; i++) {
        tokenizer->added[i].tokens = SL_ARENA_NEW_ARRAY(&tokenizer->arena, sl_added_token, count);
        if (!tokenizer->added[i].tokens)
            return sl_no_memory(err, "added tokens", count * sizeof(sl_added_token));
    }
    sl_matcher matcher = {0};
    sl_status status = SL_OK;
    json_array_foreach(json, index, each) {
        if (status == SL_OK) status = read_added_token(tokenizer, &matcher, each, err);
    }
    sl_matcher_deinit(&matcher);
    SL_TRY(status);
    for (int i = 0; i < ADDED_SETS; i++) sl_added_set_index(&tokenizer->added[i]);
    return SL_OK;
}

static sl_status read_all(sl_tokenizer *tokenizer, const sl_tokenizer_json *json, sl_error *err) {
    json_t *root = json->root, *added = json_object_get(root, "added_tokens");
    sl_arena *arena = &tokenizer->arena;
    if (!json_is_object(json_object_get(root, "model")))
        return sl_fail(err, SL_FORMAT, "there is no object 'model'");
    SL_TRY(
        sl_splitter_init(&tokenizer->splitter, json_object_get(root, "pre_tokenizer"), arena, err));
    SL_TRY(sl_decoder_init(&tokenizer->decoder, json_object_get(root, "decoder"),
                           tokenizer->splitter.byte_level, arena, err));
    SL_TRY(sl_token_table_init(&tokenizer->tokens, json, added, &tokenizer->decoder, arena, err));
    SL_TRY(sl_bpe_init(&tokenizer->bpe, json, &tokenizer->tokens, arena, err));
    SL_TRY(sl_normaliser_init(&tokenizer->normaliser, json_object_get(root, "normalizer"), arena,
                              err));
    SL_TRY(sl_frame_init(&tokenizer->frame, json_object_get(root, "post_processor"),
                         tokenizer->tokens.count, err));
    return read_added(tokenizer, added, err);
}

static sl_status create(const sl_tokenizer_json *json, const sl_allocator *allocator,
                        sl_tokenizer **out, sl_error *err) {
    sl_tokenizer *tokenizer = sl_allocate(allocator, sizeof *tokenizer, _Alignof(sl_tokenizer));
    if (!tokenizer) return sl_no_memory(err, "tokenizer", sizeof *tokenizer);
    sl_arena_init(&tokenizer->arena, allocator);
    const sl_status status = read_all(tokenizer, json, err);
    if (status == SL_OK) {
        *out = tokenizer;
        return SL_OK;
    }
    sl_tokenizer_destroy(tokenizer);
    return sl_fail_in(err, status, "tokenizer");
}

static sl_status create_from(sl_slice text, bool unique_keys, const sl_allocator *allocator,
                             sl_tokenizer **out, sl_error *err) {
    sl_tokenizer_json json;
    sl_status status = sl_tokenizer_json_open(&json, text, unique_keys, allocator, err);
    if (status == SL_OK) status = create(&json, allocator, out, err);
    sl_tokenizer_json_close(&json);
    return status;
}

/* A text that is refused at first may be malformed, or have equal keys, or be written in a way that
 * only a whole parser understands.  It is parsed and written again; then all errors are its own. */
sl_status sl_tokenizer_create(const char *json, size_t bytes, const sl_allocator *allocator,
                              sl_tokenizer **out, sl_error *err) {
    *out = NULL;
    sl_status status = create_from((sl_slice){json, bytes}, false, allocator, out, err);
    if (status == SL_OK || status == SL_NO_MEMORY) return status;
    sl_json_problem problem;
    json_t *root = sl_json_parse(json, bytes, 0, &problem);
    if (!root) return sl_json_refuse("tokenizer.json", bytes, &problem, err);
    char *text = sl_json_dump(root, JSON_COMPACT);
    json_decref(root);
    if (!text) return sl_no_memory(err, "tokenizer", bytes);
    status = create_from((sl_slice){text, strlen(text)}, true, allocator, out, err);
    free(text);
    return status;
}

void sl_tokenizer_destroy(sl_tokenizer *tokenizer) {
    if (!tokenizer) return;
    const sl_allocator *allocator = tokenizer->arena.allocator;
    sl_normaliser_deinit(&tokenizer->normaliser);
    sl_splitter_deinit(&tokenizer->splitter);
    sl_arena_deinit(&tokenizer->arena);
    sl_release(allocator, tokenizer, sizeof *tokenizer, _Alignof(sl_tokenizer));
}

/* ---- vocabulary ---- */

uint32_t sl_tokenizer_vocab(const sl_tokenizer *tokenizer) {
    return tokenizer->tokens.count;
}

const char *sl_tokenizer_text(const sl_tokenizer *tokenizer, int32_t id, size_t *out_bytes) {
    const bool known = id >= 0 && (uint32_t)id < tokenizer->tokens.count &&
                       tokenizer->tokens.entries[id].kind != SL_TOKEN_NONE;
    const sl_slice text =
        known ? sl_token_table_text(&tokenizer->tokens, (uint32_t)id) : (sl_slice){"", 0};
    if (out_bytes) *out_bytes = text.bytes;
    return text.text;
}

bool sl_tokenizer_is_special(const sl_tokenizer *tokenizer, int32_t id) {
    return id >= 0 && (uint32_t)id < tokenizer->tokens.count &&
           tokenizer->tokens.entries[id].special;
}

int32_t sl_tokenizer_find(const sl_tokenizer *tokenizer, const char *text, size_t bytes) {
    return bytes ? sl_token_table_find(&tokenizer->tokens, (sl_slice){text, bytes}) : -1;
}

size_t sl_tokenizer_strip_start(const sl_tokenizer *tokenizer) {
    return tokenizer->decoder.strip_start;
}

size_t sl_tokenizer_before(const sl_tokenizer *tokenizer, const int32_t **out) {
    *out = tokenizer->frame.before;
    return tokenizer->frame.before_count;
}

size_t sl_tokenizer_after(const sl_tokenizer *tokenizer, const int32_t **out) {
    *out = tokenizer->frame.after;
    return tokenizer->frame.after_count;
}

/* ---- encoding ---- */

typedef struct {
    const sl_tokenizer *tokenizer;
    const sl_tokenizer_input *input;
    sl_arena arena;
    sl_matcher matcher;
    sl_added_search search;
    sl_bpe_work bpe;
    sl_split_work split;
} encoder;

static sl_status encode_word(void *ctx, sl_slice word, sl_error *err) {
    encoder *enc = ctx;
    return sl_bpe_encode(&enc->tokenizer->bpe, &enc->bpe, word, err);
}

static sl_status encode_plain(encoder *enc, sl_slice text, sl_error *err) {
    SL_TRY(sl_splitter_run(&enc->tokenizer->splitter, &enc->split, text, err));
    enc->split.begun = true;
    return SL_OK;
}

/* Adds the tokens of one set and passes the text between them to the next stage. */
static sl_status encode_between(encoder *enc, const sl_added_set *set, const sl_plain_text *plain,
                                sl_slice text,
                                sl_status (*between)(encoder *, sl_slice, sl_error *),
                                sl_error *err) {
    size_t done = 0;
    while (done < text.bytes) {
        SL_TRY(sl_added_set_find(set, text, done, plain, &enc->search, err));
        const sl_added_match match = enc->search.match;
        if (match.span.start > done)
            SL_TRY(between(enc, sl_slice_part(text, done, match.span.start), err));
        if (match.id >= 0) {
            sl_id_list_add(&enc->bpe.ids, match.id);
            enc->split.begun = true;
        }
        done = match.span.end;
    }
    return SL_OK;
}

/* Offsets do not survive normalisation: all of the part is plain if one lies in it. */
static bool holds_plain(const encoder *enc, sl_slice part) {
    const sl_plain_text *plain = &enc->input->plain;
    const size_t start = (size_t)(part.text - enc->input->text);
    for (size_t i = 0; i < plain->count; i++)
        if (plain->offsets[i] >= start && plain->offsets[i] < start + part.bytes) return true;
    return plain->everywhere;
}

static sl_status encode_valid(encoder *enc, sl_slice text, sl_error *err) {
    const sl_tokenizer *tokenizer = enc->tokenizer;
    const sl_plain_text plain = {.everywhere = holds_plain(enc, text)};
    SL_TRY(sl_normaliser_run(&tokenizer->normaliser, &enc->matcher, text, &enc->arena, &text, err));
    return encode_between(enc, &tokenizer->added[NORMALISED], &plain, text, encode_plain, err);
}

/* Alternates between ranges of valid UTF-8 and other bytes. */
static sl_status encode_bytes(encoder *enc, sl_slice text, sl_error *err) {
    while (text.bytes > 0) {
        const size_t valid = sl_utf8_valid_bytes(text);
        if (valid > 0) SL_TRY(encode_valid(enc, sl_slice_part(text, 0, valid), err));
        size_t end = valid;
        uint32_t character;
        while (end < text.bytes &&
               sl_utf8_decode(sl_slice_part(text, end, text.bytes), &character) == 0)
            end++;
        if (end > valid) SL_TRY(encode_word(enc, sl_slice_part(text, valid, end), err));
        text = sl_slice_part(text, end, text.bytes);
    }
    return SL_OK;
}

sl_status sl_tokenizer_encode_input(const sl_tokenizer *tokenizer, const sl_tokenizer_input *input,
                                    int32_t *ids, size_t capacity, size_t *out_count,
                                    sl_error *err) {
    const sl_slice text = {input->text, input->bytes};
    encoder enc = {.tokenizer = tokenizer,
                   .input = input,
                   .matcher = {.text_bytes = text.bytes},
                   .search = {.left = sl_added_steps(text.bytes)}};
    sl_status status = SL_OK;
    *out_count = 0;
    if (text.bytes == 0) return SL_OK;
    sl_arena_init(&enc.arena, tokenizer->arena.allocator);
    SL_TRY_ELSE(done, sl_bpe_work_init(&enc.bpe, text.bytes, &enc.arena, err));
    enc.bpe.ids = (sl_id_list){ids, capacity, 0};
    enc.split = (sl_split_work){&enc.matcher, &enc.arena, encode_word, &enc, false};
    SL_TRY_ELSE(done, encode_between(&enc, &tokenizer->added[AS_IT_IS], &input->plain, text,
                                     encode_bytes, err));
    *out_count = enc.bpe.ids.count;
done:
    sl_matcher_deinit(&enc.matcher);
    sl_arena_deinit(&enc.arena);
    return status;
}

sl_status sl_tokenizer_encode(const sl_tokenizer *tokenizer, const char *text, size_t bytes,
                              int32_t *ids, size_t capacity, size_t *out_count, sl_error *err) {
    const sl_tokenizer_input input = {.text = text, .bytes = bytes};
    return sl_tokenizer_encode_input(tokenizer, &input, ids, capacity, out_count, err);
}

size_t sl_tokenizer_find_special(const sl_tokenizer *tokenizer, const char *text, size_t bytes,
                                 size_t from) {
    size_t first = bytes;
    for (int i = 0; i < ADDED_SETS; i++) {
        const size_t found =
            sl_added_set_find_special(&tokenizer->added[i], (sl_slice){text, bytes}, from);
        if (found < first) first = found;
    }
    return first;
}
