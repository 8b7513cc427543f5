/* plan.c - Arena offsets from lifetimes: largest first, each at the lowest offset that is free
 * in all its levels. */
#include "base/sizes.h"
#include "compiler/compile.h"
#include <stdlib.h>

enum { BUFFER_ALIGN = 64 };

typedef struct {
    uint32_t buffer, first_level, last_level; /* live in [first, last] */
    uint64_t bytes, offset;
} lifetime;

static bool in_arena(const sl_buffer *buffer) {
    return buffer->kind == SL_BUFFER_TEMP || buffer->kind == SL_BUFFER_OUTPUT;
}

static void extend(lifetime *life, uint32_t level) {
    if (level < life->first_level) life->first_level = level;
    if (level > life->last_level) life->last_level = level;
}

/* One entry per arena buffer; index_of maps buffers to entries. */
static uint32_t collect(const sl_program *p, lifetime *lives, uint32_t *index_of) {
    uint32_t count = 0;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        if (!in_arena(&p->buffers[b])) continue;
        index_of[b] = count;
        lives[count++] = (lifetime){
            .buffer = b,
            .first_level = UINT32_MAX,
            .bytes = sl_round_up(p->buffers[b].bytes, BUFFER_ALIGN),
        };
    }
    for (uint32_t s = 0; s < p->step_count; s++) {
        const sl_step *step = &p->steps[s];
        for (uint32_t a = 0; a < step->read_count; a++)
            if (in_arena(&p->buffers[step->reads[a].buffer.v]))
                extend(&lives[index_of[step->reads[a].buffer.v]], step->level);
        for (uint32_t a = 0; a < step->write_count; a++)
            if (in_arena(&p->buffers[step->writes[a].buffer.v]))
                extend(&lives[index_of[step->writes[a].buffer.v]], step->level);
    }
    for (uint32_t i = 0; i < count; i++)
        if (p->buffers[lives[i].buffer].kind == SL_BUFFER_OUTPUT) lives[i].last_level = UINT32_MAX;
    return count;
}

static int larger_first(const void *a, const void *b) {
    const lifetime *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->buffer < y->buffer ? -1 : 1;
}

static bool live_together(const lifetime *a, const lifetime *b) {
    return a->first_level <= b->last_level && b->first_level <= a->last_level;
}

/* placed holds the entries that already have offsets, in order of offset. */
static uint64_t lowest_free(const lifetime *life, lifetime *const *placed, uint32_t count) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!live_together(life, placed[i])) continue;
        if (offset + life->bytes <= placed[i]->offset) break;
        const uint64_t end = placed[i]->offset + placed[i]->bytes;
        if (end > offset) offset = end;
    }
    return offset;
}

static void insert(lifetime **placed, uint32_t count, lifetime *life) {
    uint32_t at = count;
    for (; at > 0 && placed[at - 1]->offset > life->offset; at--) placed[at] = placed[at - 1];
    placed[at] = life;
}

sl_status sl_plan(sl_program *program, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, program->arena.allocator);
    lifetime *lives = SL_ARENA_NEW_ARRAY(&scratch, lifetime, program->buffer_count + 1);
    uint32_t *index_of = SL_ARENA_NEW_ARRAY(&scratch, uint32_t, program->buffer_count + 1);
    lifetime **placed = SL_ARENA_NEW_ARRAY(&scratch, lifetime *, program->buffer_count + 1);
    if (!lives || !index_of || !placed) {
        sl_arena_deinit(&scratch);
        return sl_no_memory(err, "a memory plan", program->buffer_count);
    }
    const uint32_t count = collect(program, lives, index_of);
    qsort(lives, count, sizeof *lives, larger_first);
    program->arena_bytes = program->unshared_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        lifetime *life = &lives[i];
        life->offset = lowest_free(life, placed, i);
        insert(placed, i, life);
        program->buffers[life->buffer].arena_offset = life->offset;
        program->unshared_bytes += life->bytes;
        if (life->offset + life->bytes > program->arena_bytes)
            program->arena_bytes = life->offset + life->bytes;
    }
    sl_arena_deinit(&scratch);
    return SL_OK;
}
