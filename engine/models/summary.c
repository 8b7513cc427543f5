#include "engine/models/summary.h"
#include "engine/formats/json.h"
#include "engine/models/architecture.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    sl_source *source;
    sl_arena arena;
    sl_weights weights;
    sl_model_config config;
    sl_expert_table experts;
} reading;

/* Also of a model whose type is unknown to us. */
static void read_type(const reading *r, sl_model_summary *out) {
    size_t bytes = 0;
    sl_error unused;
    json_t *config = NULL;
    const char *text = sl_source_text(r->source, "config.json", &bytes);
    if (!text || sl_json_load("config.json", text, bytes, &config, &unused) != SL_OK) return;
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (type) (void)snprintf(out->architecture, sizeof out->architecture, "%s", type);
    json_decref(config);
}

static void read_files(const reading *r, sl_model_summary *out) {
    out->format = sl_source_format(r->source);
    for (uint32_t f = 0; f < sl_source_file_count(r->source); f++)
        out->file_bytes += sl_source_file_bytes(r->source, f);
    read_type(r, out);
}

static void count(const reading *r, sl_model_summary *out) {
    const sl_model_config *c = &r->config;
    const uint64_t experts = sl_expert_table_count(&r->experts);
    (void)snprintf(out->architecture, sizeof out->architecture, "%s", c->model_type);
    out->layers = c->layers;
    out->experts = c->experts;
    out->experts_used = c->experts_used;
    out->max_context_tokens = c->context;
    out->resident_bytes = sl_weights_bytes(&r->weights);
    out->expert_bytes = r->experts.memory_bytes;
    if (experts) out->least_expert_bytes = out->expert_bytes / experts * c->experts_used;
    for (uint32_t i = 0; i < r->weights.count; i++)
        out->parameters += (uint64_t)sl_type_elements(&r->weights.items[i].type);
    out->parameters += experts * 3 * c->expert_width * c->hidden;
}

static sl_status summarise(reading *r, const char *path, const sl_allocator *allocator,
                           sl_model_summary *out, sl_error *err) {
    SL_TRY(sl_source_open(path, allocator, &r->source, err));
    read_files(r, out);
    r->weights.source = r->source;
    SL_TRY(sl_model_config_load(r->source, &r->arena, &r->config, &r->experts, err));
    SL_TRY(sl_architecture_list_weights(&r->config, &r->weights, &r->experts, err));
    count(r, out);
    return SL_OK;
}

sl_status sl_model_summarise(const char *path, const sl_allocator *allocator, sl_model_summary *out,
                             sl_error *err) {
    reading r = {0};
    sl_error why;
    *out = (sl_model_summary){.format = ""};
    sl_arena_init(&r.arena, allocator);
    sl_weights_init(&r.weights, NULL, allocator);
    const sl_status status = summarise(&r, path, allocator, out, &why);
    sl_weights_deinit(&r.weights);
    sl_source_close(r.source);
    sl_arena_deinit(&r.arena);
    if (status == SL_NO_MEMORY) return sl_fail(err, status, "%s", why.message);
    if (status != SL_OK) (void)snprintf(out->problem, sizeof out->problem, "%s", why.message);
    return SL_OK;
}
