/* store.h - Expert weights in memory under a byte budget.
 *
 * The store owns slots, each large enough for any expert (its parts as read, alignment included).
 * The expert that is needed last makes room (policy.h).  Reads are asynchronous; when every expert
 * fits, nothing is ever read twice.  An expert's checksums are checked when it is read for the
 * first time.  The budget covers slots and everything else the store allocates. */
#ifndef SL_ENGINE_EXPERTS_STORE_H
#define SL_ENGINE_EXPERTS_STORE_H
#include "engine/experts/table.h"
#include "io/reader.h"

typedef struct {
    uint64_t hits, misses; /* expert uses served from memory, and reads */
    uint64_t bytes_read;   /* from disk, alignment included */
    double stall_seconds;  /* time in which a worker had nothing to do but wait */
    double read_seconds;   /* sum over reads of submit to completion */
    uint64_t slot_count, slot_bytes, used_bytes; /* used: what the store holds of its budget */
} sl_expert_stats;

/* One expert's way from disk to memory. */
typedef struct {
    uint32_t layer, expert;
    uint64_t bytes;          /* of its parts, without alignment */
    double submit, complete; /* seconds on sl_clock_seconds */
} sl_read_event;

/* Filled by the store, allocated by its owner.  When it is full, further events are counted and
 * dropped. */
typedef struct {
    sl_read_event *events;
    uint32_t capacity, count, dropped;
} sl_read_log;

typedef struct sl_expert_store sl_expert_store;

/* The smallest budget that works: experts_used slots. */
uint64_t sl_expert_store_minimum(const sl_expert_table *table, const sl_reader *reader);

/* budget_bytes 0: all experts.  Fails below the minimum and says what it is.  table and reader are
 * borrowed. */
SL_CHECKED sl_status sl_expert_store_create(const sl_expert_table *table, sl_reader *reader,
                                            uint64_t budget_bytes, const sl_allocator *allocator,
                                            sl_expert_store **out, sl_error *err);
void sl_expert_store_destroy(sl_expert_store *store); /* waits for reads in flight */
sl_expert_source *sl_expert_store_source(sl_expert_store *store);
sl_expert_stats sl_expert_store_stats(const sl_expert_store *store);
/* Records every expert that arrives from now on; NULL stops.  The log is borrowed and may be read
 * after that. */
void sl_expert_store_attach(sl_expert_store *store, sl_read_log *log);
#endif
