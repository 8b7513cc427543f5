/* shapes.h - Model configurations by name, for planning and synthetic models without their files.
 */
#ifndef SL_ENGINE_CONFIG_SHAPES_H
#define SL_ENGINE_CONFIG_SHAPES_H
#include "base/memory.h"

/* Overrides; 0: the number of the shape. */
typedef struct {
    uint32_t layers, experts, vocab;
} sl_shape_changes;

/* The config.json of a shape, in arena: a known name, or the path of a config.json.  changes may be
 * NULL.  The text is not checked to be that of a model. */
SL_CHECKED sl_status sl_shape_load(const char *shape, const sl_shape_changes *changes,
                                   sl_arena *arena, const char **out_text, size_t *out_bytes,
                                   sl_error *err);
#endif
