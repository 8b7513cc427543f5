/* embeddings.c - The hidden state of texts: its mean over the tokens, or that of the last one. */
#include "apps/server/server.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 256, PIECE = 32 };

typedef struct {
    const server_exchange *exchange;
    const server_model *model;
    server_tokens *texts;
    size_t count, text, done; /* the text that is computed, and how many of its tokens are */
    bool last;                /* not the mean */
    float *vectors;           /* [count, hidden] */
    float *logits, *hidden;   /* of one piece */
    sl_error error;
} pooling;

static void add_rows(pooling *p, const float *rows, size_t count) {
    const size_t hidden = p->model->info.hidden;
    float *to = &p->vectors[p->text * hidden];
    const float share = 1.0f / (float)p->texts[p->text].count;
    for (size_t row = 0; row < count; row++)
        for (size_t i = 0; i < hidden; i++)
            to[i] = p->last ? rows[row * hidden + i] : to[i] + share * rows[row * hidden + i];
}

/* So that a dot product is the cosine. */
static void normalise(float *vector, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)vector[i] * vector[i];
    const float scale = sum > 0 ? (float)(1 / sqrt(sum)) : 0;
    for (size_t i = 0; i < count; i++) vector[i] *= scale;
}

/* A piece of one text, between steps of requests that generate. */
static server_task_state compute_piece(void *ctx, sl_session *session) {
    pooling *p = ctx;
    const server_tokens *tokens = &p->texts[p->text];
    const size_t left = tokens->count - p->done, count = left < PIECE ? left : PIECE;
    if (server_exchange_gone(p->exchange)) return SERVER_TASK_DONE;
    sl_status status = SL_OK;
    if (p->done == 0) status = sl_session_rewind(session, 0, &p->error);
    if (status == SL_OK)
        status = sl_session_extend_all(session, tokens->ids + p->done, count, p->logits, p->hidden,
                                       &p->error);
    if (status != SL_OK) return SERVER_TASK_DONE;
    add_rows(p, p->hidden, count);
    p->done += count;
    if (p->done < tokens->count) return SERVER_TASK_GOES_ON;
    normalise(&p->vectors[p->text * p->model->info.hidden], p->model->info.hidden);
    p->done = 0;
    return ++p->text < p->count ? SERVER_TASK_RESTS : SERVER_TASK_DONE;
}

/* ---- JSON ---- */

static json_t *base64(const float *values, size_t count) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)values;
    const size_t length = count * sizeof *values;
    char *out = malloc(4 * (length / 3 + 1) + 1), *to = out;
    if (!out) return NULL;
    for (size_t i = 0; i < length; i += 3) {
        const size_t left = length - i;
        const uint32_t three = (uint32_t)bytes[i] << 16 |
                               (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? bytes[i + 2] : 0);
        *to++ = letters[three >> 18];
        *to++ = letters[three >> 12 & 63];
        *to++ = left > 1 ? letters[three >> 6 & 63] : '=';
        *to++ = left > 2 ? letters[three & 63] : '=';
    }
    json_t *made = json_stringn(out, (size_t)(to - out));
    free(out);
    return made;
}

static json_t *vector_json(const float *values, size_t count, bool as_base64) {
    if (as_base64) return base64(values, count);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) (void)json_array_append_new(list, json_real(values[i]));
    return list;
}

static json_t *response_json(const pooling *p, bool as_base64) {
    json_t *data = json_array();
    const size_t hidden = p->model->info.hidden;
    json_int_t tokens = 0;
    for (size_t i = 0; i < p->count; i++) {
        tokens += (json_int_t)p->texts[i].count;
        (void)json_array_append_new(
            data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i, "embedding",
                            vector_json(&p->vectors[i * hidden], hidden, as_base64)));
    }
    return json_pack("{s:s, s:s, s:o, s:{s:I, s:I}}", "object", "list", "model", p->model->id,
                     "data", data, "usage", "prompt_tokens", tokens, "total_tokens", tokens);
}

/* ---- The request ---- */

static bool read_texts(pooling *p, const json_t *input, server_error *err) {
    const json_t *first = json_array_get(input, 0);
    const bool one = json_is_string(input) || json_is_integer(first);
    p->count = one ? 1 : json_array_size(input);
    if (p->count == 0 || p->count > MOST_TEXTS)
        return server_refuse(err, 400, "input",
                             "input: expected a text, a list of ids, or at most "
                             "%d of them",
                             MOST_TEXTS);
    p->texts = calloc(p->count, sizeof *p->texts);
    for (size_t i = 0; p->texts && i < p->count; i++) {
        const json_t *item = one ? input : json_array_get(input, i);
        if (!json_is_string(item) && !json_is_array(item))
            return server_refuse(err, 400, "input", "input[%zu]: expected a text or ids", i);
        if (!server_prompt_text(p->model, item, &p->texts[i], err)) return false;
    }
    return p->texts || server_refuse(err, 500, NULL, "no memory for the texts");
}

static bool read_options(pooling *p, const json_t *body, bool *as_base64, server_error *err) {
    const char *format = server_json_string(body, "encoding_format");
    const char *pool = server_json_string(body, "pooling");
    int64_t dimensions = p->model->info.hidden;
    *as_base64 = format && strcmp(format, "base64") == 0;
    p->last = pool && strcmp(pool, "last") == 0;
    if (format && !*as_base64 && strcmp(format, "float") != 0)
        return server_refuse(err, 400, "encoding_format",
                             "encoding_format: expected float or base64");
    if (pool && !p->last && strcmp(pool, "mean") != 0)
        return server_refuse(err, 400, "pooling", "pooling: expected mean or last");
    return server_json_whole(body, "dimensions", dimensions, dimensions, &dimensions, err);
}

static bool compute(server_exchange *x, pooling *p, server_error *err) {
    const sl_model_info *info = &p->model->info;
    p->vectors = calloc(p->count * info->hidden, sizeof *p->vectors);
    p->logits = malloc(sizeof *p->logits * PIECE * info->vocab);
    p->hidden = malloc(sizeof *p->hidden * PIECE * info->hidden);
    if (!p->vectors || !p->logits || !p->hidden)
        return server_refuse(err, 500, NULL, "no memory for the embeddings");
    if (!server_engine_run(x->server->engine, compute_piece, p))
        return server_refuse(err, 503, NULL, "the server is shutting down");
    return p->text == p->count || server_refuse_status(err, &p->error, NULL);
}

bool server_handle_embeddings(server_exchange *x, server_reply *reply, server_error *err) {
    pooling p = {.exchange = x, .model = &x->server->model, .error.status = SL_INVALID};
    bool as_base64 = false;
    json_t *body = NULL;
    if (!server_exchange_parse(x, &body, err)) return false;
    const bool good = server_exchange_use(x, server_json_string(body, "model"), err) &&
                      read_options(&p, body, &as_base64, err) &&
                      read_texts(&p, json_object_get(body, "input"), err) && compute(x, &p, err);
    if (good) reply->json = response_json(&p, as_base64);
    for (size_t i = 0; p.texts && i < p.count; i++) free(p.texts[i].ids);
    free(p.texts);
    free(p.vectors);
    free(p.logits);
    free(p.hidden);
    json_decref(body);
    return good;
}
