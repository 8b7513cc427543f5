/* control.c - Ops with subgraphs.  Each is one item: its body runs on the thread that executes it.
 */
#include "runtime/cpu/kernels/control_carries.h"
#include "runtime/custom.h"

/* ---- ops that run a body once: if, custom_fn ---- */

static sl_status run_once(sl_body *body, const sl_cview_list *inputs, const sl_view_list *results,
                          sl_error *err) {
    for (uint32_t i = 0; i < SL_LIST_COUNT(*inputs); i++)
        body->bind(body, i, inputs->items[i].data);
    SL_TRY(body->run(body, err));
    for (uint32_t o = 0; o < SL_LIST_COUNT(*results); o++) {
        const size_t bytes = sl_type_bytes(&results->items[o].type);
        if (bytes) memcpy(results->items[o].data, body->output(body, o), bytes);
    }
    return SL_OK;
}

SPLIT(if) {
    (void)args;
    return (sl_split){1, 1, 0};
}
RUN(if) {
    const sl_if_args *a = args;
    (void)begin, (void)end;
    const bool chosen = *(const uint8_t *)a->condition.data != 0;
    return run_once(worker->bodies[chosen ? 0 : 1], &a->inputs, &a->results, worker->err);
}

SPLIT(custom_fn) {
    (void)args;
    return (sl_split){1, 1, 0};
}
RUN(custom_fn) {
    const sl_custom_fn_args *a = args;
    (void)begin, (void)end;
    return run_once(worker->bodies[0], &a->inputs, &a->results, worker->err);
}

/* ---- while ---- */

static void bind_carries(sl_body *body, const carry *carries, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) body->bind(body, i, carries[i].now);
}

static room start_carries(const sl_cview_list *inits, const sl_view_list *results, uint32_t count,
                          void *memory, carry **out) {
    room r = {.at = memory};
    carry *carries = take_room(&r, count * sizeof *carries);
    for (uint32_t i = 0; i < count; i++)
        start_carry(carries ? &carries[i] : NULL, &inits->items[i], results->items[i].data, &r);
    if (out) *out = carries;
    return r;
}

SPLIT(while) {
    const sl_while_args *a = args;
    const uint32_t count = SL_LIST_COUNT(a->carries);
    return (sl_split){1, 1, start_carries(&a->carries, &a->results, count, NULL, NULL).used};
}
RUN(while) {
    const sl_while_args *a = args;
    (void)begin, (void)end;
    const uint32_t count = SL_LIST_COUNT(a->carries);
    sl_body *condition = worker->bodies[0], *body = worker->bodies[1];
    carry *carries;
    (void)start_carries(&a->carries, &a->results, count, worker->scratch, &carries);
    for (int64_t done = 0; !a->attrs.most || done < a->attrs.most; done++) {
        bind_carries(condition, carries, count);
        SL_TRY(condition->run(condition, worker->err));
        if (!*(const uint8_t *)condition->output(condition, 0)) break;
        bind_carries(body, carries, count);
        SL_TRY(body->run(body, worker->err));
        for (uint32_t i = 0; i < count; i++) advance_carry(&carries[i], body->output(body, i));
    }
    for (uint32_t i = 0; i < count; i++) finish_carry(&carries[i]);
    return SL_OK;
}

/* ---- scan ---- */

static int64_t scan_length(const sl_scan_args *a) {
    const uint32_t first = a->attrs.carries + a->attrs.consts;
    return first < SL_LIST_COUNT(a->inputs) ? dim(&a->inputs.items[first].type, 0)
                                            : a->attrs.length;
}

SPLIT(scan) {
    const sl_scan_args *a = args;
    return (sl_split){1, 1,
                      start_carries(&a->inputs, &a->results, a->attrs.carries, NULL, NULL).used};
}
RUN(scan) {
    const sl_scan_args *a = args;
    (void)begin, (void)end;
    const uint32_t count = a->attrs.carries, first_x = count + a->attrs.consts;
    const int64_t length = scan_length(a);
    sl_body *body = worker->bodies[0];
    carry *carries;
    (void)start_carries(&a->inputs, &a->results, count, worker->scratch, &carries);
    for (uint32_t i = count; i < first_x; i++) body->bind(body, i, a->inputs.items[i].data);
    for (int64_t step = 0; step < length; step++) {
        const int64_t t = a->attrs.reverse ? length - 1 - step : step;
        bind_carries(body, carries, count);
        for (uint32_t i = first_x; i < SL_LIST_COUNT(a->inputs); i++)
            body->bind(body, i, part_of(&a->inputs.items[i], t));
        SL_TRY(body->run(body, worker->err));
        for (uint32_t y = count; y < SL_LIST_COUNT(a->results); y++)
            store_part(&a->results.items[y], t, body->output(body, y));
        for (uint32_t i = 0; i < count; i++) advance_carry(&carries[i], body->output(body, i));
    }
    for (uint32_t i = 0; i < count; i++) finish_carry(&carries[i]);
    return SL_OK;
}

/* ---- custom: the callback of a custom op ---- */

SPLIT(custom) {
    return (sl_split){1, 1, sl_custom_room_bytes(args)};
}
RUN(custom) {
    (void)begin, (void)end;
    return sl_custom_run(args, worker->label, worker->scratch, worker->err);
}
