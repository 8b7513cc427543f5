/* control_carries.h - Loop-carried values of a body.
 *
 * The current value of a carry is in the op's input or in one of two alternating buffers.  A body's
 * output may alias any of its bound inputs, so a new value is never written over the one that is
 * still bound. */
#ifndef SL_RUNTIME_CPU_CONTROL_CARRIES_H
#define SL_RUNTIME_CPU_CONTROL_CARRIES_H
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <string.h>

typedef struct {
    const void *now;
    void *places[2];
    size_t bytes;
    uint32_t next; /* index of the buffer to write next */
} carry;

enum { LINE = 64 };
static inline size_t whole_lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A bump allocator; with at NULL it only counts bytes. */
typedef struct {
    char *at;
    size_t used;
} room;
static inline void *take_room(room *r, size_t bytes) {
    void *taken = r->at ? r->at + r->used : NULL;
    r->used += whole_lines(bytes);
    return taken;
}

/* Starts with the value `from`; the first of the two buffers is the op's own result. */
static inline void start_carry(carry *c, const sl_cview *from, void *result, room *r) {
    const size_t bytes = sl_type_bytes(&from->type);
    void *spare = take_room(r, bytes);
    if (c) *c = (carry){.now = from->data, .places = {result, spare}, .bytes = bytes};
}
static inline void advance_carry(carry *c, const void *value) {
    if (value == c->now) return;
    memcpy(c->places[c->next], value, c->bytes);
    c->now = c->places[c->next];
    c->next ^= 1;
}
/* Copies the final value to the op's result if it is not there already. */
static inline void finish_carry(const carry *c) {
    if (c->now != c->places[0]) memcpy(c->places[0], c->now, c->bytes);
}

/* Bytes and address of slice t along the leading axis. */
static inline size_t part_bytes(const sl_type *stack) {
    return (size_t)(sl_dims_tail(&stack->shape, 1)) * sl_dtype_infos[stack->dtype].bytes;
}
static inline const void *part_of(const sl_cview *stack, int64_t t) {
    return (const char *)stack->data + (size_t)t * part_bytes(&stack->type);
}
static inline void store_part(const sl_view *stack, int64_t t, const void *value) {
    const size_t bytes = part_bytes(&stack->type);
    if (bytes) memcpy((char *)stack->data + (size_t)t * bytes, value, bytes);
}
#endif
