/* recurrent.c - RNN, GRU and LSTM. */
#include "frontend/onnx/families.h"
#include <stdio.h>
#include <string.h>

/* Swaps the first two dims of x[T,B,..], for layout 1. */
static sl_value swapped(sl_onnx_call *c, sl_value x) {
    const uint32_t rank = sl_onnx_type(c, x).shape.rank;
    sl_dims perm = {.rank = rank, .dims = {1, 0}};
    for (uint32_t i = 2; i < rank; i++) perm.dims[i] = i;
    return rank < 2 ? x : sl_onnx_transpose(c, x, &perm);
}

/* "LeakyRelu, Tanh" as "leaky_relu,tanh". */
static const char *activation_names(sl_onnx_call *c, const sl_onnx_attr *attr) {
    size_t room = 1;
    for (uint32_t i = 0; attr && i < attr->text_count; i++) room += 2 * strlen(attr->texts[i]) + 1;
    char *text = sl_onnx_memory(c, room, 1), *at = text;
    if (!text) return "";
    for (uint32_t i = 0; attr && i < attr->text_count; i++) {
        if (i) *at++ = ',';
        for (const char *from = attr->texts[i]; *from; from++) {
            const bool capital = *from >= 'A' && *from <= 'Z';
            if (capital && from != attr->texts[i]) *at++ = '_';
            *at++ = (char)(capital ? *from - 'A' + 'a' : *from);
        }
    }
    if (strpbrk(text, "\"\\")) sl_onnx_wrong(c, "activations '%s' are invalid", text);
    return text;
}

static const char *numbers_text(sl_onnx_call *c, const char *name, uint32_t wanted) {
    const sl_onnx_attr *attr = sl_onnx_attr_of(c, name);
    if (!attr || !attr->float_count) return "[]";
    if (attr->float_count != wanted)
        sl_onnx_refuse(c, "%s for only some of the activations is not supported", name);
    const size_t room = (size_t)attr->float_count * 32 + 3;
    char *text = sl_onnx_memory(c, room, 1), *at = text;
    if (!text) return "[]";
    *at++ = '[';
    for (uint32_t i = 0; i < attr->float_count; i++)
        at += snprintf(at, room - (size_t)(at - text), "%s%.9g", i ? ", " : "",
                       (double)attr->floats[i]);
    *at = ']';
    return text;
}

typedef struct {
    uint32_t count, extras;
    sl_value items[8];
} operands;

/* x, w, r, then those of bias, lengths, initial states and peepholes that are present. */
static operands read_operands(sl_onnx_call *c, bool batch_first) {
    operands o = {0};
    for (uint32_t i = 0; i < 3; i++) o.items[o.count++] = sl_onnx_in(c, i);
    if (batch_first) o.items[0] = swapped(c, o.items[0]);
    for (uint32_t i = 3; i < 8 && i < c->in_count; i++) {
        if (!sl_onnx_has(c, i)) continue;
        const bool state = i == 5 || i == 6;
        const sl_value x = sl_onnx_in(c, i);
        o.items[o.count++] = batch_first && state ? swapped(c, x) : x;
        o.extras |= 1u << (i - 3);
    }
    return o;
}

void sl_onnx_recurrent(sl_onnx_call *c) {
    const bool batch_first = sl_onnx_int(c, "layout", 0) != 0;
    const bool lstm = strcmp(c->op, "lstm") == 0, gru = strcmp(c->op, "gru") == 0;
    const sl_onnx_attr *functions = sl_onnx_attr_of(c, "activations");
    const uint32_t count = functions ? functions->text_count : 0;
    const operands o = read_operands(c, batch_first);
    const char *direction = sl_onnx_text(c, "direction", "forward");
    char more[64] = "";
    sl_value out[3];
    if (gru)
        (void)snprintf(more, sizeof more, ", linear_before_reset=%d",
                       sl_onnx_int(c, "linear_before_reset", 0) != 0);
    if (lstm)
        (void)snprintf(more, sizeof more, ", input_forget=%d",
                       sl_onnx_int(c, "input_forget", 0) != 0);
    if (strpbrk(direction, "\"\\")) sl_onnx_wrong(c, "direction '%s' is unknown", direction);
    sl_onnx_append(c, &(sl_onnx_step){c->op, o.count, lstm ? 3 : 2, o.items, out},
                   "extras=%u, direction=\"%s\", activations=\"%s\", alphas=%s, betas=%s, "
                   "clip=%.9g%s",
                   o.extras, direction, activation_names(c, functions),
                   numbers_text(c, "activation_alpha", count),
                   numbers_text(c, "activation_beta", count), (double)sl_onnx_float(c, "clip", 0),
                   more);
    if (batch_first && !sl_onnx_failed(c)) { /* y[T,D,B,H] as [B,T,D,H] */
        out[0] = sl_onnx_transpose(c, out[0], &(sl_dims){4, {2, 0, 1, 3}});
        for (uint32_t i = 1; i < (lstm ? 3u : 2u); i++) out[i] = swapped(c, out[i]);
    }
    for (uint32_t i = 0; i < (lstm ? 3u : 2u); i++) sl_onnx_set(c, i, out[i]);
}
