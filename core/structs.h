/* structs.h - The structs of the op families that the file SL_FAMILY lists.  Included once per list
 * (core/ops.h); undefines SL_FAMILY. */
#include "core/operands.h"

/* sl_<op>_attrs: compile-time attributes.  reserved keeps the struct non-empty. */
#define ATTR(TYPE, NAME) sl_attr_##TYPE NAME;
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, ...)                                                      \
    typedef struct {                                                                               \
        ATTRS uint32_t reserved;                                                                   \
    } sl_##NAME##_attrs;
#include "core/ops.def"

/* sl_<op>_in and sl_<op>_out: graph operands by name, for builders.  OUTS has no
 * fields for single results. */
#define IN(NAME)      sl_value NAME;
#define STATE(NAME)   sl_value NAME;
#define EXPERTS(NAME) sl_value NAME;
#define LIST(NAME)    sl_values NAME;
#define OP(NAME, INPUTS, ...)                                                                      \
    typedef struct {                                                                               \
        INPUTS                                                                                     \
    } sl_##NAME##_in;
#include "core/ops.def"
#define OUT(NAME)  sl_value NAME;
#define NEXT(NAME) sl_value NAME;
#define OUTS(NAME) sl_value_slots NAME;
#define OP(NAME, INPUTS, OUTPUTS, ...)                                                             \
    typedef struct {                                                                               \
        OUTPUTS                                                                                    \
    } sl_##NAME##_out;
#include "core/ops.def"

/* sl_<op>_args: resolved operands, for kernels: inputs, then outputs (a NEXT is its STATE and not
 * repeated), then attributes.  All views have one layout, so a device fills them generically. */
#define IN(NAME)      sl_cview NAME;
#define STATE(NAME)   sl_view NAME;
#define EXPERTS(NAME) sl_experts_view NAME;
#define LIST(NAME)    sl_cview_list NAME;
#define OUT(NAME)     sl_view NAME;
#define OUTS(NAME)    sl_view_list NAME;
#define OP(NAME, INPUTS, OUTPUTS, ...)                                                             \
    typedef struct {                                                                               \
        INPUTS OUTPUTS sl_##NAME##_attrs attrs;                                                    \
    } sl_##NAME##_args;
#include "core/ops.def"
#undef SL_FAMILY
