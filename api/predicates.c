#include "api/predicates.h"

static uint32_t listed(sl_op op) {
    switch (op) {
#define BLAS(OP) case SL_OP_##OP:
#define REDUCTION(OP)
#define TRANSFORM(OP)
#include "api/predicates.def"
        return SL_IS_BLAS;
#define BLAS(OP)
#define REDUCTION(OP) case SL_OP_##OP:
#define TRANSFORM(OP)
#include "api/predicates.def"
        return SL_IS_REDUCTION;
#define BLAS(OP)
#define REDUCTION(OP)
#define TRANSFORM(OP) case SL_OP_##OP:
#include "api/predicates.def"
        return SL_IS_TRANSFORM;
    default:
        return 0;
    }
}

uint32_t sl_op_predicates(sl_op op) {
    const sl_op_info *info = sl_op_info_of(op);
    uint32_t is = listed(op);
    if (info->traits & SL_OP_POINTWISE) is |= SL_IS_ELEMENTWISE;
    if (info->traits & (SL_OP_REQUESTS | SL_OP_STREAMS)) is |= SL_IS_STREAMS;
    for (uint32_t i = 0; i < info->input_count; i++)
        if (info->input_kinds[i] == SL_OPERAND_STATE) is |= SL_IS_STATEFUL;
    if (!(is & (SL_IS_STREAMS | SL_IS_STATEFUL)) && !(info->traits & SL_OP_RUNS))
        is |= SL_IS_REORDERABLE;
    if (!(is & (SL_IS_ELEMENTWISE | SL_IS_BLAS)) && !(info->traits & SL_OP_VIEW))
        is |= SL_IS_BOUNDARY;
    return is;
}
