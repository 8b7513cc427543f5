/* compiled.h - What a compiled graph is made of, for reports about it. */
#ifndef SL_API_COMPILED_H
#define SL_API_COMPILED_H
#include "compiler/compile.h"
#include "runtime/devices.h"
#include "sluice/graph.h"

/* All borrowed; the last three are NULL on the device "ref". */
typedef struct {
    const sl_graph *graph;
    const sl_compiler_options *compile;
    const sl_device_row *row;
    sl_device *device;
    const sl_program *program;
    sl_executable *executable;
} sl_compiled_parts;
sl_compiled_parts sl_compiled_parts_of(const sl_compiled *compiled);
#endif
