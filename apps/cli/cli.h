/* cli.h - What the parts of the program share. */
#ifndef SL_APPS_CLI_H
#define SL_APPS_CLI_H
#include "sluice/sampling.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

typedef enum {
#define COMMAND(NAME, ...) CLI_##NAME,
#include "apps/cli/commands.def"
    CLI_COMMAND_COUNT
} cli_command;

/* The kinds of values that options have (option_kinds.c). */
enum { CLI_MOST_LIST = 16 };
typedef const char *cli_text;
typedef const char *cli_word;
typedef const char *cli_device;
typedef bool cli_flag;
typedef uint32_t cli_u32;
typedef uint64_t cli_seed;
typedef float cli_real;
typedef float cli_share;
typedef struct {
    uint64_t bytes; /* or: */
    double share;   /* of all experts */
} cli_size;
typedef struct {
    uint32_t first, end;
} cli_range;
typedef struct {
    const char *items[CLI_MOST_LIST];
    int count;
} cli_list;
typedef cli_list cli_texts;
typedef const char *cli_sampler;

/* A field for each option; FIELD_given: on the command line or in the configuration file, but not
 * where there is an environment variable for it. */
typedef struct {
#define GROUP(...)
#define ALSO(...)
#define ENVIRONMENT(...)
#define OPTION(FIELD, KIND, ...)                                                                   \
    cli_##KIND FIELD;                                                                              \
    bool FIELD##_given;
#include "apps/cli/options.def"
    const char *arguments[3]; /* what is left after the options */
    int argument_count;
    const char *config_path; /* of the configuration file that was read, or NULL */
    uint32_t sessions;       /* of the model that is opened; 0: one */
} cli_options;

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

#define COMMAND(NAME, ...) int cli_run_##NAME(const cli_options *options);
#include "apps/cli/commands.def"

/* options.c: false after printing what is wrong. */
bool cli_options_parse(cli_command command, int count, char **words, cli_options *out);
uint64_t cli_random_seed(void);
/* help.c */
void cli_print_help(FILE *to, cli_command command);
void cli_print_commands(FILE *to);

/* terminal.c: everything but answers goes to stderr; colours and bars only on a terminal that has
 * them, and not where NO_COLOR is set. */
void cli_terminal_begin(bool quiet, bool verbose);
bool cli_is_terminal(FILE *to);
bool cli_has_colours(FILE *to);
bool cli_is_verbose(void);
/* "sluice: message", in red on a terminal; returns CLI_FAILED, or CLI_INTERRUPTED if err says that
 * it was cancelled. */
int cli_fail(const sl_error *err);
int cli_fail_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "note: message", unless --quiet is given. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What was done, to stderr, unless --quiet is given. */
void cli_inform(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A usage mistake; returns CLI_USAGE and points to --help. */
int cli_misuse(cli_command command, const char *format, ...) __attribute__((format(printf, 2, 3)));
sl_progress_fn cli_progress; /* a bar after the first half second; ctx is unused */
void cli_progress_end(void);
/* What is being done now, where progress cannot be counted; until cli_progress_end. */
void cli_progress_stage(const char *what);
char *cli_bytes(uint64_t bytes, char *text, size_t capacity); /* "1.77 MB"; returns text */
char *cli_count(uint64_t count, char *text, size_t capacity); /* "8.78 G"; returns text */
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
/* The same for text: a zero byte is an error, CRLF becomes LF. */
char *cli_read_text(const char *path);
/* A copy, released with free; NULL after a message. */
char *cli_copy(const char *text);

/* model.c: opening a model with the options that say how. */
bool cli_open_model(const cli_options *options, uint32_t context, sl_model **out);
/* verbose.c: what was chosen, and why, where the program is verbose.  context: the default. */
void cli_explain_model(const cli_options *options, const char *path, uint32_t context,
                       const sl_model *model);
bool cli_open_session(sl_model *model, const cli_options *options, sl_session **out);
/* The toggles among the options in the words of sl_model_options.compile; returns text. */
enum { CLI_COMPILE_TEXT = 192 };
const char *cli_compile_words(const cli_options *options, char text[CLI_COMPILE_TEXT]);
/* NULL: it is not installed. */
const char *cli_bundled_model(void);
/* The model of the options, which may be a name that `sluice list` shows, or the bundled one; NULL
 * after a message. */
const char *cli_model_path(const cli_options *options);
sl_sampling cli_sampling(const sl_model *model, const cli_options *options);
/* What a model or session that is open says of itself. */
sl_model_info cli_model_info(const sl_model *model);
sl_sampling cli_model_sampling(const sl_model *model);
sl_stats cli_session_stats(const sl_session *session);

/* stats.c: what a session did. */
typedef struct {
    const sl_model *model;
    const sl_session *session;
    const sl_sampling *sampling; /* NULL: nothing was sampled */
    uint64_t end_tokens;         /* sampled tokens that ended an answer and are no part of it */
    const sl_sampler_options *sampler_options; /* what else is set; or NULL */
    const sl_sampler *sampler;                 /* or NULL */
} cli_report;
void cli_print_stats(FILE *to, const cli_report *report);
json_t *cli_stats_json(const cli_report *report);
enum { CLI_SAMPLING_TEXT = 128 };
/* "temperature 0.8, top-k 40"; returns text. */
const char *cli_sampling_text(const sl_sampling *sampling, char text[CLI_SAMPLING_TEXT]);
json_t *cli_sampling_json(const sl_sampling *sampling);

/* How many of the tokens that are left the next extend takes, so that progress can be shown between
 * chunks.  The last two are never separated: a single token would count as decoded. */
size_t cli_next_piece(const sl_model *model, const cli_options *options, size_t left);

/* tokens.c: lists of token ids. */
typedef struct {
    sl_token *ids; /* released with free */
    size_t count;
} cli_tokens;
/* Ids separated by spaces, found in what; false after a message. */
bool cli_tokens_parse(const char *what, const char *text, size_t bytes, cli_tokens *out);
/* The tokens of a text as the model begins one (BOS) and without special tokens in it. */
bool cli_tokens_of_text(const char *model_path, const char *text, cli_tokens *out);
#endif
