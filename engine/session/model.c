#include "engine/session/model.h"
#include "base/clock.h"
#include "base/sizes.h"
#include "engine/formats/names.h"
#include "engine/models/unused.h"
#include "engine/session/compile_options.h"
#include "engine/session/draft.h"
#include "engine/session/kv_budget.h"
#include "engine/session/memory.h"
#include "engine/session/prefixes.h"
#include <stdio.h>
#include <string.h>

enum {
    DEFAULT_CONTEXT = 4096,
    LOADING_DEPTH = 8,
};

static sl_status open_reader(sl_model *model, const sl_model_options *options, uint32_t depth,
                             sl_reader **out, sl_error *err) {
    const uint32_t count = sl_source_file_count(model->source);
    const char **paths = SL_ARENA_NEW_ARRAY(&model->arena, const char *, count);
    if (!paths) return sl_no_memory(err, "file names", count);
    for (uint32_t i = 0; i < count; i++) paths[i] = sl_source_file_path(model->source, i);
    sl_reader_options given = {.kind = SL_READER_AUTO, .depth = depth, .shares = model->reader};
    if (options->reader && strcmp(options->reader, "io_uring") == 0)
        given.kind = SL_READER_URING;
    else if (options->reader && strcmp(options->reader, "threads") == 0)
        given.kind = SL_READER_THREADS;
    else if (options->reader)
        return sl_fail(err, SL_INVALID, "unknown reader '%s', wanted io_uring or threads",
                       options->reader);
    return sl_reader_open(paths, count, &given, &model->allocator, out, err);
}

static sl_status add_note(sl_model *model, const char *note, sl_error *err) {
    if (!note) return SL_OK;
    model->note = model->note ? sl_arena_format(&model->arena, "%s; %s", model->note, note) : note;
    return model->note ? SL_OK : sl_no_memory(err, "a note", strlen(note));
}

static sl_status open_best_device(sl_model *model, const sl_device_options *options,
                                  sl_error *err) {
    sl_best_device best;
    SL_TRY(sl_device_open_best(options, &model->device_meter.allocator, &best, err));
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
    return model->device_row->create(options, &model->device_meter.allocator, &model->device, err);
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
                               .deterministic = options->deterministic != 0,
                               .expert_budget_bytes = sl_memory_device_budget(model, options)};
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

static sl_status set_context(sl_model *model, const sl_model_options *options, sl_error *err) {
    model->slots = options->max_sessions;
    model->prefix_bytes = options->prefix_cache_bytes;
    model->chunk_tokens = model->device_info.chunk_tokens;
    model->context_tokens = options->context_tokens ? options->context_tokens : DEFAULT_CONTEXT;
    if (model->context_tokens <= model->config.context) return SL_OK;
    if (options->context_tokens)
        return sl_fail(err, SL_INVALID, "a context of %u tokens, the model supports at most %u",
                       options->context_tokens, model->config.context);
    model->context_tokens = model->config.context;
    return SL_OK;
}

/* Compiled programs, the memory that compiling takes at its peak, and room for as many further
 * programs of that size as are kept. */
static uint64_t count_program_bytes(const sl_model *model) {
    const uint64_t compiled = sl_forward_describe(model->forward).compiled;
    const uint64_t workspace = sl_device_stats_of(model->device).workspace_bytes;
    const uint64_t device = model->device_meter.bytes, programs = model->program_meter.bytes;
    const uint64_t all = programs + (device > workspace ? device - workspace : 0);
    return all / (compiled ? compiled : 1) * sl_forward_most_kept(model->forward) +
           model->program_meter.peak_bytes - programs;
}

