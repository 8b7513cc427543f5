#include "engine/model.h"
#include "base/clock.h"
#include "base/sizes.h"
#include "engine/models/names.h"
#include "engine/models/unused.h"
#include "engine/session/how.h"
#include "runtime/cpu/cpu.h"
#include "runtime/cuda/cuda.h"
#include <string.h>

enum {
    DEFAULT_CONTEXT = 4096,
    CPU_CHUNK = 256,  /* enough to use each weight often */
    GPU_CHUNK = 2048, /* enough for every expert to have some rows */
    LOADING_DEPTH = 8,
    SPARED_BYTES = 128 << 20,  /* for everything that is neither experts nor weights */
    STAGING_BYTES = 256 << 20, /* of host memory, when a GPU holds all experts */
    GIGABYTE = 1 << 30
};

const char *sl_version(void) {
    return SL_VERSION;
}

static sl_model_options complete(const sl_model_options *given) {
    sl_model_options options = {0};
    if (given) {
        const size_t known =
            given->struct_size < sizeof options ? given->struct_size : sizeof options;
        memcpy(&options, given, known);
    }
    if (options.max_sessions == 0) options.max_sessions = 1;
    if (options.max_sessions > SL_MAX_SESSIONS) options.max_sessions = SL_MAX_SESSIONS;
    return options;
}

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
    sl_reader_options how = {.kind = SL_READER_AUTO, .depth = depth};
    if (options->reader && strcmp(options->reader, "io_uring") == 0)
        how.kind = SL_READER_URING;
    else if (options->reader && strcmp(options->reader, "threads") == 0)
        how.kind = SL_READER_THREADS;
    else if (options->reader)
        return sl_fail(err, SL_INVALID, "reader '%s': io_uring or threads", options->reader);
    return sl_reader_open(paths, count, &how, &model->allocator, out, err);
}

