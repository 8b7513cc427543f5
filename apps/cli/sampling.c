#include "apps/cli/sampling.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool cli_sampler_check(cli_command command, const char *flag, const char *value) {
    sl_sampler_options scratch = {.struct_size = sizeof scratch};
    sl_sampler_option row = {.struct_size = sizeof row};
    sl_error err;
    for (uint32_t i = 0; value && sl_sampler_option_at(i, &row, NULL) == SL_OK; i++) {
        if (strcmp(row.flag, flag) != 0) continue;
        if (sl_sampler_set(&scratch, row.name, value, &err) == SL_OK) return true;
        (void)cli_misuse(command, "--%s: %s", flag, err.message);
        return false;
    }
    return true;
}

sl_sampler_options cli_model_samplers(const sl_model *model) {
    sl_sampler_options options = {.struct_size = sizeof options};
    if (sl_sampler_defaults(model, &options, NULL) == SL_OK) return options;
    return (sl_sampler_options){.struct_size = sizeof options};
}

/* ---- biases ---- */

typedef struct {
    sl_logit_bias *items; /* released with free */
    uint32_t count;
} bias_list;

static bool wrong_bias(const char *text) {
    (void)cli_fail_text("--logit-bias: expected TOKEN=B with an id or a text and a number or -inf, "
                        "got '%s'",
                        text);
    return false;
}

static bool add_bias(bias_list *list, sl_token token, float bias) {
    sl_logit_bias *larger = realloc(list->items, (list->count + 1) * sizeof *larger);
    if (!larger) {
        (void)cli_fail_text("no memory for biases");
        return false;
    }
    larger[list->count++] = (sl_logit_bias){token, bias};
    list->items = larger;
    return true;
}

/* All tokens of a text. */
static bool add_text_bias(const sl_model *model, const char *text, size_t bytes, float bias,
                          bias_list *list) {
    sl_token tokens[64];
    size_t count = 0;
    sl_error err;
    if (sl_model_tokenize(model, text, bytes, tokens, 64, &count, &err) != SL_OK) {
        (void)cli_fail(&err);
        return false;
    }
    if (count > 64) return wrong_bias(text);
    for (size_t i = 0; i < count; i++)
        if (!add_bias(list, tokens[i], bias)) return false;
    return true;
}

static bool read_bias(const sl_model *model, const char *text, bias_list *list) {
    const char *equals = strrchr(text, '=');
    char *end;
    if (!equals || equals == text) return wrong_bias(text);
    const double bias = strtod(equals + 1, &end);
    if (end == equals + 1 || *end || isnan(bias) || bias > 1e6) return wrong_bias(text);
    if (strspn(text, "0123456789") != (size_t)(equals - text))
        return add_text_bias(model, text, (size_t)(equals - text), (float)bias, list);
    errno = 0;
    const unsigned long id = strtoul(text, NULL, 10);
    if (errno || id > INT32_MAX) return wrong_bias(text);
    return add_bias(list, (sl_token)id, (float)bias);
}

/* ---- the sampler ---- */

