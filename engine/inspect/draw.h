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
    const char *name;                  /* of each run; its number comes after it */
    uint32_t first_number;             /* of the first run */
    double compile_begin, compile_end; /* that of the program, on sl_clock_seconds; 0: not now */
} sl_recording;

/* trace_json.c: the trace event format of Chrome and Perfetto: a track for each member of the team,
 * one for runs and levels, one for waits, and as many for the disk as reads overlap.  Recordings
 * are written as they are added; after a failure nothing more is, and closing reports it. */
typedef struct sl_trace_file sl_trace_file;
/* zero: the time on sl_clock_seconds with which the trace begins. */
SL_CHECKED sl_status sl_trace_file_open(const char *path, double zero,
                                        const sl_allocator *allocator, sl_trace_file **out,
                                        sl_error *err);
void sl_trace_file_add(sl_trace_file *file, const sl_recording *recording);
/* Gives the file its name if all went well, or if `keep` is not set removes what was written. */
SL_CHECKED sl_status sl_trace_file_close(sl_trace_file *file, bool keep, sl_error *err);
/* A file of one recording. */
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
