#include "engine/session/compile_options.h"
#include <stddef.h>
#include <string.h>

enum { MOST_LOOKAHEAD = 1000000 };

static const struct {
    const char *word;
    size_t flag; /* a bool of sl_compiler_options */
} toggles[] = {
    {"no-simplify", offsetof(sl_compiler_options, no_simplify)},
    {"no-fusion", offsetof(sl_compiler_options, no_fusion)},
    {"no-reordering", offsetof(sl_compiler_options, no_reordering)},
    {"no-sharing", offsetof(sl_compiler_options, no_sharing)},
    {"no-in-place", offsetof(sl_compiler_options, no_in_place)},
    {"two-submits", offsetof(sl_compiler_options, two_submits)},
};
enum { TOGGLE_COUNT = sizeof toggles / sizeof toggles[0] };

static const struct {
    const char *word;
    size_t flag; /* a bool of sl_device_options */
} launches[] = {
    {"eager", offsetof(sl_device_options, eager)},
    {"chained", offsetof(sl_device_options, chained)},
    {"apart", offsetof(sl_device_options, apart)},
};
enum { LAUNCH_COUNT = sizeof launches / sizeof launches[0] };

static const char *const models[] = {[SL_SCHEDULE_LEVELS] = "levels",
                                     [SL_SCHEDULE_GROUPS] = "groups",
                                     [SL_SCHEDULE_EDGES] = "edges"};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

const char *sl_schedule_name(sl_schedule_model model) {
    return models[model];
}

static bool is_word(const char *text, size_t bytes, const char *word) {
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

static int find_launch(const char *text, size_t bytes) {
    int i = 0;
    while (i < LAUNCH_COUNT && !is_word(text, bytes, launches[i].word)) i++;
    return i;
}

/* "lookahead=N"; false if it is not a number from 1 to MOST_LOOKAHEAD. */
static bool apply_lookahead(const char *text, size_t bytes, sl_compiler_options *out) {
    static const char word[] = "lookahead=";
    const size_t begin = sizeof word - 1;
    uint32_t value = 0;
    if (bytes <= begin || memcmp(text, word, begin) != 0) return false;
    for (size_t i = begin; i < bytes && value <= MOST_LOOKAHEAD; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    out->lookahead = value;
    return value > 0 && value <= MOST_LOOKAHEAD;
}

static bool apply(const char *text, size_t bytes, sl_compiler_options *out) {
    for (int i = 0; i < TOGGLE_COUNT; i++)
        if (is_word(text, bytes, toggles[i].word))
            return *(bool *)((char *)out + toggles[i].flag) = true;
    for (int i = 0; i < MODEL_COUNT; i++)
        if (is_word(text, bytes, models[i])) {
            out->model = (sl_schedule_model)i;
            return true;
        }
    if (is_word(text, bytes, "exact")) {
        out->int8_activations = false;
        return true;
    }
    return bytes == 0 || find_launch(text, bytes) < LAUNCH_COUNT ||
           apply_lookahead(text, bytes, out);
}

sl_compiler_options sl_compiler_options_for_model(const sl_target *target) {
    sl_compiler_options options = sl_compiler_options_for(target);
    options.int8_activations = true;
    return options;
}

sl_status sl_compiler_options_parse(const char *words, sl_compiler_options *out, sl_error *err) {
    while (words && *words) {
        const size_t bytes = strcspn(words, ",");
        if (!apply(words, bytes, out))
            return sl_fail(err, SL_INVALID,
                           "'%.*s' is not a compile option; known are exact, no-simplify, "
                           "no-fusion, no-reordering, no-sharing, no-in-place, two-submits, "
                           "lookahead=N (1 to %d), levels, groups, edges, eager, chained, apart",
                           bytes < 64 ? (int)bytes : 64, words, MOST_LOOKAHEAD);
        words += bytes + (words[bytes] == ',');
    }
    return SL_OK;
}

void sl_launch_options_parse(const char *words, sl_device_options *out) {
    while (words && *words) {
        const size_t bytes = strcspn(words, ",");
        const int i = find_launch(words, bytes);
        if (i < LAUNCH_COUNT) *(bool *)((char *)out + launches[i].flag) = true;
        words += bytes + (words[bytes] == ',');
    }
}
