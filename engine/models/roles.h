/* roles.h - The types that roles.def generates. */
#ifndef SL_ENGINE_MODELS_ROLES_H
#define SL_ENGINE_MODELS_ROLES_H
#include "core/ids.h"

#define ROLE(NAME, SUMMARY)                                                                        \
    typedef struct {                                                                               \
        sl_value value;                                                                            \
    } sl_##NAME##_value;
#include "engine/models/roles.def"

/* Parameters that accept several roles, each through an explicit conversion. */

/* A value that may be added to the residual. */
typedef struct {
    sl_value value;
} sl_residual_update;
static inline sl_residual_update sl_update_from_mixer(sl_mixer_out_value x) {
    return (sl_residual_update){x.value};
}
static inline sl_residual_update sl_update_from_moe(sl_moe_out_value x) {
    return (sl_residual_update){x.value};
}
static inline sl_residual_update sl_update_from_dense(sl_dense_out_value x) {
    return (sl_residual_update){x.value};
}
#define sl_as_residual_update(x)                                                                   \
    _Generic((x), sl_mixer_out_value                                                               \
             : sl_update_from_mixer, sl_moe_out_value                                              \
             : sl_update_from_moe, sl_dense_out_value                                              \
             : sl_update_from_dense)(x)
#endif
