/* option_kinds.c - The kinds of values that options have.
 *
 *   text    anything                 flag   no value
 *   u32     a whole number           seed   a whole number of 63 bits, or -1 for a random one
 *   real    a number from 0          share  a number from 0 to 1
 *   size    bytes with a unit, or a share in percent
 *   range   two whole numbers A:B, what begins at A and ends before B
 *   word    one of the words in the value's name, "a|b|c"
 *   list    NAME=VALUE, several times
 *   texts   anything, several times  device a device of the library
 *   sampler a value of sluice/samplers.def, which options.c checks */
#include "apps/cli/options.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define UNUSED(X) (void)(X)

bool cli_parse_text(const char *text, const char *value, void *out) {
    UNUSED(value);
    *(cli_text *)out = text;
    return true;
}

const char *cli_expected_text(const char *value) {
    return value;
}

bool cli_parse_flag(const char *text, const char *value, void *out) {
    UNUSED(text), UNUSED(value);
    *(cli_flag *)out = true;
    return true;
}

const char *cli_expected_flag(const char *value) {
    return value;
}

static bool read_whole(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && !strchr(text, '-') && *out <= most;
}

bool cli_parse_u32(const char *text, const char *value, void *out) {
    uint64_t number;
    UNUSED(value);
    if (!read_whole(text, UINT32_MAX, &number)) return false;
    *(cli_u32 *)out = (cli_u32)number;
    return true;
}

bool cli_parse_range(const char *text, const char *value, void *out) {
    char first[16];
    uint64_t begin, end;
    const char *colon = strchr(text, ':');
    UNUSED(value);
    if (!colon || (size_t)(colon - text) >= sizeof first) return false;
    memcpy(first, text, (size_t)(colon - text));
    first[colon - text] = '\0';
    if (!read_whole(first, UINT32_MAX, &begin) || !read_whole(colon + 1, UINT32_MAX, &end))
        return false;
    *(cli_range *)out = (cli_range){(uint32_t)begin, (uint32_t)end};
    return begin < end;
}

const char *cli_expected_range(const char *value) {
    UNUSED(value);
    return "two whole numbers A:B, of which B is larger";
}

const char *cli_expected_u32(const char *value) {
    UNUSED(value);
    return "a whole number";
}

uint64_t cli_random_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)(cli_seconds() * 1e9);
    return seed & INT32_MAX; /* short enough to be typed again */
}

bool cli_parse_seed(const char *text, const char *value, void *out) {
    UNUSED(value);
    if (strcmp(text, "-1") == 0) {
        *(cli_seed *)out = cli_random_seed();
        return true;
    }
    return read_whole(text, INT64_MAX, out);
}

const char *cli_expected_seed(const char *value) {
    UNUSED(value);
    return "a whole number, or -1 for a random one";
}

static bool read_real(const char *text, double most, float *out) {
    char *end;
    const double number = strtod(text, &end);
    *out = (float)number;
    return end != text && *end == '\0' && number >= 0 && number <= most;
}

bool cli_parse_real(const char *text, const char *value, void *out) {
    UNUSED(value);
    return read_real(text, 1e6, out);
}

const char *cli_expected_real(const char *value) {
    UNUSED(value);
    return "a number of at least 0";
}

bool cli_parse_share(const char *text, const char *value, void *out) {
    UNUSED(value);
    return read_real(text, 1, out);
}

const char *cli_expected_share(const char *value) {
    UNUSED(value);
    return "a number from 0 to 1";
}

bool cli_parse_size(const char *text, const char *value, void *out) {
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},       {"B", 1},        {"K", 0x1p10},   {"KiB", 0x1p10}, {"KB", 1e3},
                 {"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},   {"GiB", 0x1p30},
                 {"GB", 1e9},   {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12}};
    UNUSED(value);
    char *end;
    const double number = strtod(text, &end);
    cli_size *size = out;
    if (end == text || !(number > 0) || number > 1e15) return false;
    while (*end == ' ') end++;
    if (strcmp(end, "%") == 0) {
        *size = (cli_size){.share = number / 100};
        return number <= 100;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(end, units[i].unit) != 0) continue;
        *size = (cli_size){.bytes = (uint64_t)fmin(number * units[i].bytes, 0x1p62)};
        return true;
    }
    return false;
}

const char *cli_expected_size(const char *value) {
    UNUSED(value);
    return "a size (1500000000, 1.5GB, 2GiB) or a share (25%)";
}

bool cli_parse_word(const char *text, const char *value, void *out) {
    const size_t bytes = strlen(text);
    *(cli_word *)out = text;
    for (const char *at = value; bytes && at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, text, bytes) == 0 && (at[bytes] == '|' || at[bytes] == '\0')) return true;
    }
    return false;
}

const char *cli_expected_word(const char *value) {
    return value;
}

bool cli_parse_list(const char *text, const char *value, void *out) {
    cli_list *list = out;
    UNUSED(value);
    if (list->count == CLI_MOST_LIST || !strchr(text, '=') || text[0] == '=') return false;
    list->items[list->count++] = text;
    return true;
}

const char *cli_expected_list(const char *value) {
    return value;
}

bool cli_parse_texts(const char *text, const char *value, void *out) {
    cli_texts *texts = out;
    UNUSED(value);
    if (texts->count == CLI_MOST_LIST) return false;
    texts->items[texts->count++] = text;
    return true;
}

const char *cli_expected_texts(const char *value) {
    static char words[64];
    (void)snprintf(words, sizeof words, "%s, at most %d times", value, CLI_MOST_LIST);
    return words;
}

/* Without value: on. */
bool cli_parse_sampler(const char *text, const char *value, void *out) {
    *(cli_sampler *)out = value ? text : "1";
    return true;
}

const char *cli_expected_sampler(const char *value) {
    return value;
}

bool cli_parse_device(const char *text, const char *value, void *out) {
    sl_device_item device = {.struct_size = sizeof device};
    UNUSED(value);
    *(cli_device *)out = text;
    for (uint32_t i = 0; sl_device_at(i, &device, NULL) == SL_OK; i++)
        if (strcmp(device.name, text) == 0) return true;
    return strcmp(text, "auto") == 0;
}

const char *cli_expected_device(const char *value) {
    static char names[128];
    sl_device_item device = {.struct_size = sizeof device};
    UNUSED(value);
    size_t length = (size_t)snprintf(names, sizeof names, "auto");
    for (uint32_t i = 0; sl_device_at(i, &device, NULL) == SL_OK && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "|%s", device.name);
    return names;
}
