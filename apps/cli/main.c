/* main.c - sluice, the program. */
#include "apps/cli/cli.h"
#include <signal.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(const cli_options *options);
} commands[] = {
#define COMMAND(NAME, ...) {#NAME, cli_run_##NAME},
#include "apps/cli/commands.def"
};

static bool is_help(const char *word) {
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int find_command(const char *name) {
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        if (strcmp(commands[c].name, name) == 0) return c;
    return -1;
}

int main(int count, char **words) {
    /* A closed pipe and a file that may not grow are write errors and must not kill the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (count < 2) {
        cli_print_commands(stderr);
        return CLI_USAGE;
    }
    if (strcmp(words[1], "--version") == 0) {
        (void)printf("sluice %s\n", sl_version());
        return CLI_OK;
    }
    const bool help = is_help(words[1]);
    const int command = find_command(help && count > 2 ? words[2] : words[1]);
    if (help && command < 0) {
        cli_print_commands(stdout);
        return CLI_OK;
    }
    if (command < 0) {
        (void)fprintf(stderr,
                      "sluice: there is no command '%s'; sluice --help lists the commands\n",
                      words[1]);
        return CLI_USAGE;
    }
    cli_options options = {0};
    if (!help && !cli_options_parse((cli_command)command, count - 2, words + 2, &options))
        return CLI_USAGE;
    if (help || options.help) {
        cli_print_help(stdout, (cli_command)command);
        return CLI_OK;
    }
    int result = commands[command].run(&options);
    if (result == CLI_OK && cli_json_failed()) result = CLI_FAILED;
    if (fflush(stdout) == 0 && !ferror(stdout)) return result;
    return result == CLI_OK ? cli_fail_text("standard output cannot be written") : result;
}
