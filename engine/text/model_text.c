/* model_text.c - The text side of a model: tokenizer, chat template, what ends an answer, and the
 * sampling it was published with. */
#include "engine/model.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

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
static const char *special(sl_model *model, const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    const char *text = json_string_value(value);
    char *copy = text ? sl_arena_copy_text(&model->arena, text, strlen(text)) : NULL;
    return copy ? copy : "";
}

static void load_sampling(sl_model_text *text, const json_t *generation) {
    if (!json_is_true(json_object_get(generation, "do_sample"))) return;
    const json_t *temperature = json_object_get(generation, "temperature");
    text->sampling.temperature = temperature ? (float)json_number_value(temperature) : 1.0f;
    text->sampling.top_p = (float)json_number_value(json_object_get(generation, "top_p"));
    text->sampling.min_p = (float)json_number_value(json_object_get(generation, "min_p"));
    const json_int_t top_k = json_integer_value(json_object_get(generation, "top_k"));
    text->sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
}

static void load_ends(sl_model *model, const json_t *tokenizer_config) {
    sl_model_text *text = &model->text;
    json_t *generation = load_json(model->source, "generation_config.json", 0);
    json_t *config = load_json(model->source, "config.json", 0);
    add_ends(text, generation);
    add_ends(text, config);
    add_ends(text, json_object_get(config, "text_config"));
    load_sampling(text, generation);
    json_decref(generation);
    json_decref(config);
    text->bos = special(model, tokenizer_config, "bos_token");
    text->eos = special(model, tokenizer_config, "eos_token");
    if (text->tokenizer && text->eos[0])
        add_end(text, sl_tokenizer_find(text->tokenizer, text->eos, strlen(text->eos)));
}

/* A string, or a list of named templates of which "default" is meant. */
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

static sl_status load_template(sl_model *model, const json_t *tokenizer_config, sl_error *err) {
    size_t bytes = 0;
    const char *text = sl_source_text(model->source, "chat_template.jinja", &bytes);
    if (!text) {
        text = embedded_template(tokenizer_config);
        bytes = text ? strlen(text) : 0;
    }
    if (!text) return SL_OK;
    return sl_template_create(text, bytes, &model->allocator, &model->text.chat, err);
}

sl_status sl_model_text_load(sl_model *model, sl_error *err) {
    size_t bytes = 0;
    const char *json = sl_source_text(model->source, "tokenizer.json", &bytes);
    model->text.bos = model->text.eos = "";
    if (json)
        SL_TRY(sl_tokenizer_create(json, bytes, &model->allocator, &model->text.tokenizer, err));
    /* Exporters write "no limit" as an integer beyond 64 bits. */
    json_t *config = load_json(model->source, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL);
    load_ends(model, config);
    const sl_status status = load_template(model, config, err);
    json_decref(config);
    return status;
}

void sl_model_text_unload(sl_model_text *text) {
    sl_tokenizer_destroy(text->tokenizer);
    sl_template_destroy(text->chat);
}

static sl_status need_tokenizer(const sl_model *model, sl_error *err) {
    if (model->text.tokenizer) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "the model has no tokenizer.json");
}

sl_status sl_model_tokenize(const sl_model *model, const char *text, size_t bytes, sl_token *tokens,
                            size_t capacity, size_t *out_count, sl_error *err) {
    SL_TRY(need_tokenizer(model, err));
    return sl_tokenizer_encode(model->text.tokenizer, text, bytes, tokens, capacity, out_count,
                               err);
}

const char *sl_model_token_text(const sl_model *model, sl_token token, size_t *out_bytes) {
    if (model->text.tokenizer) return sl_tokenizer_text(model->text.tokenizer, token, out_bytes);
    *out_bytes = 0;
    return "";
}

size_t sl_model_strip_start(const sl_model *model) {
    return model->text.tokenizer ? sl_tokenizer_strip_start(model->text.tokenizer) : 0;
}

size_t sl_model_begin_tokens(const sl_model *model, const sl_token **out) {
    *out = NULL;
    return model->text.tokenizer ? sl_tokenizer_before(model->text.tokenizer, out) : 0;
}

int sl_model_token_ends(const sl_model *model, sl_token token) {
    for (uint32_t i = 0; i < model->text.end_count; i++)
        if (model->text.end_tokens[i] == token) return 1;
    return 0;
}

int sl_model_token_special(const sl_model *model, sl_token token) {
    return model->text.tokenizer && sl_tokenizer_is_special(model->text.tokenizer, token);
}

sl_sampling sl_model_sampling(const sl_model *model) {
    return model->text.sampling;
}

static void set_missing(json_t *object, const char *key, const char *text) {
    if (!json_object_get(object, key)) (void)json_object_set_new(object, key, json_string(text));
}

/* The caller's variables with the model's own special tokens beside them. */
static sl_status complete_variables(const sl_model *model, const char *json, char **out,
                                    sl_error *err) {
    json_error_t problem;
    json_t *object = json_loads(json, 0, &problem);
    if (!json_is_object(object)) {
        json_decref(object);
        return sl_fail(err, SL_INVALID, "chat variables: %s",
                       object ? "expected an object" : problem.text);
    }
    set_missing(object, "bos_token", model->text.bos);
    set_missing(object, "eos_token", model->text.eos);
    *out = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return *out ? SL_OK : sl_no_memory(err, "chat variables", strlen(json));
}

sl_status sl_model_render_chat(const sl_model *model, const char *variables_json, char **out_text,
                               sl_error *err) {
    if (!model->text.chat) return sl_fail(err, SL_UNSUPPORTED, "the model has no chat template");
    sl_status status = SL_OK;
    char *variables = NULL, *rendered = NULL;
    size_t bytes = 0;
    sl_arena arena;
    sl_arena_init(&arena, &model->allocator);
    SL_TRY_ELSE(done, complete_variables(model, variables_json, &variables, err));
    SL_TRY_ELSE(done, sl_template_render(model->text.chat, variables, strlen(variables), &arena,
                                         &rendered, &bytes, err));
    *out_text = malloc(bytes + 1);
    if (*out_text)
        memcpy(*out_text, rendered, bytes + 1);
    else
        status = sl_no_memory(err, "rendered chat", bytes);
done:
    free(variables);
    sl_arena_deinit(&arena);
    return status;
}

void sl_text_free(char *text) {
    free(text);
}

size_t sl_text_stream_push(sl_text_stream *stream, const char *bytes, size_t count, char *out) {
    return sl_utf8_stream_push(stream, bytes, count, out);
}

size_t sl_text_stream_finish(sl_text_stream *stream, char *out) {
    return sl_utf8_stream_finish(stream, out);
}
