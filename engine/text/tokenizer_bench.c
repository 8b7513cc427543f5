/* tokenizer_bench.c - Measures the speed of encoding, or encodes texts for comparison with another
 * tokenizer.
 *
 *   tokenizer_bench tokenizer.json FILE ROUNDS   bytes per second of user time, as JSON
 *   tokenizer_bench tokenizer.json               texts from standard input, ids to standard output:
 *       a text is its length and its bytes; an answer is the number of ids, the ids, and the length
 *       and bytes of their decoding; all numbers are 32 bits, little-endian */
#include "engine/text/tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_BYTES = 1 << 30 };

static double user_seconds(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
}

static char *read_file(const char *path, size_t *out_bytes) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        const long bytes = ftell(file);
        rewind(file);
        text = bytes >= 0 ? malloc((size_t)bytes + 1) : NULL;
        *out_bytes = text ? fread(text, 1, (size_t)bytes, file) : 0;
    }
    if (file) (void)fclose(file);
    if (!text) (void)fprintf(stderr, "%s cannot be read\n", path);
    return text;
}

/* `ids` has room for two per byte. */
static int measure_text(const sl_tokenizer *tokenizer, const char *text, size_t bytes, int32_t *ids,
                        int rounds) {
    size_t count = 0;
    sl_error err = {0};
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        const double start = user_seconds();
        if (sl_tokenizer_encode(tokenizer, text, bytes, ids, 2 * bytes, &count, &err) != SL_OK) {
            (void)fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        const double seconds = user_seconds() - start;
        if (seconds < best) best = seconds;
    }
    (void)printf("{\"bytes\": %zu, \"tokens\": %zu, \"user_seconds\": %.6f, \"mb_per_s\": %.2f}\n",
                 bytes, count, best, (double)bytes / 1e6 / best);
    return 0;
}

static int measure(const sl_tokenizer *tokenizer, const char *path, int rounds) {
    size_t bytes = 0;
    char *text = read_file(path, &bytes);
    int32_t *ids = malloc((bytes + 1) * 2 * sizeof *ids);
    const int result = text && ids ? measure_text(tokenizer, text, bytes, ids, rounds) : 1;
    free(text);
    free(ids);
    return result;
}

static bool write_numbers(const void *data, uint32_t count, size_t bytes_each) {
    return fwrite(&count, sizeof count, 1, stdout) == 1 &&
           fwrite(data, bytes_each, count, stdout) == count;
}

static bool answer(const sl_tokenizer *tokenizer, const char *text, uint32_t bytes) {
    size_t count = 0, length = 0;
    sl_error err = {0};
    const size_t room = 4 * (size_t)bytes + 16;
    int32_t *ids = malloc(room * sizeof *ids);
    char *decoded = NULL;
    bool good =
        ids && sl_tokenizer_encode(tokenizer, text, bytes, ids, room, &count, &err) == SL_OK;
    if (!good) (void)fprintf(stderr, "%s\n", err.message);
    good = good && count <= room && write_numbers(ids, (uint32_t)count, sizeof *ids);
    for (size_t i = 0; good && i < count; i++) {
        size_t part = 0;
        (void)sl_tokenizer_text(tokenizer, ids[i], &part);
        length += part;
    }
    decoded = good ? malloc(length + 1) : NULL;
    length = 0;
    for (size_t i = 0; decoded && i < count; i++) {
        size_t part = 0;
        const char *piece = sl_tokenizer_text(tokenizer, ids[i], &part);
        memcpy(decoded + length, piece, part);
        length += part;
    }
    good = decoded && write_numbers(decoded, (uint32_t)length, 1);
    free(decoded);
    free(ids);
    return good;
}

static int serve(const sl_tokenizer *tokenizer) {
    uint32_t bytes;
    while (fread(&bytes, sizeof bytes, 1, stdin) == 1 && bytes < MAX_BYTES) {
        char *text = malloc((size_t)bytes + 1);
        const bool good =
            text && fread(text, 1, bytes, stdin) == bytes && answer(tokenizer, text, bytes);
        free(text);
        if (!good) return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int count, char **words) {
    if (count != 2 && count != 4) {
        (void)fprintf(stderr, "wanted: tokenizer.json [FILE ROUNDS]\n");
        return 2;
    }
    size_t bytes = 0;
    sl_tokenizer *tokenizer = NULL;
    sl_error err = {0};
    char *json = read_file(words[1], &bytes);
    if (!json) return 1;
    if (sl_tokenizer_create(json, bytes, NULL, &tokenizer, &err) != SL_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    free(json);
    const int result = count == 4 ? measure(tokenizer, words[2], (int)strtol(words[3], NULL, 10))
                                  : serve(tokenizer);
    sl_tokenizer_destroy(tokenizer);
    return result;
}
