/* options.c - Parsing of command lines, from one table. */
#include "apps/cli/options.h"
#include "apps/cli/sampling.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RUN = 1 << CLI_run,
    CHAT = 1 << CLI_chat,
    LOGITS = 1 << CLI_logits,
    PERPLEXITY = 1 << CLI_perplexity,
    TOKENIZE = 1 << CLI_tokenize,
    INFO = 1 << CLI_info,
    LIST = 1 << CLI_list,
    PACK = 1 << CLI_pack,
    SYNTH = 1 << CLI_synth,
    BENCH = 1 << CLI_bench,
    INSPECT = 1 << CLI_inspect,
    IR = 1 << CLI_ir,
    ALL = (1 << CLI_COMMAND_COUNT) - 1
};

const cli_option cli_option_table[] = {
#define GROUP(HEADING) {.help = HEADING},
#define ENVIRONMENT(NAME, VARIABLE)
#define OPTION(FIELD, KIND, LETTER, NAME, VALUE, COMMANDS, HELP)                                   \
    {.name = NAME,                                                                                 \
     .value = VALUE,                                                                               \
     .help = HELP,                                                                                 \
     .letter = LETTER,                                                                             \
     .commands = COMMANDS,                                                                         \
     .parse = cli_parse_##KIND,                                                                    \
     .expected = cli_expected_##KIND,                                                              \
     .repeats = cli_repeats_##KIND,                                                                \
     .field = offsetof(cli_options, FIELD),                                                        \
     .given = offsetof(cli_options, FIELD##_given)},
#define ALSO OPTION
#include "apps/cli/options.def"
};
const int cli_option_count = sizeof cli_option_table / sizeof cli_option_table[0];

const cli_command_row cli_command_table[CLI_COMMAND_COUNT] = {
#define COMMAND(NAME, FEWEST, MOST, OPTION, ARGUMENTS, SUMMARY, EXAMPLE, DETAILS)                  \
    {#NAME, OPTION, ARGUMENTS, SUMMARY, EXAMPLE, DETAILS, FEWEST, MOST},
#include "apps/cli/commands.def"
};

static const cli_option *find(cli_command command, const char *name, size_t length, char letter) {
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *o = &cli_option_table[i];
        if (!cli_option_serves(o, command)) continue;
        if (letter ? o->letter == letter
                   : strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    }
    return NULL;
}

/* One word that starts with '-': --name, --name=value, -x, -xvalue.  *value is NULL when the value,
 * if any, is the next word. */
static const cli_option *read_option(cli_command command, const char *word, const char **value) {
    *value = NULL;
    if (word[1] != '-') {
        if (word[2] != '\0') *value = word + 2;
        return find(command, NULL, 0, word[1]);
    }
    const char *equals = strchr(word, '=');
    if (equals) *value = equals + 1;
    return find(command, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2), 0);
}

/* name: what to blame. */
static bool apply(cli_command command, const cli_option *o, const char *name, const char *value,
                  cli_options *out) {
    bool *given = (bool *)((char *)out + o->given);
    if (*given && !o->repeats) {
        (void)cli_misuse(command, "%s is given twice, again as '%s'", name, value);
        return false;
    }
    if (o->parse == cli_parse_sampler && !cli_sampler_check(command, o->name, value)) return false;
    if (!o->parse(value, o->value, (char *)out + o->field)) {
        (void)cli_misuse(command, "%s: expected %s, got '%s'", name, o->expected(o->value), value);
        return false;
    }
    *given = true;
    return true;
}

/* What may have been meant by an argument too many. */
static const char *excess_hint(const cli_command_row *row, const char *first) {
    if (!row->option[0]) return "";
    if (strcmp(row->option, "prompt") == 0 && access(first, F_OK) == 0)
        return " (give the model with -m)";
    return " (put quotes around several words)";
}

static bool take_argument(cli_command command, const char *word, cli_options *out) {
    const cli_command_row *row = &cli_command_table[command];
    if (out->argument_count == row->most) {
        (void)cli_misuse(command, "unexpected argument '%s'%s", word,
                         excess_hint(row, out->arguments[0]));
        return false;
    }
    out->arguments[out->argument_count++] = word;
    if (!row->option[0]) return true;
    char name[16];
    const cli_option *o = find(command, row->option, strlen(row->option), 0);
    (void)snprintf(name, sizeof name, "the %s", row->option);
    return apply(command, o, name, word, out);
}

/* Takes the option at words[*at], and its value; false after a message. */
static bool take_option(cli_command command, int count, char **words, int *at, cli_options *out) {
    const char *word = words[*at], *value;
    const cli_option *o = read_option(command, word, &value);
    if (!o || (value && !o->value)) {
        (void)cli_misuse(command, "unknown option '%s'", word);
        return false;
    }
    if (o->value && !value) {
        if (*at + 1 == count) {
            (void)cli_misuse(command, "%s needs a value: %s", word, o->value);
            return false;
        }
        value = words[++*at];
    }
    char name[32];
    (void)snprintf(name, sizeof name, "--%s", o->name);
    return apply(command, o, name, value, out);
}

/* Options that are not given may be set in the environment. */
static bool take_environment(cli_command command, cli_options *out) {
    static const char *const rows[][2] = {
#define GROUP(...)
#define OPTION(...)
#define ALSO(...)
#define ENVIRONMENT(NAME, VARIABLE) {NAME, VARIABLE},
#include "apps/cli/options.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const cli_option *o = find(command, rows[i][0], strlen(rows[i][0]), 0);
        const char *value = getenv(rows[i][1]);
        if (!o || !value || !value[0] || *(bool *)((char *)out + o->given)) continue;
        if (!apply(command, o, rows[i][1], value, out)) return false;
        *(bool *)((char *)out + o->given) = false;
    }
    return true;
}

bool cli_options_parse(cli_command command, int count, char **words, cli_options *out) {
    bool only_arguments = false;
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        if (!only_arguments && strcmp(word, "--") == 0)
            only_arguments = true;
        else if (!only_arguments && word[0] == '-' && word[1] != '\0') {
            if (!take_option(command, count, words, &i, out)) return false;
        } else if (!take_argument(command, word, out))
            return false;
    }
    if (out->help) return true;
    const cli_command_row *row = &cli_command_table[command];
    if (out->argument_count >= row->fewest) return take_environment(command, out);
    (void)cli_misuse(command, "missing argument: sluice %s %s", row->name, row->arguments);
    return false;
}

int cli_misuse(cli_command command, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)cli_fail_text("%s (see sluice %s --help)", message, cli_command_table[command].name);
    return CLI_USAGE;
}
