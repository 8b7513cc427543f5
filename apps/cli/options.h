/* options.h - The tables of commands and options, for parsing and help. */
#ifndef SL_APPS_OPTIONS_H
#define SL_APPS_OPTIONS_H
#include "apps/cli/cli.h"

typedef struct {
    const char *name, *value, *help; /* help alone: the heading of a group */
    char letter;
    int commands;
    /* Reads a value; false if it is invalid.  NULL: an option without value. */
    bool (*parse)(const char *text, const char *value, void *out);
    /* What a value has to be, in a message. */
    const char *(*expected)(const char *value);
    bool repeats; /* may be given more than once */
    size_t field, given;
} cli_option;

typedef struct {
    const char *name, *option, *arguments, *summary, *example, *details;
    int fewest, most;
} cli_command_row;

/* What an option is set to where it is not given. */
typedef struct {
    const char *option, *variable;
} cli_variable;

extern const cli_variable cli_environment[];
extern const int cli_environment_count;
extern const cli_option cli_option_table[];
extern const int cli_option_count;
extern const cli_command_row cli_command_table[CLI_COMMAND_COUNT];

/* option_kinds.c: a pair of functions for each kind of value, and whether it may be repeated. */
#define KIND(NAME, REPEATS)                                                                        \
    enum { cli_repeats_##NAME = (REPEATS) };                                                       \
    bool cli_parse_##NAME(const char *text, const char *value, void *out);                         \
    const char *cli_expected_##NAME(const char *value);
KIND(text, 0)
KIND(flag, 1)
KIND(u32, 0)
KIND(seed, 0)
KIND(real, 0)
KIND(share, 0)
KIND(size, 0)
KIND(range, 0)
KIND(word, 0)
KIND(list, 1)
KIND(texts, 1)
KIND(sampler, 0)
KIND(device, 0)
#undef KIND

static inline bool cli_option_serves(const cli_option *option, cli_command command) {
    return option->name && option->commands >> command & 1;
}
#endif
