#include "engine/models/unused.h"
#include "engine/formats/names.h"
#include <stdio.h>
#include <string.h>

enum { SHOWN = 4 };

/* Names, as a text that is cut off where it is full. */
typedef struct {
    char text[400];
    uint32_t count;
} name_list;

static void add_name(name_list *list, const char *name) {
    const size_t used = strlen(list->text);
    (void)snprintf(list->text + used, sizeof list->text - used, "%s%.90s", used ? ", " : "", name);
}

/* Frequencies of rope, which old checkpoints keep, and a head that is tied all the same. */
static bool is_redundant(const sl_model_config *config, const char *suffix) {
    return strstr(suffix, "rotary_emb.inv_freq") ||
           (config->tied_embeddings && strcmp(suffix, "lm_head.weight") == 0);
}

static bool is_further_layer(const sl_model_config *config, const char *suffix) {
    unsigned layer;
    return sscanf(suffix, "layers.%u.", &layer) == 1 && layer >= config->layers &&
           layer - config->layers < config->further_layers;
}

/* How much of a name tells what it belongs to: "model.visual", "mtp", "model.layers.61". */
static size_t folder_bytes(const char *name) {
    static const char *const wrappers[] = {"model", "language_model", "layers"};
    size_t at = 0;
    for (bool wrapper = true; wrapper; at += wrapper) {
        const size_t length = strcspn(name + at, ".");
        wrapper = false;
        for (size_t w = 0; w < sizeof wrappers / sizeof wrappers[0]; w++)
            wrapper |= strlen(wrappers[w]) == length && memcmp(name + at, wrappers[w], length) == 0;
        at += length;
        wrapper &= name[at] != '\0';
    }
    return at;
}

/* Each folder once. */
static void add_foreign(name_list *list, const char *name) {
    char folder[96];
    (void)snprintf(folder, sizeof folder, "%.*s.*", (int)folder_bytes(name), name);
    list->count++;
    if (!strstr(list->text, folder)) add_name(list, folder);
}

sl_status sl_model_check_unused(const sl_source *source, const sl_model_config *config,
                                sl_arena *arena, const char **out_note, sl_error *err) {
    name_list foreign = {0}, extra = {0};
    *out_note = NULL;
    for (uint32_t i = 0; i < sl_source_tensor_count(source); i++) {
        const char *name = sl_source_tensor(source, i)->name, *suffix = sl_tensor_suffix(name);
        if (sl_source_is_used(source, i) || (suffix && is_redundant(config, suffix))) continue;
        if (!suffix || is_further_layer(config, suffix))
            add_foreign(&foreign, name);
        else if (extra.count++ < SHOWN)
            add_name(&extra, name);
    }
    if (extra.count)
        return sl_fail(err, SL_FORMAT, "%u tensors are not part of a %s with this config: %s%s",
                       extra.count, config->model_type, extra.text,
                       extra.count > SHOWN ? ", ..." : "");
    if (foreign.count == 0) return SL_OK;
    *out_note = sl_arena_format(arena, "%u tensors are not used by the text model: %s",
                                foreign.count, foreign.text);
    return *out_note ? SL_OK : sl_no_memory(err, "a note", 0);
}
