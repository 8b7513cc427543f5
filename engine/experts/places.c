/* places.c - The only place that knows the layouts of expert tensors. */
#include "engine/experts/places.h"
#include "engine/formats/names.h"
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

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

static sl_status find_checked(const sl_source *source, const char *suffix, const sl_dims *want,
                              const sl_tensor_entry **out, sl_error *err) {
    *out = sl_model_tensor(source, suffix);
    if (!*out) return sl_model_tensor_missing(source, suffix, err);
    return check_type(*out, want, err);
}

/* Where checkpoints keep routed experts, and what they call gate, up and down there. */
static const struct {
    const char *folder;
    const char *matrices[SL_EXPERT_MATRICES];
} HOMES[] = {
    {"mlp.experts", {"gate_proj", "up_proj", "down_proj"}},
    {"mlp.switch_mlp", {"gate_proj", "up_proj", "down_proj"}},
    {"block_sparse_moe.experts", {"w1", "w3", "w2"}},
    {"block_sparse_moe.switch_mlp", {"gate_proj", "up_proj", "down_proj"}},
};
enum { HOME_COUNT = sizeof HOMES / sizeof HOMES[0] };

/* In the home: all three stacked apart, gate and up stacked on each other, or one tensor per matrix
 * of every expert. */
typedef enum { STACKED_APART, STACKED, SINGLE, FORM_COUNT } expert_form;
static const char *const ENDINGS[] = {"", ".weight"};
enum { ENDING_COUNT = sizeof ENDINGS / sizeof ENDINGS[0] };

/* What to look for, and once it is found, where. */
typedef struct {
    const sl_source *source;
    const sl_model_config *config;
    uint32_t layer;
    int home;
    expert_form form;
    const char *ending; /* of a stacked tensor's name */
} search;

bool sl_suffix_is_expert(const char *suffix) {
    const size_t length = strlen(suffix);
    if (length > 4 && strcmp(suffix + length - 4, "bias") == 0) return false;
    for (int h = 0; h < HOME_COUNT; h++) {
        const char *found = strstr(suffix, HOMES[h].folder);
        if (found && found > suffix && found[-1] == '.' && found[strlen(HOMES[h].folder)] == '.')
            return true;
    }
    return false;
}

static sl_dims matrix_dims(const sl_model_config *config, int matrix) {
    const int64_t width = config->expert_width, hidden = config->hidden;
    return matrix == SL_DOWN ? (sl_dims){2, {hidden, width}} : (sl_dims){2, {width, hidden}};
}

static sl_status find_named(const search *s, const char *name, const sl_dims *want,
                            const sl_tensor_entry **out, sl_error *err) {
    char suffix[NAME_BYTES];
    (void)snprintf(suffix, sizeof suffix, "layers.%u.%s.%s%s", s->layer, HOMES[s->home].folder,
                   name, s->ending);
    return find_checked(s->source, suffix, want, out, err);
}

static sl_status find_single(const search *s, sl_expert_place (*out)[SL_EXPERT_MATRICES],
                             sl_error *err) {
    for (uint32_t e = 0; e < s->config->experts; e++)
        for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
            char name[NAME_BYTES];
            (void)snprintf(name, sizeof name, "%u.%s", e, HOMES[s->home].matrices[m]);
            const sl_dims want = matrix_dims(s->config, m);
            sl_expert_place *place = &out[e][m];
            SL_TRY(find_named(s, name, &want, &place->entry, err));
            *place = (sl_expert_place){place->entry, place->entry->type, 0, 1};
        }
    return SL_OK;
}

/* The same tensor for every expert: `each` shares of it are this expert's. */
static void place_stacked(const search *s, const sl_tensor_entry *entry, int m, uint64_t each,
                          sl_expert_place (*out)[SL_EXPERT_MATRICES]) {
    const uint64_t count = s->config->experts, first = each == 2 && m == SL_UP;
    for (uint64_t e = 0; e < count; e++)
        out[e][m] = (sl_expert_place){
            entry, {entry->type.dtype, matrix_dims(s->config, m)}, e * each + first, count * each};
}

static sl_status find_stacked(const search *s, sl_expert_place (*out)[SL_EXPERT_MATRICES],
                              sl_error *err) {
    const int64_t width = s->config->expert_width, hidden = s->config->hidden;
    const int64_t count = s->config->experts;
    const sl_dims gate_up = {3, {count, 2 * width, hidden}}, down = {3, {count, hidden, width}};
    const sl_tensor_entry *entry;
    SL_TRY(find_named(s, "gate_up_proj", &gate_up, &entry, err));
    place_stacked(s, entry, SL_GATE, 2, out);
    place_stacked(s, entry, SL_UP, 2, out);
    SL_TRY(find_named(s, "down_proj", &down, &entry, err));
    place_stacked(s, entry, SL_DOWN, 1, out);
    return SL_OK;
}

static sl_status find_stacked_apart(const search *s, sl_expert_place (*out)[SL_EXPERT_MATRICES],
                                    sl_error *err) {
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        const sl_dims each = matrix_dims(s->config, m);
        const sl_dims want = {3, {s->config->experts, each.dims[0], each.dims[1]}};
        const sl_tensor_entry *entry;
        SL_TRY(find_named(s, HOMES[s->home].matrices[m], &want, &entry, err));
        place_stacked(s, entry, m, 1, out);
    }
    return SL_OK;
}

/* Also true when the tensor is there but not usable, so that the message is about it. */
static bool holds(const search *s) {
    const char *gate = HOMES[s->home].matrices[SL_GATE];
    char suffix[NAME_BYTES];
    (void)snprintf(suffix, sizeof suffix, "layers.%u.%s.%s%s%s", s->layer, HOMES[s->home].folder,
                   s->form == SINGLE ? "0." : "", s->form == STACKED ? "gate_up_proj" : gate,
                   s->ending);
    return sl_model_tensor_known(s->source, suffix);
}

static bool find_home(search *s) {
    for (s->home = 0; s->home < HOME_COUNT; s->home++)
        for (int f = 0; f < FORM_COUNT; f++)
            for (int e = 0; e < ENDING_COUNT; e++) {
                s->form = (expert_form)f;
                s->ending = ENDINGS[e];
                if (holds(s)) return true;
            }
    return false;
}

sl_status sl_experts_find(const sl_source *source, const sl_model_config *config, uint32_t layer,
                          sl_expert_place (*out)[SL_EXPERT_MATRICES], sl_error *err) {
    search s = {.source = source, .config = config, .layer = layer};
    if (!find_home(&s))
        s = (search){source, config, layer, 0, SINGLE, ".weight"}; /* the message names one */
    if (s.form == STACKED) return find_stacked(&s, out, err);
    if (s.form == STACKED_APART) return find_stacked_apart(&s, out, err);
    return find_single(&s, out, err);
}
