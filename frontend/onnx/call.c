/* call.c - Inputs, attributes and outputs of one node. */
#include "core/codec.h"
#include "frontend/onnx/importer.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Errors ---- */

static void record(sl_onnx_call *c, sl_status status, const char *format, va_list args) {
    char text[320];
    (void)vsnprintf(text, sizeof text, format, args);
    sl_graph_mistake(c->graph, status, "%s", text);
}

void sl_onnx_refuse(sl_onnx_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record(c, SL_UNSUPPORTED, format, args);
    va_end(args);
}

void sl_onnx_wrong(sl_onnx_call *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record(c, SL_FORMAT, format, args);
    va_end(args);
}

bool sl_onnx_failed(const sl_onnx_call *c) {
    return c->graph->error.status != SL_OK;
}

void *sl_onnx_memory(sl_onnx_call *c, size_t count, size_t each) {
    void *memory = sl_arena_array(&c->im->arena, count + 1, each, _Alignof(max_align_t));
    if (!memory) sl_graph_mistake(c->graph, SL_NO_MEMORY, "no memory for %zu numbers", count);
    return memory;
}

/* ---- Inputs ---- */

bool sl_onnx_has(const sl_onnx_call *c, uint32_t input) {
    return input < c->in_count && c->in[input];
}

bool sl_onnx_wants(const sl_onnx_call *c, uint32_t output) {
    return output < c->out_count && c->out[output].name[0];
}

static sl_onnx_value *need(sl_onnx_call *c, uint32_t input) {
    if (sl_onnx_has(c, input)) return c->in[input];
    sl_onnx_wrong(c, "input %u is missing", input);
    return NULL;
}

sl_value sl_onnx_in(sl_onnx_call *c, uint32_t input) {
    sl_onnx_value *value = need(c, input);
    return value ? sl_onnx_use(c->im, c->graph, value) : (sl_value){0};
}

sl_type sl_onnx_in_type(sl_onnx_call *c, uint32_t input) {
    const sl_onnx_value *value = need(c, input);
    return value ? value->type : sl_type_make(SL_DTYPE_f32, 0);
}

sl_type sl_onnx_type(const sl_onnx_call *c, sl_value value) {
    const sl_value_info *info = sl_graph_value(c->graph, value);
    return info ? info->type : sl_type_make(SL_DTYPE_f32, 0);
}

bool sl_onnx_is_known(const sl_onnx_call *c, uint32_t input) {
    return sl_onnx_has(c, input) && c->in[input]->data;
}

/* An input whose elements must be known during the import; NULL if it is omitted or after an
 * error. */
static const sl_onnx_value *known(sl_onnx_call *c, uint32_t input) {
    if (!sl_onnx_has(c, input)) return NULL;
    const sl_onnx_value *value = c->in[input];
    if (value->data) return value;
    sl_onnx_refuse(c, "input '%s' must be known when the model is imported; it depends on '%s'",
                   value->name, value->root ? value->root : "?");
    if (value->root && !c->im->refusal.needs[0])
        (void)snprintf(c->im->refusal.needs, sizeof c->im->refusal.needs, "%s", value->root);
    return NULL;
}

bool sl_onnx_reals_in(sl_onnx_call *c, uint32_t input, sl_reals *out) {
    const sl_onnx_value *value = known(c, input);
    *out = (sl_reals){0};
    if (!value) return false;
    const int64_t count = sl_type_elements(&value->type);
    double *items = sl_onnx_memory(c, (size_t)sl_type_slots(&value->type), sizeof *items);
    if (!items) return false;
    sl_decode_f64(value->type.dtype, value->data, count, items);
    if (value->type.dtype == SL_DTYPE_i64 || value->type.dtype == SL_DTYPE_u64)
        for (int64_t i = 0; i < count; i++) {
            int64_t wide;
            memcpy(&wide, &items[i], sizeof wide);
            items[i] = (double)wide;
        }
    *out = (sl_reals){(uint32_t)count, items};
    return true;
}

bool sl_onnx_integers_in(sl_onnx_call *c, uint32_t input, sl_integers *out) {
    const sl_onnx_value *value = known(c, input);
    sl_reals reals;
    *out = (sl_integers){0};
    if (!value) return false;
    if (value->type.dtype == SL_DTYPE_i64) {
        *out = (sl_integers){(uint32_t)sl_type_elements(&value->type), value->data};
        return true;
    }
    if (!sl_onnx_reals_in(c, input, &reals)) return false;
    int64_t *items = sl_onnx_memory(c, reals.count, sizeof *items);
    if (!items) return false;
    for (uint32_t i = 0; i < reals.count; i++) {
        const double real = reals.items[i];
        items[i] = real >= -9e18 && real <= 9e18 ? (int64_t)real : 0;
    }
    *out = (sl_integers){reals.count, items};
    return true;
}

