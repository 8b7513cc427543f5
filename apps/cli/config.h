/* config.h - Options that a file sets: lines `option = value`, in sections of commands. */
#ifndef SL_APPS_CONFIG_H
#define SL_APPS_CONFIG_H
#include "apps/cli/options.h"

typedef struct {
    const cli_command_row *command; /* NULL: of all commands that have the option */
    const char *name, *value;
    int line;
} cli_setting;

typedef struct {
    const char *path; /* NULL: there is no file */
    char *text;       /* what names and values point into */
    cli_setting *items;
    size_t count, capacity;
} cli_config;

extern const char cli_config_help[];

/* Reads the file that the help tells of.  Names of commands and options are checked,
 * values are not.  What is read stays until the program ends.  False after a message. */
bool cli_config_read(cli_config *out);
#endif
