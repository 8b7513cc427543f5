/* op_support.c - Details of ops for the op table (sluice/experimental.h): accepted element types,
 * kernels of the devices, fusion patterns and rewrites. */
#include "api/needs.h"
#include "api/predicates.h"
#include "base/structs.h"
#include "compiler/ops/semantics.h"
#include "compiler/passes/rewrite.h"
#include "runtime/devices.h"
#include "sluice/experimental.h"
#include <stdio.h>
#include <string.h>

/* ---- Kernels ---- */

static void add_word(char *text, size_t capacity, const char *word) {
    const size_t used = strlen(text);
    (void)snprintf(text + used, capacity - used, "%s%s", used ? " " : "", word);
}

static const sl_rewrite *find_rewrite(sl_op op) {
    for (const sl_rewrite *rule = sl_rewrites; rule->name; rule++)
        if (rule->op == op) return rule;
    return NULL;
}

/* The element types of an op's kernels, or why it has none. */
static void list_kernels(const sl_target_kernel *kernels, sl_op op, char *out, size_t capacity) {
    out[0] = 0;
    for (; kernels->types; kernels++)
        if (kernels->op == op) add_word(out, capacity, kernels->types);
    if (!out[0])
        add_word(out, capacity,
                 sl_op_info_of(op)->traits & SL_OP_VIEW
                     ? "needs none: another view of the same memory"
                 : find_rewrite(op) ? "no kernel: rewritten"
                                    : "no kernel: refused when compiled, with its name");
}

static void list_devices(sl_op op, sl_op_support *out) {
    const sl_device_row *row;
    out->device_count = 0;
    for (uint32_t i = 0; (row = sl_device_row_at(i)) && out->device_count < SL_OP_DEVICES; i++) {
        if (!row->target) continue; /* takes every op */
        sl_op_kernels *found = &out->devices[out->device_count++];
        found->device = row->name;
        list_kernels(row->target->kernels, op, found->kernels, sizeof found->kernels);
    }
}

/* ---- Element types ---- */

enum { DTYPE_WAYS = 7, SHAPE_WAYS = 9, ATTR_WAYS = 3 };

/* What inputs are when one type is tried: d itself, or what ops take beside it. */
static sl_dtype choose_dtype(int way, uint32_t input, sl_dtype d) {
    switch (way) {
    case 1:
        return input ? SL_DTYPE_i64 : d;
    case 2:
        return input ? SL_DTYPE_i32 : d;
    case 3:
        return input ? d : SL_DTYPE_bool;
    case 4:
        return input == 2 ? SL_DTYPE_i64 : d;
    case 5:
        return input == 1 ? SL_DTYPE_i64 : d;
    case 6:
        return input ? SL_DTYPE_f32 : d;
    default:
        return d;
    }
}

static sl_dims choose_shape(int way, uint32_t input) {
    static const sl_dims first[SHAPE_WAYS] = {
        {2, {4, 4}},       {0},         {1, {4}},       {3, {2, 4, 4}},
        {4, {1, 4, 4, 4}}, {2, {4, 4}}, {3, {2, 4, 4}}, {4, {1, 4, 4, 4}},
        {3, {4, 4, 4}}};
    static const sl_dims rest = {1, {4}};
    return input && way >= 5 && way <= 7 ? rest : first[way];
}

typedef struct {
    sl_attr_visitor visitor; /* first */
    int way;
    sl_dtype dtype;
    uint32_t rank;
    bool bodies;
} attr_maker;

static void make_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    attr_maker *m = (attr_maker *)visitor;
    (void)name;
    if (kind == SL_ATTR_dtype) *(sl_dtype *)value = m->dtype;
    if (kind == SL_ATTR_text) *(const char **)value = "";
    if (kind == SL_ATTR_u32 && m->way == 1) *(uint32_t *)value = 1;
    if (kind == SL_ATTR_i64 && m->way == 1) *(int64_t *)value = 1;
    if (kind == SL_ATTR_graph) m->bodies = true;
    if (kind != SL_ATTR_dims || m->way == 0) return;
    sl_dims *dims = value;
    dims->rank = m->way == 1 ? m->rank : 1;
    for (uint32_t i = 0; i < dims->rank; i++) dims->dims[i] = m->way == 1 ? i : 0;
}

