/* perplexity.c - Measures how well a model predicts each token from those before it. */
#include "apps/cli/cli.h"
#include "sluice/tensors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_TOKENS = 64, /* bounds the memory for logits */
    WINDOW_TOKENS = 512
};

typedef struct {
    sl_tensors *file;  /* that holds them, or */
    cli_tokens tokens; /* the tokens of a text */
    const sl_token *ids;
    size_t count, length; /* rows, and tokens in each */
    size_t unscored;      /* tokens of a row that are only context */
    bool begins;          /* each row begins as a text of the model does */
} token_rows;

/* The tensor that FILE:NAME means; false after a message. */
static bool open_rows(const char *place, token_rows *out) {
    const char *colon = strrchr(place, ':');
    char *path = strndup(place, (size_t)(colon - place));
    sl_tensor_item item = {0};
    sl_error err = {SL_NO_MEMORY, "no memory"};
    const bool found = path && sl_tensors_open(path, &out->file, &err) == SL_OK &&
                       sl_tensors_find(out->file, colon + 1, &item, &err) == SL_OK;
    free(path);
    if (!found) {
        (void)cli_fail(&err);
        return false;
    }
    out->ids = item.data;
    out->unscored = 1;
    out->count = item.rank == 2 ? (size_t)item.dims[0] : 1;
    out->length = item.rank ? (size_t)item.dims[item.rank - 1] : 0;
    if (strcmp(item.dtype, "i32") == 0 && (item.rank == 1 || item.rank == 2) && out->length >= 2 &&
        out->length <= UINT32_MAX && out->count)
        return true;
    (void)cli_fail_text("%s: %s of rank %u, expected i32 [rows, n] or [n] with n of at least 2",
                        place, item.dtype, item.rank);
    return false;
}

/* The windows of a text, of which the second half is scored: with less context a token says little
 * of the model.  A text that is shorter than one window is one. */
static bool read_windows(const cli_options *options, token_rows *out) {
    char *text = cli_read_text(options->file);
    const bool good = text && cli_tokens_of_text(cli_model_path(options), text, &out->tokens);
    const size_t length = options->context_given ? options->context : WINDOW_TOKENS;
    free(text);
    if (!good) return false;
    const size_t count = out->tokens.count / length;
    out->ids = out->tokens.ids;
    out->count = count ? count : 1;
    out->length = count ? length : out->tokens.count;
    out->unscored = count ? length / 2 + 1 : 1;
    out->begins = true;
    if (out->length > out->unscored) return true;
    (void)cli_fail_text("%s: %zu tokens, expected at least 2", options->file, out->tokens.count);
    return false;
}

/* -log of the probability that logits give to token. */
static double surprise(const float *logits, uint32_t vocab, sl_token token) {
    float most = logits[0];
    for (uint32_t i = 1; i < vocab; i++) most = logits[i] > most ? logits[i] : most;
    double sum = 0; /* at least 1: the largest gives e^0 */
    for (uint32_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - (double)most);
    // cppcheck-suppress invalidFunctionArg
    return log(sum) + (double)most - (double)logits[token];
}

typedef struct {
    sl_session *session;
    uint32_t vocab;
    float *logits; /* [BLOCK_TOKENS * vocab] */
} scorer;

/* Adds the negative log-likelihood of the ids after the first `unscored` to *total. */
static sl_status score_row(const scorer *s, const sl_token *ids, const token_rows *rows,
                           double *total, sl_error *err) {
    const size_t length = rows->length;
    sl_status status = sl_session_rewind(s->session, 0, err);
    for (size_t at = 0; at + 1 < length && status == SL_OK;) {
        const size_t left = length - 1 - at, block = left < BLOCK_TOKENS ? left : BLOCK_TOKENS;
        status = sl_session_extend_all(s->session, ids + at, block, s->logits, NULL, err);
        for (size_t i = 0; i < block && status == SL_OK; i++, at++) {
            if (ids[at + 1] >= 0 && (uint32_t)ids[at + 1] < s->vocab) {
                if (at + 1 >= rows->unscored)
                    *total += surprise(s->logits + i * s->vocab, s->vocab, ids[at + 1]);
                continue;
            }
            (void)snprintf(err->message, sizeof err->message,
                           "token %zu is %d, the vocabulary has %u", at + 1, ids[at + 1], s->vocab);
            status = err->status = SL_INVALID;
        }
    }
    return status;
}

static void print_result(const cli_options *options, const sl_model *model,
                         const sl_session *session, double mean, size_t count) {
    if (options->json)
        (void)cli_print_json(
            json_pack("{s:f, s:f, s:I, s:o}", "perplexity", exp(mean), "nll", mean, "tokens",
                      (json_int_t)count, "stats",
                      cli_stats_json(&(cli_report){.model = model, .session = session})));
    else
        (void)printf("perplexity %.5f (nll %.5f over %zu tokens)\n", exp(mean), mean, count);
    if (options->stats) cli_print_stats(stderr, &(cli_report){.model = model, .session = session});
}

/* In windows after the first, the first token makes room for the one that begins texts. */
static void begin_window(const sl_model *model, const token_rows *rows, size_t row) {
    const sl_token *begin;
    if (row && sl_model_begin_tokens(model, &begin) == 1)
        rows->tokens.ids[row * rows->length] = begin[0];
}

static int score_rows(const scorer *s, const cli_options *options, const sl_model *model,
                      const token_rows *rows) {
    double total = 0;
    sl_error err;
    for (size_t row = 0; row < rows->count; row++) {
        (void)cli_progress(NULL, "rows", row, rows->count);
        const sl_token *ids = rows->ids + row * rows->length;
        if (rows->begins) begin_window(model, rows, row);
        if (score_row(s, ids, rows, &total, &err) != SL_OK)
            return cli_fail_text("row %zu: %s", row, err.message);
    }
    cli_progress_end();
    const size_t count = rows->count * (rows->length - rows->unscored);
    print_result(options, model, s->session, total / (double)count, count);
    return CLI_OK;
}

static int measure(sl_model *model, const cli_options *options, const token_rows *rows) {
    scorer s = {.vocab = cli_model_info(model).vocab};
    int result = CLI_FAILED;
    s.logits = malloc(sizeof(float) * BLOCK_TOKENS * s.vocab);
    if (!s.logits)
        (void)cli_fail_text("no memory for the logits of %d tokens", BLOCK_TOKENS);
    else if (cli_open_session(model, options, &s.session))
        result = score_rows(&s, options, model, rows);
    sl_session_destroy(s.session);
    free(s.logits);
    return result;
}

int cli_run_perplexity(const cli_options *options) {
    if (!options->tokens == !options->file)
        return cli_misuse(CLI_perplexity, "one of -f FILE and --tokens FILE:NAME is required");
    const char *colon = options->tokens ? strrchr(options->tokens, ':') : NULL;
    if (options->tokens && (!colon || colon == options->tokens || colon[1] == '\0'))
        return cli_misuse(CLI_perplexity, "--tokens: expected FILE:NAME, got '%s'",
                          options->tokens);
    if (options->context_given && options->context < 4)
        return cli_misuse(CLI_perplexity, "--context: expected at least 4, got '%u'",
                          options->context);
    token_rows rows = {0};
    sl_model *model = NULL;
    int result = CLI_FAILED;
    if ((options->file ? read_windows(options, &rows) : open_rows(options->tokens, &rows)) &&
        cli_open_model(options, (uint32_t)rows.length, &model))
        result = measure(model, options, &rows);
    sl_model_close(model);
    sl_tensors_close(rows.file);
    free(rows.tokens.ids);
    return result;
}
