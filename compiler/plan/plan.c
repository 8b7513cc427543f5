/* plan.c - Arena offsets from lifetimes over levels.
 *
 * Buffers that follow one another in place form one block.  Blocks are placed one after the other,
 * each at the lowest offset that is free in all its levels.  No order of placing is best for every
 * program: a few are tried and the smallest arena is kept. */
#include "compiler/plan/plan.h"
#include "base/sizes.h"
#include <stdlib.h>
#include <string.h>

enum { LEAST_ALIGNMENT = 64, MOST_ALIGNMENT = 2 << 20 };

static sl_status find_alignment(const sl_compiler_options *options, uint64_t *out, sl_error *err) {
    *out = options->arena_alignment ? options->arena_alignment : LEAST_ALIGNMENT;
    if (*out >= LEAST_ALIGNMENT && *out <= MOST_ALIGNMENT && (*out & (*out - 1)) == 0) return SL_OK;
    return sl_fail(err, SL_INVALID, "arena alignment %llu: must be a power of two from %d to %d",
                   (unsigned long long)*out, LEAST_ALIGNMENT, MOST_ALIGNMENT);
}

/* ---- orders of placing ---- */

static int by_number(const sl_block *x, const sl_block *y) {
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int larger_first(const void *a, const void *b) {
    const sl_block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return by_number(x, y);
}

static double area_of(const sl_block *block) {
    return (double)block->bytes * ((double)block->last_level - block->first_level + 1);
}

static int heavier_first(const void *a, const void *b) {
    const sl_block *x = a, *y = b;
    if (area_of(x) != area_of(y)) return area_of(x) < area_of(y) ? 1 : -1;
    return larger_first(a, b);
}

static int earlier_first(const void *a, const void *b) {
    const sl_block *x = a, *y = b;
    if (x->first_level != y->first_level) return x->first_level < y->first_level ? -1 : 1;
    return larger_first(a, b);
}

typedef int order_fn(const void *a, const void *b);
static order_fn *const orders[] = {larger_first, heavier_first, earlier_first};

/* ---- placing ---- */

/* The blocks that have offsets, by groups of levels in which they live.  Those of many groups are
 * in a list of their own, so that a block is in few lists. */
enum { GROUP_LEVELS = 32, MOST_GROUPS = 8 };
typedef struct {
    uint32_t next, block; /* next: 1 + its index, 0: none */
} group_link;
typedef struct {
    uint32_t *first; /* [groups + 1]: of each group, and of the long-lived blocks */
    group_link *links;
    uint32_t groups, count;
    const sl_block **found; /* room for all blocks */
} placing;

static uint32_t group_of(uint32_t level) {
    return level / GROUP_LEVELS;
}

static void list_block(placing *p, uint32_t list, uint32_t block) {
    p->links[p->count] = (group_link){p->first[list], block};
    p->first[list] = ++p->count;
}

static void add_placed(placing *p, const sl_block *blocks, uint32_t block) {
    const uint32_t first = group_of(blocks[block].first_level);
    const uint32_t last = group_of(blocks[block].last_level);
    if (last - first >= MOST_GROUPS) {
        list_block(p, p->groups, block);
        return;
    }
    for (uint32_t g = first; g <= last; g++) list_block(p, g, block);
}

static int lower_first(const void *a, const void *b) {
    const sl_block *x = *(const sl_block *const *)a, *y = *(const sl_block *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Collects the placed blocks of a list that live at the same time; in several lists, a block counts
 * in the first that both share. */
static uint32_t collect(const placing *p, const sl_block *blocks, const sl_block *block,
                        uint32_t list, uint32_t count) {
    for (uint32_t l = p->first[list]; l; l = p->links[l - 1].next) {
        const sl_block *other = &blocks[p->links[l - 1].block];
        if (block->first_level > other->last_level || other->first_level > block->last_level)
            continue;
        const uint32_t later =
            other->first_level > block->first_level ? other->first_level : block->first_level;
        if (list == p->groups || group_of(later) == list) p->found[count++] = other;
    }
    return count;
}

static uint64_t lowest_free(const placing *p, const sl_block *blocks, const sl_block *block) {
    uint32_t count = collect(p, blocks, block, p->groups, 0);
    for (uint32_t g = group_of(block->first_level); g <= group_of(block->last_level); g++)
        count = collect(p, blocks, block, g, count);
    qsort(p->found, count, sizeof *p->found, lower_first);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count && offset + block->bytes > p->found[i]->offset; i++) {
        const uint64_t end = p->found[i]->offset + p->found[i]->bytes;
        if (end > offset) offset = end;
    }
    return offset;
}

/* Places all blocks in their present order; the arena's size. */
static uint64_t place_all(sl_block *blocks, uint32_t count, placing *p) {
    uint64_t bytes = 0;
    memset(p->first, 0, ((size_t)p->groups + 1) * sizeof *p->first);
    p->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        blocks[i].offset = lowest_free(p, blocks, &blocks[i]);
        add_placed(p, blocks, i);
        if (blocks[i].offset + blocks[i].bytes > bytes) bytes = blocks[i].offset + blocks[i].bytes;
    }
    return bytes;
}

static uint64_t place_apart(sl_block *blocks, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        blocks[i].offset = bytes;
        bytes += blocks[i].bytes;
    }
    return bytes;
}

