/* completion.c - Completion scripts for shells, from the tables of commands and options. */
#include "apps/cli/options.h"
#include <ctype.h>
#include <string.h>

typedef enum { NOTHING, WORDS, FILES, MODELS } kind;

/* What can stand in a place that the help calls `value`. */
static kind kind_of_value(const char *value) {
    bool capitals = false;
    for (const char *at = value; *at; at++) capitals |= isupper((unsigned char)*at) != 0;
    if (strstr(value, "FILE") || strstr(value, "PATH") || strstr(value, "FOLDER") ||
        strstr(value, "SRC") || strstr(value, "OUT"))
        return FILES;
    return strchr(value, '|') && !capitals ? WORDS : NOTHING;
}

static kind kind_of_option(const cli_option *o) {
    if (strcmp(o->name, "model") == 0) return MODELS;
    return o->parse == cli_parse_device ? WORDS : kind_of_value(o->value);
}

static const char *words_of_option(const cli_option *o) {
    return o->parse == cli_parse_device ? o->expected(o->value) : o->value;
}

static kind kind_of_arguments(const cli_command_row *row) {
    if (strcmp(row->option, "model") == 0) return MODELS;
    return row->details[0] == ' ' ? WORDS : kind_of_value(row->arguments);
}

/* "a|b|c", with other signs between the words. */
static void print_words(const char *words, const char *between) {
    for (; *words; words++)
        if (*words == '|')
            (void)fputs(between, stdout);
        else
            (void)putchar(*words);
}

/* The words of an argument: of its name, or those that begin the indented lines of the details. */
static void print_argument_words(const cli_command_row *row) {
    if (row->details[0] != ' ') {
        print_words(row->arguments, " ");
        return;
    }
    const char *before = "", *last = "";
    for (const char *line = row->details; strncmp(line, "  ", 2) == 0;) {
        const int bytes = (int)strcspn(line + 2, " \n");
        if (strncmp(last, line + 2, (size_t)bytes + 1) != 0)
            (void)printf("%s%.*s", before, bytes, line + 2);
        last = line + 2;
        before = " ";
        line = strchr(line, '\n') + 1;
    }
}

/* The first part of a help text within single quotes, with a backslash before the given signs. */
static void print_summary(const char *help, const char *special) {
    const size_t bytes = strcspn(help, "(;");
    size_t length = bytes;
    while (length && help[length - 1] == ' ') length--;
    for (size_t i = 0; i < length; i++) {
        if (help[i] == '\'')
            (void)fputs("'\\'", stdout);
        else if (strchr(special, help[i]))
            (void)putchar('\\');
        (void)putchar(help[i]);
    }
}

/* The rows that are options, of one command; NULL after the last.  Begin with -1. */
static const cli_option *next_option(cli_command command, int *at) {
    while (++*at < cli_option_count)
        if (cli_option_serves(&cli_option_table[*at], command)) return &cli_option_table[*at];
    return NULL;
}

static void print_command_names(const char *between) {
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        (void)printf("%s%s", c ? between : "", cli_command_table[c].name);
}

/* ---- bash ---- */

static void bash_value(const cli_option *o) {
    bool first = true;
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
        if (!cli_option_serves(o, (cli_command)c)) continue;
        (void)printf("%s%s:--%s", first ? "    " : " | ", cli_command_table[c].name, o->name);
        if (o->letter) (void)printf(" | %s:-%c", cli_command_table[c].name, o->letter);
        first = false;
    }
    switch (kind_of_option(o)) {
    case NOTHING:
        (void)puts(") return ;;");
        break;
    case FILES:
        (void)puts(") _sluice_files \"$cur\"; return ;;");
        break;
    case MODELS:
        (void)puts(") _sluice_models \"$cur\"; return ;;");
        break;
    case WORDS:
        (void)fputs(") _sluice_words \"$cur\" \"", stdout);
        print_words(words_of_option(o), " ");
        (void)puts("\"; return ;;");
        break;
    }
}

static void bash_options(cli_command command) {
    int at = -1;
    (void)printf("        %s) _sluice_words \"$cur\" \"", cli_command_table[command].name);
    for (const cli_option *o; (o = next_option(command, &at)) != NULL;)
        (void)printf("--%s ", o->name);
    (void)puts("\" ;;");
}

static void bash_arguments(const cli_command_row *row) {
    const kind what = kind_of_arguments(row);
    if (what == NOTHING) return;
    (void)printf("    %s) ", row->name);
    if (what != WORDS) {
        (void)printf("_sluice_%s \"$cur\" ;;\n", what == FILES ? "files" : "models");
        return;
    }
    (void)fputs("if ((COMP_CWORD == 2)); then _sluice_words \"$cur\" \"", stdout);
    print_argument_words(row);
    (void)puts("\"; else _sluice_files \"$cur\"; fi ;;");
}

