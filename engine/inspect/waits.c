/* waits.c - Why steps wait for each other: the conflict behind every edge that was kept. */
#include "core/check/touches.h"
#include "engine/inspect/draw.h"
#include "engine/inspect/inspect.h"
#include <stdlib.h>
#include <string.h>

/* Bytes that both touch; runs of each are ascending and do not overlap each other. */
static uint64_t common_bytes(const sl_touch *a, const sl_touch *b) {
    uint64_t bytes = 0;
    for (uint32_t i = 0, j = 0; i < a->count && j < b->count;) {
        const uint64_t x = sl_touch_run(a, i), y = sl_touch_run(b, j);
        const uint64_t begin = x > y ? x : y;
        const uint64_t end = x + a->bytes < y + b->bytes ? x + a->bytes : y + b->bytes;
        if (end > begin) bytes += end - begin;
        if (x + a->bytes < y + b->bytes)
            i++;
        else
            j++;
    }
    return bytes;
}

static const char *kind_of(bool earlier_writes, bool later_writes) {
    return !later_writes ? "RAW" : earlier_writes ? "WAW" : "WAR";
}

/* The conflict with the most bytes; a read after a write before others. */
static sl_inspect_wait explain(const sl_touches *all, uint32_t from, uint32_t to) {
    const sl_program *program = all->program;
    const sl_step *earlier = &program->steps[from], *later = &program->steps[to];
    sl_inspect_wait wait = {.level = later->level,
                            .from = from,
                            .to = to,
                            .kind = "any",
                            .from_label = earlier->label,
                            .to_label = later->label,
                            .buffer = "",
                            .over = ""};
    for (uint32_t i = all->first[from]; i < all->first[from + 1]; i++)
        for (uint32_t j = all->first[to]; j < all->first[to + 1]; j++) {
            const sl_touch *a = &all->items[i], *b = &all->items[j];
            if (!a->write && !b->write) continue;
            const uint64_t bytes = common_bytes(a, b);
            const char *kind = kind_of(a->write, b->write);
            const bool first = kind[0] == 'R' && wait.kind[0] != 'R';
            const bool other = kind[0] != 'R' && wait.kind[0] == 'R';
            if (!bytes || other || (!first && bytes <= wait.bytes)) continue;
            const char *written = program->buffers[b->buffer.v].name;
            const char *before = program->buffers[a->buffer.v].name;
            wait.kind = kind;
            wait.bytes = bytes;
            wait.buffer = before ? before : "";
            wait.over = a->buffer.v == b->buffer.v || !written ? "" : written;
        }
    return wait;
}

static sl_status keep(sl_inspect_wait *wait, sl_arena *arena, sl_error *err) {
    const char **texts[] = {&wait->from_label, &wait->to_label, &wait->buffer, &wait->over};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = sl_arena_copy_text(arena, *texts[i], strlen(*texts[i]));
        if (!*texts[i]) return sl_no_memory(err, "a report", 0);
    }
    return SL_OK;
}

/* In a program of levels or groups a barrier stays for the edges from the level before it. */
static bool is_shown(const sl_program *program, uint32_t from, uint32_t to) {
    return program->model == SL_SCHEDULE_EDGES ||
           program->steps[from].level + 1 == program->steps[to].level;
}

static int by_target(const void *a, const void *b) {
    const sl_inspect_wait *x = a, *y = b;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static sl_status list(const sl_program *program, sl_arena *scratch, sl_inspect_report *out,
                      sl_error *err) {
    const uint32_t n = program->step_count;
    sl_arena *memory = out->memory;
    sl_edges edges;
    sl_touches touches;
    SL_TRY(sl_find_edges(program, scratch, &edges, err));
    SL_TRY(sl_touches_collect(program, scratch, &touches, err));
    sl_inspect_wait *waits = SL_ARENA_NEW_ARRAY(memory, sl_inspect_wait, edges.first[n] + 1);
    if (!waits) return sl_no_memory(err, "a report", edges.first[n] * sizeof *waits);
    uint32_t count = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t e = edges.first[s]; e < edges.first[s + 1]; e++) {
            if (!is_shown(program, s, edges.targets[e])) continue;
            waits[count] = explain(&touches, s, edges.targets[e]);
            SL_TRY(keep(&waits[count++], memory, err));
        }
    qsort(waits, count, sizeof *waits, by_target);
    out->waits = waits;
    out->wait_count = count;
    return SL_OK;
}

sl_status sl_list_waits(const sl_program *program, const sl_allocator *allocator,
                        sl_inspect_report *out, sl_error *err) {
    sl_arena scratch;
    sl_arena_init(&scratch, allocator);
    const sl_status status = list(program, &scratch, out, err);
    sl_arena_deinit(&scratch);
    return status;
}
