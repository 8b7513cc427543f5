/* options.c - Parsing of command lines, from one table. */
#include "apps/cli/options.h"
#include "apps/cli/closest.h"
#include "apps/cli/config.h"
#include "apps/cli/sampling.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    RUN = 1 << CLI_run,
    CHAT = 1 << CLI_chat,
    SERVE = 1 << CLI_serve,
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
enum { OPTION_COUNT = sizeof cli_option_table / sizeof cli_option_table[0] };
const int cli_option_count = OPTION_COUNT;

/* Options by row that are set: a weaker source leaves them alone. */
typedef bool set_options[OPTION_COUNT];

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

static bool *given_of(const cli_option *o, cli_options *out) {
    return (bool *)((char *)out + o->given);
}

/* name: what to blame. */
static bool apply(cli_command command, const cli_option *o, const char *name, const char *value,
                  cli_options *out) {
    bool *given = given_of(o, out);
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

/* What options of other programs are called here, where the letters do not tell. */
static const char *const other_names[][2] = {{"max-tokens", "predict"},
                                             {"ctx-size", "context"},
                                             {"num-ctx", "context"},
                                             {"max-kv-size", "context"},
                                             {"reverse-prompt", "stop"}};

/* The option that may have been meant by a name, or NULL. */
static const char *meant_option(cli_command command, const char *name, size_t bytes) {
    cli_closest closest;
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        const char *ours = other_names[i][1];
        if (strlen(other_names[i][0]) == bytes && strncmp(other_names[i][0], name, bytes) == 0 &&
            find(command, ours, strlen(ours), 0))
            return ours;
    }
    cli_closest_begin(&closest, name, bytes);
    for (int i = 0; i < cli_option_count; i++)
        if (cli_option_serves(&cli_option_table[i], command))
            cli_closest_add(&closest, cli_option_table[i].name);
    return closest.found;
}

/* Blames a word that the command does not have as an option. */
static void refuse_option(cli_command command, const char *word) {
    const char *name = word + strspn(word, "-");
    const char *meant = meant_option(command, name, strcspn(name, "="));
    if (meant)
        (void)cli_misuse(command, "unknown option '%s'; did you mean --%s?", word, meant);
    else
        (void)cli_misuse(command, "unknown option '%s'", word);
}

/* Takes the option at words[*at], and its value; false after a message. */
static bool take_option(cli_command command, int count, char **words, int *at, cli_options *out) {
    const char *word = words[*at], *value;
    const cli_option *o = read_option(command, word, &value);
    if (!o || (value && !o->value)) {
        refuse_option(command, word);
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

static void mark_given(cli_options *out, set_options set) {
    for (int i = 0; i < OPTION_COUNT; i++)
        if (cli_option_table[i].name && *given_of(&cli_option_table[i], out)) set[i] = true;
}

const cli_variable cli_environment[] = {
#define GROUP(...)
#define OPTION(...)
#define ALSO(...)
#define ENVIRONMENT(NAME, VARIABLE) {NAME, VARIABLE},
#include "apps/cli/options.def"
};
enum { VARIABLES = sizeof cli_environment / sizeof cli_environment[0] };
const int cli_environment_count = VARIABLES;

/* NULL: the command does not have it. */
static const cli_option *option_of_variable(cli_command command, int i) {
    return find(command, cli_environment[i].option, strlen(cli_environment[i].option), 0);
}

static bool take_environment(cli_command command, cli_options *out, set_options set) {
    for (int i = 0; i < VARIABLES; i++) {
        const char *value = getenv(cli_environment[i].variable);
        const cli_option *o = option_of_variable(command, i);
        if (!o || !value || !value[0] || set[o - cli_option_table]) continue;
        if (!apply(command, o, cli_environment[i].variable, value, out)) return false;
        set[o - cli_option_table] = true;
    }
    return true;
}

/* on: whether an option without value is to be set; false after a message. */
static bool read_switch(cli_command command, const char *name, const char *value, bool *on) {
    static const char *const words[][2] = {{"on", "off"}, {"yes", "no"}, {"true", "false"}};
    for (int i = 0; i < 3; i++) {
        *on = strcmp(value, words[i][0]) == 0;
        if (*on || strcmp(value, words[i][1]) == 0) return true;
    }
    (void)cli_misuse(command, "%s: expected on or off, got '%s'", name, value);
    return false;
}

/* The settings of one section; row: NULL for those above all sections. */
static bool take_section(cli_command command, const cli_config *config, const cli_command_row *row,
                         cli_options *out, set_options set) {
    set_options set_here = {false};
    for (size_t i = 0; i < config->count; i++) {
        const cli_setting *s = &config->items[i];
        const cli_option *o = find(command, s->name, strlen(s->name), 0);
        if (s->command != row || !o || set[o - cli_option_table]) continue;
        char name[512];
        bool on = true;
        (void)snprintf(name, sizeof name, "%s:%d: %s", config->path, s->line, s->name);
        if (!o->value && !read_switch(command, name, s->value, &on)) return false;
        if (on && !apply(command, o, name, s->value, out)) return false;
        set_here[o - cli_option_table] = true;
    }
    for (int i = 0; i < OPTION_COUNT; i++) set[i] |= set_here[i];
    return true;
}

static bool take_config(cli_command command, cli_options *out, set_options set) {
    static cli_config config; /* options borrow from it */
    if (out->no_config) return true;
    if (!cli_config_read(&config)) return false;
    out->config_path = config.path;
    return take_section(command, &config, &cli_command_table[command], out, set) &&
           take_section(command, &config, NULL, out, set);
}

/* What is not on the command line.  That an option with a variable is set is not to contradict
 * others: it is a default. */
static bool take_defaults(cli_command command, cli_options *out) {
    set_options set = {false};
    mark_given(out, set);
    bool given[VARIABLES] = {false};
    for (int i = 0; i < VARIABLES; i++) {
        const cli_option *o = option_of_variable(command, i);
        given[i] = o && *given_of(o, out);
    }
    const bool good = take_environment(command, out, set) && take_config(command, out, set);
    for (int i = 0; i < VARIABLES; i++) {
        const cli_option *o = option_of_variable(command, i);
        if (o) *given_of(o, out) = given[i];
    }
    return good;
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
    if (out->argument_count >= row->fewest) return take_defaults(command, out);
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