/* Leaves the best offsets in lives->blocks; no order can do better than live_bytes. */
static sl_status place_best(sl_lives *lives, uint64_t live_bytes, sl_arena *scratch,
                            uint64_t *out_bytes, sl_error *err) {
    const uint32_t count = lives->block_count;
    uint32_t last = 0;
    for (uint32_t i = 0; i < count; i++)
        if (lives->blocks[i].last_level > last) last = lives->blocks[i].last_level;
    placing p = {.groups = group_of(last) + 1};
    sl_block *trial = SL_ARENA_NEW_ARRAY(scratch, sl_block, count + 1);
    p.first = SL_ARENA_NEW_ARRAY(scratch, uint32_t, (size_t)p.groups + 1);
    p.links = SL_ARENA_NEW_ARRAY(scratch, group_link, (size_t)count * MOST_GROUPS + 1);
    p.found = SL_ARENA_NEW_ARRAY(scratch, const sl_block *, count + 1);
    if (!trial || !p.first || !p.links || !p.found)
        return sl_no_memory(err, "a memory plan", count);
    *out_bytes = UINT64_MAX;
    for (size_t o = 0; o < sizeof orders / sizeof orders[0] && *out_bytes > live_bytes; o++) {
        memcpy(trial, lives->blocks, count * sizeof *trial);
        qsort(trial, count, sizeof *trial, orders[o]);
        const uint64_t bytes = place_all(trial, count, &p);
        if (bytes >= *out_bytes) continue;
        *out_bytes = bytes;
        for (uint32_t i = 0; i < count; i++)
            lives->blocks[lives->block_of[trial[i].buffer]].offset = trial[i].offset;
    }
    return SL_OK;
}

/* ---- the plan ---- */

static sl_status plan(sl_program *program, const sl_compiler_options *options, sl_arena *scratch,
                      sl_error *err) {
    sl_program_report *report = &program->report;
    sl_lives lives;
    SL_TRY(find_alignment(options, &program->arena_alignment, err));
    const bool in_place = !options->no_in_place && !options->no_sharing;
    SL_TRY(sl_lives_find(program, program->arena_alignment, in_place, scratch, &lives, err));
    SL_TRY(sl_lives_measure(&lives, program->level_count, scratch, &report->live_bytes, err));
    if (options->no_sharing)
        program->arena_bytes = place_apart(lives.blocks, lives.block_count);
    else
        SL_TRY(place_best(&lives, report->live_bytes, scratch, &program->arena_bytes, err));
    report->unshared_bytes = 0;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        sl_buffer *buffer = &program->buffers[b];
        if (lives.block_of[b] == SL_NO_BLOCK) continue;
        buffer->arena_offset = lives.blocks[lives.block_of[b]].offset;
        buffer->first_level = lives.spans[b].first_level;
        buffer->last_level = lives.spans[b].last_level;
        report->unshared_bytes += sl_round_up(buffer->bytes, program->arena_alignment);
    }
    report->arena_bytes = program->arena_bytes;
    report->in_place = lives.in_place;
    return program->model == SL_SCHEDULE_EDGES ? sl_schedule_finish_edges(program, err) : SL_OK;
}

sl_status sl_plan(sl_program *program, const sl_compiler_options *options, sl_error *err) {
    const sl_compiler_options plain = {0};
    sl_arena scratch;
    sl_arena_init(&scratch, program->arena.allocator);
    const sl_status status = plan(program, options ? options : &plain, &scratch, err);
    sl_arena_deinit(&scratch);
    return status;
}
