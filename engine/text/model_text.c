#include "engine/text/model_text.h"
#include "engine/choose/options.h"
#include "engine/formats/json.h"
#include <string.h>

enum { MAX_TEMPERATURE = 1000 };

typedef struct {
    sl_model_text *text;
    const sl_source *source;
    uint32_t vocab;
    sl_arena *arena;
    sl_error *err;
} loader;

/* One more thing that is ignored; NULL: there was no memory for its text. */
static sl_status add_note(const loader *l, const char *note) {
    sl_model_text *text = l->text;
    if (note && text->note) note = sl_arena_format(l->arena, "%s; %s", text->note, note);
    if (!note) return sl_no_memory(l->err, "a note", 0);
    text->note = note;
    return SL_OK;
}

/* A file that is no JSON is noted and otherwise treated as missing: *out is NULL. */
static sl_status load_json(const loader *l, const char *name, unsigned flags, json_t **out) {
    size_t bytes = 0;
    const char *text = sl_source_text(l->source, name, &bytes);
    sl_json_problem problem;
    *out = NULL;
    if (!text) return SL_OK;
    *out = sl_json_parse(text, bytes, flags, &problem);
    if (*out) return SL_OK;
    if (problem.no_memory) return sl_no_memory(l->err, name, bytes);
    return add_note(l, sl_arena_format(l->arena, "%s is not used: not valid JSON at byte %zu: %s",
                                       name, problem.position, problem.text));
}

static void add_end(sl_model_text *text, sl_token token) {
    for (uint32_t i = 0; i < text->end_count; i++)
        if (text->end_tokens[i] == token) return;
    if (token >= 0 && text->end_count < SL_MAX_END_TOKENS)
        text->end_tokens[text->end_count++] = token;
}

static sl_status add_listed_end(const loader *l, const char *name, const json_t *id) {
    if (!json_is_integer(id)) return SL_OK;
    const json_int_t value = json_integer_value(id);
    if (value >= 0 && value < l->vocab) {
        add_end(l->text, (sl_token)value);
        return SL_OK;
    }
    return add_note(l, sl_arena_format(l->arena,
                                       "'eos_token_id' %lld of %s is not used: the vocabulary has "
                                       "%u tokens",
                                       (long long)value, name, l->vocab));
}

/* eos_token_id is a number or a list of numbers. */
static sl_status add_ends(const loader *l, const char *name, const json_t *object) {
    const json_t *eos = json_object_get(object, "eos_token_id");
    SL_TRY(add_listed_end(l, name, eos));
    for (size_t i = 0; i < json_array_size(eos); i++)
        SL_TRY(add_listed_end(l, name, json_array_get(eos, i)));
    return SL_OK;
}

/* A special token is a string or an object with its content. */
static sl_status load_special(const loader *l, const json_t *config, const char *key,
                              const char **out) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    const char *text = json_string_value(value);
    if (!text) return SL_OK;
    const char *copy = sl_arena_copy_text(l->arena, text, strlen(text));
    if (!copy) return sl_no_memory(l->err, key, strlen(text));
    *out = copy;
    return SL_OK;
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

/* Values out of range are left out.  A penalty of transformers is for the whole text. */
static void load_sampler(sl_model_text *text, const json_t *generation) {
    static const char *const keys[] = {"repetition_penalty", "repeat_last_n", "presence_penalty",
                                       "frequency_penalty",  "typical_p",     "top_n_sigma",
                                       "xtc_probability",    "xtc_threshold", "mirostat",
                                       "mirostat_tau",       "mirostat_eta"};
    const sl_sampling *plain = &text->sampling;
    sl_sampler_options *o = &text->sampler;
    o->temperature = plain->temperature;
    o->top_k = plain->top_k;
    o->top_p = plain->top_p;
    o->min_p = plain->min_p;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *value = json_object_get(generation, keys[i]);
        if (json_is_number(value)) (void)sl_option_set_number(o, keys[i], json_number_value(value));
    }
    if (o->repeat_penalty != 0 && o->repeat_last_n == 0) o->repeat_last_n = -1;
}

static sl_status load_generation(const loader *l) {
    static const char name[] = "generation_config.json";
    json_t *generation;
    SL_TRY(load_json(l, name, 0, &generation));
    sl_status status = add_ends(l, name, generation);
    load_sampling(l->text, generation);
    load_sampler(l->text, generation);
    json_decref(generation);
    return status;
}

static sl_status load_config_ends(const loader *l) {
    static const char name[] = "config.json";
    json_t *config;
    SL_TRY(load_json(l, name, 0, &config));
    sl_status status = add_ends(l, name, config);
    if (status == SL_OK) status = add_ends(l, name, json_object_get(config, "text_config"));
    json_decref(config);
    return status;
}

static sl_status load_ends(const loader *l, const json_t *tokenizer_config) {
    sl_model_text *text = l->text;
    SL_TRY(load_generation(l));
    SL_TRY(load_config_ends(l));
    SL_TRY(load_special(l, tokenizer_config, "bos_token", &text->bos));
    SL_TRY(load_special(l, tokenizer_config, "eos_token", &text->eos));
    if (text->tokenizer && text->eos[0])
        add_end(text, sl_tokenizer_find(text->tokenizer, text->eos, strlen(text->eos)));
    return SL_OK;
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

/* A template that does not parse makes rendering fail, and nothing else. */
static sl_status load_template(const loader *l, const json_t *tokenizer_config) {
    size_t bytes = 0;
    const char *text = sl_source_text(l->source, "chat_template.jinja", &bytes);
    if (!text) {
        text = embedded_template(tokenizer_config);
        bytes = text ? strlen(text) : 0;
    }
    if (!text) return SL_OK;
    sl_error *problem = &l->text->chat_problem;
    const sl_status status =
        sl_template_create(text, bytes, l->arena->allocator, &l->text->chat, problem);
    if (status == SL_OK) {
        l->text->chat_text = (sl_slice){sl_arena_copy_text(l->arena, text, bytes), bytes};
        return l->text->chat_text.text ? SL_OK : sl_no_memory(l->err, "a chat template", bytes);
    }
    if (status == SL_NO_MEMORY) return sl_fail(l->err, status, "%s", problem->message);
    return add_note(
        l, sl_arena_format(l->arena, "the chat template is not used: %s", problem->message));
}

sl_status sl_model_text_load(sl_model_text *text, const sl_source *source, uint32_t vocab,
                             sl_arena *arena, sl_error *err) {
    const loader l = {text, source, vocab, arena, err};
    size_t bytes = 0;
    const char *json = sl_source_text(source, "tokenizer.json", &bytes);
    json_t *config;
    text->bos = text->eos = "";
    if (json) SL_TRY(sl_tokenizer_create(json, bytes, arena->allocator, &text->tokenizer, err));
    /* Some exporters write "no limit" as an integer beyond 64 bits. */
    SL_TRY(load_json(&l, "tokenizer_config.json", SL_JSON_ALL_REAL, &config));
    sl_status status = load_ends(&l, config);
    if (status == SL_OK) status = load_template(&l, config);
    json_decref(config);
    return status;
}

void sl_model_text_unload(sl_model_text *text) {
    sl_tokenizer_destroy(text->tokenizer);
    sl_template_destroy(text->chat);
}
