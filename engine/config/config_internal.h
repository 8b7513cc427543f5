/* config_internal.h - Shared by the files that read config.json. */
#ifndef SL_ENGINE_CONFIG_CONFIG_INTERNAL_H
#define SL_ENGINE_CONFIG_CONFIG_INTERNAL_H
#include "engine/config/config.h"
#include "engine/formats/json.h"

typedef struct {
    json_t *root, *text; /* text: text_config, or root when flat */
    const sl_config_family *family;
    sl_arena *arena;
    sl_error *err;
} sl_config_parser;

/* NULL when absent or null. */
const json_t *sl_config_find(const json_t *object, const char *key);
/* A name that is safe to show in a message; "?" if it is not. */
const char *sl_config_shown(const char *name);

/* *out is unchanged if the key is absent or null. */
SL_CHECKED sl_status sl_config_integer(const sl_config_parser *p, const char *key, uint32_t minimum,
                                       uint32_t maximum, uint32_t *out);
/* Above 0 and up to maximum. */
SL_CHECKED sl_status sl_config_real(const sl_config_parser *p, const json_t *object,
                                    const char *key, double maximum, double *out);
SL_CHECKED sl_status sl_config_flag(const sl_config_parser *p, const json_t *object,
                                    const char *key, bool *out);

/* config_layers.c: the kind of each layer. */
SL_CHECKED sl_status sl_config_layers(const sl_config_parser *p, sl_model_config *config);
/* config_rope.c: rope and score_scale, which depends on it. */
SL_CHECKED sl_status sl_config_rope(const sl_config_parser *p, sl_model_config *config);
#endif
