/* pack.c - Converts a model to one file that is ready to run. */
#include "apps/cli/writing.h"
#include <string.h>

/* Opens the result to report its size, which also checks that it can be opened. */
static sl_status describe(const char *path, sl_model_info *out, sl_error *err) {
    sl_model *model;
    const sl_model_options options = {
        .struct_size = sizeof options, .threads = 1, .context_tokens = 1};
    const sl_status status = sl_model_open(path, &options, &model, err);
    if (status != SL_OK) return status;
    *out = cli_model_info(model);
    sl_model_close(model);
    return SL_OK;
}

static double bits_per_weight(const sl_model_info *i) {
    return 8.0 * (double)(i->resident_bytes + i->expert_bytes) / (double)i->parameters;
}

static int report(const char *path, sl_model_info *out) {
    sl_error err;
    char size[32], count[32];
    cli_progress_end();
    if (describe(path, out, &err) != SL_OK) return cli_fail(&err);
    cli_inform("%s: %s, %s parameters, %.2f bits per weight", path,
               cli_bytes(out->file_bytes, size, sizeof size),
               cli_count(out->parameters, count, sizeof count), bits_per_weight(out));
    return CLI_OK;
}

static int print_json(const char *path, const sl_model_info *info) {
    return cli_print_json(
        json_pack("{s:o, s:I, s:I, s:f}", "path", cli_json_text(path, strlen(path)), "file_bytes",
                  (json_int_t)info->file_bytes, "parameters", (json_int_t)info->parameters,
                  "bits_per_weight", bits_per_weight(info)));
}

static int verify(const char *path) {
    sl_error err;
    if (sl_pack_verify(path, cli_writing_progress, NULL, &err) != SL_OK) return cli_fail(&err);
    cli_progress_end();
    cli_inform("%s: all checksums match", path);
    return CLI_OK;
}

int cli_run_pack(const cli_options *options) {
    const char *source = options->arguments[0], *destination = options->arguments[1];
    if (!destination && options->json)
        return cli_misuse(CLI_pack, "--json is of what is written: DST is missing");
    if (!destination && options->check_pack) return verify(source);
    if (!destination) return cli_misuse(CLI_pack, "missing argument: DST, the file to write");
    const sl_pack_options given = {.struct_size = sizeof given,
                                   .quant = options->quant,
                                   .threads = options->threads,
                                   .progress = cli_writing_progress,
                                   .force = options->force};
    sl_error err;
    cli_writing_start();
    if (sl_pack_write(source, destination, &given, &err) != SL_OK) return cli_fail(&err);
    sl_model_info info = {0};
    int result = report(destination, &info);
    if (result == CLI_OK && options->check_pack) result = verify(destination);
    return result == CLI_OK && options->json ? print_json(destination, &info) : result;
}
