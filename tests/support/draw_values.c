/* draw_values.c - What new values of drawn graphs hold. */
#include "core/codec.h"
#include "tests/support/draw_parts.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double uniform(generator *g, double low, double high) {
    return low + (high - low) * draw(g, 1u << 30) / (double)(1u << 30);
}

/* ---- floats ---- */

static double of_kind(generator *g, char kind) {
    switch (kind) {
    case '+':
        return uniform(g, 0.125, 2);
    case '-':
        return uniform(g, -1.5, -0.05);
    case 'u':
        return uniform(g, 0, 1);
    case 's':
        return uniform(g, -0.3, 0.3);
    default:
        return uniform(g, -2, 2);
    }
}

/* Numbers that are ties, whole, or out of the ordinary. */
static double odd(generator *g) {
    static const double odd[] = {0,   -0.0, 1,     -1,   0.5,   1.5,      2.5,       -0.5,
                                 3,   100,  -100,  1e-3, 1e-30, INFINITY, -INFINITY, NAN,
                                 1e4, 88,   -1e-6, 7,    -2.5,  20,       -20,       2};
    return odd[draw(g, sizeof odd / sizeof odd[0])];
}

static void fill_floats(generator *g, double *slots, int64_t count, char kind) {
    const uint32_t how = kind ? 9 : draw(g, 12);
    for (int64_t i = 0; i < count; i++) {
        slots[i] = of_kind(g, kind);
        if (how == 0) slots[i] = round(slots[i] * 2) / 2;
        if (how == 1 && draw(g, 4) == 0) slots[i] = odd(g);
        if (how == 2) slots[i] = round(slots[i]);
    }
}

/* ---- integers ---- */

/* The low bits, as the type has them. */
static int64_t wrapped(sl_dtype dtype, int64_t value) {
    const uint32_t above = 64 - 8 * sl_dtype_infos[dtype].bytes;
    const bool whole = sl_dtype_infos[dtype].name[0] == 'u';
    const uint64_t high = (uint64_t)value << above;
    return whole ? (int64_t)(high >> above) : (int64_t)high >> above;
}

static int64_t integer(generator *g, sl_dtype dtype, char kind, int64_t limit, bool all) {
    if (kind == 'z') return 0;
    if (kind == '<') return limit > 0 ? (int64_t)draw(g, (uint32_t)limit) : 0;
    if (kind == '%') return limit > 0 ? (int64_t)draw(g, (uint32_t)limit * 2) - limit : 0;
    if (all)
        return wrapped(dtype,
                       (int64_t)((uint64_t)draw(g, 1u << 31) << 33 ^ draw(g, 1u << 31) << 2));
    return wrapped(dtype, (int64_t)draw(g, 19) - 9);
}

static void fill_integers(generator *g, const sl_type *type, double *slots, char kind,
                          int64_t limit) {
    const int64_t count = sl_type_elements(type);
    const bool all = draw(g, 6) == 0;
    int64_t next = 0;
    if (kind == 'p') next = limit > count ? (int64_t)draw(g, (uint32_t)(limit - count + 1)) : 0;
    for (int64_t i = 0; i < count; i++)
        sl_slot_set_integer(type->dtype, &slots[i],
                            kind == 'p' ? next++ : integer(g, type->dtype, kind, limit, all));
}

/* ---- what has a form ---- */

static void fill_diagonal(const sl_type *type, double *slots) {
    const int64_t size = type->shape.dims[type->shape.rank - 1];
    for (int64_t i = 0; size && i < sl_type_elements(type); i++)
        if (i / size % size == i % size) slots[i] += slots[i] < 0 ? -4 : 4;
}

static void fill_camera(double *slots) {
    static const double camera[15] = {0.3, 0.2, -5, 0, 0, 0, 0, 1, 0, 50, 0.1, 100, 0.1, 0.2, 0.3};
    memcpy(slots, camera, sizeof camera);
}

/* Parameters of a panel: floats in the type that it has them in, or small bytes. */
static void fill_parameters(generator *g, sl_dtype dtype, uint8_t *to, uint64_t bytes) {
    const bool single = dtype == SL_DTYPE_q4_f || dtype == SL_DTYPE_q8_f || dtype == SL_DTYPE_f8;
    const bool brain = dtype == SL_DTYPE_q4_m || dtype == SL_DTYPE_q6_m || dtype == SL_DTYPE_q8_m ||
                       dtype == SL_DTYPE_mxfp4;
    const bool half = dtype == SL_DTYPE_q8 || dtype == SL_DTYPE_q4_0 || dtype == SL_DTYPE_iq4_nl;
    const uint64_t step = single ? 4 : brain || half ? 2 : 1;
    for (uint64_t i = 0; i < bytes; i += step) {
        const float value = (float)uniform(g, -0.05, 0.05);
        const uint16_t narrow = brain ? sl_bf16_from_f32(value) : sl_f16_from_f32(value);
        if (single)
            memcpy(to + i, &value, sizeof value);
        else if (step == 2)
            memcpy(to + i, &narrow, sizeof narrow);
        else
            to[i] = (uint8_t)draw(g, 0x20);
    }
}

