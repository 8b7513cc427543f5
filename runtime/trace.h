/* trace.h - When and on which thread each step ran. */
#ifndef SL_RUNTIME_TRACE_H
#define SL_RUNTIME_TRACE_H
#include "core/program.h"

typedef struct {
    uint32_t step, member;
    double begin, end; /* seconds on sl_clock_seconds */
    uint32_t run;      /* counted from 0 since the trace was attached */
} sl_trace_event;

/* Events of the runs since it was attached; filled by the device, allocated by its owner.  When it
 * is full, further events are counted and dropped. */
typedef struct {
    sl_trace_event *events;
    uint32_t capacity, count, dropped;
} sl_trace;
#endif
