#include "io/task.h"
#include "base/clock.h"
#include "base/sizes.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PIECE_BYTES = 1 << 30 };

static bool is_direct(const sl_read_task *task) {
    return task->file->direct && !task->buffered;
}

/* Direct pieces are rounded up: the kernel requires whole blocks, and the buffer has room for them.
 */
sl_read_piece sl_read_task_piece(const sl_read_task *task) {
    const bool direct = is_direct(task);
    uint64_t bytes = task->read.bytes - task->done;
    if (direct) bytes = sl_round_up(bytes, SL_DIRECT_ALIGNMENT);
    if (bytes > MAX_PIECE_BYTES) bytes = MAX_PIECE_BYTES;
    return (sl_read_piece){.fd = direct ? task->file->direct_fd : task->file->buffered_fd,
                           .into = (char *)task->read.into + task->done,
                           .offset = task->read.offset + task->done,
                           .bytes = (uint32_t)bytes};
}

static sl_status past_the_end(const sl_read_file *file, const sl_read *read, uint64_t file_bytes,
                              sl_error *err) {
    return sl_fail(err, SL_IO, "%s: %llu bytes wanted at offset %llu, the file has %llu bytes",
                   file->path, (unsigned long long)read->bytes, (unsigned long long)read->offset,
                   (unsigned long long)file_bytes);
}

/* The size of a file that ended before a read did; by now it may even be long enough again. */
static uint64_t bytes_now(const sl_read_file *file, uint64_t end) {
    struct stat info;
    const bool known = fstat(file->buffered_fd, &info) == 0 && info.st_size >= 0;
    return known && (uint64_t)info.st_size < end ? (uint64_t)info.st_size : end;
}

static bool complete(sl_read_task *task, sl_status status) {
    const sl_read_file *file = task->file;
    if (file->drops_pages && (task->buffered || !file->direct)) {
        const uint64_t begin = task->read.offset / SL_DIRECT_ALIGNMENT * SL_DIRECT_ALIGNMENT;
        const uint64_t end = sl_round_up(task->read.offset + task->read.bytes, SL_DIRECT_ALIGNMENT);
        (void)posix_fadvise(file->buffered_fd, (off_t)begin, (off_t)(end - begin),
                            POSIX_FADV_DONTNEED);
    }
    task->result.tag = task->read.tag;
    task->result.status = status;
    task->result.seconds = sl_clock_seconds() - task->begin;
    return true;
}

static bool fail(sl_read_task *task, int64_t error_number) {
    return complete(
        task, sl_fail(&task->result.error, SL_IO, "%s: reading %llu bytes at offset %llu: %s",
                      task->file->path, (unsigned long long)task->read.bytes,
                      (unsigned long long)task->read.offset, strerrordesc_np((int)error_number)));
}

bool sl_read_task_advance(sl_read_task *task, int64_t outcome) {
    const bool direct = is_direct(task);
    if (outcome == -EINTR || outcome == -EAGAIN) return false;
    if (outcome == -EINVAL && direct) {
        task->buffered = true;
        return false;
    }
    if (outcome < 0) return fail(task, -outcome);
    const uint64_t reached = task->done + (uint64_t)outcome;
    if (reached >= task->read.bytes) return complete(task, SL_OK);
    if (direct) {
        /* Continue at a block boundary; if that makes no progress, continue through the page cache.
         */
        const uint64_t whole = reached / SL_DIRECT_ALIGNMENT * SL_DIRECT_ALIGNMENT;
        task->buffered = whole == task->done;
        task->done = whole;
        return false;
    }
    task->done = reached;
    if (outcome > 0) return false;
    const uint64_t end = task->read.offset + reached;
    return complete(task, past_the_end(task->file, &task->read, bytes_now(task->file, end),
                                       &task->result.error));
}

void sl_read_task_end(sl_read_task *task, sl_status status) {
    sl_error *err = &task->result.error;
    if (status != SL_OK && (err->status != status || !err->message[0]))
        status = sl_fail(err, status, "%s: %s", task->file->path, sl_status_text(status));
    (void)complete(task, status);
}

