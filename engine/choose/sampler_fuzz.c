/* Input: a line for each option (name, space, value), an empty line, and then bytes of which
 * logits, tokens and masks are made.  What is chosen is possible, and the same again after going
 * back. */
#include "engine/choose/sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCAB = 100, STEPS = 12, LINE = 128 };

static const char *text_of(const void *ctx, sl_token token, size_t *bytes) {
    static const char *const texts[] = {"a", "\n", "bc", ": x", "", "*"};
    (void)ctx;
    *bytes = strlen(texts[token % 6]);
    return texts[token % 6];
}

static const char *next_line(const uint8_t **data, size_t *size, char line[LINE]) {
    size_t bytes = 0;
    while (bytes < *size && (*data)[bytes] != '\n') bytes++;
    const size_t kept = bytes < LINE ? bytes : LINE - 1;
    memcpy(line, *data, kept);
    line[kept] = '\0';
    *data += bytes < *size ? bytes + 1 : bytes;
    *size -= bytes < *size ? bytes + 1 : bytes;
    return line;
}

static void read_options(const uint8_t **data, size_t *size, char orders[LINE],
                         sl_sampler_options *options) {
    char line[LINE];
    sl_error err;
    while (*size && next_line(data, size, line)[0]) {
        char *space = strchr(line, ' ');
        if (!space) continue;
        *space = '\0';
        if (strcmp(line, "samplers") == 0) {
            memmove(orders, space + 1, strlen(space + 1) + 1);
            (void)!sl_option_set(options, line, orders, &err);
        } else {
            (void)!sl_option_set(options, line, space + 1, &err);
        }
    }
}

static void make_logits(const uint8_t *data, size_t size, size_t at, float *logits) {
    static const float rare[] = {NAN, -INFINITY, INFINITY, 3e38f, -3e38f};
    for (size_t i = 0; i < VOCAB; i++) {
        const uint8_t byte = size ? data[(at * 7 + i) % size] : (uint8_t)i;
        logits[i] = byte >= 251 ? rare[byte - 251] : (float)byte / 8 - 12;
    }
}

static bool is_possible(const float *logits, const uint32_t *allowed, sl_token token) {
    return token >= 0 && token < VOCAB && logits[token] > -INFINITY &&
           (!allowed || (allowed[token / 32] >> token % 32 & 1));
}

static void run(sl_sampler *s, const uint8_t *data, size_t size) {
    float logits[VOCAB];
    sl_error err;
    sl_token token, again;
    for (size_t i = 0; i < STEPS; i++) {
        const uint32_t word = size ? data[i % size] * 0x01010101u : 0;
        const uint32_t mask[VOCAB / 32 + 1] = {word, ~word, word * 3, word};
        const uint32_t *allowed = size && data[i % size] % 3 == 0 ? mask : NULL;
        make_logits(data, size, i, logits);
        if (sl_sampler_pick(s, logits, allowed, &token, &err) != SL_OK) {
            token = (sl_token)(i * 3);
        } else if (sl_sampler_forced(s) < 0) {
            if (!is_possible(logits, allowed, token)) abort();
            if (sl_sampler_pick(s, logits, allowed, &again, &err) != SL_OK || again != token)
                abort();
        }
        if (sl_sampler_append(s, &token, 1, size && data[i % size] % 5, &err) != SL_OK) abort();
        if (size && data[i % size] % 7 == 0) sl_history_rewind(&s->history, s->history.length / 2);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const sl_token ends[] = {3, 5}, start[] = {1, 9}, end[] = {17}, forced[] = {6, 17};
    const sl_choose_vocabulary vocabulary = {.size = VOCAB,
                                             .ends = {ends, 2},
                                             .text = text_of,
                                             .thought_start = {start, 2},
                                             .thought_end = {end, 1},
                                             .thought_forced = {forced, 2}};
    char orders[LINE];
    sl_sampler_options options = {.logprobs = size % 4 ? 0 : 3};
    sl_sampler *s = NULL, *copy = NULL;
    sl_error err;
    read_options(&data, &size, orders, &options);
    if (sl_sampler_make(&vocabulary, &options, NULL, &s, &err) != SL_OK) return 0;
    run(s, data, size);
    if (sl_sampler_copy(s, &copy, &err) == SL_OK) run(copy, data, size);
    sl_sampler_free(copy);
    sl_sampler_free(s);
    return 0;
}
