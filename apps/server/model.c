#include "apps/server/model.h"
#include <ctype.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAMMARS = 256 };

void server_model_name(const char *path, char *out, size_t capacity) {
    static const char *const endings[] = {".gguf", ".sluice"};
    char copy[4096];
    (void)snprintf(copy, sizeof copy, "%s", path);
    (void)snprintf(out, capacity, "%s", basename(copy));
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t length = strlen(out), end = strlen(endings[i]);
        if (length > end && strcmp(out + length - end, endings[i]) == 0) out[length - end] = '\0';
    }
    for (char *at = out; *at; at++) /* it is part of JSON and of paths */
        if (!isgraph((unsigned char)*at)) *at = '_';
}

bool server_model_open(const char *path, const char *id, sl_model *model, server_model *out,
                       sl_error *err) {
    *out = (server_model){.path = path, .model = model, .created = time(NULL)};
    (void)pthread_mutex_init(&out->grammar_lock, NULL);
    if (id)
        (void)snprintf(out->id, sizeof out->id, "%s", id);
    else
        server_model_name(path, out->id, sizeof out->id);
    out->info.struct_size = sizeof out->info;
    out->family = sl_message_family_of(model);
    if (sl_model_describe(model, &out->info, err) != SL_OK ||
        sl_grammar_cache_create(GRAMMARS, &out->grammars, err) != SL_OK)
        return false;
    if (!sl_model_has_tokenizer(model)) return true;
    /* A model may have a tokenizer that cannot be opened alone. */
    if (sl_vocabulary_open(path, &out->vocabulary, NULL) != SL_OK) out->vocabulary = NULL;
    return sl_grammar_vocabulary_of_model(model, &out->grammar_vocabulary, err) == SL_OK;
}

void server_model_close(server_model *model) {
    sl_grammar_vocabulary_close(model->grammar_vocabulary);
    sl_grammar_cache_destroy(model->grammars);
    sl_vocabulary_close(model->vocabulary);
    sl_model_close(model->model);
    (void)pthread_mutex_destroy(&model->grammar_lock);
}

bool server_model_tokenize(const server_model *model, const char *text, size_t bytes, bool special,
                           server_tokens *out, server_error *err) {
    /* A token has at least a byte, and some tokenizers add a space. */
    const size_t capacity = bytes + 8;
    sl_error cause = {SL_OK, ""};
    *out = (server_tokens){.ids = malloc(capacity * sizeof *out->ids)};
    if (!out->ids) return server_refuse(err, 500, NULL, "no memory for tokens");
    const sl_status status =
        special || !model->vocabulary
            ? sl_model_tokenize(model->model, text, bytes, out->ids, capacity, &out->count, &cause)
            : sl_vocabulary_encode_plain(model->vocabulary, text, bytes, out->ids, capacity,
                                         &out->count, &cause);
    if (status == SL_OK && out->count <= capacity) return true;
    free(out->ids);
    *out = (server_tokens){0};
    if (status != SL_OK) return server_refuse_status(err, &cause, NULL);
    return server_refuse(err, 500, NULL, "the text has more tokens than bytes");
}

bool server_model_grammar(server_model *model, sl_grammar_kind kind, const char *text,
                          sl_grammar **out, sl_error *err) {
    const sl_grammar_options options = {.struct_size = sizeof options, .ordered = 1, .closed = 1};
    (void)pthread_mutex_lock(&model->grammar_lock);
    const sl_status status =
        sl_grammar_cache_compile(model->grammars, kind, text, strlen(text), &options, out, err);
    (void)pthread_mutex_unlock(&model->grammar_lock);
    return status == SL_OK;
}
