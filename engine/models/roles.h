/* roles.h - The types that roles.def generates.
 *
 * A value gets its role where it is made, in wire.h and params.h; tools/check_roles.py rejects
 * other code that reads or writes the member `value`. */
#ifndef SL_ENGINE_MODELS_ROLES_H
#define SL_ENGINE_MODELS_ROLES_H
#include "core/ids.h"

#define ROLE(NAME, SUMMARY)                                                                        \
    typedef struct {                                                                               \
        sl_value value;                                                                            \
    } sl_##NAME##_value;
#include "engine/models/roles.def"

/* Parameters that accept several roles, each through an explicit conversion. */

/* What the second half of a layer adds to the residual. */
typedef struct {
    sl_value value;
} sl_ffn_update;
static inline sl_ffn_update sl_update_from_moe(sl_moe_out_value x) {
    return (sl_ffn_update){x.value};
}
static inline sl_ffn_update sl_update_from_dense(sl_dense_out_value x) {
    return (sl_ffn_update){x.value};
}
#define sl_as_ffn_update(x)                                                                        \
    _Generic((x), sl_moe_out_value                                                                 \
             : sl_update_from_moe, sl_dense_out_value                                              \
             : sl_update_from_dense)(x)
#endif