static void fill_panel(generator *g, const sl_type *type, uint8_t *bytes) {
    const sl_dims *s = &type->shape;
    const sl_panel_layout l =
        sl_panel_layout_of(type->dtype, s->dims[s->rank - 2], s->dims[s->rank - 1]);
    const bool both = type->dtype == SL_DTYPE_q4_k || type->dtype == SL_DTYPE_q5_k ||
                      type->dtype == SL_DTYPE_q2_k; /* scales and minima; else zeros follow */
    const uint64_t used = type->dtype == SL_DTYPE_iq4_xs ? l.param_bytes / 2 : l.param_bytes;
    for (uint64_t at = 0; at < sl_type_bytes(type); at += l.matrix_bytes) {
        fill_parameters(g, SL_DTYPE_q4_f, bytes + at, l.header_bytes);
        for (int64_t p = 0; p < l.panels; p++) {
            uint8_t *panel = bytes + at + l.header_bytes + (uint64_t)p * l.panel_bytes;
            for (int64_t super = 0; super < l.supers && l.super_bytes; super++)
                fill_parameters(g, SL_DTYPE_q8, panel + sl_super_params(&l, super), both ? 64 : 32);
            for (int64_t group = 0; group < l.groups; group++) {
                uint8_t *codes = panel + sl_group_codes(&l, group);
                fill_parameters(g, type->dtype, panel + sl_group_params(&l, group), used);
                for (uint64_t i = 0; i < l.group_bytes; i++)
                    codes[i] = (uint8_t)draw(g, type->dtype == SL_DTYPE_f8 ? 0x70 : 256);
            }
        }
    }
}

void *draw_bytes(generator *g, const sl_type *type, char kind, int64_t limit) {
    sl_arena *arena = &g->drawn->plain.arena;
    const uint64_t size = sl_type_bytes(type);
    void *bytes = sl_arena_alloc(arena, size + 64, 64);
    assert_non_null(bytes);
    memset(bytes, 0, size);
    if (sl_dtype_infos[type->dtype].kind == SL_KIND_PANEL) {
        fill_panel(g, type, bytes);
        return bytes;
    }
    double *slots = SL_ARENA_NEW_ARRAY(arena, double, sl_type_slots(type) + 1);
    assert_non_null(slots);
    switch (sl_dtype_infos[type->dtype].kind) {
    case SL_KIND_INT:
        fill_integers(g, type, slots, kind, limit);
        break;
    case SL_KIND_BOOL:
        for (int64_t i = 0; i < sl_type_slots(type); i++) slots[i] = draw(g, 2);
        break;
    default:
        fill_floats(g, slots, sl_type_slots(type), kind);
        break;
    }
    if (kind == 'd') fill_diagonal(type, slots);
    if (kind == 'c') fill_camera(slots);
    sl_encode_f64(type->dtype, slots, sl_type_elements(type), bytes);
    return bytes;
}

static bool in_bounds(const sl_eval_tensor *t, int64_t least, int64_t limit) {
    for (int64_t i = 0; i < sl_type_elements(&t->type); i++) {
        const int64_t value = sl_slot_integer(t->type.dtype, &t->data[i]);
        if (value < least || value >= limit) return false;
    }
    return true;
}

bool draw_fits(const sl_eval_tensor *tensor, char kind, int64_t limit) {
    if (kind == 0 || kind == 's') return true;
    if (kind == '<')
        return sl_dtype_infos[tensor->type.dtype].kind == SL_KIND_INT &&
               in_bounds(tensor, 0, limit);
    if (kind == '%') return in_bounds(tensor, -limit, limit);
    if (!strchr("+-u", kind)) return false;
    for (int64_t i = 0; i < sl_type_slots(&tensor->type); i++) {
        const double x = tensor->data[i];
        if (!(kind == '+' ? x > 0.01 && x < 50 : kind == '-' ? x < 0 && x > -20 : x >= 0 && x <= 1))
            return false;
    }
    return true;
}
