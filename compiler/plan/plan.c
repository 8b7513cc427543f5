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

/* The blocks that have offsets, by groups of levels in which they live, each group in order of
 * offset.  Those of many groups are in a list of their own, so that a block is in few lists. */
enum { GROUP_LEVELS = 32, MOST_GROUPS = 8 };
typedef struct {
    uint32_t *blocks;
    uint32_t count, capacity;
} group;
typedef struct {
    group *groups; /* [count + 1]; the last: long-lived blocks */
    uint32_t *at;  /* [count + 1]: where a search is in each */
    uint32_t count;
    sl_arena *arena;
} placing;

static uint32_t group_of(uint32_t level) {
    return level / GROUP_LEVELS;
}

static bool add_to_group(placing *p, uint32_t number, const sl_block *blocks, uint32_t block) {
    group *g = &p->groups[number];
    if (g->count == g->capacity) {
        const uint32_t capacity = g->capacity ? 2 * g->capacity : 16;
        uint32_t *larger = SL_ARENA_NEW_ARRAY(p->arena, uint32_t, capacity);
        if (!larger) return false;
        if (g->count) memcpy(larger, g->blocks, g->count * sizeof *larger);
        g->blocks = larger;
        g->capacity = capacity;
    }
    uint32_t low = 0, high = g->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (blocks[g->blocks[middle]].offset <= blocks[block].offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&g->blocks[low + 1], &g->blocks[low], (g->count - low) * sizeof *g->blocks);
    g->blocks[low] = block;
    g->count++;
    return true;
}

static bool add_placed(placing *p, const sl_block *blocks, uint32_t block) {
    const uint32_t first = group_of(blocks[block].first_level);
    const uint32_t last = group_of(blocks[block].last_level);
    if (last - first >= MOST_GROUPS) return add_to_group(p, p->count, blocks, block);
    for (uint32_t g = first; g <= last; g++)
        if (!add_to_group(p, g, blocks, block)) return false;
    return true;
}

/* The next block of a group that is live in levels of `block`; NULL at the end. */
static const sl_block *next_of(const placing *p, uint32_t number, const sl_block *blocks,
                               const sl_block *block) {
    const group *g = &p->groups[number];
    for (; p->at[number] < g->count; p->at[number]++) {
        const sl_block *other = &blocks[g->blocks[p->at[number]]];
        if (block->first_level <= other->last_level && other->first_level <= block->last_level)
            return other;
    }
    return NULL;
}

/* Of the groups of `block`, the one whose next block lies lowest. */
static const sl_block *lowest_next(const placing *p, const sl_block *blocks,
                                   const sl_block *block) {
    uint32_t lowest = p->count;
    const sl_block *found = next_of(p, p->count, blocks, block);
    for (uint32_t g = group_of(block->first_level); g <= group_of(block->last_level); g++) {
        const sl_block *other = next_of(p, g, blocks, block);
        if (!other || (found && found->offset <= other->offset)) continue;
        found = other;
        lowest = g;
    }
    p->at[lowest]++;
    return found;
}

/* For a block of many groups: moves it up past whatever is in its way, until nothing is. */
static uint64_t push_up(const placing *p, const sl_block *blocks, const sl_block *block) {
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t g = group_of(block->first_level); g <= p->count; g++) {
            if (g > group_of(block->last_level)) g = p->count;
            p->at[g] = 0;
            for (const sl_block *other; (other = next_of(p, g, blocks, block)); p->at[g]++) {
                const uint64_t end = other->offset + other->bytes;
                if (other->offset >= offset + block->bytes || end <= offset) continue;
                offset = end;
                moved = true;
            }
        }
    }
    return offset;
}

static uint64_t lowest_free(const placing *p, const sl_block *blocks, const sl_block *block) {
    uint64_t offset = 0;
    if (group_of(block->last_level) - group_of(block->first_level) >= MOST_GROUPS)
        return push_up(p, blocks, block);
    p->at[p->count] = 0;
    for (uint32_t g = group_of(block->first_level); g <= group_of(block->last_level); g++)
        p->at[g] = 0;
    for (const sl_block *other; (other = lowest_next(p, blocks, block));) {
        if (offset + block->bytes <= other->offset) break;
        const uint64_t end = other->offset + other->bytes;
        if (end > offset) offset = end;
    }
    return offset;
}

/* Places all blocks in their present order; *out: the arena's size, 0 if no block has bytes.  False
 * without memory. */
static bool place_all(sl_block *blocks, uint32_t count, placing *p, uint64_t *out) {
    uint64_t bytes = 0;
    for (uint32_t g = 0; g <= p->count; g++) p->groups[g].count = 0;
    for (uint32_t i = 0; i < count; i++) {
        blocks[i].offset = lowest_free(p, blocks, &blocks[i]);
        if (!add_placed(p, blocks, i)) return false;
        if (blocks[i].offset + blocks[i].bytes > bytes) bytes = blocks[i].offset + blocks[i].bytes;
    }
    *out = bytes;
    return true;
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
    placing p = {.count = group_of(last) + 1, .arena = scratch};
    sl_block *trial = SL_ARENA_NEW_ARRAY(scratch, sl_block, count + 1);
    p.groups = SL_ARENA_NEW_ARRAY(scratch, group, (size_t)p.count + 1);
    p.at = SL_ARENA_NEW_ARRAY(scratch, uint32_t, (size_t)p.count + 1);
    if (!trial || !p.groups || !p.at) return sl_no_memory(err, "a memory plan", count);
    *out_bytes = UINT64_MAX;
    for (size_t o = 0; o < sizeof orders / sizeof orders[0] && *out_bytes > live_bytes; o++) {
        memcpy(trial, lives->blocks, count * sizeof *trial);
        qsort(trial, count, sizeof *trial, orders[o]);
        uint64_t bytes;
        if (!place_all(trial, count, &p, &bytes)) return sl_no_memory(err, "a memory plan", count);
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
