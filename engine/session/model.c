#include "engine/session/model.h"
#include "base/clock.h"
#include "base/sizes.h"
#include "engine/formats/names.h"
#include "engine/models/unused.h"
#include "engine/session/compile_options.h"
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_CONTEXT = 4096,
    LOADING_DEPTH = 8,
    SPARED_BYTES = 128 << 20,  /* for everything that is neither experts nor weights */
    STAGING_BYTES = 256 << 20, /* of host memory, when a GPU holds all experts */
    GIGABYTE = 1 << 30
};

static sl_status load_config(sl_model *model, const sl_architecture **architecture, sl_error *err) {
    size_t bytes = 0;
    const char *json = sl_source_text(model->source, "config.json", &bytes);
    if (!json) return sl_fail(err, SL_FORMAT, "the model has no config.json");
    SL_TRY(sl_model_config_parse(json, bytes, &model->arena, &model->config, err));
    *architecture = sl_architecture_find(model->config.model_type);
    if (!*architecture)
        return sl_fail(err, SL_UNSUPPORTED, "model type '%s' has no builder",
                       model->config.model_type);
    return sl_expert_table_build(model->source, &model->config, &model->arena, &model->experts,
                                 err);
}

/* Of all tensors, as they are in the file. */
static uint64_t source_bytes(const sl_model *model) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sl_source_tensor_count(model->source); i++)
        bytes += sl_source_tensor(model->source, i)->at.bytes;
    return bytes;
}

static uint64_t device_budget(const sl_model *model, const sl_model_options *options) {
    const double share = options->device_budget_share;
    return share > 0 ? (uint64_t)((double)model->experts.memory_bytes * share)
                     : options->device_budget_bytes;
}

static sl_status open_reader(sl_model *model, const sl_model_options *options, uint32_t depth,
                             sl_reader **out, sl_error *err) {
    const uint32_t count = sl_source_file_count(model->source);
    const char **paths = SL_ARENA_NEW_ARRAY(&model->arena, const char *, count);
    if (!paths) return sl_no_memory(err, "file names", count);
    for (uint32_t i = 0; i < count; i++) paths[i] = sl_source_file_path(model->source, i);
    sl_reader_options given = {.kind = SL_READER_AUTO, .depth = depth};
    if (options->reader && strcmp(options->reader, "io_uring") == 0)
        given.kind = SL_READER_URING;
    else if (options->reader && strcmp(options->reader, "threads") == 0)
        given.kind = SL_READER_THREADS;
    else if (options->reader)
        return sl_fail(err, SL_INVALID, "unknown reader '%s', wanted io_uring or threads",
                       options->reader);
    return sl_reader_open(paths, count, &given, &model->allocator, out, err);
}

/* Whether the device will have room for all experts beside everything else. */
static bool fits_device(const sl_model *model, const sl_model_options *options) {
    if (!model->device_info.holds_experts) return false;
    uint64_t room = device_budget(model, options);
    if (room == 0) {
        const uint64_t left = sl_device_count(model->device).free_bytes;
        const uint64_t others = source_bytes(model) - model->experts.total_bytes + 2ull * GIGABYTE;
        room = left > others ? left - others : 0;
    }
    return room >= model->experts.memory_bytes;
}

/* All experts, or half of the memory that is free when they would take more than that.  Where a GPU
 * holds them, they only pass through. */
static uint64_t default_budget(const sl_model *model, const sl_model_options *options) {
    const uint64_t half = sl_memory_available() / 2;
    const uint64_t minimum = sl_expert_store_minimum(&model->experts, model->reader);
    const uint64_t staging = minimum > STAGING_BYTES ? minimum : STAGING_BYTES;
    if (fits_device(model, options)) return staging < model->experts.memory_bytes ? staging : 0;
    if (half == 0 || model->experts.memory_bytes <= half) return 0;
    return half > minimum ? half : minimum;
}

