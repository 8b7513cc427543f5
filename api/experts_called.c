/* experts_called.c - A source of experts that is made of callbacks, which are not trusted: what
 * they return is checked, and they are called no more often than they say. */
#include "api/experts_made.h"
#include "base/structs.h"
#include <string.h>

enum { MATRIX_ALIGNMENT = 64 };
enum { UNWANTED, WANTED, LENT }; /* state */

static sl_called_experts *called_of(sl_expert_source *base) {
    return (sl_called_experts *)base;
}

/* The status of a callback; adds a message if it left none. */
static sl_status result_of(sl_status status, const char *what, uint32_t layer, sl_error *err) {
    if (status == SL_OK) return SL_OK;
    if (err->status == status && err->message[0]) return status;
    return sl_fail(err, status, "experts of layer %u: %s: %s", layer, what, sl_status_text(status));
}

static sl_status request(sl_expert_source *base, sl_layer_id layer, const int32_t *experts,
                         uint32_t count, sl_error *err) {
    sl_called_experts *c = called_of(base);
    const sl_expert_shape *shape = &c->owner->shape;
    if (layer.v >= shape->layers)
        return sl_fail(err, SL_INVALID, "experts of layer %u requested, there are %u layers",
                       layer.v, shape->layers);
    pthread_mutex_lock(&c->lock);
    for (uint32_t e = 0; e < shape->experts; e++)
        if (c->state[e] == WANTED) c->state[e] = UNWANTED;
    for (uint32_t i = 0; i < count; i++) c->state[experts[i]] = WANTED;
    c->layer = layer.v;
    c->left = count;
    c->failure = (sl_error){0};
    pthread_mutex_unlock(&c->lock);
    if (!c->calls.request) return SL_OK;
    sl_error failure = {0};
    sl_status status =
        c->calls.request(c->calls.ctx, layer.v, (const uint32_t *)experts, count, &failure);
    if (status == SL_OK) return SL_OK;
    pthread_mutex_lock(&c->lock);
    c->left = 0;
    pthread_mutex_unlock(&c->lock);
    status = result_of(status, "request", layer.v, &failure);
    if (err) *err = failure;
    return status;
}

static sl_status check_matrix(const char *name, const void *data, size_t bytes, const sl_type *type,
                              sl_error *err) {
    if (!data || (uintptr_t)data % MATRIX_ALIGNMENT)
        return sl_fail(err, SL_INVALID, "%s is at %p, must be at a multiple of %d", name, data,
                       MATRIX_ALIGNMENT);
    if (bytes == sl_type_bytes(type)) return SL_OK;
    char text[SL_TYPE_TEXT];
    return sl_fail(err, SL_INVALID, "%s has %zu bytes, %s has %llu", name, bytes,
                   sl_type_format(type, text, sizeof text),
                   (unsigned long long)sl_type_bytes(type));
}

static sl_status check_expert(const sl_experts *x, const sl_expert *expert, sl_error *err) {
    SL_TRY(check_matrix("gate", expert->gate, expert->gate_bytes, &x->gate, err));
    SL_TRY(check_matrix("up", expert->up, expert->up_bytes, &x->gate, err));
    return check_matrix("down", expert->down, expert->down_bytes, &x->down, err);
}

/* With the lock: whether an expert may be lent now. */
static sl_status lend(sl_called_experts *c, const sl_expert *expert, sl_error *err) {
    if (expert->expert >= c->owner->shape.experts || c->state[expert->expert] != WANTED)
        return sl_fail(
            err, SL_INVALID,
            "experts of layer %u: take returned expert %u, which was not requested or is "
            "taken already",
            c->layer, expert->expert);
    c->state[expert->expert] = LENT;
    c->lent[expert->expert] = *expert;
    return SL_OK;
}

static sl_status check_lent(sl_called_experts *c, uint32_t layer, const sl_expert *expert,
                            sl_error *err) {
    pthread_mutex_lock(&c->lock);
    sl_status status = lend(c, expert, err);
    pthread_mutex_unlock(&c->lock);
    if (status != SL_OK) return status;
    status = check_expert(c->owner, expert, err);
    if (status == SL_OK) return SL_OK;
    pthread_mutex_lock(&c->lock);
    c->state[expert->expert] = UNWANTED;
    pthread_mutex_unlock(&c->lock);
    return sl_fail_in(err, status, "layer %u expert %u", layer, expert->expert);
}