static sl_status compile_forward(sl_model *model, const sl_model_options *options, sl_error *err) {
    const uint32_t chunk = model->chunk_tokens;
    const sl_target *target = model->device_row->target;
    if (options->draft_tokens > SL_MOST_DRAFT_TOKENS)
        return sl_fail(err, SL_INVALID, "drafts of %u tokens, wanted at most %d",
                       options->draft_tokens, SL_MOST_DRAFT_TOKENS);
    sl_forward_options given = {
        .architecture = sl_architecture_find(model->config.model_type),
        .shape = {.config = &model->config,
                  .weights = &model->weights,
                  .experts = &model->experts,
                  .slots = model->slots,
                  .undivided = options->deterministic && model->device_info.orders_by_rows},
        .most_wanted = model->slots > 1 ? model->slots : 0,
        .device = model->device,
        .allocator = &model->program_meter.allocator,
    };
    given.compile = sl_compiler_options_for_model(target);
    SL_TRY(sl_compiler_options_parse(options->compile, &given.compile, err));
    if (target && target->schedule != SL_SCHEDULE_LEVELS) given.compile.model = target->schedule;
    SL_TRY(choose_kv_dtype(options->kv, model, &given.compile, &given.shape.kv_dtype, err));
    SL_TRY(sl_kv_budget_choose(model, options, &given, err));
    const uint32_t rows = chunk < model->context_tokens ? chunk : model->context_tokens;
    given.chunk_rows = rows;
    given.draft_rows = options->draft_tokens < rows ? options->draft_tokens : rows;
    SL_TRY(sl_forward_create(&given, &model->forward, err));
    model->program_bytes = count_program_bytes(model);
    model->loading_bytes = sl_weights_loading_bytes(&model->weights);
    return SL_OK;
}

/* Compiles the forward passes and divides the memory.  Where it does not suffice, the context is
 * lowered unless it was asked for. */
static sl_status plan_memory(sl_model *model, const sl_model_options *options, uint64_t *out_budget,
                             sl_error *err) {
    const uint32_t wanted = model->context_tokens;
    SL_TRY(compile_forward(model, options, err));
    sl_status status = sl_memory_choose_budget(model, options, out_budget, err);
    while (status == SL_NO_MEMORY && !options->context_tokens &&
           model->context_tokens > SL_LEAST_CONTEXT) {
        model->context_tokens /= 2;
        sl_forward_destroy(model->forward);
        model->forward = NULL;
        SL_TRY(compile_forward(model, options, err));
        status = sl_memory_choose_budget(model, options, out_budget, err);
    }
    SL_TRY(status);
    if (model->context_tokens == wanted) return SL_OK;
    const char *note = sl_arena_format(&model->arena,
                                       "the context is %u tokens instead of %u, because memory is "
                                       "short",
                                       model->context_tokens, wanted);
    return note ? add_note(model, note, err) : sl_no_memory(err, "a note", 0);
}

static sl_status open_store(sl_model *model, uint64_t budget, sl_error *err) {
    const sl_allocator *pinned = model->device_info.host_memory;
    return sl_expert_store_create(&model->experts, model->reader, budget,
                                  pinned ? pinned : &model->allocator, &model->store, err);
}

static sl_status read_weights(sl_model *model, const sl_model_options *options, sl_error *err) {
    sl_reader *reader = NULL;
    SL_TRY(open_reader(model, options, LOADING_DEPTH, &reader, err));
    model->weights.load = (sl_load){.source = model->source,
                                    .reader = reader,
                                    .allocator = &model->allocator,
                                    .progress = options->progress,
                                    .progress_ctx = options->progress_ctx,
                                    .total_bytes = sl_weights_bytes(&model->weights)};
    const sl_status status = sl_weights_read(&model->weights, err);
    model->weights.load.reader = NULL;
    sl_reader_close(reader);
    return status;
}

static sl_status open_files(sl_model *model, const char *path, sl_error *err) {
    SL_TRY(sl_source_open(path, &model->source_meter.allocator, &model->source, err));
    sl_weights_init(&model->weights, model->source, &model->allocator);
    return sl_model_config_load(model->source, &model->arena, &model->config, &model->experts, err);
}

