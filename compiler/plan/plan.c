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

/* placed: the blocks that have offsets, in order of offset. */
static uint64_t lowest_free(const sl_block *block, const sl_block *placed, uint32_t count) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (block->first_level > placed[i].last_level || placed[i].first_level > block->last_level)
            continue;
        if (offset + block->bytes <= placed[i].offset) break;
        const uint64_t end = placed[i].offset + placed[i].bytes;
        if (end > offset) offset = end;
    }
    return offset;
}

static void insert(sl_block *placed, uint32_t count, const sl_block *block) {
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (placed[middle].offset <= block->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&placed[low + 1], &placed[low], (count - low) * sizeof *placed);
    placed[low] = *block;
}

/* Places all blocks in their present order; the arena's size. */
static uint64_t place_all(sl_block *blocks, uint32_t count, sl_block *placed) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        blocks[i].offset = lowest_free(&blocks[i], placed, i);
        insert(placed, i, &blocks[i]);
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
    sl_block *trial = SL_ARENA_NEW_ARRAY(scratch, sl_block, count + 1);
    sl_block *placed = SL_ARENA_NEW_ARRAY(scratch, sl_block, count + 1);
    if (!trial || !placed) return sl_no_memory(err, "a memory plan", count);
    *out_bytes = UINT64_MAX;
    for (size_t o = 0; o < sizeof orders / sizeof orders[0] && *out_bytes > live_bytes; o++) {
        memcpy(trial, lives->blocks, count * sizeof *trial);
        qsort(trial, count, sizeof *trial, orders[o]);
        const uint64_t bytes = place_all(trial, count, placed);
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
