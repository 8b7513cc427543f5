/* options.c - Parsing and help of command lines, from one table. */
#include "apps/cli/cli.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN = 1 << CLI_run,
    CHAT = 1 << CLI_chat,
    LOGITS = 1 << CLI_logits,
    PERPLEXITY = 1 << CLI_perplexity,
    TOKENIZE = 1 << CLI_tokenize,
    INFO = 1 << CLI_info,
    PACK = 1 << CLI_pack,
    SYNTH = 1 << CLI_synth,
    BENCH = 1 << CLI_bench,
    INSPECT = 1 << CLI_inspect,
    IR = 1 << CLI_ir,
    ALL = (1 << CLI_COMMAND_COUNT) - 1
};

typedef bool parse_fn(const char *text, void *out);

static bool parse_text(const char *text, void *out) {
    *(cli_text *)out = text;
    return true;
}

static bool parse_flag(const char *text, void *out) {
    (void)text;
    *(cli_flag *)out = true;
    return true;
}

static bool parse_u64(const char *text, void *out) {
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    *(cli_u64 *)out = value;
    return errno == 0 && end != text && *end == '\0' && strchr(text, '-') == NULL;
}

static bool parse_u32(const char *text, void *out) {
    cli_u64 value;
    if (!parse_u64(text, &value) || value > UINT32_MAX) return false;
    *(cli_u32 *)out = (cli_u32)value;
    return true;
}

static bool parse_f32(const char *text, void *out) {
    char *end;
    const float value = strtof(text, &end);
    *(cli_f32 *)out = value;
    return end != text && *end == '\0' && isfinite(value);
}

typedef struct {
    const char *name, *value, *help;
    char letter;
    int commands;
    parse_fn *parse;
    size_t field, given;
} option;

static const option options_table[] = {
#define OPTION(FIELD, KIND, LETTER, NAME, VALUE, COMMANDS, HELP)                                   \
    {NAME,                                                                                         \
     VALUE,                                                                                        \
     HELP,                                                                                         \
     LETTER,                                                                                       \
     COMMANDS,                                                                                     \
     parse_##KIND,                                                                                 \
     offsetof(cli_options, FIELD),                                                                 \
     offsetof(cli_options, FIELD##_given)},
#include "apps/cli/options.def"
};
enum { OPTION_COUNT = sizeof options_table / sizeof options_table[0] };

static const struct {
    const char *name, *arguments, *summary;
    int fewest, most;
} command_table[] = {
#define COMMAND(NAME, FEWEST, MOST, ARGUMENTS, SUMMARY) {#NAME, ARGUMENTS, SUMMARY, FEWEST, MOST},
#include "apps/cli/commands.def"
};

static const option *find(cli_command command, const char *name, size_t length, char letter) {
    for (int i = 0; i < OPTION_COUNT; i++) {
        const option *o = &options_table[i];
        if (!(o->commands >> command & 1)) continue;
        if (letter ? o->letter == letter
                   : strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    }
    return NULL;
}

/* One word that starts with '-': --name, --name=value, -x, -xvalue.  *value is NULL when the value,
 * if any, is the next word. */
static const option *read_option(cli_command command, const char *word, const char **value) {
    *value = NULL;
    if (word[1] != '-') {
        if (word[2] != '\0') *value = word + 2;
        return find(command, NULL, 0, word[1]);
    }
    const char *equals = strchr(word, '=');
    if (equals) *value = equals + 1;
    return find(command, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2), 0);
}

static bool apply(cli_command command, const option *o, const char *value, cli_options *out) {
    if (!o->parse(value, (char *)out + o->field)) {
        (void)cli_misuse(command, "--%s: expected %s, found '%s'", o->name, o->value, value);
        return false;
    }
    *(bool *)((char *)out + o->given) = true;
    return true;
}

bool cli_options_parse(cli_command command, int count, char **words, cli_options *out) {
    for (int i = 0; i < count; i++) {
        const char *word = words[i], *value;
        if (word[0] != '-' || word[1] == '\0') {
            if (out->argument_count == command_table[command].most) {
                (void)cli_misuse(command, "unexpected argument '%s'", word);
                return false;
            }
            out->arguments[out->argument_count++] = word;
            continue;
        }
        const option *o = read_option(command, word, &value);
        if (!o || (value && !o->value)) {
            (void)cli_misuse(command, "'%s' is not an option of sluice %s", word,
                             command_table[command].name);
            return false;
        }
        if (o->value && !value) {
            if (i + 1 == count) {
                (void)cli_misuse(command, "%s needs a value: %s", word, o->value);
                return false;
            }
            value = words[++i];
        }
        if (!apply(command, o, value, out)) return false;
    }
    if (out->help || out->argument_count >= command_table[command].fewest) return true;
    (void)cli_misuse(command, "missing argument: sluice %s %s", command_table[command].name,
                     command_table[command].arguments);
    return false;
}

static void print_option(FILE *to, const option *o) {
    const char *value = o->value ? o->value : "";
    char left[40];
    if (o->letter)
        (void)snprintf(left, sizeof left, "-%c, --%s %s", o->letter, o->name, value);
    else
        (void)snprintf(left, sizeof left, "    --%s %s", o->name, value);
    (void)fprintf(to, "  %-24s %s\n", left, o->help);
}

static void print_devices(FILE *to, cli_command command) {
    sl_device_item device;
    (void)fprintf(to, "\ndevices:\n");
    for (uint32_t i = 0; sl_device_at(i, &device); i++)
        if (device.runs_models || command == CLI_ir)
            (void)fprintf(to, "  %-24s %s\n", device.name, device.summary);
}

void cli_print_help(FILE *to, cli_command command) {
    (void)fprintf(to, "sluice %s - %s\n\nusage: sluice %s [options]%s%s\n\n",
                  command_table[command].name, command_table[command].summary,
                  command_table[command].name, command_table[command].arguments[0] ? " " : "",
                  command_table[command].arguments);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options_table[i].commands >> command & 1) print_option(to, &options_table[i]);
    if (find(command, "device", strlen("device"), 0)) print_devices(to, command);
}

void cli_print_commands(FILE *to) {
    (void)fprintf(to,
                  "sluice %s - runs Mixture-of-Experts models larger than memory\n\n"
                  "usage: sluice COMMAND [options]\n\n",
                  sl_version());
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        (void)fprintf(to, "  %-11s %s\n", command_table[c].name, command_table[c].summary);
    (void)fprintf(
        to, "\nsluice COMMAND --help explains a command. To get started: sluice run -p 'Hello!'\n");
}

int cli_misuse(cli_command command, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "sluice: ");
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, " (see sluice %s --help)\n", command_table[command].name);
    return CLI_USAGE;
}
