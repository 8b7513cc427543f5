/* threads.c - A reader that uses a few threads, each blocking in pread. */
#include "io/task.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    sl_reader_base base;
    pthread_cond_t work; /* a read is waiting, or the reader is closing */
    bool closing;
    uint32_t started;
    pthread_t threads[]; /* [base.files.depth] */
} thread_reader;

static void read_all(const sl_read_files *files, sl_read_task *task) {
    int64_t outcome = 0;
    if (files->call) {
        sl_read_task_end(task, files->call(files->call_ctx, &task->read, &task->result.error));
        return;
    }
    do {
        const sl_read_piece piece = sl_read_task_piece(task);
        outcome = pread(piece.fd, piece.into, piece.bytes, (off_t)piece.offset);
        if (outcome < 0) outcome = -errno;
    } while (!sl_read_task_advance(task, outcome));
}

static void *serve(void *argument) {
    thread_reader *self = argument;
    sl_reader_base *base = &self->base;
    pthread_mutex_lock(&base->lock);
    while (!self->closing) {
        sl_read_task *task = sl_read_queue_pop(&base->waiting);
        if (!task) {
            pthread_cond_wait(&self->work, &base->lock);
            continue;
        }
        pthread_mutex_unlock(&base->lock);
        read_all(&base->files, task);
        pthread_mutex_lock(&base->lock);
        sl_read_queue_push(&base->complete, task);
        pthread_cond_signal(&base->changed);
    }
    pthread_mutex_unlock(&base->lock);
    return NULL;
}

static sl_status submit(sl_reader *reader, const sl_read *read, sl_error *err) {
    thread_reader *self = (thread_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    const sl_status status = sl_reader_base_add(&self->base, read, err);
    pthread_mutex_unlock(&self->base.lock);
    if (status == SL_OK) pthread_cond_signal(&self->work);
    return status;
}

static sl_status next(sl_reader *reader, sl_read_result *out, sl_error *err) {
    sl_reader_base *base = (sl_reader_base *)reader;
    pthread_mutex_lock(&base->lock);
    bool taken = sl_reader_base_take(base, out);
    while (!taken && base->pending) {
        pthread_cond_wait(&base->changed, &base->lock);
        taken = sl_reader_base_take(base, out);
    }
    pthread_mutex_unlock(&base->lock);
    return taken ? SL_OK : sl_reader_nothing_pending(err);
}

static bool poll_reader(sl_reader *reader, sl_read_result *out) {
    sl_reader_base *base = (sl_reader_base *)reader;
    pthread_mutex_lock(&base->lock);
    const bool taken = sl_reader_base_take(base, out);
    pthread_mutex_unlock(&base->lock);
    return taken;
}

static size_t reader_bytes(uint32_t depth) {
    return sizeof(thread_reader) + depth * sizeof(pthread_t);
}

static void stop(thread_reader *self) {
    pthread_mutex_lock(&self->base.lock);
    self->closing = true;
    pthread_cond_broadcast(&self->work);
    pthread_mutex_unlock(&self->base.lock);
    for (uint32_t i = 0; i < self->started; i++) pthread_join(self->threads[i], NULL);
    pthread_cond_destroy(&self->work);
}

static void close_reader(sl_reader *reader) {
    thread_reader *self = (thread_reader *)reader;
    const sl_allocator *allocator = self->base.files.arena.allocator;
    const size_t bytes = reader_bytes(self->base.files.depth);
    stop(self);
    sl_reader_base_deinit(&self->base);
    sl_release(allocator, self, bytes, _Alignof(thread_reader));
}

/* One thread suffices; more are faster.  Signals are blocked, so that they are delivered to the
 * program's threads. */
static int start(thread_reader *self) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    while (self->started < self->base.files.depth && !failure) {
        failure = pthread_create(&self->threads[self->started], NULL, serve, self);
        if (!failure) self->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return self->started ? 0 : failure;
}

sl_status sl_threads_open(const sl_read_files *files, sl_reader **out, sl_error *err) {
    static const sl_reader_ops ops = {"threads", submit, next, poll_reader, close_reader};
    const sl_allocator *allocator = files->arena.allocator;
    const size_t bytes = reader_bytes(files->depth);
    thread_reader *self = sl_allocate(allocator, bytes, _Alignof(thread_reader));
    if (!self) return sl_no_memory(err, "a reader", bytes);
    sl_reader_base_init(&self->base, &ops, files);
    pthread_cond_init(&self->work, NULL);
    const int failure = start(self);
    if (failure) {
        stop(self);
        sl_reader_base_disown(&self->base);
        sl_release(allocator, self, bytes, _Alignof(thread_reader));
        return sl_fail(err, SL_NO_MEMORY, "cannot start a reader thread: %s",
                       strerrordesc_np(failure));
    }
    *out = &self->base.reader;
    return SL_OK;
}
