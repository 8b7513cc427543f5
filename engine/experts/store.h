/* store.h - The expert store: a cache of expert weights with a byte budget.
 *
 * The store owns slots, each large enough for any expert (its parts as read, alignment included).
 * The expert whose next use is expected last is evicted (policy.h).  Reads are asynchronous; when
 * every expert fits, nothing is ever read twice.  The checksums of an expert are verified when it
 * is read for the first time.  The budget covers slots and everything else the store allocates. */
#ifndef SL_ENGINE_EXPERTS_STORE_H
#define SL_ENGINE_EXPERTS_STORE_H
#include "engine/experts/table.h"
#include "io/reader.h"
#include "sluice/inspect.h"

typedef struct {
    uint64_t hits, misses; /* experts found in memory, and experts read */
    uint64_t first_reads;  /* those of the misses that had not been read before */
    uint64_t bytes_read;   /* from disk, alignment included */
    double stall_seconds;  /* time in which a worker could only wait for reads */
    double read_seconds;   /* sum over reads of submit to completion */
    uint64_t slot_count, slot_bytes, used_bytes; /* used: part of the budget in use */
} sl_expert_stats;

/* The read of one expert, for traces. */
typedef struct {
    uint32_t layer, expert;
    uint64_t bytes;          /* of its parts, without alignment */
    double submit, complete; /* seconds on sl_clock_seconds */
} sl_read_event;

/* A time in which at least one worker could only wait for experts of a layer. */
typedef struct {
    uint32_t layer;
    double begin, end; /* seconds on sl_clock_seconds */
} sl_wait_event;

/* Filled by the store, allocated by the caller.  When it is full, further events are dropped and
 * counted. */
typedef struct {
    sl_read_event *events;
    uint32_t capacity, count, dropped;
    sl_wait_event *waits;
    uint32_t wait_capacity, wait_count, wait_dropped;
} sl_read_log;

typedef struct sl_expert_store sl_expert_store;

/* The smallest budget that works: experts_used slots. */
uint64_t sl_expert_store_minimum(const sl_expert_table *table, const sl_reader *reader);

/* The memory of a store with this budget: slot_count, slot_bytes and used_bytes are set.  Fails as
 * sl_expert_store_create does. */
SL_CHECKED sl_status sl_expert_store_plan(const sl_expert_table *table, const sl_reader *reader,
                                          uint64_t budget_bytes, sl_expert_stats *out,
                                          sl_error *err);
/* budget_bytes 0: all experts.  Fails below the minimum, which the message gives.  table and reader
 * are borrowed. */
SL_CHECKED sl_status sl_expert_store_create(const sl_expert_table *table, sl_reader *reader,
                                            uint64_t budget_bytes, const sl_allocator *allocator,
                                            sl_expert_store **out, sl_error *err);
void sl_expert_store_destroy(sl_expert_store *store); /* waits for reads in flight */
sl_expert_source *sl_expert_store_source(sl_expert_store *store);
sl_expert_stats sl_expert_store_stats(const sl_expert_store *store);
/* What was used so far, and what is in memory now: out[layers * experts], layer by layer. */
void sl_expert_store_uses(const sl_expert_store *store, sl_expert_use *out);
/* Records every read that completes and every wait that ends from now on; NULL stops recording. The
 * log is borrowed and may be read after that. */
void sl_expert_store_attach(sl_expert_store *store, sl_read_log *log);
#endif
