#include "runtime/custom.h"
#include "core/custom.h"

sl_status sl_custom_check(const char *label, const sl_custom_attrs *attrs, const char *device,
                          sl_error *err) {
    if (attrs->handler && attrs->handler->kernel) return SL_OK;
    return sl_fail(err, SL_UNSUPPORTED, "%s: the %s device has no kernel for custom op '%s'", label,
                   device, attrs->name);
}

size_t sl_custom_room_bytes(const sl_custom_args *args) {
    const size_t count = (size_t)SL_LIST_COUNT(args->inputs) + SL_LIST_COUNT(args->results);
    return count * (sizeof(sl_tensor_type) + sizeof(void *));
}

/* The status of a callback; the message says what failed if the callback left none. */
static sl_status judge(const sl_custom_op *op, const char *label, sl_status status, sl_error *err) {
    if (status == SL_OK) return SL_OK;
    err->message[sizeof err->message - 1] = '\0'; /* the kernel may have filled it all */
    if (!err->message[0])
        return sl_fail(err, status, "%s: the kernel of custom op '%s' failed: %s",
                       label ? label : "custom", op->name, sl_status_text(status));
    err->status = status;
    return status;
}

/* Pointers of a call, in its room: types of inputs and results, then their addresses. */
typedef struct {
    sl_custom_call call;
    const void **inputs;
    void **outputs;
} prepared;

static prepared prepare(const sl_custom_args *args, void *room) {
    const uint32_t ins = SL_LIST_COUNT(args->inputs), outs = SL_LIST_COUNT(args->results);
    sl_tensor_type *types = room;
    const void **inputs = (const void **)(types + ins + outs);
    void **outputs = (void **)(inputs + ins);
    for (uint32_t i = 0; i < ins; i++) {
        types[i] = sl_tensor_type_of(&args->inputs.items[i].type);
        inputs[i] = args->inputs.items[i].data;
    }
    for (uint32_t o = 0; o < outs; o++) {
        types[ins + o] = sl_tensor_type_of(&args->results.items[o].type);
        outputs[o] = args->results.items[o].data;
    }
    return (prepared){{sizeof(sl_custom_call), args->attrs.attrs, ins, outs, types, types + ins},
                      inputs,
                      outputs};
}

sl_status sl_custom_run(const sl_custom_args *args, const char *label, void *room, sl_error *err) {
    const sl_custom_op *op = args->attrs.handler;
    const prepared p = prepare(args, room);
    *err = (sl_error){0};
    return judge(op, label, op->kernel(op->ctx, &p.call, p.inputs, p.outputs, err), err);
}

sl_status sl_custom_launch(const sl_custom_args *args, const char *label, void *room, void *stream,
                           sl_error *err) {
    const sl_custom_op *op = args->attrs.handler;
    const prepared p = prepare(args, room);
    *err = (sl_error){0};
    return judge(op, label, op->cuda_launch(op->ctx, &p.call, p.inputs, p.outputs, stream, err),
                 err);
}
