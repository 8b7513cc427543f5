/* task.h - The common part of all readers: open files, and reads in flight.
 *
 * A task is read in pieces.  piece() returns the next request for the kernel, advance() processes
 * its result and returns whether the task is complete.  Each kind of reader submits the requests in
 * its own way. */
#ifndef SL_IO_TASK_H
#define SL_IO_TASK_H
#include "io/reader.h"
#include <pthread.h>

enum { SL_DIRECT_ALIGNMENT = 4096, SL_READER_DEPTH = 16, SL_MAX_READER_DEPTH = 256 };

typedef struct {
    const char *path;
    uint64_t bytes;             /* size when it was opened */
    bool direct;                /* reads use direct_fd, and buffered_fd if that fails */
    bool drops_pages;           /* drop the pages of buffered reads from the page cache */
    int direct_fd, buffered_fd; /* -1: not open */
} sl_read_file;

typedef struct sl_read_task sl_read_task;
struct sl_read_task {
    sl_read_task *next;
    sl_read read;
    const sl_read_file *file;
    uint64_t done; /* bytes that have arrived */
    bool buffered; /* the rest is read through the page cache */
    double begin;
    sl_read_result result; /* valid when complete */
};

typedef struct {
    int fd;
    void *into;
    uint64_t offset;
    uint32_t bytes;
} sl_read_piece;
sl_read_piece sl_read_task_piece(const sl_read_task *task);
/* outcome: bytes read or -errno.  True when the task is complete. */
bool sl_read_task_advance(sl_read_task *task, int64_t outcome);

/* Completes a task with the status of a call, which has filled its error. */
void sl_read_task_end(sl_read_task *task, sl_status status);

typedef struct {
    sl_read_task *first, *last;
} sl_read_queue;
void sl_read_queue_push(sl_read_queue *queue, sl_read_task *task);
sl_read_task *sl_read_queue_pop(sl_read_queue *queue); /* NULL if empty */

/* Open files, which a reader takes ownership of. */
typedef struct {
    sl_arena arena; /* paths and files; later the reader's tasks, under its lock */
    sl_read_file *files;
    uint32_t count, depth, alignment;
    bool shared; /* the descriptors belong to another reader */
    /* NULL: the files exist. */
    sl_status (*call)(void *ctx, const sl_read *read, sl_error *err);
    void *call_ctx;
} sl_read_files;

/* The beginning of every reader.  lock guards everything below it. */
typedef struct {
    sl_reader reader;
    sl_read_files files;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a read is complete, or none is pending */
    sl_read_queue waiting, complete, spare;
    uint32_t pending; /* submitted and not yet returned */
} sl_reader_base;

void sl_reader_base_init(sl_reader_base *base, const sl_reader_ops *ops,
                         const sl_read_files *files);
void sl_reader_base_deinit(sl_reader_base *base); /* also closes the files */
void sl_reader_base_disown(sl_reader_base *base); /* leaves the files open */
void sl_read_files_deinit(sl_read_files *files);

/* With the lock held: add checks a read and appends it to `waiting`; take removes a completed one
 * with its result. */
SL_CHECKED sl_status sl_reader_base_add(sl_reader_base *base, const sl_read *read, sl_error *err);
bool sl_reader_base_take(sl_reader_base *base, sl_read_result *out);
SL_CHECKED sl_status sl_reader_nothing_pending(sl_error *err);

/* On success the reader owns the files. */
SL_CHECKED sl_status sl_uring_open(const sl_read_files *files, sl_reader **out, sl_error *err);
SL_CHECKED sl_status sl_threads_open(const sl_read_files *files, sl_reader **out, sl_error *err);
#endif
