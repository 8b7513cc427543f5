/* tokenize.c - Shows the tokens of a text. */
#include "apps/cli/cli.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const sl_vocabulary *vocabulary;
    cli_tokens tokens;
} encoded;

static bool encode(encoded *e, const cli_options *options, const char *text, size_t bytes) {
    sl_status (*const run)(const sl_vocabulary *, const char *, size_t, sl_token *, size_t,
                           size_t *, sl_error *) =
        options->special ? sl_vocabulary_encode : sl_vocabulary_encode_plain;
    cli_tokens *t = &e->tokens;
    sl_error err;
    sl_status status = run(e->vocabulary, text, bytes, NULL, 0, &t->count, &err);
    if (status == SL_OK) {
        t->ids = calloc(t->count + 1, sizeof *t->ids);
        if (!t->ids) {
            (void)cli_fail_text("no memory for %zu tokens", t->count);
            return false;
        }
        status = run(e->vocabulary, text, bytes, t->ids, t->count, &t->count, &err);
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

/* The ids that text lists; false after naming one that the vocabulary lacks. */
static bool read_ids(encoded *e, const char *text, size_t bytes) {
    const uint32_t size = sl_vocabulary_size(e->vocabulary);
    if (!cli_tokens_parse("the ids", text, bytes, &e->tokens)) return false;
    for (size_t i = 0; i < e->tokens.count; i++) {
        if ((uint32_t)e->tokens.ids[i] < size) continue;
        (void)cli_fail_text("token %zu is %d, the vocabulary has %u", i, e->tokens.ids[i], size);
        return false;
    }
    return true;
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
    for (size_t i = 0; i < e->tokens.count; i++) {
        size_t bytes = 0;
        const char *text = sl_vocabulary_text(e->vocabulary, e->tokens.ids[i], &bytes);
        (void)printf("%d\t", e->tokens.ids[i]);
        print_quoted(text, bytes);
        (void)putchar('\n');
    }
}

static void print_ids(const encoded *e) {
    for (size_t i = 0; i < e->tokens.count; i++) (void)printf(i ? " %d" : "%d", e->tokens.ids[i]);
    (void)putchar('\n');
}

static void print_json(const encoded *e) {
    json_t *ids = json_array(), *pieces = json_array();
    for (size_t i = 0; i < e->tokens.count; i++) {
        size_t bytes = 0;
        const char *text = sl_vocabulary_text(e->vocabulary, e->tokens.ids[i], &bytes);
        cli_json_append(ids, json_integer(e->tokens.ids[i]));
        cli_json_append(pieces, cli_json_text(text, bytes));
    }
    (void)cli_print_json(json_pack("{s:o, s:o}", "ids", ids, "pieces", pieces));
}

static void print_decoded(const encoded *e) {
    for (size_t i = 0; i < e->tokens.count; i++) {
        size_t bytes = 0;
        const char *text = sl_vocabulary_text(e->vocabulary, e->tokens.ids[i], &bytes);
        (void)fwrite(text, 1, bytes, stdout);
    }
    (void)putchar('\n');
}

/* The text of the argument or of standard input; released with free, NULL after a message. */
static char *read_input(const cli_options *options, size_t *out_bytes) {
    const char *argument = options->argument_count ? options->arguments[0] : "-";
    *out_bytes = strlen(argument);
    if (strcmp(argument, "-") != 0) return cli_copy(argument);
    if (cli_is_terminal(stdin)) cli_note("type the text, then Ctrl-D");
    return cli_read_all("-", out_bytes);
}

int cli_run_tokenize(const cli_options *options) {
    if (options->decode && (options->special || options->ids))
        return cli_misuse(CLI_tokenize, "--decode: --special and --ids are for encoding");
    const char *path = cli_model_path(options);
    size_t bytes = 0;
    char *text = path ? read_input(options, &bytes) : NULL;
    sl_vocabulary *vocabulary = NULL;
    sl_error err;
    int result = CLI_FAILED;
    if (text && sl_vocabulary_open(path, &vocabulary, &err) != SL_OK) (void)cli_fail(&err);
    encoded e = {.vocabulary = vocabulary};
    if (vocabulary &&
        (options->decode ? read_ids(&e, text, bytes) : encode(&e, options, text, bytes))) {
        (options->json     ? print_json
         : options->decode ? print_decoded
         : options->ids    ? print_ids
                           : print_lines)(&e);
        result = CLI_OK;
    }
    sl_vocabulary_close(vocabulary);
    free(e.tokens.ids);
    free(text);
    return result;
}