static sl_status take_one(sl_called_experts *c, uint32_t layer, sl_expert *out, sl_error *err) {
    *out = (sl_expert){0};
    *err = (sl_error){0};
    SL_TRY(result_of(c->calls.take(c->calls.ctx, layer, out, err), "take", layer, err));
    const sl_status status = check_lent(c, layer, out, err);
    if (status != SL_OK && c->calls.release) c->calls.release(c->calls.ctx, layer, out);
    return status;
}

/* Fails every later take of the request. */
static void give_up(sl_called_experts *c, const sl_error *failure) {
    pthread_mutex_lock(&c->lock);
    if (c->failure.status == SL_OK) c->failure = *failure;
    c->left = 0;
    c->taken--;
    pthread_cond_broadcast(&c->returned);
    pthread_mutex_unlock(&c->lock);
}

/* Whether there is one more to take, for the caller; waits while too many are lent. */
static sl_status begin(sl_called_experts *c, uint32_t layer, bool *out_more, sl_error *err) {
    pthread_mutex_lock(&c->lock);
    while (c->left && c->calls.most_taken && c->taken >= c->calls.most_taken)
        pthread_cond_wait(&c->returned, &c->lock);
    sl_status status = c->failure.status;
    if (status != SL_OK)
        *err = c->failure;
    else if (layer != c->layer)
        status =
            sl_fail(err, SL_INVALID, "experts of layer %u taken, those of layer %u were requested",
                    layer, c->layer);
    *out_more = status == SL_OK && c->left > 0;
    c->left -= *out_more;
    c->taken += *out_more;
    pthread_mutex_unlock(&c->lock);
    return status;
}

static sl_status take(sl_expert_source *base, sl_layer_id layer, sl_expert_lease *out,
                      sl_error *err) {
    sl_called_experts *c = called_of(base);
    sl_expert expert;
    sl_error failure = {0};
    bool more;
    *out = (sl_expert_lease){.expert = -1};
    sl_status status = begin(c, layer.v, &more, &failure);
    if (more) {
        status = take_one(c, layer.v, &expert, &failure);
        if (status != SL_OK) give_up(c, &failure);
    }
    if (err && status != SL_OK) *err = failure;
    if (!more || status != SL_OK) return status;
    *out = (sl_expert_lease){.expert = (int32_t)expert.expert,
                             .slot = {expert.expert},
                             .gate = {expert.gate, c->owner->gate},
                             .up = {expert.up, c->owner->gate},
                             .down = {expert.down, c->owner->down}};
    return SL_OK;
}

static void release(sl_expert_source *base, const sl_expert_lease *lease) {
    sl_called_experts *c = called_of(base);
    if (lease->expert < 0) return;
    pthread_mutex_lock(&c->lock);
    const sl_expert expert = c->lent[lease->slot.v];
    const uint32_t layer = c->layer;
    c->state[lease->slot.v] = UNWANTED;
    pthread_mutex_unlock(&c->lock);
    if (c->calls.release) c->calls.release(c->calls.ctx, layer, &expert);
    pthread_mutex_lock(&c->lock);
    c->taken--;
    pthread_cond_broadcast(&c->returned);
    pthread_mutex_unlock(&c->lock);
}

sl_status sl_called_experts_init(sl_made_experts *x, const sl_expert_callbacks *callbacks,
                                 sl_error *err) {
    sl_called_experts *c = &x->called;
    SL_TRY(SL_STRUCT_TAKE(sl_expert_callbacks, &c->calls, callbacks, err));
    if (!c->calls.take) return sl_fail(err, SL_INVALID, "experts: the callback take is NULL");
    c->owner = &x->base;
    c->state = SL_ARENA_NEW_ARRAY(&x->arena, unsigned char, x->base.shape.experts);
    c->lent = SL_ARENA_NEW_ARRAY(&x->arena, sl_expert, x->base.shape.experts);
    if (!c->state || !c->lent) return sl_no_memory(err, "experts", x->base.shape.experts);
    c->base = (sl_expert_source){request, take, release, c->calls.most_taken};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->returned, NULL);
    x->base.source = &c->base;
    return SL_OK;
}