int64_t sl_onnx_integer_in(sl_onnx_call *c, uint32_t input, int64_t otherwise) {
    sl_integers list;
    return sl_onnx_integers_in(c, input, &list) && list.count ? list.items[0] : otherwise;
}

double sl_onnx_real_in(sl_onnx_call *c, uint32_t input, double otherwise) {
    sl_reals list;
    return sl_onnx_reals_in(c, input, &list) && list.count ? list.items[0] : otherwise;
}

/* ---- Attributes ---- */

const sl_onnx_attr *sl_onnx_attr_of(sl_onnx_call *c, const char *name) {
    return sl_onnx_scope_attr(c->scope, c->node, name);
}

/* The attribute if it has this kind; another kind is an error. */
static const sl_onnx_attr *typed(sl_onnx_call *c, const char *name, int32_t kind) {
    const sl_onnx_attr *attr = sl_onnx_attr_of(c, name);
    if (!attr || attr->kind == kind) return attr;
    sl_onnx_wrong(c, "attribute '%s' is of kind %d, wanted %d", name, attr->kind, kind);
    return NULL;
}

int64_t sl_onnx_int(sl_onnx_call *c, const char *name, int64_t otherwise) {
    const sl_onnx_attr *attr = typed(c, name, SL_ONNX_ATTR_INT);
    return attr ? attr->integer : otherwise;
}

float sl_onnx_float(sl_onnx_call *c, const char *name, float otherwise) {
    const sl_onnx_attr *attr = typed(c, name, SL_ONNX_ATTR_FLOAT);
    return attr ? attr->number : otherwise;
}

const char *sl_onnx_text(sl_onnx_call *c, const char *name, const char *otherwise) {
    const sl_onnx_attr *attr = typed(c, name, SL_ONNX_ATTR_TEXT);
    return attr ? attr->text : otherwise;
}

bool sl_onnx_ints(sl_onnx_call *c, const char *name, sl_integers *out) {
    const sl_onnx_attr *attr = typed(c, name, SL_ONNX_ATTR_INTS);
    *out = (sl_integers){0};
    if (!attr) return false;
    *out = (sl_integers){attr->integers.count, attr->integers.items};
    return true;
}

bool sl_onnx_ints_either(sl_onnx_call *c, uint32_t input, const char *name, sl_integers *out) {
    if (sl_onnx_ints(c, name, out)) return true;
    return sl_onnx_integers_in(c, input, out);
}

uint32_t sl_onnx_axis(sl_onnx_call *c, int64_t axis, uint32_t rank) {
    if (axis >= -(int64_t)rank && axis < rank) return (uint32_t)(axis < 0 ? axis + rank : axis);
    sl_onnx_wrong(c, "axis %lld of %u dims", (long long)axis, rank);
    return 0;
}

sl_dims sl_onnx_axes(sl_onnx_call *c, const sl_integers *list, uint32_t rank) {
    bool chosen[SL_MAX_RANK] = {false};
    sl_dims axes = {0};
    for (uint32_t i = 0; i < list->count; i++) chosen[sl_onnx_axis(c, list->items[i], rank)] = true;
    for (uint32_t i = 0; i < rank; i++)
        if (chosen[i] || !list->count) axes.dims[axes.rank++] = i;
    return axes;
}

/* ---- Outputs ---- */

void sl_onnx_set(sl_onnx_call *c, uint32_t output, sl_value value) {
    if (output >= c->out_count || sl_onnx_failed(c)) return;
    c->out[output].value = value;
    c->out[output].type = sl_onnx_type(c, value);
}

void sl_onnx_set_literal(sl_onnx_call *c, uint32_t output, sl_type type, const void *data) {
    if (output >= c->out_count || sl_onnx_failed(c)) return;
    if (sl_type_check_shape(&type, c->out[output].name, &c->graph->error) != SL_OK) return;
    const size_t bytes = sl_type_bytes(&type);
    void *copy = sl_onnx_memory(c, bytes, 1);
    if (!copy) return;
    if (bytes) memcpy(copy, data, bytes);
    c->out[output].type = type;
    c->out[output].data = copy;
    c->out[output].value = (sl_value){0};
    c->out[output].root = NULL;
}
