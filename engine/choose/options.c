#include "engine/choose/options.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum { REAL, WHOLE, SEED, ONOFF, COUNT, ORDER, LIST } option_kind;
static const char *const kind_names[] = {"real",  "whole", "seed", "onoff",
                                         "count", "order", "list"};
enum {
    kind_real = REAL,
    kind_whole = WHOLE,
    kind_seed = SEED,
    kind_onoff = ONOFF,
    kind_count = COUNT,
    kind_order = ORDER
};

typedef struct {
    const char *name, *aliases, *flag, *value, *help;
    option_kind kind;
    size_t field;
    double least, most, usual;
} option_row;

static const option_row rows[] = {
#define SAMPLER(FIELD, KIND, ALIASES, FLAG, VALUE, LEAST, MOST, USUAL, HELP)                       \
    {#FIELD,                                                                                       \
     ALIASES,                                                                                      \
     FLAG,                                                                                         \
     VALUE,                                                                                        \
     HELP,                                                                                         \
     (option_kind)kind_##KIND,                                                                     \
     offsetof(sl_sampler_options, FIELD),                                                          \
     LEAST,                                                                                        \
     MOST,                                                                                         \
     USUAL},
#define SAMPLER_PLAIN SAMPLER
#define SAMPLER_LIST(FIELD, ALIASES, FLAG, VALUE, HELP)                                            \
    {#FIELD, ALIASES, FLAG, VALUE, HELP, LIST, offsetof(sl_sampler_options, FIELD), 0, 0, 0},
#include "sluice/samplers.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

uint32_t sl_option_rows(void) {
    return ROWS;
}

sl_sampler_option sl_option_row(uint32_t index) {
    const option_row *row = &rows[index];
    return (sl_sampler_option){.struct_size = sizeof(sl_sampler_option),
                               .name = row->name,
                               .aliases = row->aliases,
                               .kind = kind_names[row->kind],
                               .flag = row->flag,
                               .value = row->value,
                               .help = row->help,
                               .least = row->least,
                               .most = row->most,
                               .usual = row->usual};
}

/* ---- names of samplers ---- */

static bool is_separator(char c) {
    return c == ';' || c == ',' || c == ' ';
}

/* `words`, separated by spaces, has this word, of which '-' means '_'. */
static bool has_word(const char *words, const char *word, size_t bytes) {
    while (*words) {
        size_t i = 0;
        while (i < bytes && words[i] == (word[i] == '-' ? '_' : word[i])) i++;
        if (i == bytes && (words[i] == ' ' || words[i] == '\0')) return true;
        words += strcspn(words, " ");
        words += *words == ' ';
    }
    return false;
}

static const char *const step_names[SL_SAMPLING_COUNT] = {
    [SL_SAMPLING_PENALTIES] = "penalties",
    [SL_SAMPLING_DRY] = "dry",
    [SL_SAMPLING_TOP_N_SIGMA] = "top_n_sigma",
    [SL_SAMPLING_TOP_K] = "top_k",
    [SL_SAMPLING_TYPICAL] = "typ_p typical_p typical",
    [SL_SAMPLING_TOP_P] = "top_p",
    [SL_SAMPLING_MIN_P] = "min_p",
    [SL_SAMPLING_XTC] = "xtc",
    [SL_SAMPLING_TEMPERATURE] = "temperature temp"};

static sl_status add_step(sl_sampling_order *order, const char *name, size_t bytes, sl_error *err) {
    uint32_t step = 0;
    while (step < SL_SAMPLING_COUNT && !has_word(step_names[step], name, bytes)) step++;
    if (step == SL_SAMPLING_COUNT)
        return sl_fail(err, SL_INVALID,
                       "sampler '%.*s' is unknown, wanted penalties, dry, top_n_sigma, top_k, "
                       "typ_p, top_p, min_p, xtc or temperature",
                       (int)(bytes < 64 ? bytes : 64), name);
    for (uint32_t i = 0; i < order->count; i++)
        if (order->steps[i] == (sl_sampling_step)step)
            return sl_fail(err, SL_INVALID, "sampler '%.*s' is given twice", (int)bytes, name);
    order->steps[order->count++] = (sl_sampling_step)step;
    return SL_OK;
}

sl_status sl_sampling_order_parse(const char *names, sl_sampling_order *out, sl_error *err) {
    *out = (sl_sampling_order){.count = 0};
    if (!names) {
        for (uint32_t i = 0; i < SL_SAMPLING_COUNT; i++)
            out->steps[out->count++] = (sl_sampling_step)i;
        return SL_OK;
    }
    for (const char *at = names; *at;) {
        while (is_separator(*at)) at++;
        size_t bytes = 0;
        while (at[bytes] && !is_separator(at[bytes])) bytes++;
        if (bytes) SL_TRY(add_step(out, at, bytes, err));
        at += bytes;
    }
    if (out->count) return SL_OK;
    return sl_fail(err, SL_INVALID, "the order of samplers is empty");
}

/* ---- setting one option ---- */

static const option_row *find_row(const char *name) {
    const size_t bytes = strlen(name);
    for (int i = 0; bytes && i < ROWS; i++)
        if (has_word(rows[i].name, name, bytes) || has_word(rows[i].aliases, name, bytes))
            return &rows[i];
    return NULL;
}

static bool in_range(const option_row *row, double value) {
    const bool whole = row->kind != REAL;
    return value >= row->least && value <= row->most && (!whole || value == floor(value));
}

static void store(sl_sampler_options *out, const option_row *row, double value) {
    void *field = (char *)out + row->field;
    switch (row->kind) {
    case REAL:
        *(float *)field = (float)value;
        break;
    case WHOLE:
        *(uint32_t *)field = (uint32_t)value;
        break;
    case SEED:
        *(uint64_t *)field = (uint64_t)value;
        break;
    case ONOFF:
        *(int *)field = value != 0;
        break;
    case COUNT:
        *(int32_t *)field = value == 0 ? SL_SAMPLER_NONE : (int32_t)value;
        break;
    case ORDER:
    case LIST:
        break;
    }
}

static sl_status wrong(const option_row *row, const char *value, sl_error *err) {
    return sl_fail(err, SL_INVALID, "%s '%.64s': wanted a %snumber from %.10g to %.10g", row->name,
                   value, row->kind == REAL ? "" : "whole ", row->least, row->most);
}

static sl_status set_seed(sl_sampler_options *out, const option_row *row, const char *value,
                          sl_error *err) {
    char *end;
    errno = 0;
    const unsigned long long seed = strtoull(value, &end, 10);
    if (errno || end == value || *end || strchr(value, '-') || seed > INT64_MAX)
        return wrong(row, value, err);
    out->seed = seed;
    return SL_OK;
}

sl_status sl_option_set(sl_sampler_options *out, const char *name, const char *value,
                        sl_error *err) {
    const option_row *row = find_row(name);
    char *end;
    if (!row || row->kind == LIST)
        return sl_fail(err, SL_INVALID, "sampling option '%.64s' %s", name,
                       row ? "is a list" : "is unknown");
    if (row->kind == ORDER) {
        sl_sampling_order order;
        SL_TRY(sl_sampling_order_parse(value, &order, err));
        out->samplers = value;
        return SL_OK;
    }
    if (row->kind == SEED) return set_seed(out, row, value, err);
    if (row->kind == ONOFF && strcmp(value, "true") == 0) value = "1";
    if (row->kind == ONOFF && strcmp(value, "false") == 0) value = "0";
    const double number = strtod(value, &end);
    if (end == value || *end || !in_range(row, number)) return wrong(row, value, err);
    store(out, row, number);
    return SL_OK;
}

bool sl_option_set_number(sl_sampler_options *out, const char *name, double value) {
    const option_row *row = find_row(name);
    if (!row || row->kind == LIST || row->kind == ORDER || !in_range(row, value)) return false;
    store(out, row, value);
    return true;
}

/* ---- all options ---- */

static double value_of(const sl_sampler_options *options, const option_row *row) {
    const void *field = (const char *)options + row->field;
    switch (row->kind) {
    case REAL:
        return (double)*(const float *)field;
    case WHOLE:
        return *(const uint32_t *)field;
    case ONOFF:
        return *(const int *)field != 0;
    case COUNT: {
        const int32_t count = *(const int32_t *)field;
        return count == SL_SAMPLER_NONE ? 0 : count;
    }
    case SEED:
    case ORDER:
    case LIST:
        return 0;
    }
    return 0;
}

static bool is_zero(const sl_sampler_options *options, const option_row *row) {
    if (row->kind == COUNT) return *(const int32_t *)((const char *)options + row->field) == 0;
    return value_of(options, row) == 0;
}

sl_status sl_options_complete(sl_sampler_options *options, sl_error *err) {
    sl_sampling_order order;
    for (int i = 0; i < ROWS; i++) {
        const option_row *row = &rows[i];
        if (row->kind == LIST || row->kind == ORDER || row->kind == SEED) continue;
        if (is_zero(options, row)) {
            if (row->usual != 0) store(options, row, row->usual);
            continue;
        }
        const double value = value_of(options, row);
        if (!in_range(row, value))
            return sl_fail(err, SL_INVALID, "sampling: %s %g, wanted %.10g to %.10g", row->name,
                           value, row->least, row->most);
    }
    return sl_sampling_order_parse(options->samplers, &order, err);
}

bool sl_options_need_chain(const sl_sampler_options *o) {
    return o->samplers || o->mirostat || o->dynatemp_range > 0 || o->typical_p < 1 ||
           o->top_n_sigma > 0 || (o->xtc_probability > 0 && o->xtc_threshold <= 0.5f);
}

const char *sl_options_beyond_plain(const sl_sampler_options *o) {
    const struct {
        bool on;
        const char *name;
    } reasons[] = {
        {o->repeat_penalty != 1 && o->repeat_last_n != SL_SAMPLER_NONE, "repeat_penalty"},
        {o->presence_penalty != 0 && o->repeat_last_n != SL_SAMPLER_NONE, "presence_penalty"},
        {o->frequency_penalty != 0 && o->repeat_last_n != SL_SAMPLER_NONE, "frequency_penalty"},
        {o->dry_multiplier > 0 && o->dry_penalty_last_n != SL_SAMPLER_NONE, "dry_multiplier"},
        {o->logit_bias_count > 0, "logit_bias"},
        {o->ignore_eos != 0, "ignore_eos"},
        {o->logprobs > 0, "logprobs"},
        {o->samplers != NULL, "samplers"},
        {o->mirostat != 0, "mirostat"},
        {o->dynatemp_range > 0, "dynatemp_range"},
        {o->typical_p < 1, "typical_p"},
        {o->top_n_sigma > 0, "top_n_sigma"},
        {o->xtc_probability > 0 && o->xtc_threshold <= 0.5f, "xtc_probability"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].on) return reasons[i].name;
    return NULL;
}
