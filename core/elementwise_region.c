#include "core/elementwise_region.h"
#include <string.h>

/* Indexed by number; there are no gaps. */
static const struct {
    sl_op op;
    uint32_t operands;
    bool is_boolean, has_slope;
} steps[SL_ELEMENTWISE_OPS + 1] = {
#define BOOLEAN_same    false
#define BOOLEAN_boolean true
#define ELEMENTWISE(NUMBER, OP, OPERANDS, ATTRIBUTES, TYPES, RESULT, ...)                          \
    [NUMBER] = {SL_OP_##OP, SL_STEP_OPERANDS_##OP, BOOLEAN_##RESULT, false},
#define ELEMENTWISE_UNARY(NUMBER, OP, ...) [NUMBER] = {SL_OP_##OP, 1, false, true},
#define ELEMENTWISE_OTHER(NUMBER, OP, ...)                                                         \
    [NUMBER] = {SL_OP_##OP, SL_STEP_OPERANDS_##OP, false, false},
#define ELEMENTWISE_FUSED ELEMENTWISE_OTHER
#include "core/elementwise.def"
};

/* Indexed by number. */
static const sl_dtype types[] = {
#define TYPE(DTYPE) SL_DTYPE_##DTYPE,
    SL_ELEMENTWISE_TYPES(TYPE)
#undef TYPE
};
enum { TYPES = SL_TYPE_NUMBERS };

static bool attribute_fits(sl_op op, int64_t attribute) {
    switch (op) {
    case SL_OP_cast:
    case SL_OP_bitcast:
        return attribute >= 0 && attribute < (op == SL_OP_cast ? 2 * TYPES : 2 * TYPES - 1) &&
               (op == SL_OP_cast || attribute % 2 == 0);
    case SL_OP_mod:
        return attribute >= 0 && attribute <= 1;
    case SL_OP_is_inf:
        return attribute >= 0 && attribute <= 3;
    default:
        return attribute == 0;
    }
}

sl_elementwise_step sl_elementwise_decode(const sl_integers *code, uint32_t index,
                                          uint32_t inputs) {
    const sl_elementwise_step none = {0};
    if (index >= code->count / SL_ELEMENTWISE_STEP_NUMBERS) return none;
    const int64_t *numbers = code->items + (size_t)index * SL_ELEMENTWISE_STEP_NUMBERS;
    if (numbers[0] < 1 || numbers[0] > SL_ELEMENTWISE_OPS) return none;
    sl_elementwise_step step = {.number = (uint32_t)numbers[0],
                                .op = steps[numbers[0]].op,
                                .operands = steps[numbers[0]].operands,
                                .attribute = (uint32_t)numbers[4]};
    for (uint32_t i = 0; i < 3; i++) {
        const int64_t most = i < step.operands ? (int64_t)inputs + index : 1;
        if (numbers[1 + i] < 0 || numbers[1 + i] >= most) return none;
        step.registers[i] = (uint32_t)numbers[1 + i];
    }
    return attribute_fits(step.op, numbers[4]) ? step : none;
}

uint32_t sl_elementwise_number(sl_op op) {
    for (uint32_t number = 1; number <= SL_ELEMENTWISE_OPS; number++)
        if (steps[number].op == op) return number;
    return 0;
}

int32_t sl_elementwise_slope_find(const char *kind) {
    if (strcmp(kind, "identity") == 0) return 0;
    for (int32_t number = 1; number <= SL_ELEMENTWISE_OPS; number++)
        if (steps[number].has_slope && strcmp(kind, sl_op_info_of(steps[number].op)->name) == 0)
            return number;
    return -1;
}

uint32_t sl_elementwise_type(sl_dtype dtype) {
    for (uint32_t i = 0; i < TYPES; i++)
        if (types[i] == dtype) return i;
    return TYPES;
}

static int64_t attribute_of(sl_op op, const void *attrs) {
    if (op == SL_OP_cast) {
        const sl_cast_attrs *cast = attrs;
        return 2 * (int64_t)sl_elementwise_type(cast->to) + cast->saturate;
    }
    if (op == SL_OP_bitcast)
        return 2 * (int64_t)sl_elementwise_type(((const sl_bitcast_attrs *)attrs)->to);
    if (op == SL_OP_mod) return ((const sl_mod_attrs *)attrs)->truncate;
    return op == SL_OP_is_inf ? ((const sl_is_inf_attrs *)attrs)->which : 0;
}

bool sl_elementwise_encode(sl_op op, const void *attrs, const uint32_t registers[3],
                           int64_t out[SL_ELEMENTWISE_STEP_NUMBERS]) {
    out[0] = sl_elementwise_number(op);
    for (int i = 0; i < 3; i++) out[1 + i] = registers[i];
    out[4] = attribute_of(op, attrs);
    return out[0] && attribute_fits(op, out[4]);
}

sl_elementwise_step sl_elementwise_step_of(sl_op op, const void *attrs) {
    const uint32_t number = sl_elementwise_number(op);
    return (sl_elementwise_step){.number = number,
                                 .op = op,
                                 .operands = steps[number].operands,
                                 .registers = {0, 1, 2},
                                 .attribute = (uint32_t)attribute_of(op, attrs)};
}

sl_dtype sl_elementwise_target(const sl_elementwise_step *step) {
    return types[step->attribute / 2];
}

sl_dtype sl_elementwise_result(const sl_elementwise_step *step, const sl_dtype operands[3]) {
    if (steps[step->number].is_boolean) return SL_DTYPE_bool;
    switch (step->op) {
    case SL_OP_where:
        return operands[1];
    case SL_OP_complex:
        return SL_DTYPE_c64;
    case SL_OP_real:
    case SL_OP_imag:
    case SL_OP_complex_norm_sq:
        return SL_DTYPE_f32;
    case SL_OP_cast:
    case SL_OP_bitcast:
        return sl_elementwise_target(step);
    default:
        return operands[0];
    }
}

void sl_elementwise_attrs(const sl_elementwise_step *step, void *attrs) {
    if (step->op == SL_OP_cast)
        *(sl_cast_attrs *)attrs =
            (sl_cast_attrs){.to = types[step->attribute / 2], .saturate = step->attribute % 2};
    else if (step->op == SL_OP_bitcast)
        ((sl_bitcast_attrs *)attrs)->to = types[step->attribute / 2];
    else if (step->op == SL_OP_mod)
        ((sl_mod_attrs *)attrs)->truncate = step->attribute;
    else if (step->op == SL_OP_is_inf)
        ((sl_is_inf_attrs *)attrs)->which = step->attribute;
}
