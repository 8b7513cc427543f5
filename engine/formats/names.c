/* names.c - The only place that knows the prefixes of tensor names. */
#include "engine/formats/names.h"
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

/* A longer prefix comes before one that it starts with. */
static const char *const PREFIXES[] = {"model.language_model.", "language_model.model.",
                                       "language_model.", "model.", ""};
enum { PREFIX_COUNT = sizeof PREFIXES / sizeof PREFIXES[0] };
static const char *const FOREIGN[] = {"visual.",      "vision_tower.",          "vision_model.",
                                      "audio_tower.", "multi_modal_projector.", "mtp."};

const sl_tensor_entry *sl_model_tensor(const sl_source *source, const char *suffix) {
    for (int p = 0; p < PREFIX_COUNT; p++) {
        char name[NAME_BYTES];
        const int length = snprintf(name, sizeof name, "%s%s", PREFIXES[p], suffix);
        if (length < 0 || length >= NAME_BYTES) return NULL;
        const sl_tensor_entry *entry = sl_source_find(source, name);
        if (!entry) continue;
        sl_source_mark_used(source, entry);
        return entry;
    }
    return NULL;
}

bool sl_model_tensor_known(const sl_source *source, const char *suffix) {
    for (int p = 0; p < PREFIX_COUNT; p++) {
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s%s", PREFIXES[p], suffix);
        if (sl_source_find(source, name) || sl_source_skipped(source, name)) return true;
    }
    return false;
}

sl_status sl_model_tensor_missing(const sl_source *source, const char *suffix, sl_error *err) {
    for (int p = 0; p < PREFIX_COUNT; p++) {
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s%s", PREFIXES[p], suffix);
        const char *why = sl_source_skipped(source, name);
        if (why) return sl_fail(err, SL_FORMAT, "tensor '%s': %s", name, why);
    }
    return sl_fail(err, SL_FORMAT, "tensor 'model.%s' is missing", suffix);
}

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

const char *sl_tensor_suffix(const char *name) {
    const char *suffix = name;
    for (int p = 0; p < PREFIX_COUNT; p++) {
        if (!begins_with(name, PREFIXES[p])) continue;
        suffix = name + strlen(PREFIXES[p]);
        break;
    }
    for (size_t f = 0; f < sizeof FOREIGN / sizeof FOREIGN[0]; f++)
        if (begins_with(suffix, FOREIGN[f])) return NULL;
    return suffix;
}
