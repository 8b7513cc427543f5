/* ops.h - The types that ops.def generates, and the table of all ops. */
#ifndef SL_CORE_OPS_H
#define SL_CORE_OPS_H
#include "core/model_ops.h"

enum {
    SL_OP_POINTWISE = 1,
    SL_OP_VIEW = 2,
    SL_OP_REQUESTS = 4,
    SL_OP_STREAMS = 8,
    SL_OP_RUNS = 16,
    SL_OP_ASSIGNS = 32
};

/* sl_op: SL_OP_add, SL_OP_sub, ... */
typedef enum {
#define OP(NAME, ...) SL_OP_##NAME,
#include "core/ops.def"
    SL_OP_COUNT
} sl_op;

/* sl_<op>_attrs, _in, _out and _args (core/structs.h). */
#define SL_FAMILY "core/general_ops.def"
#include "core/structs.h"

typedef enum { SL_OPERAND_IN, SL_OPERAND_STATE, SL_OPERAND_EXPERTS } sl_operand_kind;
/* Normalises a valid axis; a negative one counts from the end. */
static inline uint32_t sl_axis(int64_t axis, uint32_t rank) {
    return (uint32_t)(axis < 0 ? axis + rank : axis);
}

/* Limits for named operands and for lists. */
enum { SL_MAX_INPUTS = 16, SL_MAX_OUTPUTS = 8, SL_MAX_LIST = 4096, SL_MAX_ATTRS_BYTES = 512 };

typedef struct {
    const char *name, *summary;
    uint32_t traits;
    uint32_t input_count;  /* IN, STATE and EXPERTS */
    uint32_t output_count; /* OUT and NEXT */
    const char *list_name; /* name of a LIST after the inputs; NULL if there is none */
    const char *outs_name; /* name of an OUTS after the outputs */
    uint32_t attrs_bytes, args_bytes;
    const char *input_names[SL_MAX_INPUTS];
    sl_operand_kind input_kinds[SL_MAX_INPUTS];
    const char *output_names[SL_MAX_OUTPUTS];
    int32_t output_state[SL_MAX_OUTPUTS]; /* the input whose memory a NEXT shares; -1 for OUT */
    void (*visit_attrs)(sl_attr_visitor *v, void *attrs);
} sl_op_info;
const sl_op_info *sl_op_info_of(sl_op op);
/* Kinds and names of the inputs and outputs of a node, including those of a list. */
static inline sl_operand_kind sl_input_kind(const sl_op_info *info, uint32_t input) {
    return input < info->input_count ? info->input_kinds[input] : SL_OPERAND_IN;
}
static inline const char *sl_input_name(const sl_op_info *info, uint32_t input) {
    return input < info->input_count ? info->input_names[input] : info->list_name;
}
static inline int32_t sl_output_state(const sl_op_info *info, uint32_t output) {
    return output < info->output_count ? info->output_state[output] : -1;
}
static inline const char *sl_output_name(const sl_op_info *info, uint32_t output) {
    return output < info->output_count ? info->output_names[output] : info->outs_name;
}

/* Finds an op by name; SL_OP_COUNT if there is none. */
sl_op sl_op_find(const char *name, size_t bytes);
#endif
