/* options.h - The options of a sampler: their table (sluice/samplers.def), ranges and defaults. */
#ifndef SL_ENGINE_CHOOSE_OPTIONS_H
#define SL_ENGINE_CHOOSE_OPTIONS_H
#include "base/error.h"
#include "sluice/sampling.h"
#include <stdbool.h>

/* The samplers that an order may name. */
typedef enum {
    SL_SAMPLING_PENALTIES,
    SL_SAMPLING_DRY,
    SL_SAMPLING_TOP_N_SIGMA,
    SL_SAMPLING_TOP_K,
    SL_SAMPLING_TYPICAL,
    SL_SAMPLING_TOP_P,
    SL_SAMPLING_MIN_P,
    SL_SAMPLING_XTC,
    SL_SAMPLING_TEMPERATURE,
    SL_SAMPLING_COUNT
} sl_sampling_step;

typedef struct {
    sl_sampling_step steps[SL_SAMPLING_COUNT];
    uint32_t count;
} sl_sampling_order;

/* NULL: the order of this table, which is llama.cpp's. */
SL_CHECKED sl_status sl_sampling_order_parse(const char *names, sl_sampling_order *out,
                                             sl_error *err);

uint32_t sl_option_rows(void);
/* index < sl_option_rows() */
sl_sampler_option sl_option_row(uint32_t index);
/* Sets an option of this name or alias.  `out` has all fields. */
SL_CHECKED sl_status sl_option_set(sl_sampler_options *out, const char *name, const char *value,
                                   sl_error *err);
/* The same from a number; false if there is no such option, or the value is not in its range. */
bool sl_option_set_number(sl_sampler_options *out, const char *name, double value);
/* Checks all fields, and puts the usual values where they are zero. */
SL_CHECKED sl_status sl_options_complete(sl_sampler_options *options, sl_error *err);
/* The first option that needs more than a temperature, top-k, top-p and min-p; NULL: none does.
 * The options are complete. */
const char *sl_options_beyond_plain(const sl_sampler_options *options);
/* Tokens are dropped in another way than by top-k, top-p and min-p, or in an order of its own. */
bool sl_options_need_chain(const sl_sampler_options *options);
#endif