static sl_status open_store(sl_model *model, const sl_model_options *options, sl_error *err) {
    const double share = options->expert_budget_share;
    uint64_t budget = options->expert_budget_bytes;
    if (!(share >= 0 && share <= 1))
        return sl_fail(err, SL_INVALID, "a budget of %g %%, wanted 0 to 100", share * 100);
    SL_TRY(open_reader(model, options, 0, &model->reader, err));
    if (share > 0 && share < 1)
        budget = (uint64_t)((double)model->experts.memory_bytes * share);
    else if (share == 0 && budget == 0)
        budget = default_budget(model, options);
    const sl_allocator *pinned = model->device_info.host_memory;
    return sl_expert_store_create(&model->experts, model->reader, budget,
                                  pinned ? pinned : &model->allocator, &model->store, err);
}

static sl_status add_note(sl_model *model, const char *note, sl_error *err) {
    if (!note) return SL_OK;
    model->note = model->note ? sl_arena_format(&model->arena, "%s; %s", model->note, note) : note;
    return model->note ? SL_OK : sl_no_memory(err, "a note", strlen(note));
}

static sl_status open_best_device(sl_model *model, const sl_device_options *options,
                                  sl_error *err) {
    sl_best_device best;
    SL_TRY(sl_device_open_best(options, &model->allocator, &best, err));
    model->device_row = best.row;
    model->device = best.device;
    if (best.passed_over.status == SL_OK) return SL_OK;
    const char *note =
        sl_arena_format(&model->arena, "running on the %s because the GPU failed to open: %s",
                        best.row->name, best.passed_over.message);
    return note ? add_note(model, note, err) : sl_no_memory(err, "a note", sizeof best.passed_over);
}

static sl_status open_named_device(sl_model *model, const char *name,
                                   const sl_device_options *options, sl_error *err) {
    SL_TRY(sl_device_find(name, &model->device_row, err));
    if (model->device_row->checks_only)
        return sl_fail(err, SL_UNSUPPORTED,
                       "the device '%s' only checks programs, models cannot run on it", name);
    if (!model->device_row->create) return SL_OK;
    return model->device_row->create(options, &model->allocator, &model->device, err);
}

/* Notes options that have no effect on the device. */
static sl_status note_idle_options(sl_model *model, const sl_device_options *options,
                                   sl_error *err) {
    const sl_device_info *info = &model->device_info;
    if (options->expert_budget_bytes && !info->holds_experts)
        SL_TRY(add_note(model, "a device budget has no effect on this device", err));
    if ((options->eager || options->chained || options->apart) && !info->launch_modes)
        SL_TRY(add_note(model, "eager, chained and apart have no effect on this device", err));
    return SL_OK;
}

static sl_status open_device(sl_model *model, const sl_model_options *options, sl_error *err) {
    const double share = options->device_budget_share;
    if (!(share >= 0 && share <= 1))
        return sl_fail(err, SL_INVALID, "a device budget of %g %%, wanted 0 to 100", share * 100);
    sl_device_options given = {.threads = options->threads,
                               .isa = options->isa,
                               .pin = options->pin_threads,
                               .expert_budget_bytes = device_budget(model, options)};
    sl_launch_options_parse(options->compile, &given);
    if (!options->device || strcmp(options->device, "auto") == 0)
        SL_TRY(open_best_device(model, &given, err));
    else
        SL_TRY(open_named_device(model, options->device, &given, err));
    model->device_info = sl_device_describe(model->device);
    return note_idle_options(model, &given, err);
}

sl_dtype sl_model_main_dtype(const sl_model *model) {
    const sl_expert_layer *experts = sl_expert_table_first(&model->experts);
    if (experts) return experts->matrices[SL_GATE].type.dtype;
    const sl_tensor_entry *network =
        sl_model_tensor(model->source, "layers.0.mlp.gate_proj.weight");
    return network ? network->type.dtype : SL_DTYPE_f32;
}

