/* model.c - Models and devices (sluice/sluice.h). */
#include "engine/session/model.h"
#include "api/needs.h"
#include "base/structs.h"
#include "engine/session/memory.h"
#include <string.h>

const char *sl_version(void) {
    return SL_VERSION;
}

static sl_status complete(const sl_model_options *given, sl_model_options *out, sl_error *err) {
    *out = (sl_model_options){0};
    SL_TRY(SL_STRUCT_TAKE(sl_model_options, out, given, err));
    if (out->max_sessions == 0) out->max_sessions = 1;
    if (out->max_sessions > SL_MAX_SESSIONS) out->max_sessions = SL_MAX_SESSIONS;
    return SL_OK;
}

sl_status sl_model_open(const char *path, const sl_model_options *given, sl_model **out,
                        sl_error *err) {
    SL_NEED(path && out);
    sl_model_options options;
    SL_TRY(complete(given, &options, err));
    return sl_model_create(path, &options, out, err);
}

void sl_model_close(sl_model *model) {
    sl_model_destroy(model);
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

/* With so many experts, of all layers together. */
static uint64_t count_parameters(const sl_model *model, uint64_t experts) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->weights.count; i++)
        count += (uint64_t)sl_type_elements(&model->weights.items[i].type);
    const sl_model_config *c = &model->config;
    return count + experts * 3 * c->expert_width * c->hidden;
}

/* With the model's lock held. */
static sl_model_info describe(const sl_model *model) {
    const sl_model_config *c = &model->config;
    const sl_expert_stats experts = sl_expert_store_stats(model->store);
    const sl_device_info *device = &model->device_info;
    const sl_device_stats stats = sl_device_stats_of(model->device);
    const uint64_t expert_count = sl_expert_table_count(&model->experts);
    sl_model_info info = {
        .architecture = c->model_type,
        .format = sl_source_format(model->source),
        .device = model->device_row->name,
        .device_name = device->hardware,
        .device_bytes = stats.taken_bytes,
        .device_slot_count = stats.expert_slots,
        .device_expert_bytes = stats.expert_bytes,
        .isa = device->isa,
        .reader = sl_reader_name(model->reader),
        .vocab = c->vocab,
        .hidden = c->hidden,
        .layers = c->layers,
        .experts = c->experts,
        .experts_used = c->experts_used,
        .context_tokens = model->context_tokens,
        .chunk_tokens = model->chunk_tokens,
        .max_context_tokens = c->context,
        .threads = device->threads,
        .parameters = count_parameters(model, expert_count),
        .active_parameters =
            count_parameters(model, c->experts ? expert_count / c->experts * c->experts_used : 0),
        .resident_bytes = sl_weights_bytes(&model->weights),
        .expert_bytes = model->experts.total_bytes,
        .expert_count = expert_count,
        .state_bytes = sl_forward_describe(model->forward).state_bytes,
        .workspace_bytes = stats.workspace_bytes,
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

sl_status sl_model_memory(const sl_model *model, sl_memory_use *out, sl_error *err) {
    SL_NEED(model && out);
    SL_TRY(SL_STRUCT_CHECK(sl_memory_use, out, err));
    sl_memory_use use;
    pthread_mutex_t *lock = &((sl_model *)(uintptr_t)model)->lock;
    (void)pthread_mutex_lock(lock);
    sl_memory_measure(model, sl_expert_store_stats(model->store).used_bytes, &use);
    (void)pthread_mutex_unlock(lock);
    SL_STRUCT_GIVE(sl_memory_use, out, &use);
    return SL_OK;
}

sl_status sl_model_describe(const sl_model *model, sl_model_info *out, sl_error *err) {
    SL_NEED(model && out);
    SL_TRY(SL_STRUCT_CHECK(sl_model_info, out, err));
    pthread_mutex_t *lock = &((sl_model *)(uintptr_t)model)->lock;
    (void)pthread_mutex_lock(lock);
    const sl_model_info info = describe(model);
    (void)pthread_mutex_unlock(lock);
    SL_STRUCT_GIVE(sl_model_info, out, &info);
    return SL_OK;
}

uint32_t sl_device_count(void) {
    uint32_t count = 0;
    while (sl_device_row_at(count)) count++;
    return count;
}

sl_status sl_device_at(uint32_t index, sl_device_item *out, sl_error *err) {
    SL_NEED(out);
    SL_TRY(SL_STRUCT_CHECK(sl_device_item, out, err));
    if (index >= sl_device_count())
        return sl_fail(err, SL_INVALID, "there are %u devices, asked for device %u",
                       sl_device_count(), index);
    const sl_device_row *row = sl_device_row_at(index);
    const sl_device_item item = {
        .name = row->name, .summary = row->summary, .runs_models = !row->checks_only};
    SL_STRUCT_GIVE(sl_device_item, out, &item);
    return SL_OK;
}
