/* info.c - Endpoints that say what is served: health, models, props. */
#include "apps/server/server.h"
#include <string.h>

bool server_handle_health(server_exchange *x, server_reply *reply, server_error *err) {
    (void)err;
    reply->status = x->server->draining ? 503 : 200;
    reply->json = json_pack("{s:s}", "status", x->server->draining ? "draining" : "ok");
    return true;
}

static json_t *openai_model(const server_model *m) {
    const sl_model_info *info = &m->info;
    return json_pack(
        "{s:s, s:s, s:I, s:s, s:I, s:I, s:{s:I, s:I}, s:{s:I, s:I, s:I, s:I}}", "id", m->id,
        "object", "model", "created", (json_int_t)m->created, "owned_by", "sluice", "max_model_len",
        (json_int_t)info->context_tokens, "context_length", (json_int_t)info->context_tokens,
        "top_provider", "context_length", (json_int_t)info->context_tokens, "max_completion_tokens",
        (json_int_t)info->context_tokens, "meta", "n_ctx_train",
        (json_int_t)info->max_context_tokens, "n_vocab", (json_int_t)info->vocab, "n_params",
        (json_int_t)info->parameters, "size", (json_int_t)info->file_bytes);
}

static json_t *anthropic_model(const server_model *m) {
    char time[32] = "";
    struct tm at;
    if (gmtime_r(&m->created, &at)) (void)strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &at);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "type", "model", "id", m->id, "display_name",
                     m->id, "created_at", time, "max_input_tokens",
                     (json_int_t)m->info.context_tokens, "max_tokens",
                     (json_int_t)m->info.context_tokens);
}

static json_t *loaded_json(const server_exchange *x) {
    return x->version ? anthropic_model(&x->server->model) : openai_model(&x->server->model);
}

/* Models of a folder that are not loaded are known by name only. */
static json_t *unloaded_json(const server_exchange *x, const char *name) {
    if (x->version)
        return json_pack("{s:s, s:s, s:s, s:s}", "type", "model", "id", name, "display_name", name,
                         "created_at", "1970-01-01T00:00:00Z");
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "id", name, "object", "model", "created",
                     (json_int_t)0, "owned_by", "sluice", "status", "unloaded");
}

/* The name of the model that is loaded; NULL: none. */
static const char *loaded_name(server_exchange *x) {
    return server_exchange_use_present(x) ? x->server->model.id : NULL;
}

static json_t *model_list(server_exchange *x) {
    const server_models *models = &x->server->models;
    const char *loaded = loaded_name(x);
    json_t *list = loaded ? json_pack("[o]", loaded_json(x)) : json_array();
    for (uint32_t i = 0; i < models->count; i++)
        if (!loaded || strcmp(models->names[i], loaded) != 0)
            (void)json_array_append_new(list, unloaded_json(x, models->names[i]));
    return list;
}

bool server_handle_models(server_exchange *x, server_reply *reply, server_error *err) {
    json_t *list = model_list(x);
    const size_t count = json_array_size(list);
    (void)err;
    reply->json =
        x->version ? json_pack("{s:o, s:b, s:O?, s:O?}", "data", list, "has_more", 0, "first_id",
                               json_object_get(json_array_get(list, 0), "id"), "last_id",
                               json_object_get(json_array_get(list, count ? count - 1 : 0), "id"))
                   : json_pack("{s:s, s:o}", "object", "list", "data", list);
    return true;
}

bool server_handle_model(server_exchange *x, server_reply *reply, server_error *err) {
    const char *loaded = loaded_name(x);
    if (loaded && strcmp(x->argument, loaded) == 0) {
        reply->json = loaded_json(x);
        return true;
    }
    if (server_models_has(&x->server->models, x->argument)) {
        reply->json = unloaded_json(x, x->argument);
        return true;
    }
    (void)server_refuse(err, 404, "model", "there is no model '%s'", x->argument);
    err->code = "model_not_found";
    return false;
}

static json_t *defaults_json(const server_model *model) {
    sl_sampler_options defaults = {.struct_size = sizeof defaults};
    if (sl_sampler_defaults(model->model, &defaults, NULL) != SL_OK) return json_object();
    return json_pack("{s:f, s:i, s:f, s:f, s:f}", "temperature", (double)defaults.temperature,
                     "top_k", (int)defaults.top_k, "top_p", (double)defaults.top_p, "min_p",
                     (double)defaults.min_p, "repeat_penalty", (double)defaults.repeat_penalty);
}

static json_t *options_json(void) {
    sl_sampler_option row = {.struct_size = sizeof row};
    json_t *list = json_array();
    for (uint32_t i = 0; sl_sampler_option_at(i, &row, NULL) == SL_OK; i++)
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:s}", "name",
                                                    row.name, "aliases", row.aliases, "kind",
                                                    row.kind, "least", row.least, "most", row.most,
                                                    "usual", row.usual, "help", row.help));
    return list;
}

bool server_handle_props(server_exchange *x, server_reply *reply, server_error *err) {
    const server_model *m = &x->server->model;
    if (!server_exchange_look(x, err)) return false;
    reply->json = json_pack(
        "{s:{s:I, s:o}, s:i, s:s, s:s, s:s, s:b, s:b, s:s, s:{s:b, s:b}, s:o}",
        "default_generation_settings", "n_ctx", (json_int_t)m->info.context_tokens, "params",
        defaults_json(m), "total_slots", (int)x->server->options.sessions, "model_alias", m->id,
        "architecture", m->info.architecture, "message_family", m->family, "has_chat_template",
        sl_model_has_chat_template(m->model), "is_sleeping", 0, "build_info", sl_version(),
        "modalities", "vision", 0, "audio", 0, "samplers", options_json());
    return true;
}
