/* ops.h - The types that ops.def generates. */
#ifndef SL_CORE_OPS_H
#define SL_CORE_OPS_H
#include "core/experts.h"

enum { SL_OP_POINTWISE = 1, SL_OP_VIEW = 2, SL_OP_REQUESTS = 4, SL_OP_STREAMS = 8 };

/* sl_op: SL_OP_add, SL_OP_sub, ... */
typedef enum {
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
    SL_OP_COUNT
} sl_op;

/* sl_<op>_attrs: compile-time attributes.  reserved keeps the struct non-empty. */
typedef float sl_attr_f32;
typedef uint32_t sl_attr_u32;
typedef sl_dims sl_attr_dims;
#define ATTR(TYPE, NAME) sl_attr_##TYPE NAME;
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, ...)                                                      \
    typedef struct {                                                                               \
        ATTRS uint32_t reserved;                                                                   \
    } sl_##NAME##_attrs;
#include "core/ops.def"

/* sl_<op>_in and sl_<op>_out: graph operands by name, for builders. */
#define IN(NAME)      sl_value NAME;
#define STATE(NAME)   sl_value NAME;
#define EXPERTS(NAME) sl_value NAME;
#define OP(NAME, INPUTS, ...)                                                                      \
    typedef struct {                                                                               \
        INPUTS                                                                                     \
    } sl_##NAME##_in;
#include "core/ops.def"
#define OUT(NAME)  sl_value NAME;
#define NEXT(NAME) sl_value NAME;
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
#define OUT(NAME)     sl_view NAME;
#define OP(NAME, INPUTS, OUTPUTS, ...)                                                             \
    typedef struct {                                                                               \
        INPUTS OUTPUTS sl_##NAME##_attrs attrs;                                                    \
    } sl_##NAME##_args;
#include "core/ops.def"

/* One visitor serves printing, parsing, hashing and comparing attributes. */
typedef struct sl_attr_visitor sl_attr_visitor;
struct sl_attr_visitor {
    void (*f32)(sl_attr_visitor *v, const char *name, sl_attr_f32 *value);
    void (*u32)(sl_attr_visitor *v, const char *name, sl_attr_u32 *value);
    void (*dims)(sl_attr_visitor *v, const char *name, sl_attr_dims *value);
};

typedef enum { SL_OPERAND_IN, SL_OPERAND_STATE, SL_OPERAND_EXPERTS } sl_operand_kind;
enum { SL_MAX_INPUTS = 8, SL_MAX_OUTPUTS = 3, SL_MAX_ATTRS_BYTES = 96 };

typedef struct {
    const char *name, *summary;
    uint32_t traits;
    uint32_t input_count;  /* IN, STATE and EXPERTS */
    uint32_t output_count; /* OUT and NEXT */
    uint32_t attrs_bytes, args_bytes;
    const char *input_names[SL_MAX_INPUTS];
    sl_operand_kind input_kinds[SL_MAX_INPUTS];
    const char *output_names[SL_MAX_OUTPUTS];
    int32_t output_state[SL_MAX_OUTPUTS]; /* the input whose memory a NEXT is; -1 for OUT */
    void (*visit_attrs)(sl_attr_visitor *v, void *attrs);
} sl_op_info;
const sl_op_info *sl_op_info_of(sl_op op);

/* SL_OP_COUNT when there is no such op. */
sl_op sl_op_find(const char *name, size_t bytes);
#endif