/* Whether a GPU will have room for all experts beside everything else. */
static bool fits_device(const sl_model *model, const sl_model_options *options) {
    if (!sl_device_is_cuda(model->device)) return false;
    uint64_t room = device_budget(model, options);
    if (room == 0) {
        const uint64_t left = sl_device_cuda_info(model->device).free_bytes;
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
        return sl_fail(err, SL_INVALID, "a budget of %g %%: 0 to 100 wanted", share * 100);
    SL_TRY(open_reader(model, options, 0, &model->reader, err));
    if (share > 0 && share < 1)
        budget = (uint64_t)((double)model->experts.memory_bytes * share);
    else if (share == 0 && budget == 0)
        budget = default_budget(model, options);
    const sl_allocator *pinned = sl_device_cuda_pinned(model->device);
    return sl_expert_store_create(&model->experts, model->reader, budget,
                                  pinned ? pinned : &model->allocator, &model->store, err);
}

static sl_status open_cuda(sl_model *model, const sl_model_options *options, sl_error *err) {
    const char *words = options->compile ? options->compile : "";
    const sl_cuda_options cuda = {.expert_budget_bytes = device_budget(model, options),
                                  .eager = strstr(words, "eager"),
                                  .chained = strstr(words, "chained"),
                                  .apart = strstr(words, "apart")};
    SL_TRY(sl_device_cuda_create(&cuda, &model->allocator, &model->device, err));
    memcpy(model->device_name, sl_device_cuda_info(model->device).name, sizeof model->device_name);
    return SL_OK;
}

/* By default the GPU, where there is one that works. */
static sl_status open_device(sl_model *model, const sl_model_options *options, sl_error *err) {
    const char *wanted = options->device ? options->device : "auto";
    const double share = options->device_budget_share;
    if (!(share >= 0 && share <= 1))
        return sl_fail(err, SL_INVALID, "a device budget of %g %%: 0 to 100 wanted", share * 100);
    if (strcmp(wanted, "ref") == 0) return SL_OK;
    if (strcmp(wanted, "cuda") == 0) return open_cuda(model, options, err);
    if (strcmp(wanted, "auto") == 0 && open_cuda(model, options, NULL) == SL_OK) return SL_OK;
    if (strcmp(wanted, "auto") != 0 && strcmp(wanted, "cpu") != 0)
        return sl_fail(err, SL_UNSUPPORTED, "device '%s': there are cpu, cuda and ref", wanted);
    const sl_cpu_options cpu = {
        .threads = options->threads, .isa = options->isa, .pin = options->pin_threads};
    return sl_device_cpu_create(&cpu, &model->allocator, &model->device, err);
}

sl_dtype sl_model_main_dtype(const sl_model *model) {
    const sl_expert_layer *experts = sl_expert_table_first(&model->experts);
    if (experts) return experts->matrices[SL_GATE].type.dtype;
    const sl_tensor_entry *network =
        sl_model_tensor(model->source, "layers.0.mlp.gate_proj.weight");
    return network ? network->type.dtype : SL_DTYPE_f32;
}

/* What keys are kept as, and values with them.  By default as exact as the weights deserve: where
 * experts are coded in a few bits and activations too, 16 bits are far below their noise: integers
 * on the CPU, which is faster with them than with halves, and halves on a GPU. */
static sl_status choose_kv_dtype(const char *wanted, const sl_model *model,
                                 const sl_compile_how *how, sl_dtype *out, sl_error *err) {
    const sl_dtype weights = sl_model_main_dtype(model);
    const bool coarse =
        model->device && how->int8_activations && sl_dtype_infos[weights].kind == SL_KIND_PANEL;
    const bool gpu = sl_device_is_cuda(model->device);
    if (!wanted || strcmp(wanted, "auto") == 0)
        *out = coarse ? (gpu ? SL_DTYPE_f16 : SL_DTYPE_k16) : SL_DTYPE_f32;
    else if (strcmp(wanted, "i16") == 0 && gpu)
        return sl_fail(err, SL_UNSUPPORTED, "keys and values as 'i16': on a GPU f16 or f32");
    else if (strcmp(wanted, "i16") == 0)
        *out = SL_DTYPE_k16;
    else if (strcmp(wanted, "f16") == 0)
        *out = SL_DTYPE_f16;
    else if (strcmp(wanted, "f32") == 0)
        *out = SL_DTYPE_f32;
    else
        return sl_fail(err, SL_INVALID, "keys and values as '%s': auto, i16, f16 or f32", wanted);
    return SL_OK;
}

static sl_status open_steps(sl_model *model, const sl_model_options *options,
                            const sl_architecture *architecture, sl_error *err) {
    model->slots = options->max_sessions;
    model->chunk_tokens = sl_device_is_cuda(model->device) ? GPU_CHUNK : CPU_CHUNK;
    model->context_tokens = options->context_tokens ? options->context_tokens : DEFAULT_CONTEXT;
    if (model->context_tokens > model->config.context) {
        if (options->context_tokens)
            return sl_fail(err, SL_INVALID, "a context of %u tokens: the model has %u",
                           options->context_tokens, model->config.context);
        model->context_tokens = model->config.context;
    }
    sl_steps_options how = {
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
    SL_TRY(sl_how_parse(options->compile, &how.how, err));
    if (sl_device_is_cuda(model->device)) how.how.model = SL_SCHEDULE_EDGES;
    SL_TRY(choose_kv_dtype(options->kv, model, &how.how, &how.shape.kv_dtype, err));
    return sl_steps_create(&how, &model->steps, err);
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

/* Compiling the first step asks for every weight. */
static sl_status load_and_open_steps(sl_model *model, const sl_model_options *options,
                                     const sl_architecture *architecture, sl_error *err) {
    sl_reader *reader = NULL;
    SL_TRY(open_reader(model, options, LOADING_DEPTH, &reader, err));
    allow_loading(model, options, reader);
    const sl_status status = open_steps(model, options, architecture, err);
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
    SL_TRY(load_and_open_steps(model, options, architecture, err));
    model->weights_seconds = sl_clock_lap(&clock);
    SL_TRY(sl_model_check_unused(model->source, &model->config, &model->arena, &model->note, err));
    SL_TRY(sl_model_text_load(model, err));
    model->text_seconds = sl_clock_lap(&clock);
    return SL_OK;
}

sl_status sl_model_open(const char *path, const sl_model_options *given, sl_model **out,
                        sl_error *err) {
    const sl_model_options options = complete(given);
    const sl_allocator allocator = *sl_allocator_or_default(&options.allocator);
    sl_model *model = sl_allocate(&allocator, sizeof *model, _Alignof(sl_model));
    if (!model) return sl_no_memory(err, "a model", sizeof *model);
    model->allocator = allocator;
    sl_arena_init(&model->arena, &model->allocator);
    sl_weights_init(&model->weights, NULL, &model->allocator);
    (void)pthread_mutex_init(&model->lock, NULL);
    const sl_status status = open_parts(model, path, &options, err);
    if (status == SL_OK)
        *out = model;
    else
        sl_model_close(model);
    return status;
}

void sl_model_close(sl_model *model) {
    if (!model) return;
    const sl_allocator allocator = model->allocator;
    sl_model_text_unload(&model->text);
    sl_steps_destroy(model->steps);
    sl_expert_store_destroy(model->store); /* its memory may be the device's */
    if (model->device) model->device->ops->destroy(model->device);
    if (model->reader) sl_reader_close(model->reader);
    sl_weights_deinit(&model->weights);
    sl_source_close(model->source);
    sl_arena_deinit(&model->arena);
    (void)pthread_mutex_destroy(&model->lock);
    sl_release(&allocator, model, sizeof *model, _Alignof(sl_model));
}

/* The type that most bytes of resident matrices have. */
static const char *resident_dtype(const sl_model *model) {
    uint64_t bytes[SL_DTYPE_COUNT] = {0};
    int most = SL_DTYPE_f32;
    for (uint32_t i = 0; i < model->weights.count; i++) {
        const sl_type *type = &model->weights.items[i].type;
        bytes[type->dtype] += sl_type_bytes(type);
        if (bytes[type->dtype] > bytes[most]) most = (int)type->dtype;
    }
    return sl_dtype_infos[most].name;
}

static uint64_t count_parameters(const sl_model *model) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->weights.count; i++)
        count += (uint64_t)sl_type_elements(&model->weights.items[i].type);
    const sl_model_config *c = &model->config;
    return count + sl_expert_table_count(&model->experts) * 3 * c->expert_width * c->hidden;
}

sl_model_info sl_model_describe(const sl_model *model) {
    const sl_model_config *c = &model->config;
    const sl_expert_stats experts = sl_expert_store_stats(model->store);
    const bool cuda = sl_device_is_cuda(model->device);
    const sl_cpu_info cpu = model->device && !cuda ? sl_device_cpu_info(model->device)
                                                   : (sl_cpu_info){.isa = "none", .threads = 1};
    const sl_cuda_info gpu = cuda ? sl_device_cuda_info(model->device) : (sl_cuda_info){0};
    sl_model_info info = {
        .architecture = c->model_type,
        .format = sl_source_format(model->source),
        .device = model->device ? model->device->ops->name : "ref",
        .device_name = model->device_name,
        .device_bytes = gpu.weight_bytes + gpu.state_bytes + gpu.workspace_bytes + gpu.expert_bytes,
        .device_slot_count = gpu.expert_slots,
        .device_expert_bytes = gpu.expert_bytes,
        .isa = cpu.isa,
        .reader = sl_reader_name(model->reader),
        .vocab = c->vocab,
        .hidden = c->hidden,
        .layers = c->layers,
        .experts = c->experts,
        .experts_used = c->experts_used,
        .context_tokens = model->context_tokens,
        .chunk_tokens = model->chunk_tokens,
        .max_context_tokens = c->context,
        .threads = cpu.threads,
        .parameters = count_parameters(model),
        .resident_bytes = model->weights.matrix_bytes + model->weights.converted_bytes,
        .expert_bytes = model->experts.total_bytes,
        .expert_count = sl_expert_table_count(&model->experts),
        .state_bytes = sl_steps_describe(model->steps).state_bytes,
        .workspace_bytes = cuda ? gpu.workspace_bytes : cpu.workspace_bytes,
        .budget_bytes = experts.used_bytes,
        .slot_count = experts.slot_count,
        .slot_bytes = experts.slot_bytes,
        .minimum_budget_bytes = sl_expert_store_minimum(&model->experts, model->reader),
        .note = model->note,
        .resident_dtype = resident_dtype(model),
        .expert_dtype = sl_dtype_infos[sl_model_main_dtype(model)].name,
        .files_seconds = model->files_seconds,
        .memory_seconds = model->memory_seconds,
        .weights_seconds = model->weights_seconds,
        .text_seconds = model->text_seconds,
    };
    for (uint32_t l = 0; l < c->layers; l++) info.full_attention_layers += !c->layer[l].linear;
    for (uint32_t f = 0; f < sl_source_file_count(model->source); f++)
        info.file_bytes += sl_source_file_bytes(model->source, f);
    return info;
}
