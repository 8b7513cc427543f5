/* draw.h - Pictures of a program and of its runs, as files. */
#ifndef SL_ENGINE_INSPECT_DRAW_H
#define SL_ENGINE_INSPECT_DRAW_H
#include "engine/experts/store.h"
#include "runtime/trace.h"
#include <stdio.h>

/* What happened during some runs of a program. */
typedef struct {
    const sl_program *program;
    const sl_trace *trace;
    const sl_read_log *reads;
    uint32_t members;
} sl_recording;

/* trace_json.c: the trace event format of Chrome and Perfetto: a track for each member of the team,
 * one for runs and levels, and as many for the disk as reads overlap. */
SL_CHECKED sl_status sl_write_trace(const sl_recording *recording, const char *path,
                                    const sl_allocator *allocator, sl_error *err);
/* memory_svg.c: buffers of the arena, levels to the right and offsets upwards, above the bytes that
 * are live in each level. */
SL_CHECKED sl_status sl_write_memory(const sl_program *program, const char *path,
                                     const sl_allocator *allocator, sl_error *err);
/* program_dot.c: steps ranked by level, with the edges that no longer path implies. */
SL_CHECKED sl_status sl_write_dot(const sl_program *program, const char *path,
                                  const sl_allocator *allocator, sl_error *err);
/* The edges that it draws, in arena or in the program. */
SL_CHECKED sl_status sl_find_edges(const sl_program *program, sl_arena *arena, sl_edges *out,
                                   sl_error *err);
/* steps.c: every step with its operands, the bytes that they occupy, and its attributes. */
typedef struct {
    FILE *to;
    bool json;
} sl_step_list;
SL_CHECKED sl_status sl_print_steps(const sl_program *program, const sl_step_list *list,
                                    const sl_allocator *allocator, sl_error *err);
#endif