static void print_bash(void) {
    (void)fputs(
        "# bash completion for sluice, written by `sluice completion bash`\n"
        "_sluice_words() { mapfile -t COMPREPLY < <(compgen -W \"$2\" -- \"$1\"); }\n"
        "_sluice_files() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$1\"); "
        "}\n"
        "# A name may have a colon, which divides words: what comes before it has been typed.\n"
        "_sluice_models() {\n"
        "    compopt -o filenames\n"
        "    mapfile -t COMPREPLY < <(compgen -f -- \"$1\"\n"
        "        compgen -W \"$(\"${COMP_WORDS[0]}\" list --names 2>/dev/null)\" -- \"$1\")\n"
        "    if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
        "        COMPREPLY=(\"${COMPREPLY[@]#\"${1%\"${1##*:}\"}\"}\"); fi\n"
        "}\n"
        "_sluice() {\n"
        "    local command=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD prev\n"
        "    while ((at > 2)) && [[ ${COMP_WORDS[at]} == : || ${COMP_WORDS[at-1]} == : ]]; do\n"
        "        ((at--)); cur=${COMP_WORDS[at]}$cur; done\n"
        "    prev=${COMP_WORDS[at-1]}\n"
        "    COMPREPLY=()\n"
        "    if ((COMP_CWORD == 1)); then\n"
        "        _sluice_words \"$cur\" \"",
        stdout);
    print_command_names(" ");
    (void)fputs(" help version --help --version\"\n"
                "        return\n"
                "    fi\n"
                "    if [[ $cur == \"=\" ]]; then cur=\n"
                "    elif [[ $prev == \"=\" ]]; then prev=${COMP_WORDS[at-2]}; fi\n"
                "    case $command:$prev in\n",
                stdout);
    for (int i = 0; i < cli_option_count; i++)
        if (cli_option_table[i].name && cli_option_table[i].value) bash_value(&cli_option_table[i]);
    (void)fputs("    esac\n"
                "    if [[ $cur == -* ]]; then\n"
                "        case $command in\n",
                stdout);
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) bash_options((cli_command)c);
    (void)fputs("        esac\n"
                "        return\n"
                "    fi\n"
                "    case $command in\n"
                "    help) _sluice_words \"$cur\" \"",
                stdout);
    print_command_names(" ");
    (void)puts(" config\" ;;");
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) bash_arguments(&cli_command_table[c]);
    (void)fputs("    esac\n"
                "}\n"
                "complete -F _sluice sluice\n",
                stdout);
}

/* ---- zsh ---- */

static const char zsh_special[] = "[]:\\";

static void zsh_action(kind what) {
    if (what == FILES) (void)fputs("_files", stdout);
    if (what == MODELS) (void)fputs("_sluice_models", stdout);
}

static void zsh_option(const cli_option *o) {
    const bool repeats = o->repeats && o->value; /* a second flag would say the same */
    (void)fputs(" \\\n        ", stdout);
    if (o->letter && !repeats) (void)printf("'(-%c --%s)'", o->letter, o->name);
    if (repeats) (void)fputs("'*'", stdout);
    if (o->letter)
        (void)printf("{-%c%s,--%s%s}", o->letter, o->value ? "+" : "", o->name,
                     o->value ? "=" : "");
    else
        (void)printf("--%s%s", o->name, o->value ? "=" : "");
    (void)fputs("'[", stdout);
    print_summary(o->help, zsh_special);
    (void)putchar(']');
    if (o->value) {
        const kind what = kind_of_option(o);
        (void)putchar(':');
        print_summary(o->value, zsh_special);
        (void)putchar(':');
        zsh_action(what);
        if (what == WORDS) {
            (void)putchar('(');
            print_words(words_of_option(o), " ");
            (void)putchar(')');
        }
    }
    (void)putchar('\'');
}

static void zsh_command(cli_command command) {
    const cli_command_row *row = &cli_command_table[command];
    const kind what = kind_of_arguments(row);
    int at = -1;
    (void)printf("    %s) _arguments -s", row->name);
    for (const cli_option *o; (o = next_option(command, &at)) != NULL;) zsh_option(o);
    if (what == WORDS) {
        (void)fputs(" \\\n        '1:word:(", stdout);
        print_argument_words(row);
        (void)fputs(")' '*:file:_files'", stdout);
    } else {
        (void)fputs(" \\\n        '*:argument:", stdout);
        zsh_action(what);
        (void)putchar('\'');
    }
    (void)puts(" ;;");
}

