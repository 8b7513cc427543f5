/* pack.c - Write a model as one file that is ready to run. */
#include "apps/cli/cli.h"
#include <signal.h>

static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

/* The library removes what it has written when it is told to stop. */
static void stop_on_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

static int show_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    (void)cli_progress(ctx, what, done, total);
    return stop_requested;
}

/* Opens the result for its figures, which also shows that it can be opened. */
static sl_status describe(const char *path, sl_model_info *out, sl_error *err) {
    sl_model *model;
    const sl_model_options how = {.struct_size = sizeof how, .threads = 1, .context_tokens = 1};
    const sl_status status = sl_model_open(path, &how, &model, err);
    if (status != SL_OK) return status;
    *out = sl_model_describe(model);
    sl_model_close(model);
    return SL_OK;
}

int cli_run_pack(const cli_options *options) {
    const char *source = options->arguments[0], *destination = options->arguments[1];
    const sl_pack_options how = {.struct_size = sizeof how,
                                 .quant = options->quant,
                                 .threads = options->threads,
                                 .progress = show_progress};
    sl_model_info to;
    sl_error err;
    char size[32];
    stop_on_signals();
    if (sl_pack_write(source, destination, &how, &err) != SL_OK) return cli_fail(&err);
    cli_progress_end();
    if (describe(destination, &to, &err) != SL_OK) return cli_fail(&err);
    (void)fprintf(stderr, "%s: %s, %.1f M parameters, %.2f bits per weight\n", destination,
                  cli_bytes(to.file_bytes, size, sizeof size), (double)to.parameters / 1e6,
                  8.0 * (double)(to.resident_bytes + to.expert_bytes) / (double)to.parameters);
    return CLI_OK;
}