static const struct {
    const char *name;
    sl_dtype dtype;
} kv_kinds[] = {{"i16", SL_DTYPE_k16}, {"f16", SL_DTYPE_f16}, {"f32", SL_DTYPE_f32}};
enum { KV_KINDS = sizeof kv_kinds / sizeof kv_kinds[0] };

static bool keeps_kv(const sl_device_info *info, sl_dtype dtype) {
    for (uint32_t i = 0; i < info->kv_dtype_count; i++)
        if (info->kv_dtypes[i] == dtype) return true;
    return info->kv_dtype_count == 0;
}

static sl_status refuse_kv(const sl_model *model, const char *wanted, sl_error *err) {
    char kept[64] = "";
    for (int i = 0; i < KV_KINDS; i++) {
        const size_t used = strlen(kept);
        if (keeps_kv(&model->device_info, kv_kinds[i].dtype))
            (void)snprintf(kept + used, sizeof kept - used, "%s%s", used ? ", " : "",
                           kv_kinds[i].name);
    }
    return sl_fail(err, SL_UNSUPPORTED,
                   "keys and values as '%s' are not supported on the device %s, wanted %s", wanted,
                   model->device_row->name, kept);
}

/* The device's most compact type where weights and activations are quantised: the error of 16 bits
 * is far below theirs. */
static sl_dtype default_kv_dtype(const sl_model *model, const sl_compiler_options *options) {
    const sl_dtype weights = sl_model_main_dtype(model);
    const bool coarse = options->int8_activations && sl_dtype_infos[weights].kind == SL_KIND_PANEL;
    const sl_device_info *info = &model->device_info;
    return coarse && info->kv_dtype_count ? info->kv_dtypes[0] : SL_DTYPE_f32;
}

/* The element type of the KV cache. */
static sl_status choose_kv_dtype(const char *wanted, const sl_model *model,
                                 const sl_compiler_options *options, sl_dtype *out, sl_error *err) {
    *out = default_kv_dtype(model, options);
    if (!wanted || strcmp(wanted, "auto") == 0) return SL_OK;
    for (int i = 0; i < KV_KINDS; i++) {
        if (strcmp(wanted, kv_kinds[i].name) != 0) continue;
        *out = kv_kinds[i].dtype;
        return keeps_kv(&model->device_info, *out) ? SL_OK : refuse_kv(model, wanted, err);
    }
    return sl_fail(err, SL_INVALID, "keys and values as '%s', wanted auto, i16, f16 or f32",
                   wanted);
}

static sl_status open_forward(sl_model *model, const sl_model_options *options,
                              const sl_architecture *architecture, sl_error *err) {
    model->slots = options->max_sessions;
    model->chunk_tokens = model->device_info.chunk_tokens;
    model->context_tokens = options->context_tokens ? options->context_tokens : DEFAULT_CONTEXT;
    if (model->context_tokens > model->config.context) {
        if (options->context_tokens)
            return sl_fail(err, SL_INVALID, "a context of %u tokens, the model supports at most %u",
                           options->context_tokens, model->config.context);
        model->context_tokens = model->config.context;
    }
    sl_forward_options given = {
        .architecture = architecture,
        .shape = {.config = &model->config,
                  .weights = &model->weights,
                  .experts = &model->experts,
                  .slots = model->slots,
                  .capacity = model->context_tokens},
        .device = model->device,
        .experts_source = sl_expert_store_source(model->store),
        .allocator = &model->allocator,
    };
    SL_TRY(sl_compiler_options_parse(options->compile, model->device_row->target, &given.compile,
                                     err));
    const sl_target *target = model->device_row->target;
    if (target && target->schedule != SL_SCHEDULE_LEVELS) given.compile.model = target->schedule;
    SL_TRY(choose_kv_dtype(options->kv, model, &given.compile, &given.shape.kv_dtype, err));
    return sl_forward_create(&given, &model->forward, err);
}

