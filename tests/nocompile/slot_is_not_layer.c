// expect: incompatible type
#include "core/experts.h"

/* A source is asked for a layer; the slots are its own business. */
sl_status ask(sl_expert_source *source, sl_layer_id layer, sl_slot_id slot, sl_error *err);
sl_status ask(sl_expert_source *source, sl_layer_id layer, sl_slot_id slot, sl_error *err) {
    const int32_t expert = 0;
    (void)layer, (void)slot;
#ifdef WRONG
    return source->request(source, slot, &expert, 1, err);
#else
    return source->request(source, layer, &expert, 1, err);
#endif
}
