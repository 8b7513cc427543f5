/* synth.c - A pack of random weights in the shape of a model.
 *
 * The model's own graph says which tensors there are.  Matrices keep the size of what goes through
 * them, those that write to the residual stream add little each, and vectors lie where trained ones
 * do; so activations stay near one through any number of layers, and routing is close to uniform.
 * A tensor depends on the seed and its name only. */
#include "base/sizes.h"
#include "engine/config/shapes.h"
#include "engine/convert/convert.h"
#include "engine/convert/synth_text.h"
#include "engine/formats/file.h"
#include "engine/formats/pack.h"
#include "engine/models/architecture.h"
#include "engine/quant/noise.h"
#include "engine/quant/recipe.h"
#include "sluice/sluice.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { MATRIX_ALIGN = 64, PIECE_BYTES = 4 << 20 };

typedef struct {
    const sl_synth_options *options;
    sl_quant quant;
    const sl_allocator *allocator;
    sl_arena arena;
    const char *config_text;
    size_t config_bytes;
    sl_model_config config;
    sl_weights weights; /* imagined: every tensor that the graph asks for */
    sl_expert_table experts;
    sl_type expert_types[SL_EXPERT_MATRICES];
    sl_pack_writer *writer;
    uint8_t *room;
    uint64_t room_bytes, done_bytes, total_bytes;
} synth;

static bool ends_with(const char *text, const char *ending) {
    const size_t length = strlen(text), end = strlen(ending);
    return length >= end && strcmp(text + length - end, ending) == 0;
}

static uint64_t seed_of(const synth *s, const char *name) {
    return XXH3_64bits_withSeed(name, strlen(name), s->options->seed);
}

/* ---- Statistics ---- */

/* What multiplies unit activations gives unit activations.  What is added to the residual stream,
 * twice per layer, adds one altogether. */
static float matrix_deviation(const synth *s, const char *name, int64_t cols) {
    static const char *const writers[] = {"o_proj.weight", "out_proj.weight", "down_proj.weight"};
    float deviation = 1.0f / sqrtf((float)cols);
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++)
        if (ends_with(name, writers[i])) deviation /= sqrtf(2.0f * (float)s->config.layers);
    return deviation;
}

/* Decays of 1 to 16 per unit of time. */
static float decay(uint64_t seed, uint64_t index) {
    return (float)log(1 + 15 * sl_noise_uniform(seed, index));
}
/* What softplus makes a time step of 0.001 to 0.1. */
static float time_step(uint64_t seed, uint64_t index) {
    const double step = exp(log(1e-3) + log(1e2) * sl_noise_uniform(seed, index));
    return (float)log(expm1(step));
}
static float tap(uint64_t seed, uint64_t index) {
    return 0.3f * sl_noise_normal(seed, index);
}
static float gain(uint64_t seed, uint64_t index) {
    return 1 + 0.1f * sl_noise_normal(seed, index);
}
/* Also of gains that are stored as their difference from one. */
static float around_zero(uint64_t seed, uint64_t index) {
    return 0.1f * sl_noise_normal(seed, index);
}

static void fill_vector(const synth *s, const char *name, int64_t count, float *out) {
    static const struct {
        const char *ending;
        float (*value)(uint64_t seed, uint64_t index);
    } laws[] = {
        {"A_log", decay},       {"dt_bias", time_step},
        {"conv1d.weight", tap}, {"linear_attn.norm.weight", gain},
        {"norm.weight", gain},  {"", around_zero},
    };
    enum { NORMS = 4 };
    const uint64_t seed = seed_of(s, name);
    int law = 0;
    while (!ends_with(name, laws[law].ending)) law++;
    if (law == NORMS && s->config.norm_offset > 0) law++;
    for (int64_t i = 0; i < count; i++) out[i] = laws[law].value(seed, (uint64_t)i);
}

/* ---- What there is to write ---- */

static sl_status check_panels(const char *name, const sl_type *type, sl_error *err) {
    const bool panel = sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL;
    const int64_t cols = type->shape.dims[type->shape.rank - 1];
    if (!panel || cols % SL_GROUP_COLS == 0) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: %lld columns, a multiple of %d wanted for %s", name,
                   (long long)cols, SL_GROUP_COLS, sl_dtype_infos[type->dtype].name);
}

/* Gives tensors their types in the pack and adds up their bytes. */
static sl_status choose_types(synth *s, sl_error *err) {
    for (uint32_t i = 0; i < s->weights.count; i++) {
        sl_weight *w = &s->weights.items[i];
        if (sl_dtype_infos[w->type.dtype].kind == SL_KIND_PANEL) {
            w->type.dtype = SL_DTYPE_bf16;
            w->type.dtype = sl_quant_resident(s->quant, w->name, &w->type);
        }
        SL_TRY(check_panels(w->name, &w->type, err));
        s->total_bytes += sl_type_bytes(&w->type);
    }
    const int64_t width = s->config.expert_width, hidden = s->config.hidden;
    uint64_t expert_bytes = 0;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        sl_type *type = &s->expert_types[m];
        *type = m == SL_DOWN ? sl_type_make(SL_DTYPE_bf16, 2, hidden, width)
                             : sl_type_make(SL_DTYPE_bf16, 2, width, hidden);
        type->dtype = sl_quant_expert(s->quant, type);
        SL_TRY(check_panels("experts", type, err));
        expert_bytes += sl_round_up(sl_type_bytes(type), MATRIX_ALIGN);
    }
    s->total_bytes += expert_bytes * sl_expert_table_count(&s->experts);
    s->room_bytes = expert_bytes > PIECE_BYTES ? expert_bytes : PIECE_BYTES;
    return SL_OK;
}

