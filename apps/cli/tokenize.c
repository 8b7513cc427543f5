/* tokenize.c - Shows the tokens of a text. */
#include "apps/cli/cli.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const sl_vocabulary *vocabulary;
    sl_token *ids;
    size_t count;
} encoded;

static bool encode(encoded *e, const char *text, size_t bytes) {
    sl_error err;
    sl_status status = sl_vocabulary_encode(e->vocabulary, text, bytes, NULL, 0, &e->count, &err);
    if (status == SL_OK) {
        e->ids = calloc(e->count + 1, sizeof *e->ids);
        if (!e->ids) {
            (void)cli_fail_text("no memory for %zu tokens", e->count);
            return false;
        }
        status =
            sl_vocabulary_encode(e->vocabulary, text, bytes, e->ids, e->count, &e->count, &err);
    }
    if (status != SL_OK) (void)cli_fail(&err);
    return status == SL_OK;
}

/* Whole characters come out of a stream as they went in. */
static bool is_text(const char *bytes, size_t count) {
    enum { CHUNK = 64 };
    char out[3 * (CHUNK + 4)];
    sl_text_stream stream = {0};
    size_t written = 0;
    for (size_t done = 0; done < count; done += CHUNK) {
        const size_t next = count - done < CHUNK ? count - done : CHUNK;
        const size_t length = sl_text_stream_push(&stream, bytes + done, next, out);
        if (length > count - written || memcmp(bytes + written, out, length) != 0) return false;
        written += length;
    }
    return written == count;
}

/* As a JSON string; a piece that is only part of a character shows its bytes as \xNN. */
static void print_quoted(const char *bytes, size_t count) {
    static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    const bool text = is_text(bytes, count);
    (void)putchar('"');
    for (size_t i = 0; i < count; i++) {
        const unsigned char byte = (unsigned char)bytes[i];
        const char *name = text && byte ? strchr(named, (char)byte) : NULL;
        if (name)
            (void)printf("\\%c", names[name - named]);
        else if (text && byte < 0x20)
            (void)printf("\\u%04x", byte);
        else if (!text && (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\'))
            (void)printf("\\x%02x", byte);
        else
            (void)putchar(byte);
    }
    (void)putchar('"');
}

static void print_lines(const encoded *e) {
    for (size_t i = 0; i < e->count; i++) {
        size_t bytes = 0;
        const char *text = sl_vocabulary_text(e->vocabulary, e->ids[i], &bytes);
        (void)printf("%d\t", e->ids[i]);
        print_quoted(text, bytes);
        (void)putchar('\n');
    }
}

static void print_ids(const encoded *e) {
    for (size_t i = 0; i < e->count; i++) (void)printf(i ? " %d" : "%d", e->ids[i]);
    (void)putchar('\n');
}

static void print_json(const encoded *e) {
    json_t *ids = json_array(), *pieces = json_array();
    for (size_t i = 0; i < e->count; i++) {
        size_t bytes = 0;
        const char *text = sl_vocabulary_text(e->vocabulary, e->ids[i], &bytes);
        cli_json_append(ids, json_integer(e->ids[i]));
        cli_json_append(pieces, cli_json_text(text, bytes));
    }
    (void)cli_print_json(json_pack("{s:o, s:o}", "ids", ids, "pieces", pieces));
}

int cli_run_tokenize(const cli_options *options) {
    const char *argument = options->argument_count ? options->arguments[0] : "-";
    const bool standard = strcmp(argument, "-") == 0;
    size_t bytes = strlen(argument);
    char *text = standard ? cli_read_all("-", &bytes) : strdup(argument);
    sl_vocabulary *vocabulary = NULL;
    sl_error err;
    int result = CLI_FAILED;
    if (!text && !standard) (void)cli_fail_text("no memory for the text");
    if (text && sl_vocabulary_open(cli_model_path(options), &vocabulary, &err) != SL_OK)
        (void)cli_fail(&err);
    encoded e = {.vocabulary = vocabulary};
    if (vocabulary && encode(&e, text, bytes)) {
        (options->json ? print_json : options->ids ? print_ids : print_lines)(&e);
        result = CLI_OK;
    }
    sl_vocabulary_close(vocabulary);
    free(e.ids);
    free(text);
    return result;
}