static void print_zsh(void) {
    (void)fputs("#compdef sluice\n"
                "# zsh completion for sluice, written by `sluice completion zsh`\n"
                "_sluice_models() {\n"
                "    local -a names\n"
                "    names=(${(f)\"$(sluice list --names 2>/dev/null)\"})\n"
                "    compadd -a names\n"
                "    _files\n"
                "}\n"
                "_sluice() {\n"
                "    local -a commands\n"
                "    commands=(\n",
                stdout);
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
        (void)printf("        '%s:", cli_command_table[c].name);
        print_summary(cli_command_table[c].summary, zsh_special);
        (void)puts("'");
    }
    (void)fputs("        'help:explain a command' 'version:print the version'\n"
                "    )\n"
                "    if ((CURRENT == 2)); then _describe command commands; return; fi\n"
                "    local command=$words[2]\n"
                "    shift words\n"
                "    ((CURRENT--))\n"
                "    case $command in\n"
                "    help) commands+=('config:options that a file sets')\n"
                "        _describe command commands ;;\n",
                stdout);
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) zsh_command((cli_command)c);
    (void)fputs("    esac\n"
                "}\n"
                "if [ \"$funcstack[1]\" = _sluice ]; then _sluice \"$@\"; else compdef _sluice "
                "sluice; fi\n",
                stdout);
}

/* ---- fish ---- */

static const char fish_special[] = "\\";

static void fish_option(const cli_option *o) {
    (void)fputs("complete -c sluice -n '__sluice_is", stdout);
    for (int c = 0; c < CLI_COMMAND_COUNT; c++)
        if (cli_option_serves(o, (cli_command)c)) (void)printf(" %s", cli_command_table[c].name);
    (void)printf("' -l %s", o->name);
    if (o->letter) (void)printf(" -s %c", o->letter);
    if (o->value) {
        const kind what = kind_of_option(o);
        (void)fputs(what == FILES || what == MODELS ? " -r -F" : " -x", stdout);
        if (what == MODELS) (void)fputs(" -a '(sluice list --names 2>/dev/null)'", stdout);
        if (what == WORDS) {
            (void)fputs(" -a '", stdout);
            print_words(words_of_option(o), " ");
            (void)putchar('\'');
        }
    }
    (void)fputs(" -d '", stdout);
    print_summary(o->help, fish_special);
    (void)puts("'");
}

static void fish_command(const cli_command_row *row) {
    (void)printf("complete -c sluice -n __sluice_begins -f -a %s -d '", row->name);
    print_summary(row->summary, fish_special);
    (void)puts("'");
    const kind what = kind_of_arguments(row);
    if (what == FILES) return;
    (void)printf("complete -c sluice -n '__sluice_%s %s'%s", what == WORDS ? "first" : "is",
                 row->name,
                 what == NOTHING ? " -f"
                 : what == WORDS ? " -f -a '"
                                 : " -a '");
    if (what == MODELS) (void)fputs("(sluice list --names 2>/dev/null)", stdout);
    if (what == WORDS) print_argument_words(row);
    (void)puts(what == NOTHING ? "" : "'");
}

static void print_fish(void) {
    (void)puts("# fish completion for sluice, written by `sluice completion fish`\n"
               "function __sluice_begins; test (count (commandline -opc)) -eq 1; end\n"
               "function __sluice_is\n"
               "    set -l words (commandline -opc)\n"
               "    test (count $words) -gt 1; and contains -- $words[2] $argv\n"
               "end\n"
               "function __sluice_first; test (count (commandline -opc)) -eq 2; and __sluice_is "
               "$argv; end\n"
               "complete -c sluice -n __sluice_begins -f -a help -d 'explain a command'\n"
               "complete -c sluice -n __sluice_begins -f -a version -d 'print the version'");
    (void)fputs("complete -c sluice -n '__sluice_is help' -f -a '", stdout);
    print_command_names(" ");
    (void)puts(" config'");
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) fish_command(&cli_command_table[c]);
    for (int i = 0; i < cli_option_count; i++)
        if (cli_option_table[i].name) fish_option(&cli_option_table[i]);
}

int cli_run_completion(const cli_options *options) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (int i = 0; i < 3; i++)
        if (strcmp(shells[i].name, options->arguments[0]) == 0) {
            shells[i].print();
            return CLI_OK;
        }
    return cli_misuse(CLI_completion, "expected bash, zsh or fish, got '%s'",
                      options->arguments[0]);
}
