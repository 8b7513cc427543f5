/* template_bench.c - Renders templates, for comparison with another interpreter, and measures the
 * time.
 *
 * Standard input: pairs of a template and its variables in JSON, each preceded by its length.
 * Standard output: 1 and the text, or 0 and the error message, preceded by its length.  Numbers are
 * 32 bits, little-endian.  At the end, the user time is written to standard error. */
#include "engine/text/template.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_BYTES = 1 << 26 };

/* NULL at the end of input. */
static char *read_text(uint32_t *out_bytes) {
    if (fread(out_bytes, sizeof *out_bytes, 1, stdin) != 1 || *out_bytes > MAX_BYTES) return NULL;
    char *text = malloc((size_t)*out_bytes + 1);
    if (text && fread(text, 1, *out_bytes, stdin) == *out_bytes) return text;
    free(text);
    return NULL;
}

static bool write_answer(uint32_t good, const char *text, size_t bytes) {
    const uint32_t head[2] = {good, (uint32_t)bytes};
    return fwrite(head, sizeof head, 1, stdout) == 1 && fwrite(text, 1, bytes, stdout) == bytes;
}

static bool render(const char *text, uint32_t bytes, const char *json, uint32_t json_bytes) {
    sl_template *tmpl = NULL;
    sl_arena arena;
    sl_error err = {0};
    char *out = NULL;
    size_t out_bytes = 0;
    sl_arena_init(&arena, NULL);
    sl_status status = sl_template_create(text, bytes, NULL, &tmpl, &err);
    if (status == SL_OK)
        status = sl_template_render(tmpl, json, json_bytes, &arena, &out, &out_bytes, &err);
    const bool written = status == SL_OK ? write_answer(1, out, out_bytes)
                                         : write_answer(0, err.message, strlen(err.message));
    sl_template_destroy(tmpl);
    sl_arena_deinit(&arena);
    return written;
}

int main(void) {
    uint32_t bytes = 0, json_bytes = 0;
    char *text;
    bool good = true;
    while (good && (text = read_text(&bytes)) != NULL) {
        char *json = read_text(&json_bytes);
        good = json && render(text, bytes, json, json_bytes);
        free(json);
        free(text);
    }
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        (void)fprintf(stderr, "%.3f s\n",
                      (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec);
    return good && fflush(stdout) == 0 ? 0 : 1;
}
