/* model.h - The model that is served, and what is prepared once for it. */
#ifndef SL_APPS_SERVER_MODEL_H
#define SL_APPS_SERVER_MODEL_H
#include "apps/server/error.h"
#include "sluice/grammar.h"
#include "sluice/inspect.h"
#include "sluice/messages.h"
#include "sluice/sluice.h"
#include <pthread.h>
#include <time.h>

typedef struct {
    const char *path;
    char id[128]; /* the name that clients give */
    time_t created;
    sl_model *model;
    sl_vocabulary *vocabulary; /* NULL: none; for texts without special tokens */
    sl_grammar_vocabulary *grammar_vocabulary;
    pthread_mutex_t grammar_lock; /* of the cache */
    sl_grammar_cache *grammars;
    sl_model_info info;
    const char *family;
} server_model;

/* The name of a file or folder, without a known ending. */
void server_model_name(const char *path, char *out, size_t capacity);
/* Takes a model that is open, which it closes.  id: NULL for the name of the file. */
bool server_model_open(const char *path, const char *id, sl_model *model, server_model *out,
                       sl_error *err);
void server_model_close(server_model *model);

/* A list of tokens, released with free. */
typedef struct {
    sl_token *ids;
    size_t count;
} server_tokens;
/* The tokens of a text.  special: special tokens in it are recognised. */
bool server_model_tokenize(const server_model *model, const char *text, size_t bytes, bool special,
                           server_tokens *out, server_error *err);
/* A grammar of the model's cache, released with sl_grammar_close.  Properties of JSON come in the
 * order of the schema, and there are no others unless it says so. */
bool server_model_grammar(server_model *model, sl_grammar_kind kind, const char *text,
                          sl_grammar **out, sl_error *err);
#endif
