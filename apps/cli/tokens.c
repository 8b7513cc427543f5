/* tokens.c - Lists of token ids, read or made from text. */
#include "apps/cli/cli.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* One word as a token; false when it is none. */
static bool read_id(const char *word, size_t length, sl_token *out) {
    char text[16], *end;
    if (length >= sizeof text) return false;
    memcpy(text, word, length);
    text[length] = '\0';
    errno = 0;
    const long value = strtol(text, &end, 10);
    *out = (sl_token)value;
    return errno == 0 && *end == '\0' && value >= 0 && value <= INT32_MAX;
}

static bool allocate(cli_tokens *tokens, size_t count, const char *what) {
    *tokens = (cli_tokens){.ids = malloc((count + 1) * sizeof *tokens->ids)};
    if (!tokens->ids) (void)cli_fail_text("%s: no memory for its tokens", what);
    return tokens->ids != NULL;
}

bool cli_tokens_parse(const char *what, const char *text, size_t bytes, cli_tokens *out) {
    if (!allocate(out, bytes / 2, what)) return false;
    for (size_t at = 0, end; at < bytes; at = end) {
        end = at + 1;
        if (is_space(text[at])) continue;
        while (end < bytes && !is_space(text[end])) end++;
        if (!read_id(text + at, end - at, &out->ids[out->count])) {
            (void)cli_fail_text("%s: word %zu (byte %zu) is '%.*s', expected a token id", what,
                                out->count + 1, at, end - at > 40 ? 40 : (int)(end - at),
                                text + at);
            return false;
        }
        out->count++;
    }
    if (out->count == 0) (void)cli_fail_text("%s: contains no token ids", what);
    return out->count != 0;
}

bool cli_tokens_of_text(const char *model_path, const char *text, cli_tokens *out) {
    sl_vocabulary *vocabulary = NULL;
    const size_t bytes = strlen(text);
    sl_error err;
    size_t count = 0;
    bool good = model_path && sl_vocabulary_open(model_path, &vocabulary, &err) == SL_OK;
    if (!good && model_path) (void)cli_fail(&err);
    const sl_token *begin = NULL;
    const size_t before = good ? sl_vocabulary_begin_tokens(vocabulary, &begin) : 0;
    if (good && sl_vocabulary_encode_plain(vocabulary, text, bytes, NULL, 0, &count, &err) != SL_OK)
        good = cli_fail(&err) == CLI_OK;
    if (good && count == 0) good = cli_fail_text("the text is empty") == CLI_OK;
    if (good && allocate(out, before + count, "the text")) {
        if (before) memcpy(out->ids, begin, before * sizeof *begin);
        good = sl_vocabulary_encode_plain(vocabulary, text, bytes, out->ids + before, count, &count,
                                          &err) == SL_OK;
        out->count = before + count;
    } else {
        good = false;
    }
    sl_vocabulary_close(vocabulary);
    return good;
}