static sl_status take_options(const cli_options *given, sl_sampler_options *options,
                              sl_error *err) {
    sl_status status = SL_OK;
#define SAMPLER_PLAIN(...)
#define SAMPLER_LIST(...)
#define SAMPLER(FIELD, ...)                                                                        \
    if (given->FIELD##_given && status == SL_OK)                                                   \
        status = sl_sampler_set(options, #FIELD, given->FIELD, err);
#include "sluice/samplers.def"
    return status;
}

static bool report(const sl_error *err) {
    (void)cli_fail(err);
    return false;
}

bool cli_open_sampler(cli_conversation *c) {
    const cli_options *given = c->options;
    sl_sampler_options *options = &c->sampler_options;
    bias_list biases = {0};
    sl_error err;
    *options = cli_model_samplers(c->model);
    options->temperature = c->sampling.temperature;
    options->top_k = c->sampling.top_k;
    options->top_p = c->sampling.top_p;
    options->min_p = c->sampling.min_p;
    options->seed = c->sampling.seed;
    /* A penalty of one's own is for the usual number of tokens. */
    if (given->repeat_penalty_given) options->repeat_last_n = 0;
    options->logprobs = given->logprobs_given ? given->logprobs + 1 : 0;
    if (take_options(given, options, &err) != SL_OK) return report(&err);
    if (given->dry_breakers.count) {
        options->dry_breakers = given->dry_breakers.items;
        options->dry_breaker_count = (uint32_t)given->dry_breakers.count;
        if (given->dry_breakers.count == 1 && !given->dry_breakers.items[0][0])
            options->dry_breaker_count = 0;
    }
    bool good = true;
    for (int i = 0; good && i < given->logit_bias.count; i++)
        good = read_bias(c->model, given->logit_bias.items[i], &biases);
    options->logit_bias = biases.items;
    options->logit_bias_count = biases.count;
    if (good && sl_sampler_create(c->model, options, &c->sampler, &err) != SL_OK)
        good = report(&err);
    options->logit_bias = NULL; /* copied */
    free(biases.items);
    if (good && given->stops.count &&
        sl_stops_create(given->stops.items, (uint32_t)given->stops.count, &c->stops, &err) != SL_OK)
        good = report(&err);
    return good;
}

/* ---- what is set ---- */

typedef struct {
    char *text;
    size_t length;
} option_text;

static void add_number(option_text *to, const char *flag, double value) {
    if (value == 0 || to->length >= CLI_SAMPLERS_TEXT) return;
    if (value == SL_SAMPLER_NONE) value = 0;
    to->length += (size_t)snprintf(to->text + to->length, CLI_SAMPLERS_TEXT - to->length, ", %s %g",
                                   flag, value);
}

static void add_order(option_text *to, const char *flag, const char *names) {
    if (!names || to->length >= CLI_SAMPLERS_TEXT) return;
    to->length += (size_t)snprintf(to->text + to->length, CLI_SAMPLERS_TEXT - to->length, ", %s %s",
                                   flag, names);
}

const char *cli_samplers_text(const sl_sampler_options *o, char text[CLI_SAMPLERS_TEXT]) {
    option_text to = {.text = text};
    text[0] = '\0';
#define add_real  add_number
#define add_whole add_number
#define add_onoff add_number
#define add_count add_number
#define SAMPLER_PLAIN(...)
#define SAMPLER_LIST(...)
#define SAMPLER(FIELD, KIND, ALIASES, FLAG, ...) add_##KIND(&to, FLAG, o->FIELD);
#include "sluice/samplers.def"
    return text;
}

static void set_number(json_t *object, const char *name, double value) {
    if (value == 0) return;
    cli_json_set(object, name, json_real(value == SL_SAMPLER_NONE ? 0 : value));
}

static void set_order(json_t *object, const char *name, const char *names) {
    if (names) cli_json_set(object, name, json_string(names));
}

void cli_samplers_json(const sl_sampler_options *o, json_t *object) {
#define set_real  set_number
#define set_whole set_number
#define set_onoff set_number
#define set_count set_number
#define SAMPLER_PLAIN(...)
#define SAMPLER_LIST(...)
#define SAMPLER(FIELD, KIND, ...) set_##KIND(object, #FIELD, o->FIELD);
#include "sluice/samplers.def"
}

/* ---- log-probabilities ---- */

static json_t *logprob_json(const sl_model *model, const sl_logprob *item) {
    size_t bytes = 0;
    const char *text = sl_model_token_text(model, item->token, &bytes);
    json_t *list = json_array();
    for (size_t i = 0; i < bytes; i++) cli_json_append(list, json_integer((unsigned char)text[i]));
    return json_pack("{s:o, s:i, s:f, s:o}", "token", cli_json_text(text, bytes), "id",
                     (int)item->token, "logprob", item->logprob, "bytes", list);
}

json_t *cli_logprobs_json(const sl_model *model, const sl_logprob *items, uint32_t each,
                          size_t count) {
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++, items += each) {
        json_t *token = logprob_json(model, items), *top = json_array();
        for (uint32_t k = 1; k < each; k++) cli_json_append(top, logprob_json(model, &items[k]));
        cli_json_set(token, "top_logprobs", top);
        cli_json_append(all, token);
    }
    return all;
}
