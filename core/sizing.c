#include "core/sizing.h"
#include <string.h>

static sl_status differ(const sl_program *program, const sl_step *step, const char *what,
                        sl_error *err) {
    return sl_fail(err, SL_UNSUPPORTED, "program '%s': step '%s' depends on sizes in its %s",
                   program->name, step->label, what);
}

/* The attributes of a step, one after another. */
enum { MOST_ATTRS = 32 };
typedef struct {
    sl_attr_visitor base;
    uint32_t count;
    sl_attr_kind kinds[MOST_ATTRS];
    const void *values[MOST_ATTRS];
} listing;

static void list_attr(sl_attr_visitor *visitor, const char *name, sl_attr_kind kind, void *value) {
    listing *l = (listing *)visitor;
    (void)name;
    if (l->count < MOST_ATTRS) {
        l->kinds[l->count] = kind;
        l->values[l->count] = value;
    }
    l->count++;
}

static bool is_same_list(const sl_integers *a, const sl_integers *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->items, b->items, a->count * sizeof *a->items) == 0);
}

static bool is_same_attr(sl_attr_kind kind, const void *a, const void *b) {
    switch (kind) {
    case SL_ATTR_list:
        return is_same_list(a, b);
    case SL_ATTR_dims:
        return sl_dims_equal(a, b);
    case SL_ATTR_reals:
    case SL_ATTR_text:
    case SL_ATTR_graph:
    case SL_ATTR_handler:
        return false; /* no op of a model has them */
    default:
        return memcmp(a, b, sl_attr_bytes(kind)) == 0;
    }
}

static bool has_same_attrs(const sl_step *a, const sl_step *b) {
    const sl_op_info *info = sl_op_info_of(a->op);
    listing here = {.base = {list_attr}}, there = {.base = {list_attr}};
    if (info->attrs_bytes == 0) return true;
    info->visit_attrs(&here.base, (void *)(uintptr_t)a->attrs);
    info->visit_attrs(&there.base, (void *)(uintptr_t)b->attrs);
    if (here.count > MOST_ATTRS) return false;
    for (uint32_t i = 0; i < here.count; i++)
        if (!is_same_attr(here.kinds[i], here.values[i], there.values[i])) return false;
    return true;
}

/* Which size the dim follows, and how; false if none. */
static bool find_size(const int64_t *most, int64_t here, int64_t probe, sl_sized_dim *out) {
    if (here == probe) return false;
    const int64_t rows = here - probe, wanted = probe - here;
    if (rows > 0 && rows * most[0] == here) {
        out->size = 0;
        out->each = rows;
        return true;
    }
    if (wanted > 0 && wanted % 2 == 0 && wanted / 2 * most[1] == here) {
        out->size = 1;
        out->each = wanted / 2;
        return true;
    }
    return false;
}

/* Counts the sizing of an operand, and writes them unless items is NULL. */
static sl_status find_operand(const sl_program *program, const sl_step *step, sl_sized_dim at,
                              const sl_operand *probe, sl_sizing *out, sl_error *err) {
    const sl_operand *here = &step->operands[at.operand];
    const sl_dims *a = &here->type.shape, *b = &probe->type.shape;
    if (here->buffer.v != probe->buffer.v || here->offset_bytes != probe->offset_bytes ||
        here->type.dtype != probe->type.dtype || a->rank != b->rank)
        return differ(program, step, "operands", err);
    for (at.dim = 0; at.dim < a->rank; at.dim++) {
        if (a->dims[at.dim] == b->dims[at.dim]) continue;
        if (!find_size(out->most, a->dims[at.dim], b->dims[at.dim], &at))
            return differ(program, step, "shapes", err);
        if (out->items) out->items[out->count] = at;
        out->count++;
    }
    return SL_OK;
}

static sl_status find_step(const sl_program *program, uint32_t index, const sl_step *probe,
                           sl_sizing *out, sl_error *err) {
    const sl_step *step = &program->steps[index];
    if (step->op != probe->op || step->operand_count != probe->operand_count ||
        step->level != probe->level || step->body_count || probe->body_count)
        return differ(program, step, "kind", err);
    if (!has_same_attrs(step, probe)) return differ(program, step, "attributes", err);
    for (uint32_t i = 0; i < step->operand_count; i++)
        SL_TRY(find_operand(program, step, (sl_sized_dim){.step = index, .operand = i},
                            &probe->operands[i], out, err));
    return SL_OK;
}

static sl_status find_all(const sl_program *program, const sl_program *probe, sl_sizing *out,
                          sl_error *err) {
    out->count = 0;
    for (uint32_t s = 0; s < program->step_count; s++)
        SL_TRY(find_step(program, s, &probe->steps[s], out, err));
    return SL_OK;
}

sl_status sl_sizing_find(const sl_program *program, const sl_program *probe, sl_arena *arena,
                         sl_sizing *out, sl_error *err) {
    out->items = NULL;
    if (program->step_count != probe->step_count || program->buffer_count != probe->buffer_count)
        return sl_fail(err, SL_UNSUPPORTED,
                       "program '%s': %u steps of %u buffers, and %u of %u for other sizes",
                       program->name, program->step_count, program->buffer_count, probe->step_count,
                       probe->buffer_count);
    SL_TRY(find_all(program, probe, out, err));
    out->items = SL_ARENA_NEW_ARRAY(arena, sl_sized_dim, (size_t)out->count + 1);
    if (!out->items) return sl_no_memory(err, "the sizing of a program", out->count);
    return find_all(program, probe, out, err);
}
