/* logits.c - The logits after each of the given tokens, as a safetensors file. */
#include "apps/cli/cli.h"
#include "sluice/tensors.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    sl_token *ids;
    size_t count;
} token_list;

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* One word as a token; false when it is none. */
static bool read_id(const char *word, size_t length, sl_token *out) {
    char text[16], *end;
    if (length >= sizeof text) return false;
    memcpy(text, word, length);
    text[length] = '\0';
    errno = 0;
    const long value = strtol(text, &end, 10);
    *out = (sl_token)value;
    return errno == 0 && *end == '\0' && value >= 0 && value <= INT32_MAX;
}

/* Splits text of the given file; false after a message. */
static bool split(const char *path, const char *text, size_t bytes, token_list *out) {
    out->ids = malloc((bytes / 2 + 1) * sizeof *out->ids);
    if (!out->ids) {
        (void)cli_fail_text("%s: no memory for its tokens", path);
        return false;
    }
    for (size_t at = 0, end; at < bytes; at = end) {
        end = at + 1;
        if (is_space(text[at])) continue;
        while (end < bytes && !is_space(text[end])) end++;
        if (!read_id(text + at, end - at, &out->ids[out->count])) {
            (void)cli_fail_text("%s: word %zu (byte %zu) is '%.*s', expected a token id", path,
                                out->count + 1, at, end - at > 40 ? 40 : (int)(end - at),
                                text + at);
            return false;
        }
        out->count++;
    }
    if (out->count == 0) (void)cli_fail_text("%s: contains no token ids", path);
    return out->count != 0;
}

static bool read_tokens(const char *path, token_list *out) {
    size_t bytes;
    char *text = cli_read_all(path, &bytes);
    const bool good =
        text && split(strcmp(path, "-") == 0 ? "standard input" : path, text, bytes, out);
    free(text);
    return good;
}

/* Runs all tokens through the session, chunk by chunk. */
static sl_status compute(const sl_model *model, sl_session *session, const cli_options *options,
                         const token_list *tokens, const sl_tensor_item *results, sl_error *err) {
    float *logits = (float *)results[0].data, *hidden = (float *)results[1].data;
    sl_status status = SL_OK;
    for (size_t at = 0; at < tokens->count && status == SL_OK;) {
        const size_t piece = cli_next_piece(model, options, tokens->count - at);
        (void)cli_progress(NULL, "logits", at, tokens->count);
        status = sl_session_extend_all(
            session, tokens->ids + at, piece, logits + at * (size_t)results[0].dims[1],
            hidden ? hidden + at * (size_t)results[1].dims[1] : NULL, err);
        at += piece;
    }
    cli_progress_end();
    return status;
}

static sl_tensor_item new_tensor(const char *name, size_t rows, uint32_t columns, bool wanted) {
    const size_t bytes = rows * columns * sizeof(float);
    return (sl_tensor_item){.name = name,
                            .dtype = "f32",
                            .rank = 2,
                            .dims = {(int64_t)rows, columns},
                            .data = wanted ? malloc(bytes) : NULL,
                            .bytes = bytes};
}

static int write_logits(sl_model *model, const cli_options *options, const token_list *tokens) {
    const sl_model_info info = sl_model_describe(model);
    const sl_tensor_item results[2] = {
        new_tensor("logits", tokens->count, info.vocab, true),
        new_tensor("hidden", tokens->count, info.hidden, options->hidden),
    };
    sl_session *session = NULL;
    sl_error err;
    int result = CLI_FAILED;
    if (!results[0].data || (options->hidden && !results[1].data))
        (void)cli_fail_text("no memory for the logits of %zu tokens", tokens->count);
    else if (cli_open_session(model, options, &session)) {
        if (compute(model, session, options, tokens, results, &err) == SL_OK &&
            sl_tensors_write(options->output, results, options->hidden ? 2 : 1, &err) == SL_OK)
            result = CLI_OK;
        else
            (void)cli_fail(&err);
        if (result == CLI_OK && options->stats) cli_print_stats(stderr, model, session);
    }
    sl_session_destroy(session);
    free((void *)results[0].data);
    free((void *)results[1].data);
    return result;
}

int cli_run_logits(const cli_options *options) {
    if (!options->tokens || !options->output)
        return cli_misuse(CLI_logits, "--tokens FILE and -o FILE are required");
    token_list tokens = {0};
    sl_model *model = NULL;
    int result = CLI_FAILED;
    if (read_tokens(options->tokens, &tokens) &&
        cli_open_model(options, tokens.count > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens.count,
                       &model))
        result = write_logits(model, options, &tokens);
    sl_model_close(model);
    free(tokens.ids);
    return result;
}
