/* layers.h - The values of layers of a whole prompt, for a safetensors file. */
#ifndef SL_APPS_LAYERS_H
#define SL_APPS_LAYERS_H
#include "sluice/inspect.h"
#include "sluice/tensors.h"

typedef struct {
    sl_tensor_item *items; /* [tokens, columns] each */
    uint32_t count, room;
    size_t tokens; /* of the prompt, which begins the sequence */
} cli_layers;

sl_layer_fn cli_layers_add; /* ctx: a cli_layers */
void cli_layers_free(cli_layers *layers);
#endif
