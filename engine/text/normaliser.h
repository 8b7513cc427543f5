/* normaliser.h - The "normalizer" of a tokenizer.json: changes to the text before it is split. */
#ifndef SL_ENGINE_TEXT_NORMALISER_H
#define SL_ENGINE_TEXT_NORMALISER_H
#include "engine/text/pattern.h"
#include <jansson.h>

typedef enum {
    SL_NORMALISE_NFC,
    SL_NORMALISE_PREPEND, /* puts content before the text, unless it is empty */
    SL_NORMALISE_REPLACE, /* replaces each match of the pattern by content */
    SL_NORMALISE_STRIP,   /* removes white space at the ends */
} sl_normalise_kind;

typedef struct {
    sl_normalise_kind kind;
    sl_pattern pattern;
    sl_slice content;
    bool left, right; /* which ends are stripped */
} sl_normalise_step;

enum { SL_NORMALISE_STEPS = 16 };
/* Immutable once initialised. */
typedef struct {
    sl_normalise_step steps[SL_NORMALISE_STEPS];
    uint32_t count;
} sl_normaliser;

/* json: NULL or null means no steps.  Call deinit also after a failure. */
SL_CHECKED sl_status sl_normaliser_init(sl_normaliser *normaliser, json_t *json, sl_arena *arena,
                                        sl_error *err);
void sl_normaliser_deinit(sl_normaliser *normaliser);
/* text is well-formed UTF-8; *out is text itself or lives in the arena. */
SL_CHECKED sl_status sl_normaliser_run(const sl_normaliser *normaliser, sl_matcher *matcher,
                                       sl_slice text, sl_arena *arena, sl_slice *out,
                                       sl_error *err);
#endif
