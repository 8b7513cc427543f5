#include "apps/cli/layers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT_BYTES = 4 }; /* f32 and i32 */

static sl_status fail(sl_error *err, const sl_layer_item *item) {
    err->status = SL_NO_MEMORY;
    (void)snprintf(err->message, sizeof err->message, "no memory for %s of the prompt", item->name);
    return SL_NO_MEMORY;
}

/* The tensor of that name, made now unless it is there; NULL without memory. */
static sl_tensor_item *tensor_of(cli_layers *layers, const sl_layer_item *item) {
    for (uint32_t i = 0; i < layers->count; i++)
        if (strcmp(layers->items[i].name, item->name) == 0) return &layers->items[i];
    if (layers->count == layers->room) {
        const uint32_t room = layers->room ? 2 * layers->room : 64;
        sl_tensor_item *larger = realloc(layers->items, room * sizeof *larger);
        if (!larger) return NULL;
        layers->items = larger;
        layers->room = room;
    }
    sl_tensor_item *fresh = &layers->items[layers->count];
    const size_t bytes = layers->tokens * item->columns * ELEMENT_BYTES;
    *fresh = (sl_tensor_item){.name = strdup(item->name),
                              .dtype = item->dtype,
                              .rank = 2,
                              .dims = {(int64_t)layers->tokens, item->columns},
                              .data = malloc(bytes),
                              .bytes = bytes};
    layers->count++; /* so that it is freed */
    return fresh->name && fresh->data ? fresh : NULL;
}

sl_status cli_layers_add(void *ctx, const sl_layer_item *item, sl_error *err) {
    cli_layers *layers = ctx;
    const sl_tensor_item *to = tensor_of(layers, item);
    const size_t row_bytes = (size_t)item->columns * ELEMENT_BYTES;
    if (!to) return fail(err, item);
    memcpy((char *)to->data + item->first_token * row_bytes, item->data, item->rows * row_bytes);
    return SL_OK;
}

void cli_layers_free(cli_layers *layers) {
    for (uint32_t i = 0; i < layers->count; i++) {
        free((void *)layers->items[i].name);
        free((void *)layers->items[i].data);
    }
    free(layers->items);
}
