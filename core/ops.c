/* ops.c - The op table, generated from ops.def. */
#include "core/ops.h"
#include <pthread.h>
#include <string.h>

#define ATTR(TYPE, NAME) v->TYPE(v, #NAME, &a->NAME);
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, ...)                                                      \
    static void visit_##NAME(sl_attr_visitor *v, void *attrs) {                                    \
        sl_##NAME##_attrs *a = attrs;                                                              \
        (void)v, (void)a;                                                                          \
        ATTRS                                                                                      \
    }
#include "core/ops.def"

#define SL_VIEWS_ALIKE(V)                                                                          \
    (sizeof(V) == sizeof(sl_cview) && offsetof(V, type) == offsetof(sl_cview, type))
_Static_assert(SL_VIEWS_ALIKE(sl_view) && SL_VIEWS_ALIKE(sl_experts_view),
               "devices fill argument structs as arrays of views");

/* The counts, names and kinds come from the three lists of a row, each expanded as a table row. */
typedef struct {
    const char *name;
    int kind; /* sl_operand_kind, or 1 for NEXT */
} operand;
#define IN(NAME)      {#NAME, SL_OPERAND_IN},
#define STATE(NAME)   {#NAME, SL_OPERAND_STATE},
#define EXPERTS(NAME) {#NAME, SL_OPERAND_EXPERTS},
#define OP(NAME, INPUTS, ...)                                                                      \
    static const operand inputs_##NAME[] = {INPUTS};                                               \
    _Static_assert(sizeof inputs_##NAME / sizeof(operand) <= SL_MAX_INPUTS, #NAME);                \
    _Static_assert(sizeof(sl_##NAME##_attrs) <= SL_MAX_ATTRS_BYTES, #NAME);
#include "core/ops.def"
#define OUT(NAME)  {#NAME, 0},
#define NEXT(NAME) {#NAME, 1},
#define OP(NAME, INPUTS, OUTPUTS, ...)                                                             \
    static const operand outputs_##NAME[] = {OUTPUTS};                                             \
    _Static_assert(sizeof outputs_##NAME / sizeof(operand) <= SL_MAX_OUTPUTS, #NAME);
#include "core/ops.def"

static sl_op_info infos[SL_OP_COUNT];

static int32_t state_named(const sl_op_info *info, const char *name) {
    for (uint32_t i = 0; i < info->input_count; i++)
        if (strcmp(info->input_names[i], name) == 0) return (int32_t)i;
    return -1;
}

static void fill(sl_op_info *info, const operand *ins, size_t in_count, const operand *outs,
                 size_t out_count) {
    info->input_count = (uint32_t)in_count;
    info->output_count = (uint32_t)out_count;
    for (size_t i = 0; i < in_count; i++) {
        info->input_names[i] = ins[i].name;
        info->input_kinds[i] = (sl_operand_kind)ins[i].kind;
    }
    for (size_t i = 0; i < out_count; i++) {
        info->output_names[i] = outs[i].name;
        info->output_state[i] = outs[i].kind ? state_named(info, outs[i].name) : -1;
    }
}

#define SL_COUNT(array) (sizeof(array) / sizeof((array)[0]))
static void fill_all(void) {
    enum {
        POINTWISE = SL_OP_POINTWISE,
        VIEW = SL_OP_VIEW,
        REQUESTS = SL_OP_REQUESTS,
        STREAMS = SL_OP_STREAMS
    };
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, TRAITS, SUMMARY)                                          \
    infos[SL_OP_##NAME] = (sl_op_info){.name = #NAME,                                              \
                                       .summary = SUMMARY,                                         \
                                       .traits = TRAITS,                                           \
                                       .attrs_bytes = sizeof(sl_##NAME##_attrs),                   \
                                       .args_bytes = sizeof(sl_##NAME##_args),                     \
                                       .visit_attrs = visit_##NAME};                               \
    fill(&infos[SL_OP_##NAME], inputs_##NAME, SL_COUNT(inputs_##NAME), outputs_##NAME,             \
         SL_COUNT(outputs_##NAME));
#include "core/ops.def"
}

const sl_op_info *sl_op_info_of(sl_op op) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill_all);
    return &infos[op];
}

sl_op sl_op_find(const char *name, size_t bytes) {
    for (int op = 0; op < SL_OP_COUNT; op++) {
        const char *candidate = sl_op_info_of((sl_op)op)->name;
        if (strlen(candidate) == bytes && memcmp(candidate, name, bytes) == 0) return (sl_op)op;
    }
    return SL_OP_COUNT;
}