/* What the bits of a state depend on besides the model. */
static sl_status make_fingerprint(sl_model *model, sl_error *err) {
    const sl_forward_options *options = sl_forward_options_of(model->forward);
    const char *kv = "?";
    for (int i = 0; i < KV_KINDS; i++)
        if (kv_kinds[i].dtype == options->shape.kv_dtype) kv = kv_kinds[i].name;
    (void)snprintf(model->fingerprint.numerics, sizeof model->fingerprint.numerics,
                   "numerics %d, %s %s, %s keys and values, %s activations%s", SL_NUMERICS,
                   model->device_row->name, model->device_info.isa, kv,
                   options->compile.int8_activations ? "8-bit" : "exact",
                   options->shape.undivided ? ", deterministic" : "");
    return sl_fingerprint_weights(model->source, &model->fingerprint, err);
}

static sl_status check_unused(sl_model *model, sl_error *err) {
    const char *unused;
    SL_TRY(sl_model_check_unused(model->source, &model->config, &model->arena, &unused, err));
    return add_note(model, unused, err);
}

/* What tells the sizes of everything comes first, then the memory is divided, then it is filled. */
static sl_status open_parts(sl_model *model, const char *path, const sl_model_options *options,
                            sl_error *err) {
    double clock = sl_clock_seconds();
    SL_TRY(open_files(model, path, err));
    model->files_seconds = sl_clock_lap(&clock);
    SL_TRY(sl_model_text_load(&model->text, model->source, model->config.vocab, &model->text_arena,
                              err));
    SL_TRY(add_note(model, model->text.note, err));
    sl_fingerprint_texts(model->source, &model->fingerprint);
    sl_source_release_tokenizer(model->source);
    model->file_bytes = model->source_meter.bytes;
    model->text_seconds = sl_clock_lap(&clock);
    uint64_t budget = 0;
    SL_TRY(open_device(model, options, err));
    SL_TRY(set_context(model, options, err));
    SL_TRY(open_reader(model, options, 0, &model->reader, err));
    SL_TRY(plan_memory(model, options, &budget, err));
    SL_TRY(open_store(model, budget, err));
    model->memory_seconds = sl_clock_lap(&clock);
    SL_TRY(read_weights(model, options, err));
    SL_TRY(sl_forward_bind(model->forward, sl_expert_store_source(model->store), err));
    SL_TRY(make_fingerprint(model, err));
    SL_TRY(sl_prefixes_create(model, err));
    model->weights_seconds = sl_clock_lap(&clock);
    return check_unused(model, err);
}

sl_status sl_model_create(const char *path, const sl_model_options *options, sl_model **out,
                          sl_error *err) {
    const sl_allocator allocator = *sl_allocator_or_default(&options->allocator);
    sl_model *model = sl_allocate(&allocator, sizeof *model, _Alignof(sl_model));
    if (!model) return sl_no_memory(err, "a model", sizeof *model);
    model->allocator = allocator;
    sl_meter_init(&model->source_meter, &model->allocator);
    sl_meter_init(&model->text_meter, &model->allocator);
    sl_meter_init(&model->program_meter, &model->allocator);
    sl_meter_init(&model->device_meter, &model->allocator);
    sl_arena_init(&model->arena, &model->allocator);
    sl_arena_init(&model->text_arena, &model->text_meter.allocator);
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
    sl_prefixes_destroy(model);
    sl_model_text_unload(&model->text);
    sl_forward_destroy(model->forward);
    sl_expert_store_destroy(model->store); /* its memory may be the device's */
    if (model->device) model->device->ops->destroy(model->device);
    if (model->reader) sl_reader_close(model->reader);
    sl_weights_deinit(&model->weights);
    sl_source_close(model->source);
    sl_arena_deinit(&model->text_arena);
    sl_arena_deinit(&model->arena);
    (void)pthread_mutex_destroy(&model->lock);
    sl_release(&allocator, model, sizeof *model, _Alignof(sl_model));
}
