// expect: unused.result
#include "core/type.h"

/* What can fail must be looked at. */
sl_status check(const sl_type *type, sl_error *err);
sl_status check(const sl_type *type, sl_error *err) {
#ifdef WRONG
    sl_type_check(type, "x", err);
    return SL_OK;
#else
    return sl_type_check(type, "x", err);
#endif
}
