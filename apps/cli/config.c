/* config.c - Reads the configuration file. */
#include "apps/cli/config.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char cli_config_help[] =
    "The file is $SLUICE_CONFIG, else $XDG_CONFIG_HOME/sluice/config, else\n"
    "~/.config/sluice/config.  A line sets an option by its long name; what stands below "
    "[COMMAND]\n"
    "is for that command only, the rest for every command that has the option:\n"
    "\n"
    "  # a comment\n"
    "  model = ~/models/qwen3-30b-a3b.gguf\n"
    "  budget = 8GiB\n"
    "  stats = on\n"
    "\n"
    "  [chat]\n"
    "  context = 16384\n"
    "  system = Be brief.\n"
    "\n"
    "Options without a value are on or off.  ~/ stands for the home folder.  A value in "
    "double\n"
    "quotes keeps its spaces.  An option that may be repeated may have several lines.\n"
    "\n"
    "The command line is stronger than the environment, that is stronger than the file, and\n"
    "there the section of the command is stronger than what stands above all sections.\n"
    "--no-config leaves the file unread; --verbose says which file was read.\n";

/* NULL: there is none to read. */
static char *find_path(void) {
    static const struct {
        const char *variable, *below;
    } places[] = {{"XDG_CONFIG_HOME", "/sluice/config"}, {"HOME", "/.config/sluice/config"}};
    const char *given = getenv("SLUICE_CONFIG");
    char *path = NULL;
    if (given) return given[0] ? cli_copy(given) : NULL;
    for (int i = 0; i < 2; i++) {
        const char *base = getenv(places[i].variable);
        if (!base || !base[0]) continue;
        if (asprintf(&path, "%s%s", base, places[i].below) < 0) return NULL;
        if (access(path, F_OK) == 0) return path;
        free(path);
    }
    return NULL;
}

static char *trim(char *text) {
    static const char blanks[] = " \t\r";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length && strchr(blanks, text[length - 1])) length--;
    text[length] = '\0';
    return text;
}

static bool add(cli_config *config, cli_setting setting) {
    if (config->count == config->capacity) {
        const size_t capacity = config->capacity * 2 + 16;
        cli_setting *items = realloc(config->items, capacity * sizeof *items);
        if (!items) return cli_fail_text("%s: no memory for its settings", config->path) == CLI_OK;
        config->items = items;
        config->capacity = capacity;
    }
    config->items[config->count++] = setting;
    return true;
}

static bool has_option(const cli_command_row *command, const char *name) {
    for (int i = 0; i < cli_option_count; i++) {
        const cli_option *o = &cli_option_table[i];
        const bool serves =
            !command || cli_option_serves(o, (cli_command)(command - cli_command_table));
        if (o->name && serves && strcmp(o->name, name) == 0) return true;
    }
    return false;
}

/* "[NAME]" */
static bool read_section(const cli_config *config, int line, char *text,
                         const cli_command_row **out) {
    const size_t length = strlen(text);
    if (text[length - 1] != ']')
        return cli_fail_text("%s:%d: '%s': a ] is missing", config->path, line, text) == CLI_OK;
    text[length - 1] = '\0';
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        if (strcmp(cli_command_table[c].name, text + 1) == 0) {
            *out = &cli_command_table[c];
            return true;
        }
    return cli_fail_text("%s:%d: there is no command '%s'", config->path, line, text + 1) == CLI_OK;
}

/* The value without quotes, or with the home folder for ~; NULL after a message. */
static char *complete_value(char *value) {
    const size_t length = strlen(value);
    const char *home = getenv("HOME");
    char *whole = NULL;
    if (length > 1 && value[0] == '"' && value[length - 1] == '"') {
        value[length - 1] = '\0';
        return value + 1;
    }
    if (strncmp(value, "~/", 2) != 0 || !home) return value;
    if (asprintf(&whole, "%s%s", home, value + 1) >= 0) return whole;
    (void)cli_fail_text("no memory for a path");
    return NULL;
}

static bool read_setting(cli_config *config, int line, char *text, const cli_command_row *command) {
    char *equals = strchr(text, '=');
    if (!equals)
        return cli_fail_text("%s:%d: '%s': expected option = value", config->path, line, text) ==
               CLI_OK;
    *equals = '\0';
    char *name = trim(text), *value = complete_value(trim(equals + 1));
    if (!value) return false;
    if (!has_option(command, name)) {
        (void)(command ? cli_fail_text("%s:%d: %s has no option '%s'", config->path, line,
                                       command->name, name)
                       : cli_fail_text("%s:%d: no command has the option '%s'", config->path, line,
                                       name));
        return false;
    }
    return add(config, (cli_setting){command, name, value, line});
}

static bool read_lines(cli_config *config, char *text) {
    const cli_command_row *command = NULL;
    int number = 0;
    for (char *next; text; text = next) {
        next = strchr(text, '\n');
        if (next) *next++ = '\0';
        char *line = trim(text);
        number++;
        if (line[0] == '\0' || line[0] == '#') continue;
        if (line[0] == '[' ? !read_section(config, number, line, &command)
                           : !read_setting(config, number, line, command))
            return false;
    }
    return true;
}

bool cli_config_read(cli_config *out) {
    *out = (cli_config){.path = find_path()};
    if (!out->path) return true;
    out->text = cli_read_text(out->path);
    return out->text && read_lines(out, out->text);
}
