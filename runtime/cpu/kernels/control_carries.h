/* control_carries.h - Loop-carried values of a body.
 *
 * The current value of a carry is at the input of the op, or in one of two alternating buffers.  A
 * body's output may be what any of its inputs is bound to, so that a new value never overwrites one
 * that is still bound. */
#ifndef SL_RUNTIME_CPU_CONTROL_CARRIES_H
#define SL_RUNTIME_CPU_CONTROL_CARRIES_H
#include "core/ops.h"
#include "runtime/cpu/kernels/kernels.h"
#include <string.h>

typedef struct {
    const void *now;
    void *places[2];
    size_t bytes;
    uint32_t next; /* of the places */
} carry;

enum { LINE = 64 };
static inline size_t whole_lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Memory handed out piece by piece; with no memory it is only counted. */
typedef struct {
    char *at;
    size_t used;
} room;
static inline void *take_room(room *r, size_t bytes) {
    void *taken = r->at ? r->at + r->used : NULL;
    r->used += whole_lines(bytes);
    return taken;
}

/* Starts from `from`; the first place is the op's own result. */
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
/* Into the op's own result. */
static inline void finish_carry(const carry *c) {
    if (c->now != c->places[0]) memcpy(c->places[0], c->now, c->bytes);
}

/* Element t of a stack, and its size. */
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
