#include "engine/text/model_text.h"
#include <jansson.h>
#include <string.h>

enum { MAX_TEMPERATURE = 1000 };

static json_t *load_json(const sl_source *source, const char *name, size_t flags) {
    size_t bytes = 0;
    const char *text = sl_source_text(source, name, &bytes);
    return text ? json_loadb(text, bytes, flags, NULL) : NULL;
}

static void add_end(sl_model_text *text, sl_token token) {
    for (uint32_t i = 0; i < text->end_count; i++)
        if (text->end_tokens[i] == token) return;
    if (token >= 0 && text->end_count < SL_MAX_END_TOKENS)
        text->end_tokens[text->end_count++] = token;
}

/* eos_token_id is a number or a list of numbers. */
static void add_ends(sl_model_text *text, const json_t *object) {
    const json_t *eos = json_object_get(object, "eos_token_id");
    if (json_is_integer(eos)) add_end(text, (sl_token)json_integer_value(eos));
    for (size_t i = 0; i < json_array_size(eos); i++)
        if (json_is_integer(json_array_get(eos, i)))
            add_end(text, (sl_token)json_integer_value(json_array_get(eos, i)));
}

/* A special token is a string or an object with its content. */
static const char *special(sl_arena *arena, const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    const char *text = json_string_value(value);
    char *copy = text ? sl_arena_copy_text(arena, text, strlen(text)) : NULL;
    return copy ? copy : "";
}

static void set_real(const json_t *generation, const char *key, double most, float *to) {
    const json_t *value = json_object_get(generation, key);
    if (!json_is_number(value)) return;
    const double number = json_number_value(value);
    if (number >= 0 && number <= most) *to = (float)number;
}

/* Only a model that says so is greedy: many repeat themselves without end when they are. */
static void load_sampling(sl_model_text *text, const json_t *generation) {
    static const sl_sampling unfiltered = {.temperature = 1};
    static const sl_sampling usual = {
        .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
    const json_t *samples = json_object_get(generation, "do_sample");
    const json_t *top_k = json_object_get(generation, "top_k");
    if (json_is_false(samples)) return;
    text->sampling = json_is_true(samples) ? unfiltered : usual;
    set_real(generation, "temperature", MAX_TEMPERATURE, &text->sampling.temperature);
    set_real(generation, "top_p", 1, &text->sampling.top_p);
    set_real(generation, "min_p", 1, &text->sampling.min_p);
    if (json_is_integer(top_k) && json_integer_value(top_k) <= INT32_MAX)
        text->sampling.top_k =
            json_integer_value(top_k) > 0 ? (uint32_t)json_integer_value(top_k) : 0;
}

/* Penalties are the only published settings that sampling lacks. */
static void note_penalty(sl_model_text *text, const json_t *generation, sl_arena *arena) {
    const json_t *penalty = json_object_get(generation, "repetition_penalty");
    if (!json_is_number(penalty) || json_number_value(penalty) == 1) return;
    text->note = sl_arena_format(arena, "the model's repetition penalty of %g is not applied",
                                 json_number_value(penalty));
}

static void load_ends(sl_model_text *text, const sl_source *source, const json_t *tokenizer_config,
                      sl_arena *arena) {
    json_t *generation = load_json(source, "generation_config.json", 0);
    json_t *config = load_json(source, "config.json", 0);
    add_ends(text, generation);
    add_ends(text, config);
    add_ends(text, json_object_get(config, "text_config"));
    load_sampling(text, generation);
    note_penalty(text, generation, arena);
    json_decref(generation);
    json_decref(config);
    text->bos = special(arena, tokenizer_config, "bos_token");
    text->eos = special(arena, tokenizer_config, "eos_token");
    if (text->tokenizer && text->eos[0])
        add_end(text, sl_tokenizer_find(text->tokenizer, text->eos, strlen(text->eos)));
}

/* A string, or a list of named templates, of which "default" is used. */
static const char *embedded_template(const json_t *config) {
    const json_t *value = json_object_get(config, "chat_template");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(item, "template"));
    }
    return json_string_value(value);
}

static sl_status load_template(const sl_source *source, const json_t *tokenizer_config,
                               const sl_allocator *allocator, sl_template **out, sl_error *err) {
    size_t bytes = 0;
    const char *text = sl_source_text(source, "chat_template.jinja", &bytes);
    if (!text) {
        text = embedded_template(tokenizer_config);
        bytes = text ? strlen(text) : 0;
    }
    if (!text) return SL_OK;
    return sl_template_create(text, bytes, allocator, out, err);
}

sl_status sl_model_text_load(sl_model_text *text, const sl_source *source, sl_arena *arena,
                             const sl_allocator *allocator, sl_error *err) {
    size_t bytes = 0;
    const char *json = sl_source_text(source, "tokenizer.json", &bytes);
    text->bos = text->eos = "";
    if (json) SL_TRY(sl_tokenizer_create(json, bytes, allocator, &text->tokenizer, err));
    /* Some exporters write "no limit" as an integer beyond 64 bits. */
    json_t *config = load_json(source, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL);
    load_ends(text, source, config, arena);
    const sl_status status = load_template(source, config, allocator, &text->chat, err);
    json_decref(config);
    return status;
}

void sl_model_text_unload(sl_model_text *text) {
    sl_tokenizer_destroy(text->tokenizer);
    sl_template_destroy(text->chat);
}