static sl_status plan(synth *s, const char *shape, sl_error *err) {
    const sl_shape_changes changes = {s->options->layers, s->options->experts, s->options->vocab};
    SL_TRY(sl_shape_load(shape, &changes, &s->arena, &s->config_text, &s->config_bytes, err));
    SL_TRY(sl_model_config_parse(s->config_text, s->config_bytes, &s->arena, &s->config, err));
    SL_TRY(sl_expert_table_fake(&s->config, &s->arena, &s->experts, err));
    SL_TRY(sl_architecture_list_weights(&s->config, &s->weights, &s->experts, err));
    return choose_types(s, err);
}

/* ---- Writing ---- */

static sl_status advance(synth *s, uint64_t bytes, sl_error *err) {
    const sl_synth_options *o = s->options;
    s->done_bytes += bytes;
    if (o->progress && o->progress(o->progress_ctx, "writing", s->done_bytes, s->total_bytes) != 0)
        return sl_fail(err, SL_CANCELLED, "writing was stopped after %llu of %llu bytes",
                       (unsigned long long)s->done_bytes, (unsigned long long)s->total_bytes);
    return SL_OK;
}

static sl_status write_piece(synth *s, const void *data, uint64_t bytes, sl_error *err) {
    SL_TRY(sl_pack_writer_piece(s->writer, data, bytes, err));
    return advance(s, bytes, err);
}

static sl_status grow_room(synth *s, uint64_t bytes, sl_error *err) {
    if (s->room && bytes <= s->room_bytes) return SL_OK;
    const uint64_t wanted = bytes > s->room_bytes ? bytes : s->room_bytes;
    uint8_t *room =
        sl_resize(s->allocator, s->room, s->room ? s->room_bytes : 0, wanted, MATRIX_ALIGN);
    if (!room) return sl_no_memory(err, "weights to write", wanted);
    s->room = room;
    s->room_bytes = wanted;
    return SL_OK;
}

static sl_status write_matrix(synth *s, const sl_type *type, uint64_t seed, float deviation,
                              sl_error *err) {
    const sl_noise noise = sl_noise_make(*type, seed, deviation);
    const uint64_t least =
        noise.head_bytes > noise.band_bytes ? noise.head_bytes : noise.band_bytes;
    SL_TRY(grow_room(s, least, err));
    if (noise.head_bytes) {
        sl_noise_head(&noise, s->room);
        SL_TRY(write_piece(s, s->room, noise.head_bytes, err));
    }
    const int64_t step = (int64_t)(s->room_bytes / noise.band_bytes);
    for (int64_t band = 0; band < noise.bands; band += step) {
        const int64_t count = noise.bands - band < step ? noise.bands - band : step;
        SL_TRY(write_piece(s, s->room, sl_noise_bands(&noise, band, count, s->room), err));
    }
    return SL_OK;
}

/* One matrix, or those of a stack. */
static sl_status write_matrices(synth *s, const sl_weight *w, sl_error *err) {
    const sl_dims *shape = &w->type.shape;
    const int64_t rows = shape->dims[shape->rank - 2], cols = shape->dims[shape->rank - 1];
    const sl_type each = sl_type_make(w->type.dtype, 2, rows, cols);
    const float deviation = matrix_deviation(s, w->name, cols);
    for (int64_t m = 0; m < sl_type_elements(&w->type) / (rows * cols); m++)
        SL_TRY(write_matrix(s, &each, seed_of(s, w->name) + (uint64_t)m, deviation, err));
    return SL_OK;
}

static sl_status write_resident(synth *s, const sl_weight *w, sl_error *err) {
    const bool whole = strcmp(w->name, "lm_head.weight") == 0;
    char name[192];
    (void)snprintf(name, sizeof name, "%s%s", whole ? "" : "model.", w->name);
    SL_TRY(sl_pack_writer_begin(s->writer, name, w->type, err));
    if (w->type.dtype == SL_DTYPE_f32) {
        const uint64_t bytes = sl_type_bytes(&w->type);
        SL_TRY(grow_room(s, bytes, err));
        fill_vector(s, w->name, sl_type_elements(&w->type), (float *)(void *)s->room);
        SL_TRY(write_piece(s, s->room, bytes, err));
    } else {
        SL_TRY(write_matrices(s, w, err));
    }
    return sl_pack_writer_end(s->writer, err);
}

