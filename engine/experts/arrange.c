#include "engine/experts/arrange.h"
#include "base/sizes.h"
#include <string.h>

enum { MATRIX_ALIGN = 64 };

bool sl_expert_is_arranged(const sl_expert_layer *layer) {
    return layer->matrices[SL_GATE].form || layer->matrices[SL_UP].form ||
           layer->matrices[SL_DOWN].form;
}

uint64_t sl_expert_arranged_at(const sl_expert_layer *layer, int m) {
    uint64_t at = 0;
    for (int i = 0; i < m; i++)
        at += sl_round_up(sl_type_bytes(&layer->matrices[i].type), MATRIX_ALIGN);
    return at;
}

void sl_expert_arrange(const sl_expert_layer *layer, const void *const parts[SL_MAX_EXPERT_PARTS],
                       void *out) {
    for (int m = 0; m < SL_EXPERT_MATRICES; m++) {
        const sl_expert_matrix *matrix = &layer->matrices[m];
        sl_raw_matrix raw = {.form = matrix->form,
                             .rows = matrix->type.shape.dims[0],
                             .cols = matrix->type.shape.dims[1]};
        for (uint32_t p = 0; p < matrix->piece_count; p++)
            raw.parts[p] =
                (const uint8_t *)parts[matrix->pieces[p].part] + matrix->pieces[p].offset;
        uint8_t *to = (uint8_t *)out + sl_expert_arranged_at(layer, m);
        if (matrix->form)
            matrix->form->convert(&raw, to);
        else if (raw.parts[0])
            memcpy(to, raw.parts[0], sl_type_bytes(&matrix->type));
    }
}