void sl_read_queue_push(sl_read_queue *queue, sl_read_task *task) {
    task->next = NULL;
    if (queue->last)
        queue->last->next = task;
    else
        queue->first = task;
    queue->last = task;
}

sl_read_task *sl_read_queue_pop(sl_read_queue *queue) {
    sl_read_task *task = queue->first;
    if (!task) return NULL;
    queue->first = task->next;
    if (!queue->first) queue->last = NULL;
    return task;
}

void sl_read_files_deinit(sl_read_files *files) {
    for (uint32_t i = 0; i < files->count && !files->shared; i++) {
        if (files->files[i].direct_fd >= 0) close(files->files[i].direct_fd);
        if (files->files[i].buffered_fd >= 0) close(files->files[i].buffered_fd);
    }
    sl_arena_deinit(&files->arena);
}

void sl_reader_base_init(sl_reader_base *base, const sl_reader_ops *ops,
                         const sl_read_files *files) {
    *base = (sl_reader_base){.reader = {ops, files->alignment}, .files = *files};
    pthread_mutex_init(&base->lock, NULL);
    pthread_cond_init(&base->changed, NULL);
}

void sl_reader_base_disown(sl_reader_base *base) {
    pthread_cond_destroy(&base->changed);
    pthread_mutex_destroy(&base->lock);
}

void sl_reader_base_deinit(sl_reader_base *base) {
    sl_reader_base_disown(base);
    sl_read_files_deinit(&base->files);
}

static sl_status check(const sl_reader_base *base, const sl_read *read, sl_error *err) {
    if (read->file >= base->files.count)
        return sl_fail(err, SL_INVALID, "read from file %u, there are %u", read->file,
                       base->files.count);
    const sl_read_file *file = &base->files.files[read->file];
    const uint32_t alignment = base->reader.alignment;
    if (read->offset % alignment || (uintptr_t)read->into % alignment)
        return sl_fail(err, SL_INVALID, "%s: read at offset %llu into %p, wanted multiples of %u",
                       file->path, (unsigned long long)read->offset, read->into, alignment);
    uint64_t end = 0;
    if (!sl_add(read->offset, read->bytes, &end) || end > file->bytes)
        return past_the_end(file, read, file->bytes, err);
    return SL_OK;
}

/* Every reader struct begins with a base. */
sl_status sl_reader_reserve(sl_reader *reader, uint32_t reads, sl_error *err) {
    sl_reader_base *base = (sl_reader_base *)reader;
    sl_status status = SL_OK;
    pthread_mutex_lock(&base->lock);
    for (uint32_t i = 0; i < reads && status == SL_OK; i++) {
        sl_read_task *task = SL_ARENA_NEW(&base->files.arena, sl_read_task);
        if (task)
            sl_read_queue_push(&base->spare, task);
        else
            status = sl_no_memory(err, "reads in flight", (uint64_t)reads * sizeof *task);
    }
    pthread_mutex_unlock(&base->lock);
    return status;
}

sl_status sl_reader_base_add(sl_reader_base *base, const sl_read *read, sl_error *err) {
    SL_TRY(check(base, read, err));
    sl_read_task *task = sl_read_queue_pop(&base->spare);
    if (!task) task = SL_ARENA_NEW(&base->files.arena, sl_read_task);
    if (!task) return sl_no_memory(err, "a queued read", sizeof *task);
    *task = (sl_read_task){
        .read = *read, .file = &base->files.files[read->file], .begin = sl_clock_seconds()};
    sl_read_queue_push(&base->waiting, task);
    base->pending++;
    return SL_OK;
}

bool sl_reader_base_take(sl_reader_base *base, sl_read_result *out) {
    sl_read_task *task = sl_read_queue_pop(&base->complete);
    if (!task) return false;
    *out = task->result;
    sl_read_queue_push(&base->spare, task);
    if (--base->pending == 0) pthread_cond_broadcast(&base->changed);
    return true;
}

sl_status sl_reader_nothing_pending(sl_error *err) {
    return sl_fail(err, SL_INVALID, "waiting for a completed read, but no read is in flight");
}
