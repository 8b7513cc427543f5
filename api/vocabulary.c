/* vocabulary.c - A tokenizer on its own, from a folder of tokenizer files or from any model. */
#include "api/vocabulary.h"
#include "api/needs.h"
#include "base/utf8.h"
#include "engine/formats/file.h"
#include "engine/formats/source.h"
#include "engine/text/tokenizer.h"
#include "sluice/sluice.h"
#include <string.h>

enum { MAX_TOKENIZER_BYTES = 64 << 20 };

struct sl_vocabulary {
    sl_arena arena;
    sl_tokenizer *tokenizer;
};

const sl_tokenizer *sl_vocabulary_tokenizer(const sl_vocabulary *vocabulary) {
    return vocabulary->tokenizer;
}

/* path/tokenizer.json, or path itself when it is a tokenizer.json; NULL text when there is none. */
static sl_status read_tokenizer_json(const char *path, sl_arena *arena, sl_slice *out,
                                     sl_error *err) {
    const char *file = path;
    *out = (sl_slice){0};
    if (strcmp(sl_file_name(path), "tokenizer.json") != 0)
        file = sl_arena_format(arena, "%s/tokenizer.json", path);
    if (!file) return sl_no_memory(err, "a file name", 0);
    if (!sl_file_exists(file)) return SL_OK;
    return sl_file_read_text(file, MAX_TOKENIZER_BYTES, arena, &out->text, &out->bytes, err);
}

static sl_status open_source(sl_vocabulary *vocabulary, const char *path, sl_error *err) {
    sl_source *source;
    size_t bytes = 0;
    SL_TRY(sl_source_open(path, NULL, &source, err));
    const char *embedded = sl_source_text(source, "tokenizer.json", &bytes);
    const sl_status status =
        embedded ? sl_tokenizer_create(embedded, bytes, NULL, &vocabulary->tokenizer, err)
                 : sl_fail(err, SL_FORMAT, "%s: there is no tokenizer.json", path);
    sl_source_close(source);
    return status;
}

static sl_status open_vocabulary(sl_vocabulary *vocabulary, const char *path, sl_error *err) {
    sl_arena scratch;
    sl_slice text;
    sl_arena_init(&scratch, NULL);
    sl_status status = read_tokenizer_json(path, &scratch, &text, err);
    const bool found = text.text != NULL;
    if (status == SL_OK && found)
        status = sl_tokenizer_create(text.text, text.bytes, NULL, &vocabulary->tokenizer, err);
    sl_arena_deinit(&scratch);
    return status != SL_OK || found ? status : open_source(vocabulary, path, err);
}

sl_status sl_vocabulary_open(const char *path, sl_vocabulary **out, sl_error *err) {
    SL_NEED(path && out);
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_vocabulary *vocabulary = SL_ARENA_NEW(&arena, sl_vocabulary);
    if (!vocabulary) return sl_no_memory(err, "a vocabulary", sizeof *vocabulary);
    vocabulary->arena = arena;
    const sl_status status = open_vocabulary(vocabulary, path, err);
    if (status == SL_OK)
        *out = vocabulary;
    else
        sl_vocabulary_close(vocabulary);
    return status;
}

void sl_vocabulary_close(sl_vocabulary *vocabulary) {
    if (!vocabulary) return;
    sl_tokenizer_destroy(vocabulary->tokenizer);
    sl_arena arena = vocabulary->arena;
    sl_arena_deinit(&arena);
}

sl_status sl_vocabulary_encode(const sl_vocabulary *vocabulary, const char *text, size_t bytes,
                               sl_token *tokens, size_t capacity, size_t *out_count,
                               sl_error *err) {
    SL_NEED(vocabulary && (text || !bytes) && (tokens || !capacity) && out_count);
    return sl_tokenizer_encode(vocabulary->tokenizer, text, bytes, tokens, capacity, out_count,
                               err);
}

sl_status sl_vocabulary_encode_plain(const sl_vocabulary *vocabulary, const char *text,
                                     size_t bytes, sl_token *tokens, size_t capacity,
                                     size_t *out_count, sl_error *err) {
    const sl_tokenizer_input input = {text, bytes, {.everywhere = true}};
    return sl_tokenizer_encode_input(vocabulary->tokenizer, &input, tokens, capacity, out_count,
                                     err);
}

size_t sl_vocabulary_begin_tokens(const sl_vocabulary *vocabulary, const sl_token **out) {
    return sl_tokenizer_before(vocabulary->tokenizer, out);
}

uint32_t sl_vocabulary_size(const sl_vocabulary *vocabulary) {
    return sl_tokenizer_vocab(vocabulary->tokenizer);
}

const char *sl_vocabulary_text(const sl_vocabulary *vocabulary, sl_token token, size_t *out_bytes) {
    SL_NEED_OR("", vocabulary && out_bytes);
    return sl_tokenizer_text(vocabulary->tokenizer, token, out_bytes);
}
