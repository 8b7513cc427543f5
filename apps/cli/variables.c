#include "apps/cli/variables.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Templates may use the date. */
static void set_now(json_t *variables) {
    char text[32];
    const time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local))
        (void)json_object_set_new(variables, "now", json_string(text));
}

/* NAME=VALUE; a value that is JSON (true, 3) is taken as such, any other is a string. */
static void set_argument(json_t *variables, const char *argument) {
    const char *equals = strchr(argument, '=');
    char *name = strndup(argument, (size_t)(equals - argument));
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
    if (!value) value = cli_json_text(equals + 1, strlen(equals + 1));
    if (name) (void)json_object_set(variables, name, value);
    json_decref(value);
    free(name);
}

static void set_thinking(json_t *variables, bool thinks) {
    (void)json_object_set_new(variables, "enable_thinking", json_boolean(thinks));
}

static json_t *make_variables(const cli_options *options, json_t *messages, json_t *tools) {
    json_t *variables = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", 1);
    if (tools) (void)json_object_set(variables, "tools", tools);
    if (options->think) set_thinking(variables, strcmp(options->think, "off") != 0);
    for (int i = 0; i < options->template_args.count; i++)
        set_argument(variables, options->template_args.items[i]);
    set_now(variables);
    return variables;
}

static char *to_text(json_t *variables) {
    char *text = cli_json_dump(variables, JSON_COMPACT);
    json_decref(variables);
    return text;
}

char *cli_template_variables(const cli_options *options, json_t *messages, json_t *tools) {
    return to_text(make_variables(options, messages, tools));
}

static char *render(const sl_model *model, json_t *variables) {
    char *json = to_text(variables), *text = NULL;
    sl_error err;
    if (!json || sl_model_render_chat(model, json, NULL, &text, &err) != SL_OK) text = NULL;
    free(json);
    return text;
}

/* Whether a template uses a variable shows in what it makes of two values. */
void cli_note_idle_variables(const sl_model *model, const cli_options *options) {
    if (!options->think || strcmp(options->think, "hide") == 0) return;
    if (options->raw || !sl_model_has_chat_template(model)) return;
    char *texts[2];
    for (int thinks = 0; thinks < 2; thinks++) {
        json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "?");
        json_t *variables = make_variables(options, messages, NULL);
        set_thinking(variables, thinks);
        texts[thinks] = render(model, variables);
        json_decref(messages);
    }
    if (texts[0] && texts[1] && strcmp(texts[0], texts[1]) == 0)
        cli_note("--think %s has no effect: the chat template does not use enable_thinking",
                 options->think);
    for (int i = 0; i < 2; i++) sl_free(texts[i]);
}
