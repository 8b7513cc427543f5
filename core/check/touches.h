/* touches.h - Every byte range that a program accesses, in one space of final addresses: the arena
 * first, then every buffer outside it.  A step with undeclared accesses touches at least its
 * operands. */
#ifndef SL_CORE_CHECK_TOUCHES_H
#define SL_CORE_CHECK_TOUCHES_H
#include "core/program.h"

typedef struct {
    uint64_t begin, bytes, stride; /* as in sl_access, but begin is an address */
    uint32_t count;
    sl_buffer_id buffer;
    bool write;
} sl_touch;

typedef struct {
    const sl_program *program;
    sl_touch *items; /* step s: items[first[s]] to items[first[s + 1]], reads first */
    uint32_t *first;
    uint64_t *bases; /* [buffer] */
    uint64_t space_bytes, write_runs;
} sl_touches;

/* The program must have passed sl_check_bounds. */
SL_CHECKED sl_status sl_touches_collect(const sl_program *program, sl_arena *arena, sl_touches *out,
                                        sl_error *err);

static inline uint64_t sl_touch_run(const sl_touch *touch, uint32_t run) {
    return touch->begin + run * touch->stride;
}
static inline uint64_t sl_touch_end(const sl_touch *touch) {
    return sl_touch_run(touch, touch->count - 1) + touch->bytes;
}
/* The first address that both touch; false if there is none. */
bool sl_touch_common(const sl_touch *a, const sl_touch *b, uint64_t *out);
#endif