/* Resident weights are read where memory beside the experts' allows it, else mapped. */
static void allow_loading(sl_model *model, const sl_model_options *options, sl_reader *reader) {
    const uint64_t available = sl_memory_available();
    const uint64_t taken = sl_expert_store_stats(model->store).used_bytes + SPARED_BYTES;
    uint64_t tensors = source_bytes(model);
    if (!sl_source_expert_blocks(model->source, 0)) tensors -= model->experts.total_bytes;
    model->weights.load = (sl_load){.source = model->source,
                                    .reader = reader,
                                    .allocator = &model->allocator,
                                    .left_bytes = available > taken ? available - taken : 0,
                                    .progress = options->progress,
                                    .progress_ctx = options->progress_ctx,
                                    .total_bytes = tensors};
}

/* Compiling the first forward pass looks up every weight. */
static sl_status load_and_open_forward(sl_model *model, const sl_model_options *options,
                                       const sl_architecture *architecture, sl_error *err) {
    sl_reader *reader = NULL;
    SL_TRY(open_reader(model, options, LOADING_DEPTH, &reader, err));
    allow_loading(model, options, reader);
    const sl_status status = open_forward(model, options, architecture, err);
    model->weights.load.reader = NULL;
    sl_reader_close(reader);
    return status;
}

static sl_status open_parts(sl_model *model, const char *path, const sl_model_options *options,
                            sl_error *err) {
    const sl_architecture *architecture = NULL;
    double clock = sl_clock_seconds();
    SL_TRY(sl_source_open(path, &model->allocator, &model->source, err));
    sl_weights_init(&model->weights, model->source, &model->allocator);
    SL_TRY(load_config(model, &architecture, err));
    model->files_seconds = sl_clock_lap(&clock);
    SL_TRY(open_device(model, options, err));
    SL_TRY(open_store(model, options, err));
    model->memory_seconds = sl_clock_lap(&clock);
    SL_TRY(load_and_open_forward(model, options, architecture, err));
    model->weights_seconds = sl_clock_lap(&clock);
    const char *unused;
    SL_TRY(sl_model_check_unused(model->source, &model->config, &model->arena, &unused, err));
    SL_TRY(add_note(model, unused, err));
    SL_TRY(sl_model_text_load(&model->text, model->source, &model->arena, &model->allocator, err));
    model->text_seconds = sl_clock_lap(&clock);
    return add_note(model, model->text.note, err);
}

sl_status sl_model_create(const char *path, const sl_model_options *options, sl_model **out,
                          sl_error *err) {
    const sl_allocator allocator = *sl_allocator_or_default(&options->allocator);
    sl_model *model = sl_allocate(&allocator, sizeof *model, _Alignof(sl_model));
    if (!model) return sl_no_memory(err, "a model", sizeof *model);
    model->allocator = allocator;
    sl_arena_init(&model->arena, &model->allocator);
    sl_weights_init(&model->weights, NULL, &model->allocator);
    (void)pthread_mutex_init(&model->lock, NULL);
    const sl_status status = open_parts(model, path, options, err);
    if (status == SL_OK)
        *out = model;
    else
        sl_model_destroy(model);
    return status;
}

void sl_model_destroy(sl_model *model) {
    if (!model) return;
    const sl_allocator allocator = model->allocator;
    sl_model_text_unload(&model->text);
    sl_forward_destroy(model->forward);
    sl_expert_store_destroy(model->store); /* its memory may be the device's */
    if (model->device) model->device->ops->destroy(model->device);
    if (model->reader) sl_reader_close(model->reader);
    sl_weights_deinit(&model->weights);
    sl_source_close(model->source);
    sl_arena_deinit(&model->arena);
    (void)pthread_mutex_destroy(&model->lock);
    sl_release(&allocator, model, sizeof *model, _Alignof(sl_model));
}
