/* terminal.c - Terminal output and standard input: errors, progress, sizes. */
#include "apps/cli/cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool quiet, verbose;

void cli_terminal_begin(bool is_quiet, bool is_verbose) {
    quiet = is_quiet;
    verbose = is_verbose;
}

bool cli_is_verbose(void) {
    return verbose;
}

bool cli_is_terminal(FILE *to) {
    return isatty(fileno(to)) == 1;
}

static bool understands_codes(FILE *to) {
    const char *kind = getenv("TERM");
    return cli_is_terminal(to) && kind && strcmp(kind, "dumb") != 0;
}

bool cli_has_colours(FILE *to) {
    const char *refused = getenv("NO_COLOR");
    return understands_codes(to) && !(refused && refused[0]);
}

/* What was printed before comes first, also where both streams go to one file. */
static void print_error(const char *message) {
    const bool colour = cli_has_colours(stderr);
    cli_progress_end();
    (void)fflush(stdout);
    (void)fprintf(stderr, "%ssluice:%s %s\n", colour ? "\033[31m" : "", colour ? "\033[0m" : "",
                  message);
}

int cli_fail(const sl_error *err) {
    print_error(err->message);
    return err->status == SL_CANCELLED ? CLI_INTERRUPTED : CLI_FAILED;
}

int cli_fail_text(const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    print_error(message);
    return CLI_FAILED;
}

void cli_note(const char *format, ...) {
    const bool colour = cli_has_colours(stderr);
    va_list args;
    if (quiet) return;
    cli_progress_end();
    (void)fflush(stdout);
    (void)fprintf(stderr, "%snote: ", colour ? "\033[2m" : "");
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "%s\n", colour ? "\033[0m" : "");
}

void cli_inform(const char *format, ...) {
    va_list args;
    if (quiet) return;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

double cli_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct {
    double started, shown;
    bool visible;
} bar;

int cli_progress(void *ctx, const char *what, uint64_t done, uint64_t total) {
    enum { WIDTH = 30 };
    (void)ctx;
    const double time = cli_seconds();
    if (bar.started == 0) bar.started = time;
    if (quiet || !understands_codes(stderr) || time - bar.started < 0.5 || time - bar.shown < 0.1)
        return 0;
    bar.shown = time;
    bar.visible = true;
    const double share = total ? (double)done / (double)total : 0;
    const int filled = (int)(share * WIDTH);
    const double left = share > 0 ? (time - bar.started) * (1 - share) / share : 0;
    (void)fprintf(stderr, "\r%-12.12s [%.*s%*s] %3.0f %%  %.0f s left \033[K", what, filled,
                  "##############################", WIDTH - filled, "", share * 100, left);
    return 0;
}

void cli_progress_stage(const char *what) {
    cli_progress_end();
    if (quiet || !understands_codes(stderr)) return;
    bar.visible = true;
    (void)fprintf(stderr, "\r%s ... \033[K", what);
}

void cli_progress_end(void) {
    if (bar.visible) (void)fprintf(stderr, "\r\033[K");
    bar.visible = false;
    bar.started = bar.shown = 0;
}

/* Three digits or more, with a prefix for powers of a thousand. */
static char *scaled(double value, const char *unit, char *text, size_t capacity) {
    static const char *const prefixes[] = {"", "K", "M", "G", "T", "P"};
    int prefix = 0;
    for (; value >= 1000 && prefix < 5; prefix++) value /= 1000;
    (void)snprintf(text, capacity,
                   prefix && value < 10    ? "%.2f %s%s"
                   : prefix && value < 100 ? "%.1f %s%s"
                                           : "%.0f %s%s",
                   value, prefixes[prefix], unit);
    return text;
}

char *cli_bytes(uint64_t bytes, char *text, size_t capacity) {
    return scaled((double)bytes, "B", text, capacity);
}

char *cli_count(uint64_t count, char *text, size_t capacity) {
    return scaled((double)count, "", text, capacity);
}

char *cli_read_all(const char *path, size_t *out_bytes) {
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) {
        (void)cli_fail_text("%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (room - used < 65536) {
            room = room * 2 + 131072;
            char *larger = realloc(text, room);
            if (!larger) break;
            text = larger;
        }
        const size_t got = fread(text + used, 1, room - used - 1, file);
        used += got;
        if (got == 0 || feof(file)) break; /* a terminal would wait for a second Ctrl-D */
    }
    const bool failed = ferror(file) != 0 || !text;
    if (!standard) (void)fclose(file);
    if (failed) {
        (void)cli_fail_text("%s: cannot be read", standard ? "standard input" : path);
        free(text);
        return NULL;
    }
    text[used] = '\0';
    *out_bytes = used;
    return text;
}

char *cli_copy(const char *text) {
    char *copy = strdup(text);
    if (!copy) (void)cli_fail_text("no memory for a text of %zu bytes", strlen(text));
    return copy;
}

char *cli_read_text(const char *path) {
    size_t bytes, length = 0;
    char *text = cli_read_all(path, &bytes);
    if (!text) return NULL;
    if (strlen(text) != bytes) {
        (void)cli_fail_text("%s: zero byte at offset %zu of %zu, expected text",
                            strcmp(path, "-") == 0 ? "standard input" : path, strlen(text), bytes);
        free(text);
        return NULL;
    }
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != '\r' || text[i + 1] != '\n') text[length++] = text[i];
    text[length] = '\0';
    return text;
}

json_t *cli_json_text(const char *text, size_t bytes) {
    sl_text_stream stream = {0};
    char *clean = malloc(3 * (bytes + 4));
    if (!clean) return NULL;
    size_t length = sl_text_stream_push(&stream, text, bytes, clean);
    length += sl_text_stream_finish(&stream, clean + length);
    json_t *value = json_stringn(clean, length);
    free(clean);
    return value;
}

static bool json_failed;

void cli_json_append(json_t *array, json_t *value) {
    if (json_array_append_new(array, value) != 0) json_failed = true;
}

void cli_json_set(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) json_failed = true;
}

bool cli_json_failed(void) {
    return json_failed;
}

/* json_dumps leaves out keys when its buffer cannot grow. */
char *cli_json_dump(const json_t *value, size_t flags) {
    const size_t bytes = json_dumpb(value, NULL, 0, flags);
    char *text = bytes ? malloc(bytes + 1) : NULL;
    if (!text) return NULL;
    if (json_dumpb(value, text, bytes, flags) != bytes) {
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

int cli_print_json(json_t *value) {
    char *text =
        json_failed ? NULL : cli_json_dump(value, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(value);
    if (!text) {
        json_failed = true;
        return cli_fail_text("no memory for the JSON");
    }
    (void)puts(text);
    free(text);
    return CLI_OK;
}
