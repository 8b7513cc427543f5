/* recipe.h - The element type of each tensor of a pack. */
#ifndef SL_ENGINE_QUANT_RECIPE_H
#define SL_ENGINE_QUANT_RECIPE_H
#include "core/type.h"

typedef enum { SL_QUANT_Q4, SL_QUANT_Q6, SL_QUANT_Q8, SL_QUANT_NONE } sl_quant;

/* "q4", "q6", "q8", or "none", which keeps every type; NULL means q4. */
SL_CHECKED sl_status sl_quant_parse(const char *text, sl_quant *out, sl_error *err);

/* The type for a resident tensor of the given type; suffix is its canonical name without "model.".
 */
sl_dtype sl_quant_resident(sl_quant quant, const char *suffix, const sl_type *type);
/* The type for a matrix of a routed expert. */
sl_dtype sl_quant_expert(sl_quant quant, const sl_type *type);
#endif
