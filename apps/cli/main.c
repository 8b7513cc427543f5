/* main.c - sluice, the program. */
#include "apps/cli/closest.h"
#include "apps/cli/config.h"
#include <signal.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(const cli_options *options);
} commands[] = {
#define COMMAND(NAME, ...) {#NAME, cli_run_##NAME},
#include "apps/cli/commands.def"
};

static volatile sig_atomic_t pipe_closed;

/* A closed pipe is a write error, after which files that were begun are removed; only then does the
 * process end as others do. */
static void on_closed_pipe(int number) {
    (void)number;
    pipe_closed = 1;
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c) {
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

static int find_command(const char *name) {
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        if (strcmp(commands[c].name, name) == 0) return c;
    return -1;
}

static int unknown(const char *name) {
    cli_closest closest;
    cli_closest_begin(&closest, name, strlen(name));
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) cli_closest_add(&closest, commands[c].name);
    if (closest.found)
        (void)cli_fail_text("there is no command '%s'; did you mean %s?", name, closest.found);
    else
        (void)cli_fail_text("there is no command '%s'; sluice --help lists the commands", name);
    return CLI_USAGE;
}

static int help(int count, char **words) {
    if (count > 2 && strcmp(words[2], "config") == 0) {
        (void)printf("sluice help config - options that a file sets\n\n%s", cli_config_help);
        return CLI_OK;
    }
    const int command = count > 2 ? find_command(words[2]) : -1;
    if (count > 2 && command < 0) return unknown(words[2]);
    if (command < 0)
        cli_print_commands(stdout);
    else
        cli_print_help(stdout, (cli_command)command);
    return CLI_OK;
}

static int run(int count, char **words) {
    cli_options options = {0};
    const int command = find_command(words[1]);
    if (command < 0) return unknown(words[1]);
    if (!cli_options_parse((cli_command)command, count - 2, words + 2, &options)) return CLI_USAGE;
    cli_terminal_begin(options.quiet, options.verbose);
    if (!options.help) return commands[command].run(&options);
    cli_print_help(stdout, (cli_command)command);
    return CLI_OK;
}

static int obey(int count, char **words) {
    if (count < 2) {
        cli_print_commands(stderr);
        return CLI_USAGE;
    }
    if (is_one_of(words[1], "help", "--help", "-h")) return help(count, words);
    if (!is_one_of(words[1], "version", "--version", "-V")) return run(count, words);
    (void)printf("sluice %s\n", sl_version());
    return CLI_OK;
}

int main(int count, char **words) {
    (void)signal(SIGPIPE, on_closed_pipe);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a write error */
    int result = obey(count, words);
    if (result == CLI_OK && cli_json_failed()) result = CLI_FAILED;
    const bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (!written && pipe_closed) {
        (void)signal(SIGPIPE, SIG_DFL);
        (void)raise(SIGPIPE);
    }
    return written || result != CLI_OK ? result
                                       : cli_fail_text("standard output cannot be written");
}
