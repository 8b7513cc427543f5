/* man.c - The manual page, in roff, from the tables of commands and options. */
#include "apps/cli/config.h"
#include <string.h>

/* Signs that roff would read as its own are escaped. */
static void put(const char *text) {
    for (bool begins = true; *text; begins = *text++ == '\n') {
        if (begins && (*text == '.' || *text == '\'')) (void)fputs("\\&", stdout);
        if (*text == '\\')
            (void)fputs("\\e", stdout);
        else if (*text == '-')
            (void)fputs("\\-", stdout);
        else
            (void)putchar(*text);
    }
}

static void put_bold(const char *text) {
    (void)fputs("\\fB", stdout);
    put(text);
    (void)fputs("\\fR", stdout);
}

static void put_lines(const char *text) {
    (void)puts(".PP\n.nf");
    put(text);
    (void)puts(".fi");
}

static void put_command(const cli_command_row *row) {
    (void)fputs(".SS sluice ", stdout);
    put(row->name);
    if (row->arguments[0]) (void)putchar(' ');
    put(row->arguments);
    (void)puts("");
    char first = row->summary[0];
    if (first >= 'a' && first <= 'z') first = (char)(first - 'a' + 'A');
    (void)putchar(first);
    put(row->summary + 1);
    (void)puts(".");
    if (row->details[0]) put_lines(row->details);
    (void)puts(".PP");
    (void)fputs("Example: ", stdout);
    put_bold(row->example);
    (void)puts("");
}

static bool serves_all(const cli_option *o) {
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        if (!cli_option_serves(o, (cli_command)c)) return false;
    return true;
}

static void put_option(const cli_option *o) {
    const char letter[] = {'-', o->letter, '\0'};
    (void)puts(".TP");
    if (o->letter) put_bold(letter);
    if (o->letter) (void)fputs(", ", stdout);
    (void)fputs("\\fB\\-\\-", stdout);
    put(o->name);
    (void)fputs("\\fR", stdout);
    if (o->value) {
        (void)fputs(" \\fI", stdout);
        put(o->value);
        (void)fputs("\\fR", stdout);
    }
    (void)puts("");
    put(o->help);
    (void)fputs(".\n[", stdout);
    if (serves_all(o)) (void)fputs("all commands", stdout);
    const char *between = "";
    for (int c = 0; c < CLI_COMMAND_COUNT && !serves_all(o); c++) {
        if (!cli_option_serves(o, (cli_command)c)) continue;
        (void)printf("%s%s", between, cli_command_table[c].name);
        between = ", ";
    }
    (void)puts("]");
}

static void put_options(void) {
    const char *heading = NULL;
    (void)puts(".SH OPTIONS\nIn brackets are the commands that have an option.");
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *o = &cli_option_table[i];
        if (!o->name) heading = o->help;
        if (!o->name || !o->commands) continue;
        if (heading) (void)printf(".SS %s\n", heading);
        heading = NULL;
        put_option(o);
    }
}

static void put_term(const char *term, const char *text) {
    (void)puts(".TP");
    put_bold(term);
    (void)puts("");
    put(text);
    (void)puts("");
}

static void put_environment(void) {
    (void)puts(".SH ENVIRONMENT");
    for (int i = 0; i < cli_environment_count; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "What --%s is where it is not given.",
                       cli_environment[i].option);
        put_term(cli_environment[i].variable, text);
    }
    put_term("SLUICE_CONFIG", "Path of the configuration file; empty: there is none.");
    put_term("NO_COLOR", "If it is not empty, nothing is coloured.");
    put_term("HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, OLLAMA_MODELS, LLAMA_CACHE",
             "Where sluice list looks for models.");
}

int cli_run_man(const cli_options *options) {
    (void)options;
    (void)printf(".TH SLUICE 1 \"\" \"sluice %s\" \"User Commands\"\n.ad l\n", sl_version());
    (void)puts(
        ".SH NAME\n"
        "sluice \\- run Mixture\\-of\\-Experts language models larger than memory\n"
        ".SH SYNOPSIS\n"
        "\\fBsluice\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n"
        ".SH DESCRIPTION\n"
        "sluice runs Mixture\\-of\\-Experts language models whose experts are read from disk as\n"
        "they are needed, and compiles tensor programs.\n"
        "The answer goes to standard output, everything else to standard error.\n"
        "\\fBsluice help\\fR \\fICOMMAND\\fR lists the options of one command.\n"
        ".SH COMMANDS");
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) put_command(&cli_command_table[c]);
    put_options();
    put_environment();
    (void)puts(".SH CONFIGURATION");
    put_lines(cli_config_help);
    (void)puts(".SH EXIT STATUS");
    put_term("0", "Success.");
    put_term("1", "A failure, which one line on standard error explains.");
    put_term("2", "A mistake on the command line or in the configuration file.");
    put_term("130", "Interrupted.");
    (void)puts(".SH SEE ALSO\n"
               "The guides, such as docs/server.md, are in share/doc/sluice of the installation.");
    return CLI_OK;
}
