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

/* The pack is opened for its figures, which also shows that it can be. */
static int print_summary(const char *path) {
    sl_model *model;
    sl_error err;
    char size[32];
    const sl_model_options how = {.struct_size = sizeof how, .threads = 1, .context_tokens = 1};
    if (sl_model_open(path, &how, &model, &err) != SL_OK) return cli_fail(&err);
    const sl_model_info info = sl_model_describe(model);
    const uint64_t weights = info.resident_bytes + info.expert_bytes;
    (void)fprintf(
        stderr, "%s: %s, %.1f M parameters, %.2f bits per weight (resident %s, experts %s)\n", path,
        cli_bytes(info.file_bytes, size, sizeof size), (double)info.parameters / 1e6,
        8.0 * (double)weights / (double)info.parameters, info.resident_dtype, info.expert_dtype);
    sl_model_close(model);
    return CLI_OK;
}

int cli_run_pack(const cli_options *options) {
    const sl_pack_options how = {.struct_size = sizeof how,
                                 .quant = options->quant,
                                 .threads = options->threads,
                                 .progress = show_progress};
    sl_error err;
    stop_on_signals();
    const sl_status status =
        sl_pack_write(options->arguments[0], options->arguments[1], &how, &err);
    cli_progress_end();
    return status == SL_OK ? print_summary(options->arguments[1]) : cli_fail(&err);
}