static sl_status write_expert(synth *s, uint32_t layer, uint32_t expert, sl_error *err) {
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    const void *matrices[SL_EXPERT_MATRICES];
    uint8_t *to = s->room;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        char name[96];
        (void)snprintf(name, sizeof name, "layers.%u.mlp.experts.%u.%s.weight", layer, expert,
                       names[m]);
        const sl_type *type = &s->expert_types[m];
        const float deviation = matrix_deviation(s, name, type->shape.dims[1]);
        const sl_noise noise = sl_noise_make(*type, seed_of(s, name), deviation);
        matrices[m] = to;
        sl_noise_head(&noise, to);
        (void)sl_noise_bands(&noise, 0, noise.bands, to + noise.head_bytes);
        to += sl_round_up(sl_type_bytes(type), MATRIX_ALIGN);
    }
    SL_TRY(sl_pack_writer_expert(s->writer, matrices, err));
    return advance(s, (uint64_t)(to - s->room), err);
}

static sl_status write_pack(synth *s, const char *destination, sl_error *err) {
    SL_TRY(grow_room(s, s->room_bytes, err));
    SL_TRY(sl_pack_writer_create(destination, s->allocator, &s->writer, err));
    SL_TRY(sl_pack_writer_text(s->writer, "config.json", s->config_text, s->config_bytes, err));
    SL_TRY(sl_synth_write_texts(s->writer, s->config.vocab, err));
    for (uint32_t i = 0; i < s->weights.count; i++)
        SL_TRY(write_resident(s, &s->weights.items[i], err));
    for (uint32_t layer = 0; layer < s->config.layers; layer++) {
        if (!s->config.layer[layer].sparse) continue;
        SL_TRY(sl_pack_writer_layer(s->writer, layer, s->config.experts, s->expert_types, err));
        for (uint32_t e = 0; e < s->config.experts; e++) SL_TRY(write_expert(s, layer, e, err));
    }
    return sl_pack_writer_finish(s->writer, err);
}

static sl_status begin(synth *s, const char *shape, sl_error *err) {
    sl_arena_init(&s->arena, s->allocator);
    sl_weights_fake(&s->weights, s->allocator);
    SL_TRY(sl_quant_parse(s->options->quant, &s->quant, err));
    return plan(s, shape, err);
}

static void end(synth *s) {
    sl_pack_writer_destroy(s->writer);
    if (s->room) sl_release(s->allocator, s->room, s->room_bytes, MATRIX_ALIGN);
    sl_weights_deinit(&s->weights);
    sl_arena_deinit(&s->arena);
}

sl_status sl_synthesise(const char *shape, const char *destination, const sl_synth_options *options,
                        sl_error *err) {
    synth s = {.options = options, .allocator = sl_allocator_or_default(NULL)};
    sl_status status = sl_file_check_new(destination, options->force, err);
    if (status != SL_OK) return status;
    status = begin(&s, shape, err);
    if (status == SL_OK) status = sl_file_check_space(destination, s.total_bytes, err);
    if (status == SL_OK) status = write_pack(&s, destination, err);
    end(&s);
    return status;
}

static void describe_experts(const synth *s, sl_model_info *out) {
    const sl_model_config *c = &s->config;
    const uint64_t each = (uint64_t)3 * c->expert_width * c->hidden;
    const uint64_t layers = c->experts ? sl_expert_table_count(&s->experts) / c->experts : 0;
    uint64_t bytes = 0;
    for (int m = 0; m < SL_EXPERT_MATRICES; m++)
        bytes += sl_round_up(sl_type_bytes(&s->expert_types[m]), MATRIX_ALIGN);
    out->expert_count = layers * c->experts;
    out->expert_bytes = out->expert_count * bytes;
    out->minimum_budget_bytes = (uint64_t)c->experts_used * bytes;
    out->expert_dtype = sl_dtype_infos[s->expert_types[SL_DOWN].dtype].name;
    out->active_parameters = out->parameters + layers * c->experts_used * each;
    out->parameters += out->expert_count * each;
}

sl_status sl_synth_plan(const char *shape, const sl_synth_options *options, sl_model_info *out,
                        sl_error *err) {
    synth s = {.options = options, .allocator = sl_allocator_or_default(NULL)};
    const sl_status status = begin(&s, shape, err);
    const sl_model_config *c = &s.config;
    if (status == SL_OK) {
        *out = (sl_model_info){.architecture = c->model_type,
                               .format = "shape",
                               .vocab = c->vocab,
                               .hidden = c->hidden,
                               .layers = c->layers,
                               .experts = c->experts,
                               .experts_used = c->experts_used,
                               .max_context_tokens = c->context,
                               .file_bytes = s.total_bytes};
        for (uint32_t l = 0; l < c->layers; l++) out->full_attention_layers += !c->layer[l].linear;
        for (uint32_t i = 0; i < s.weights.count; i++) {
            out->parameters += (uint64_t)sl_type_elements(&s.weights.items[i].type);
            out->resident_bytes += sl_type_bytes(&s.weights.items[i].type);
        }
        describe_experts(&s, out);
    }
    end(&s);
    return status;
}
