#include "io/simulated.h"
#include "base/sizes.h"
#include "io/task.h"
#include <errno.h>
#include <string.h>
#include <time.h>

typedef struct {
    uint32_t file;
    uint64_t offset, bytes;
} range;

typedef struct record record;
struct record {
    record *older;
    range range;
};

typedef struct {
    const char *data;
    uint64_t bytes; /* current size, which may be less than when the file was opened */
} content;

typedef struct {
    sl_reader_base base; /* waiting: the reads in flight, oldest first */
    sl_simulated_options options;
    content *contents;
    uint64_t random;
    record *newest;
    range failing;
    uint32_t failures_left;
    uint64_t attempts, overtaken;
} simulated_reader;

enum { RUBBISH = 0xdb };

/* splitmix64 */
static uint64_t draw(simulated_reader *self) {
    uint64_t z = self->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static bool happens(simulated_reader *self, double share) {
    return (double)(draw(self) >> 11) * 0x1p-53 < share;
}

static bool touches(const range *a, const range *b) {
    if (a->file != b->file) return false;
    return a->offset < b->offset ? b->offset - a->offset < a->bytes
                                 : a->offset - b->offset < b->bytes;
}

static range range_of(const sl_read *read) {
    return (range){read->file, read->offset, read->bytes};
}

static sl_status submit(sl_reader *reader, const sl_read *read, sl_error *err) {
    simulated_reader *self = (simulated_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    record *entry = SL_ARENA_NEW(&self->base.files.arena, record);
    sl_status status = entry ? sl_reader_base_add(&self->base, read, err)
                             : sl_no_memory(err, "the record of a read", sizeof *entry);
    if (status == SL_OK) {
        *entry = (record){self->newest, range_of(read)};
        self->newest = entry;
        memset(read->into, RUBBISH, sl_round_up(read->bytes, reader->alignment));
    }
    pthread_mutex_unlock(&self->base.lock);
    return status;
}

/* Bytes or -errno, like a system call. */
static int64_t attempt(simulated_reader *self, const sl_read_task *task) {
    const sl_read_piece piece = sl_read_task_piece(task);
    const content *from = &self->contents[task->read.file];
    const range wanted = range_of(&task->read);
    self->attempts++;
    if (happens(self, self->options.repeat_share)) return draw(self) % 2 ? -EINTR : -EAGAIN;
    if (self->failures_left && touches(&wanted, &self->failing)) {
        self->failures_left--;
        return -EIO;
    }
    if (piece.offset >= from->bytes) return 0;
    uint64_t bytes = from->bytes - piece.offset;
    if (bytes > piece.bytes) bytes = piece.bytes;
    if (happens(self, self->options.short_share)) bytes = 1 + draw(self) % bytes;
    memcpy(piece.into, from->data + piece.offset, bytes);
    return (int64_t)bytes;
}

/* Picks one of the oldest reads; there must be at least one. */
static sl_read_task *choose(simulated_reader *self) {
    sl_read_queue *queue = &self->base.waiting;
    sl_read_task *before = NULL, *task = queue->first;
    for (uint64_t skip = draw(self) % (self->options.reorder + 1u); skip && task->next; skip--) {
        before = task;
        task = task->next;
    }
    if (!before) return sl_read_queue_pop(queue);
    before->next = task->next;
    if (queue->last == task) queue->last = before;
    self->overtaken++;
    return task;
}

/* Completes a read and returns it; false if there is none. */
static bool finish_one(simulated_reader *self, sl_read_result *out) {
    if (!self->base.waiting.first) return false;
    sl_read_task *task = choose(self);
    bool complete = false;
    while (!complete) complete = sl_read_task_advance(task, attempt(self, task));
    sl_read_queue_push(&self->base.complete, task);
    return sl_reader_base_take(&self->base, out);
}

static sl_status next(sl_reader *reader, sl_read_result *out, sl_error *err) {
    simulated_reader *self = (simulated_reader *)reader;
    sl_reader_base *base = &self->base;
    if (self->options.delay_seconds > 0) {
        const struct timespec delay = {.tv_nsec = (long)(self->options.delay_seconds * 1e9)};
        nanosleep(&delay, NULL);
    }
    pthread_mutex_lock(&base->lock);
    const bool taken = finish_one(self, out);
    pthread_mutex_unlock(&base->lock);
    return taken ? SL_OK : sl_reader_nothing_pending(err);
}

static bool poll_reader(sl_reader *reader, sl_read_result *out) {
    simulated_reader *self = (simulated_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    const bool taken = happens(self, self->options.poll_share) && finish_one(self, out);
    pthread_mutex_unlock(&self->base.lock);
    return taken;
}

static void close_reader(sl_reader *reader) {
    simulated_reader *self = (simulated_reader *)reader;
    const sl_allocator *allocator = self->base.files.arena.allocator;
    sl_reader_base_deinit(&self->base);
    sl_release(allocator, self, sizeof *self, _Alignof(simulated_reader));
}

sl_status sl_simulated_open(const sl_simulated_file *files, uint32_t count,
                            const sl_simulated_options *options, const sl_allocator *allocator,
                            sl_reader **out, sl_error *err) {
    static const sl_reader_ops ops = {"simulated", submit, next, poll_reader, close_reader};
    *out = NULL;
    sl_read_files table = {.count = count,
                           .depth = SL_READER_DEPTH,
                           .alignment = options->buffered ? 1 : SL_DIRECT_ALIGNMENT};
    sl_arena_init(&table.arena, allocator);
    table.files = SL_ARENA_NEW_ARRAY(&table.arena, sl_read_file, count);
    content *contents = SL_ARENA_NEW_ARRAY(&table.arena, content, count);
    simulated_reader *self = sl_allocate(allocator, sizeof *self, _Alignof(simulated_reader));
    if (!table.files || !contents || !self) {
        sl_release(allocator, self, sizeof *self, _Alignof(simulated_reader));
        sl_arena_deinit(&table.arena);
        return sl_no_memory(err, "a simulated disk", sizeof *self);
    }
    for (uint32_t i = 0; i < count; i++) {
        table.files[i] = (sl_read_file){.path = files[i].name,
                                        .bytes = files[i].bytes,
                                        .direct = !options->buffered,
                                        .direct_fd = -1,
                                        .buffered_fd = -1};
        contents[i] = (content){files[i].data, files[i].bytes};
    }
    self->options = *options;
    self->random = options->seed;
    self->contents = contents;
    sl_reader_base_init(&self->base, &ops, &table);
    *out = &self->base.reader;
    return SL_OK;
}

void sl_simulated_fail(sl_reader *reader, uint32_t file, uint64_t offset, uint64_t bytes,
                       uint32_t times) {
    simulated_reader *self = (simulated_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    self->failing = (range){file, offset, bytes};
    self->failures_left = times;
    pthread_mutex_unlock(&self->base.lock);
}

void sl_simulated_truncate(sl_reader *reader, uint32_t file, uint64_t bytes) {
    simulated_reader *self = (simulated_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    self->contents[file].bytes = bytes;
    pthread_mutex_unlock(&self->base.lock);
}

sl_simulated_counts sl_simulated_count(sl_reader *reader, uint32_t file, uint64_t offset,
                                       uint64_t bytes) {
    simulated_reader *self = (simulated_reader *)reader;
    const range wanted = {file, offset, bytes};
    pthread_mutex_lock(&self->base.lock);
    sl_simulated_counts counts = {.attempts = self->attempts, .overtaken = self->overtaken};
    for (const record *r = self->newest; r; r = r->older) {
        if (!touches(&r->range, &wanted)) continue;
        counts.reads++;
        counts.bytes += r->range.bytes;
    }
    pthread_mutex_unlock(&self->base.lock);
    return counts;
}
