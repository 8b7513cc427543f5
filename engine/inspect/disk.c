/* disk.c - Measures the disk bandwidth for random reads of experts. */
#include "base/clock.h"
#include "base/sizes.h"
#include "engine/inspect/inspect.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_IN_FLIGHT = 16, PASSES = 7, BUFFER_ALIGN = 4096 };
static const double PASS_SECONDS = 0.12;

typedef struct {
    const sl_expert_table *table;
    sl_reader *reader;
    uint8_t *buffers; /* [in_flight] */
    uint64_t buffer_bytes, in_flight;
    uint64_t random;
    uint64_t done_bytes;
} disk;

static uint64_t any_number(disk *d) {
    d->random = d->random * 6364136223846793005u + 1442695040888963407u;
    return d->random >> 33;
}

/* Any part of any expert, into buffer number tag. */
static sl_status submit(disk *d, uint64_t tag, sl_error *err) {
    const sl_expert_layer *layer = &d->table->layer[any_number(d) % d->table->layers];
    while (layer->part_count == 0) layer = &d->table->layer[any_number(d) % d->table->layers];
    const uint64_t parts = (uint64_t)layer->part_count * d->table->experts;
    const sl_extent *part = &layer->parts[any_number(d) % parts];
    const uint64_t skip = part->offset % sl_reader_alignment(d->reader);
    const sl_read read = {.file = part->file,
                          .offset = part->offset - skip,
                          .bytes = part->bytes + skip,
                          .into = d->buffers + tag * d->buffer_bytes,
                          .tag = tag};
    d->done_bytes += part->bytes;
    return sl_reader_submit(d->reader, &read, err);
}

static sl_status wait_for_one(disk *d, uint64_t *tag, sl_error *err) {
    sl_read_result result;
    SL_TRY(sl_reader_next(d->reader, &result, err));
    *tag = result.tag;
    if (result.status != SL_OK && err) *err = result.error;
    return result.status;
}

/* Keeps the same number of reads in flight until the time is up; those still in flight count too.
 */
static sl_status one_pass(disk *d, double *out_rate, sl_error *err) {
    const double begin = sl_clock_seconds();
    uint64_t tag = 0;
    d->done_bytes = 0;
    for (uint64_t i = 0; i < d->in_flight; i++) SL_TRY(submit(d, i, err));
    while (sl_clock_seconds() - begin < PASS_SECONDS) {
        SL_TRY(wait_for_one(d, &tag, err));
        SL_TRY(submit(d, tag, err));
    }
    for (uint64_t i = 0; i < d->in_flight; i++) SL_TRY(wait_for_one(d, &tag, err));
    *out_rate = (double)d->done_bytes / (sl_clock_seconds() - begin);
    return SL_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t largest_part(const sl_expert_table *table) {
    uint64_t most = 0;
    for (uint32_t l = 0; l < table->layers; l++)
        for (uint64_t p = 0; p < (uint64_t)table->experts * table->layer[l].part_count; p++)
            if (table->layer[l].parts[p].bytes > most) most = table->layer[l].parts[p].bytes;
    return most;
}

static sl_status open_reader(const sl_model *model, sl_reader **out, sl_error *err) {
    const uint32_t count = sl_source_file_count(model->source);
    const char **paths = calloc(count, sizeof *paths);
    if (!paths) return sl_no_memory(err, "file names", count);
    for (uint32_t i = 0; i < count; i++) paths[i] = sl_source_file_path(model->source, i);
    const bool threads = strcmp(sl_reader_name(model->reader), "threads") == 0;
    const sl_reader_options options = {.kind = threads ? SL_READER_THREADS : SL_READER_URING,
                                       .depth = MOST_IN_FLIGHT};
    const sl_status status = sl_reader_open(paths, count, &options, &model->allocator, out, err);
    free(paths);
    return status;
}

uint32_t sl_disk_reads_in_flight(uint64_t buffer_bytes, uint64_t available) {
    const uint64_t most = available / 2 / buffer_bytes;
    return most == 0 ? 1 : most < MOST_IN_FLIGHT ? (uint32_t)most : MOST_IN_FLIGHT;
}

sl_status sl_disk_measure(const sl_model *model, sl_disk_floor *out, sl_error *err) {
    disk d = {.table = &model->experts, .random = 1};
    d.buffer_bytes = sl_round_up(largest_part(d.table), BUFFER_ALIGN) + BUFFER_ALIGN;
    d.in_flight = sl_disk_reads_in_flight(d.buffer_bytes, sl_memory_least_left());
    *out = (sl_disk_floor){.reads_in_flight = (uint32_t)d.in_flight,
                           .expert_bytes = model->experts.expert_bytes};
    SL_TRY(open_reader(model, &d.reader, err));
    const uint64_t bytes = d.buffer_bytes * d.in_flight;
    d.buffers = sl_allocate(&model->allocator, bytes, BUFFER_ALIGN);
    sl_status status = d.buffers ? SL_OK : sl_no_memory(err, "reads", bytes);
    double rates[PASSES];
    for (int pass = 0; pass < PASSES && status == SL_OK; pass++)
        status = one_pass(&d, &rates[pass], err);
    sl_reader_close(d.reader); /* waits for what is in flight after a failure */
    if (d.buffers) sl_release(&model->allocator, d.buffers, bytes, BUFFER_ALIGN);
    if (status != SL_OK) return status;
    qsort(rates, PASSES, sizeof *rates, by_value);
    out->read_bytes_per_second = rates[PASSES - 1];
    out->median_read_bytes_per_second = rates[PASSES / 2];
    return SL_OK;
}
