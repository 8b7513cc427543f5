/* help.c - Help, from the tables of commands and options. */
#include "apps/cli/options.h"
#include <string.h>
#include <sys/ioctl.h>

enum { LEAST_COLUMNS = 60, MOST_COLUMNS = 100, INDENT = 28 };

/* Of the terminal, if it is one. */
static size_t columns_of(FILE *to) {
    struct winsize size;
    if (!cli_is_terminal(to) || ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return MOST_COLUMNS;
    if (size.ws_col < LEAST_COLUMNS) return LEAST_COLUMNS;
    return size.ws_col < MOST_COLUMNS ? size.ws_col : MOST_COLUMNS;
}

/* Prints text from the column INDENT on, in lines that fit. */
static void print_wrapped(FILE *to, const char *text) {
    const size_t room = columns_of(to) - INDENT;
    while (strlen(text) > room) {
        size_t end = room;
        while (end && text[end] != ' ') end--;
        if (end == 0) break;
        (void)fprintf(to, "%.*s\n%*s", (int)end, text, INDENT, "");
        text += end + 1;
    }
    (void)fprintf(to, "%s\n", text);
}

static void print_option(FILE *to, const cli_option *o) {
    char left[64];
    (void)snprintf(left, sizeof left, "%c%c%c --%s%s%s", o->letter ? '-' : ' ',
                   o->letter ? o->letter : ' ', o->letter ? ',' : ' ', o->name, o->value ? " " : "",
                   o->value ? o->value : "");
    (void)fprintf(to, "  %-*s", INDENT - 2, left);
    if (strlen(left) > INDENT - 3) (void)fprintf(to, "\n%*s", INDENT, "");
    print_wrapped(to, o->help);
}

static void print_options(FILE *to, cli_command command) {
    const char *heading = NULL;
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *o = &cli_option_table[i];
        if (!o->name) heading = o->help;
        if (!cli_option_serves(o, command)) continue;
        if (heading) (void)fprintf(to, "\n%s:\n", heading);
        heading = NULL;
        print_option(to, o);
    }
}

static bool has_device(cli_command command) {
    for (int i = 0; i < cli_option_count; i++)
        if (cli_option_serves(&cli_option_table[i], command) &&
            cli_option_table[i].parse == cli_parse_device)
            return true;
    return false;
}

static void print_devices(FILE *to, cli_command command) {
    sl_device_item device = {.struct_size = sizeof device};
    (void)fprintf(to, "\nDevices:\n");
    for (uint32_t i = 0; sl_device_at(i, &device, NULL) == SL_OK; i++) {
        if (!device.runs_models && command != CLI_ir) continue;
        (void)fprintf(to, "  %-*s", INDENT - 2, device.name);
        print_wrapped(to, device.summary);
    }
}

void cli_print_help(FILE *to, cli_command command) {
    const cli_command_row *row = &cli_command_table[command];
    (void)fprintf(to, "sluice %s - %s\n\nusage: sluice %s [options]%s%s\n", row->name, row->summary,
                  row->name, row->arguments[0] ? " " : "", row->arguments);
    (void)fprintf(to, "example: %s\n%s%s", row->example, row->details[0] ? "\n" : "", row->details);
    print_options(to, command);
    if (has_device(command)) print_devices(to, command);
}

void cli_print_commands(FILE *to) {
    (void)fprintf(to,
                  "sluice %s - runs Mixture-of-Experts models larger than memory\n\n"
                  "usage: sluice COMMAND [options]\n\n",
                  sl_version());
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        (void)fprintf(to, "  %-11s %s\n", cli_command_table[c].name, cli_command_table[c].summary);
    (void)fprintf(to, "  %-11s %s\n  %-11s %s\n", "help",
                  "explain a command, or the configuration file: sluice help COMMAND|config",
                  "version", "print the version");
    (void)fprintf(to, "\nTo get started: sluice run 'Hello!'\n");
}
