/* synth.c - Writes a random-weight model, for benchmarks of models of its shape. */
#include "apps/cli/writing.h"
#include <string.h>
#include <sys/stat.h>

int cli_run_synth(const cli_options *options) {
    const char *destination = options->arguments[0];
    const sl_synth_options given = {.struct_size = sizeof given,
                                    .layers = options->layers,
                                    .experts = options->experts,
                                    .vocab = options->vocab,
                                    .quant = options->quant,
                                    .seed = options->weight_seed,
                                    .progress = cli_writing_progress,
                                    .force = options->force};
    sl_error err;
    struct stat file;
    char size[32];
    if (!options->shape) return cli_misuse(CLI_synth, "--shape is required");
    cli_writing_start();
    if (sl_synth_write(options->shape, destination, &given, &err) != SL_OK) return cli_fail(&err);
    cli_progress_end();
    if (stat(destination, &file) != 0) return cli_fail_text("%s: %m", destination);
    const uint64_t bytes = (uint64_t)file.st_size;
    cli_inform("%s: %s", destination, cli_bytes(bytes, size, sizeof size));
    if (!options->json) return CLI_OK;
    return cli_print_json(json_pack("{s:o, s:I}", "path",
                                    cli_json_text(destination, strlen(destination)), "file_bytes",
                                    (json_int_t)bytes));
}
