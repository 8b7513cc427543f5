/* logits.c - The logits after each of the given tokens, as a safetensors file. */
#include "apps/cli/cli.h"
#include "apps/cli/layers.h"
#include "sluice/tensors.h"
#include <stdlib.h>
#include <string.h>

/* Of ids or of a text, whichever the options name; false after a message. */
static bool read_tokens(const cli_options *options, cli_tokens *out) {
    size_t bytes;
    char *text = options->tokens ? cli_read_all(options->tokens, &bytes)
                 : options->file ? cli_read_text(options->file)
                                 : cli_copy(options->prompt);
    const bool standard = options->tokens && strcmp(options->tokens, "-") == 0;
    bool good = text != NULL;
    if (good && options->tokens)
        good = cli_tokens_parse(standard ? "standard input" : options->tokens, text, bytes, out);
    else if (good)
        good = cli_tokens_of_text(cli_model_path(options), text, out);
    free(text);
    return good;
}

/* Runs all tokens through the session, chunk by chunk. */
static sl_status compute(const sl_model *model, sl_session *session, const cli_options *options,
                         const cli_tokens *tokens, const sl_tensor_item *results,
                         cli_layers *layers, sl_error *err) {
    float *logits = (float *)results[0].data, *hidden = (float *)results[1].data;
    layers->tokens = tokens->count;
    sl_status status = SL_OK;
    for (size_t at = 0; at < tokens->count && status == SL_OK;) {
        const size_t piece = cli_next_piece(model, options, tokens->count - at);
        (void)cli_progress(NULL, "logits", at, tokens->count);
        const sl_layer_options wanted = {
            .struct_size = sizeof wanted,
            .layers = cli_layers_add,
            .ctx = layers,
            .logits = logits + at * (size_t)results[0].dims[1],
            .hidden = hidden ? hidden + at * (size_t)results[1].dims[1] : NULL,
        };
        const sl_token *ids = tokens->ids + at;
        status = options->layer_file ? sl_session_extend_layers(session, ids, piece, &wanted, err)
                                     : sl_session_extend_all(session, ids, piece, wanted.logits,
                                                             wanted.hidden, err);
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

/* What the options name: logits, with hidden states perhaps, and the values of layers. */
static sl_status write_results(const cli_options *options, const sl_tensor_item results[2],
                               const cli_layers *layers, sl_error *err) {
    sl_status status = SL_OK;
    if (options->output)
        status = sl_tensors_write(options->output, results, options->hidden ? 2 : 1, err);
    if (status == SL_OK && options->layer_file)
        status = sl_tensors_write(options->layer_file, layers->items, layers->count, err);
    return status;
}

static int write_logits(sl_model *model, const cli_options *options, const cli_tokens *tokens) {
    const sl_model_info info = cli_model_info(model);
    const sl_tensor_item results[2] = {
        new_tensor("logits", tokens->count, info.vocab, true),
        new_tensor("hidden", tokens->count, info.hidden, options->hidden),
    };
    sl_session *session = NULL;
    cli_layers layers = {0};
    sl_error err;
    int result = CLI_FAILED;
    if (!results[0].data || (options->hidden && !results[1].data))
        (void)cli_fail_text("no memory for the logits of %zu tokens", tokens->count);
    else if (cli_open_session(model, options, &session)) {
        if (compute(model, session, options, tokens, results, &layers, &err) == SL_OK &&
            write_results(options, results, &layers, &err) == SL_OK)
            result = CLI_OK;
        else
            (void)cli_fail(&err);
        if (result == CLI_OK && options->stats)
            cli_print_stats(stderr, &(cli_report){.model = model, .session = session});
    }
    sl_session_destroy(session);
    free((void *)results[0].data);
    free((void *)results[1].data);
    cli_layers_free(&layers);
    return result;
}

int cli_run_logits(const cli_options *options) {
    if (!options->output && !options->layer_file)
        return cli_misuse(CLI_logits, "-o FILE is required, or --layers FILE");
    if (!options->output && options->hidden)
        return cli_misuse(CLI_logits, "--hidden writes into -o FILE, which is missing");
    if (!options->tokens + !options->file + !options->prompt != 2)
        return cli_misuse(CLI_logits, "one of -p TEXT, -f FILE and --tokens FILE is required");
    cli_tokens tokens = {0};
    sl_model *model = NULL;
    int result = CLI_FAILED;
    if (read_tokens(options, &tokens) &&
        cli_open_model(options, tokens.count > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens.count,
                       &model))
        result = write_logits(model, options, &tokens);
    sl_model_close(model);
    free(tokens.ids);
    return result;
}
