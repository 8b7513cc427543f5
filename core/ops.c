/* ops.c - The op table, generated from ops.def. */
#include "core/ops.h"
#include <pthread.h>
#include <string.h>

#define ATTR(TYPE, NAME) v->visit(v, #NAME, SL_ATTR_##TYPE, &a->NAME);
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, ...)                                                      \
    static void visit_##NAME(sl_attr_visitor *v, void *attrs) {                                    \
        sl_##NAME##_attrs *a = attrs;                                                              \
        (void)v, (void)a;                                                                          \
        ATTRS                                                                                      \
    }
#include "core/ops.def"

#define SL_VIEWS_ALIKE(V)                                                                          \
    (sizeof(V) == sizeof(sl_cview) && offsetof(V, type) == offsetof(sl_cview, type))
_Static_assert(SL_VIEWS_ALIKE(sl_view) && SL_VIEWS_ALIKE(sl_experts_view) &&
                   SL_VIEWS_ALIKE(sl_cview_list) && SL_VIEWS_ALIKE(sl_view_list),
               "devices fill argument structs as arrays of views");

/* Each list of a row is expanded to an array of these, from which counts, names and kinds
 * follow. */
typedef struct {
    const char *name;
    int kind; /* sl_operand_kind, or 1 for NEXT; IS_LIST for a LIST or OUTS */
} operand;
enum { IS_LIST = 9 };
#define IN(NAME)      {#NAME, SL_OPERAND_IN},
#define STATE(NAME)   {#NAME, SL_OPERAND_STATE},
#define EXPERTS(NAME) {#NAME, SL_OPERAND_EXPERTS},
#define LIST(NAME)    {#NAME, IS_LIST},
#define OP(NAME, INPUTS, ...)                                                                      \
    static const operand inputs_##NAME[] = {INPUTS{0}};                                            \
    _Static_assert(sizeof inputs_##NAME / sizeof(operand) <= SL_MAX_INPUTS + 1, #NAME);            \
    _Static_assert(sizeof(sl_##NAME##_attrs) <= SL_MAX_ATTRS_BYTES, #NAME);
#include "core/ops.def"
#define OUT(NAME)  {#NAME, 0},
#define NEXT(NAME) {#NAME, 1},
#define OUTS(NAME) {#NAME, IS_LIST},
#define OP(NAME, INPUTS, OUTPUTS, ...)                                                             \
    static const operand outputs_##NAME[] = {OUTPUTS{0}};                                          \
    _Static_assert(sizeof outputs_##NAME / sizeof(operand) <= SL_MAX_OUTPUTS + 1, #NAME);
#include "core/ops.def"

static sl_op_info infos[SL_OP_COUNT];

static int32_t state_named(const sl_op_info *info, const char *name) {
    for (uint32_t i = 0; i < info->input_count; i++)
        if (strcmp(info->input_names[i], name) == 0) return (int32_t)i;
    return -1;
}

/* The arrays end with an entry without a name. */
static void fill(sl_op_info *info, const operand *ins, const operand *outs) {
    for (; ins->name && ins->kind != IS_LIST; ins++) {
        info->input_names[info->input_count] = ins->name;
        info->input_kinds[info->input_count++] = (sl_operand_kind)ins->kind;
    }
    info->list_name = ins->name;
    for (; outs->name && outs->kind != IS_LIST; outs++) {
        info->output_names[info->output_count] = outs->name;
        info->output_state[info->output_count++] = outs->kind ? state_named(info, outs->name) : -1;
    }
    info->outs_name = outs->name;
}

static void fill_all(void) {
    enum {
        POINTWISE = SL_OP_POINTWISE,
        VIEW = SL_OP_VIEW,
        REQUESTS = SL_OP_REQUESTS,
        STREAMS = SL_OP_STREAMS,
        RUNS = SL_OP_RUNS,
        ASSIGNS = SL_OP_ASSIGNS
    };
#define OP(NAME, INPUTS, OUTPUTS, ATTRS, TRAITS, SUMMARY)                                          \
    infos[SL_OP_##NAME] = (sl_op_info){.name = #NAME,                                              \
                                       .summary = SUMMARY,                                         \
                                       .traits = TRAITS,                                           \
                                       .attrs_bytes = sizeof(sl_##NAME##_attrs),                   \
                                       .args_bytes = sizeof(sl_##NAME##_args),                     \
                                       .visit_attrs = visit_##NAME};                               \
    fill(&infos[SL_OP_##NAME], inputs_##NAME, outputs_##NAME);
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

size_t sl_attr_bytes(sl_attr_kind kind) {
    static const size_t bytes[] = {
#define K(TYPE) [SL_ATTR_##TYPE] = sizeof(sl_attr_##TYPE),
        SL_ATTR_KINDS(K)
#undef K
    };
    return bytes[kind];
}
