/* plan.h - Lifetimes of buffers, and which of them are one block of memory. */
#ifndef SL_COMPILER_PLAN_PLAN_H
#define SL_COMPILER_PLAN_PLAN_H
#include "compiler/schedule/schedule.h"

typedef struct {
    uint32_t first_level, last_level; /* live in these and between */
    uint32_t last_step;               /* a step that touches it in its last level */
    bool alone;                       /* no other step does */
} sl_span;

typedef struct {
    uint32_t buffer; /* the first of those that follow one another here */
    uint32_t first_level, last_level;
    uint64_t bytes, offset;
} sl_block;

enum { SL_NO_BLOCK = UINT32_MAX };
typedef struct {
    sl_span *spans;     /* [buffer]: of OUTPUT and TEMP */
    uint32_t *block_of; /* [buffer]: SL_NO_BLOCK for all others */
    sl_block *blocks;
    uint32_t block_count;
    uint32_t in_place; /* buffers that took over a block */
} sl_lives;

SL_CHECKED sl_status sl_lives_find(const sl_program *program, uint64_t alignment, bool in_place,
                                   sl_arena *arena, sl_lives *out, sl_error *err);
/* The bytes live in the level that has most. */
SL_CHECKED sl_status sl_lives_measure(const sl_lives *lives, uint32_t level_count, sl_arena *arena,
                                      uint64_t *out_bytes, sl_error *err);
#endif
