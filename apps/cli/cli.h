/* cli.h - What the parts of the program share. */
#ifndef SL_APPS_CLI_H
#define SL_APPS_CLI_H
#include "sluice/sluice.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef enum {
#define COMMAND(NAME, ...) CLI_##NAME,
#include "apps/cli/commands.def"
    CLI_COMMAND_COUNT
} cli_command;

typedef const char *cli_text;
typedef bool cli_flag;
typedef uint32_t cli_u32;
typedef uint64_t cli_u64;
typedef float cli_f32;
typedef struct {
#define OPTION(FIELD, KIND, ...)                                                                   \
    cli_##KIND FIELD;                                                                              \
    bool FIELD##_given;
#include "apps/cli/options.def"
    const char *arguments[3]; /* what is left after the options */
    int argument_count;
} cli_options;

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

#define COMMAND(NAME, ...) int cli_run_##NAME(const cli_options *options);
#include "apps/cli/commands.def"

/* options.c: false after printing what is wrong. */
bool cli_options_parse(cli_command command, int count, char **words, cli_options *out);
void cli_print_help(FILE *to, cli_command command);
void cli_print_commands(FILE *to);

/* terminal.c: everything but answers goes to stderr; colours and bars only on a terminal. */
bool cli_is_terminal(FILE *to);
/* "sluice: message", in red on a terminal; returns CLI_FAILED. */
int cli_fail(const sl_error *err);
int cli_fail_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A usage mistake; returns CLI_USAGE and points to --help. */
int cli_misuse(cli_command command, const char *format, ...) __attribute__((format(printf, 2, 3)));
sl_progress_fn cli_progress; /* a bar after the first half second; ctx is unused */
void cli_progress_end(void);
char *cli_bytes(uint64_t bytes, char *text, size_t capacity); /* "1.77 MB"; returns text */
double cli_seconds(void); /* of a clock that only goes forward */
/* A JSON string; bytes that are no UTF-8 become U+FFFD. */
json_t *cli_json_text(const char *text, size_t bytes);
/* Put a new value into an array or object.  A lack of memory is remembered: nothing is printed
 * then, and the program fails. */
void cli_json_append(json_t *array, json_t *value);
void cli_json_set(json_t *object, const char *key, json_t *value);
bool cli_json_failed(void);
/* The value as text, released with free; NULL without memory. */
char *cli_json_dump(const json_t *value, size_t flags);
/* Prints the value, indented, to standard output and gives up the reference; returns CLI_OK, or
 * CLI_FAILED after a message. */
int cli_print_json(json_t *value);
/* The whole of standard input or a file ("-" is standard input), NUL-terminated; NULL after a
 * message.  Released with free. */
char *cli_read_all(const char *path, size_t *out_bytes);

/* model.c: opening a model with the options that say how. */
bool cli_open_model(const cli_options *options, uint32_t context, sl_model **out);
bool cli_open_session(sl_model *model, const cli_options *options, sl_session **out);
/* The toggles among the options in the words of sl_model_options.compile; returns text. */
enum { CLI_COMPILE_TEXT = 112 };
const char *cli_compile_words(const cli_options *options, char text[CLI_COMPILE_TEXT]);
const char *cli_model_path(const cli_options *options);
sl_sampling cli_sampling(const sl_model *model, const cli_options *options);
void cli_print_stats(FILE *to, const sl_model *model, const sl_session *session);
json_t *cli_stats_json(const sl_model *model, const sl_session *session);
/* How many of the tokens that are left the next extend takes, so that progress can be shown between
 * chunks.  The last two are never separated: a single token would count as decoded. */
size_t cli_next_piece(const sl_model *model, const cli_options *options, size_t left);
#endif
