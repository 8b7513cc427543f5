/* names.c - The one place that knows prefixes and the forms experts come in. */
#include "engine/models/names.h"
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

/* Longer prefixes before the ones they begin with. */
static const char *const PREFIXES[] = {"model.language_model.", "language_model.model.",
                                       "language_model.", "model.", ""};
enum { PREFIX_COUNT = sizeof PREFIXES / sizeof PREFIXES[0] };
static const char *const FOREIGN[] = {"visual.", "vision_tower.", "mtp.", "multi_modal_projector."};

const sl_tensor_entry *sl_model_tensor(const sl_source *source, const char *suffix) {
    for (int p = 0; p < PREFIX_COUNT; p++) {
        char name[NAME_BYTES];
        const int length = snprintf(name, sizeof name, "%s%s", PREFIXES[p], suffix);
        if (length < 0 || length >= NAME_BYTES) return NULL;
        const sl_tensor_entry *entry = sl_source_find(source, name);
        if (entry) return entry;
    }
    return NULL;
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

bool sl_suffix_is_expert(const char *suffix) {
    return strstr(suffix, ".mlp.experts.") || strstr(suffix, ".block_sparse_moe.experts.");
}

static bool is_usable(const sl_tensor_entry *entry) {
    return entry->form || sl_dtype_infos[entry->type.dtype].kind == SL_KIND_FLOAT;
}

static sl_status check_type(const sl_tensor_entry *entry, const sl_dims *want, sl_error *err) {
    if (is_usable(entry) && sl_dims_equal(&entry->type.shape, want)) return SL_OK;
    const sl_type wanted = {entry->type.dtype, *want};
    char found_text[SL_TYPE_TEXT], wanted_text[SL_TYPE_TEXT];
    sl_type_format(&entry->type, found_text, sizeof found_text);
    sl_type_format(&wanted, wanted_text, sizeof wanted_text);
    return sl_fail(err, SL_FORMAT, "tensor '%s' is %s, wanted f32, f16 or bf16 %s", entry->name,
                   found_text, strchr(wanted_text, '['));
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

static sl_status find_checked(const sl_source *source, const char *suffix, const sl_dims *want,
                              const sl_tensor_entry **out, sl_error *err) {
    *out = sl_model_tensor(source, suffix);
    if (!*out) return sl_model_tensor_missing(source, suffix, err);
    return check_type(*out, want, err);
}

static const char *const MATRICES[SL_EXPERT_MATRICES] = {"gate_proj", "up_proj", "down_proj"};

static const char *const MIXTRAL[SL_EXPERT_MATRICES] = {"w1", "w3", "w2"};

static sl_dims matrix_dims(const sl_model_config *config, int matrix) {
    const int64_t width = config->expert_width, hidden = config->hidden;
    return matrix == SL_DOWN ? (sl_dims){2, {hidden, width}} : (sl_dims){2, {width, hidden}};
}

static sl_status find_single(const sl_source *source, const sl_model_config *config, uint32_t layer,
                             uint32_t expert, sl_expert_place out[SL_EXPERT_MATRICES],
                             sl_error *err) {
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        char suffix[NAME_BYTES];
        (void)snprintf(suffix, sizeof suffix, "layers.%u.mlp.experts.%u.%s.weight", layer, expert,
                       MATRICES[m]);
        char other[NAME_BYTES];
        (void)snprintf(other, sizeof other, "layers.%u.block_sparse_moe.experts.%u.%s.weight",
                       layer, expert, MIXTRAL[m]);
        if (sl_model_tensor(source, other)) memcpy(suffix, other, sizeof suffix);
        const sl_dims want = matrix_dims(config, m);
        SL_TRY(find_checked(source, suffix, &want, &out[m].entry, err));
        out[m].offset = 0;
        out[m].bytes = out[m].entry->at.bytes;
        out[m].type = out[m].entry->type;
    }
    return SL_OK;
}

static sl_status find_stacked(const sl_source *source, const sl_model_config *config,
                              uint32_t layer, uint32_t expert,
                              sl_expert_place out[SL_EXPERT_MATRICES], sl_error *err) {
    const int64_t width = config->expert_width, hidden = config->hidden, count = config->experts;
    const sl_dims gate_up = {3, {count, 2 * width, hidden}}, down = {3, {count, hidden, width}};
    char suffix[NAME_BYTES];
    (void)snprintf(suffix, sizeof suffix, "layers.%u.mlp.experts.gate_up_proj", layer);
    SL_TRY(find_checked(source, suffix, &gate_up, &out[SL_GATE].entry, err));
    (void)snprintf(suffix, sizeof suffix, "layers.%u.mlp.experts.down_proj", layer);
    SL_TRY(find_checked(source, suffix, &down, &out[SL_DOWN].entry, err));
    out[SL_UP].entry = out[SL_GATE].entry;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        const int64_t stacked = m == SL_DOWN ? count : 2 * count;
        out[m].type = (sl_type){out[m].entry->type.dtype, matrix_dims(config, m)};
        out[m].bytes = out[m].entry->at.bytes / (uint64_t)stacked;
    }
    out[SL_GATE].offset = (uint64_t)expert * 2 * out[SL_GATE].bytes;
    out[SL_UP].offset = out[SL_GATE].offset + out[SL_GATE].bytes;
    out[SL_DOWN].offset = expert * out[SL_DOWN].bytes;
    return SL_OK;
}

static sl_status find_stacked_apart(const sl_source *source, const sl_model_config *config,
                                    uint32_t layer, uint32_t expert,
                                    sl_expert_place out[SL_EXPERT_MATRICES], sl_error *err) {
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        char suffix[NAME_BYTES];
        const sl_dims each = matrix_dims(config, m);
        const sl_dims want = {3, {config->experts, each.dims[0], each.dims[1]}};
        (void)snprintf(suffix, sizeof suffix, "layers.%u.mlp.experts.%s", layer, MATRICES[m]);
        SL_TRY(find_checked(source, suffix, &want, &out[m].entry, err));
        out[m].type = (sl_type){out[m].entry->type.dtype, each};
        out[m].bytes = out[m].entry->at.bytes / config->experts;
        out[m].offset = expert * out[m].bytes;
    }
    return SL_OK;
}

/* Also true when the tensor is there but not usable, so that the message is about it. */
static bool holds(const sl_source *source, uint32_t layer, const char *name) {
    char whole[NAME_BYTES];
    (void)snprintf(whole, sizeof whole, "model.layers.%u.mlp.experts.%s", layer, name);
    return sl_model_tensor(source, whole + strlen("model.")) || sl_source_skipped(source, whole);
}

sl_status sl_expert_find(const sl_source *source, const sl_model_config *config, uint32_t layer,
                         uint32_t expert, sl_expert_place out[SL_EXPERT_MATRICES], sl_error *err) {
    if (holds(source, layer, "gate_up_proj"))
        return find_stacked(source, config, layer, expert, out, err);
    if (holds(source, layer, MATRICES[SL_GATE]))
        return find_stacked_apart(source, config, layer, expert, out, err);
    return find_single(source, config, layer, expert, out, err);
}
