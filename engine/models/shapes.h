/* shapes.h - Configurations of well-known models, for planning them without their files. */
#ifndef SL_ENGINE_MODELS_SHAPES_H
#define SL_ENGINE_MODELS_SHAPES_H

/* The config.json of a model by name; NULL when the name is unknown. */
const char *sl_shape_config(const char *name);
/* The known names, separated by commas, for messages. */
const char *sl_shape_names(void);
#endif