/* Whether sl_infer_ takes inputs of the type in one of several ways. */
static bool takes(sl_op op, sl_dtype dtype) {
    const sl_op_info *info = sl_op_info_of(op);
    const uint32_t inputs = info->input_count + (info->list_name ? 1 : 0);
    const uint32_t outputs = info->output_count + (info->outs_name ? 1 : 0);
    for (int way = 0; way < DTYPE_WAYS * SHAPE_WAYS * ATTR_WAYS; way++) {
        sl_type in[SL_MAX_INPUTS + 1] = {0}, out[SL_MAX_OUTPUTS + 1] = {0};
        _Alignas(max_align_t) unsigned char attrs[SL_MAX_ATTRS_BYTES] = {0};
        const int shape = way / DTYPE_WAYS % SHAPE_WAYS;
        attr_maker maker = {.visitor = {make_attr},
                            .way = way / DTYPE_WAYS / SHAPE_WAYS,
                            .dtype = dtype,
                            .rank = choose_shape(shape, 0).rank};
        sl_error err;
        for (uint32_t i = 0; i < inputs; i++)
            in[i] = (sl_type){choose_dtype(way % DTYPE_WAYS, i, dtype), choose_shape(shape, i)};
        info->visit_attrs(&maker.visitor, attrs);
        if (maker.bodies) return false;
        const sl_infer_args args = {"types", in, attrs, out, inputs, outputs};
        if (sl_infer(op, &args, &err) == SL_OK) return true;
    }
    return false;
}

static void list_types(sl_op op, char *out, size_t capacity) {
    out[0] = 0;
    for (int d = 0; d < SL_DTYPE_COUNT; d++) {
        const sl_dtype_kind kind = sl_dtype_infos[d].kind;
        const bool plain = kind == SL_KIND_FLOAT || kind == SL_KIND_INT || kind == SL_KIND_BOOL ||
                           kind == SL_KIND_COMPLEX;
        if (plain && takes(op, (sl_dtype)d)) add_word(out, capacity, sl_dtype_infos[d].name);
    }
    if (!out[0]) add_word(out, capacity, "as its summary says");
}

/* ---- Fusion ---- */

static const struct {
    const char *parts, *whole;
} rules[] = {
#define RULE(NAME, PARTS, WHOLE) {PARTS, WHOLE},
#include "compiler/passes/patterns.def"
};

static void find_rule(const char *op, char *out, size_t capacity) {
    char call[80];
    (void)snprintf(call, sizeof call, "= %s(", op);
    (void)snprintf(out, capacity, "not made by fusion");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!strstr(rules[i].whole, call)) continue;
        (void)snprintf(out, capacity, "%s", rules[i].parts);
        return;
    }
}

/* ---- kinds ---- */

static void list_predicates(sl_op op, char *out, size_t capacity) {
    static const char *const words[] = {
#define KIND(NAME, WORDS) [SL_BIT_##NAME] = WORDS,
        SL_PREDICATES(KIND)
#undef KIND
    };
    const uint32_t is = sl_op_predicates(op);
    out[0] = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t used = strlen(out);
        if (is >> i & 1)
            (void)snprintf(out + used, capacity - used, "%s%s", used ? ", " : "", words[i]);
    }
}

sl_status sl_op_support_of(const char *name, sl_op_support *out, sl_error *err) {
    SL_NEED(name && out);
    SL_TRY(SL_STRUCT_CHECK(sl_op_support, out, err));
    sl_op_support found = {0};
    const sl_op op = sl_op_find(name, strlen(name));
    if (op == SL_OP_COUNT) return sl_fail(err, SL_INVALID, "unknown op '%s'", name);
    list_types(op, found.types, sizeof found.types);
    list_devices(op, &found);
    find_rule(name, found.made_from, sizeof found.made_from);
    list_predicates(op, found.predicates, sizeof found.predicates);
    const sl_rewrite *rule = find_rewrite(op);
    (void)snprintf(found.rewritten, sizeof found.rewritten, "%s",
                   rule ? rule->summary : "no rule: a device without a kernel refuses it");
    SL_STRUCT_GIVE(sl_op_support, out, &found);
    return SL_OK;
}
