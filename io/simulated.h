/* simulated.h - A simulated disk in memory with faults and reordering, for tests.
 *
 * It is a reader like the others and shares their handling of short and interrupted reads.  The
 * same seed and calls give the same behaviour.  Buffers hold garbage until their read is complete.
 */
#ifndef SL_IO_SIMULATED_H
#define SL_IO_SIMULATED_H
#include "io/reader.h"

typedef struct {
    const char *name;
    const void *data; /* borrowed */
    uint64_t bytes;
} sl_simulated_file;

typedef struct {
    uint64_t seed;
    bool buffered;        /* no alignment is needed */
    uint32_t reorder;     /* a read may overtake this many earlier ones */
    double short_share;   /* share of attempts that return only some of the bytes */
    double repeat_share;  /* share of attempts that are interrupted */
    double poll_share;    /* share of polls that find a completed read */
    double delay_seconds; /* next() takes this long, less than a second */
} sl_simulated_options;

SL_CHECKED sl_status sl_simulated_open(const sl_simulated_file *files, uint32_t count,
                                       const sl_simulated_options *options,
                                       const sl_allocator *allocator, sl_reader **out,
                                       sl_error *err);

/* The next `times` reads that touch the range fail with "Input/output error". */
void sl_simulated_fail(sl_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                       uint32_t times);
/* Truncates the file after it has been opened. */
void sl_simulated_truncate(sl_reader *reader, uint32_t file, uint64_t bytes);

typedef struct {
    uint64_t reads, bytes; /* reads submitted, and the bytes they requested */
    uint64_t attempts;     /* at least one for each completed read */
    uint64_t overtaken;    /* reads that completed after a later one */
} sl_simulated_counts;
/* Counts of the reads that overlap the range; a range of UINT64_MAX bytes is the whole file.
 * attempts and overtaken are counts of all reads. */
sl_simulated_counts sl_simulated_count(sl_reader *reader, uint32_t file, uint64_t offset,
                                       uint64_t bytes);
#endif
