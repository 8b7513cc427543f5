/* uring.c - Reads through io_uring.
 *
 * The submission queue is used under the lock.  The completion queue belongs to one reaping thread
 * at a time, which waits in the kernel without the lock while others submit. */
#include "io/task.h"
#include <errno.h>
#include <liburing.h>
#include <sched.h>
#include <string.h>

typedef struct {
    sl_reader_base base;
    struct io_uring ring;
    uint32_t started; /* tasks with an entry in the ring, at most base.files.depth */
    bool reaping;
} uring_reader;

/* Queues the task's next piece; the ring has an entry for each of `depth` tasks. */
static void enter(uring_reader *self, sl_read_task *task) {
    struct io_uring_sqe *entry = io_uring_get_sqe(&self->ring);
    const sl_read_piece piece = sl_read_task_piece(task);
    io_uring_prep_read(entry, piece.fd, piece.into, piece.bytes, piece.offset);
    io_uring_sqe_set_data(entry, task);
}

/* Starts waiting tasks as far as the depth allows and submits their entries.  Entries that a busy
 * kernel does not accept stay in the ring for the next call. */
static sl_status start_waiting(uring_reader *self, sl_error *err) {
    while (self->started < self->base.files.depth && self->base.waiting.first) {
        enter(self, sl_read_queue_pop(&self->base.waiting));
        self->started++;
    }
    if (io_uring_sq_ready(&self->ring) == 0) return SL_OK;
    int outcome = 0;
    do outcome = io_uring_submit(&self->ring);
    while (outcome == -EINTR);
    if (outcome >= 0 || outcome == -EAGAIN || outcome == -EBUSY) return SL_OK;
    return sl_fail(err, SL_IO, "io_uring: cannot submit a read: %s", strerrordesc_np(-outcome));
}

static sl_status submit(sl_reader *reader, const sl_read *read, sl_error *err) {
    uring_reader *self = (uring_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    const sl_status status = sl_reader_base_add(&self->base, read, err);
    /* Errors of a read that has been added are reported by next. */
    if (status == SL_OK) (void)!start_waiting(self, NULL);
    pthread_mutex_unlock(&self->base.lock);
    return status;
}

/* Tasks that the kernel has accepted and not completed. */
static uint32_t in_kernel(uring_reader *self) {
    return self->started - io_uring_sq_ready(&self->ring);
}

/* Moves finished tasks to the completed queue, and those with missing pieces back into the ring. */
static void collect(uring_reader *self) {
    struct io_uring_cqe *answer = NULL;
    while (io_uring_peek_cqe(&self->ring, &answer) == 0) {
        sl_read_task *task = io_uring_cqe_get_data(answer);
        const int outcome = answer->res;
        io_uring_cqe_seen(&self->ring, answer);
        if (sl_read_task_advance(task, outcome)) {
            self->started--;
            sl_read_queue_push(&self->base.complete, task);
        } else {
            enter(self, task);
        }
    }
}

/* Waits for at least one completion; releases the lock meanwhile. */
static sl_status reap(uring_reader *self, sl_error *err) {
    SL_TRY(start_waiting(self, err));
    const bool wait = in_kernel(self) > 0;
    self->reaping = true;
    pthread_mutex_unlock(&self->base.lock);
    struct io_uring_cqe *answer = NULL;
    int outcome = 0;
    if (wait)
        outcome = io_uring_wait_cqe(&self->ring, &answer);
    else
        sched_yield(); /* the kernel was too busy to accept any */
    pthread_mutex_lock(&self->base.lock);
    self->reaping = false;
    if (outcome < 0 && outcome != -EINTR && outcome != -EAGAIN)
        return sl_fail(err, SL_IO, "io_uring: waiting for a read: %s", strerrordesc_np(-outcome));
    collect(self);
    SL_TRY(start_waiting(self, err));
    return SL_OK;
}

static sl_status next(sl_reader *reader, sl_read_result *out, sl_error *err) {
    uring_reader *self = (uring_reader *)reader;
    sl_reader_base *base = &self->base;
    sl_status status = SL_OK;
    pthread_mutex_lock(&base->lock);
    bool taken = sl_reader_base_take(base, out);
    while (!taken && status == SL_OK) {
        if (!base->pending) {
            status = sl_reader_nothing_pending(err);
        } else if (self->reaping) {
            pthread_cond_wait(&base->changed, &base->lock);
        } else {
            status = reap(self, err);
            pthread_cond_broadcast(&base->changed);
        }
        taken = sl_reader_base_take(base, out);
    }
    pthread_mutex_unlock(&base->lock);
    return taken ? SL_OK : status;
}

static bool poll_reader(sl_reader *reader, sl_read_result *out) {
    uring_reader *self = (uring_reader *)reader;
    pthread_mutex_lock(&self->base.lock);
    if (!self->reaping) {
        collect(self);
        (void)!start_waiting(self, NULL); /* errors are reported by next */
    }
    const bool taken = sl_reader_base_take(&self->base, out);
    pthread_mutex_unlock(&self->base.lock);
    return taken;
}

static void close_reader(sl_reader *reader) {
    uring_reader *self = (uring_reader *)reader;
    const sl_allocator *allocator = self->base.files.arena.allocator;
    for (uint32_t left = in_kernel(self); left > 0;) {
        struct io_uring_cqe *answer = NULL;
        const int outcome = io_uring_wait_cqe(&self->ring, &answer);
        if (outcome == 0) {
            io_uring_cqe_seen(&self->ring, answer);
            left--;
        } else if (outcome != -EINTR && outcome != -EAGAIN) {
            break;
        }
    }
    io_uring_queue_exit(&self->ring);
    sl_reader_base_deinit(&self->base);
    sl_release(allocator, self, sizeof *self, _Alignof(uring_reader));
}

static sl_status start_ring(struct io_uring *ring, uint32_t depth, sl_error *err) {
    const int outcome = io_uring_queue_init(depth, ring, 0);
    if (outcome < 0)
        return sl_fail(err, SL_UNSUPPORTED, "io_uring is not available: %s",
                       strerrordesc_np(-outcome));
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    const bool reads = probe && io_uring_opcode_supported(probe, IORING_OP_READ);
    if (probe) io_uring_free_probe(probe);
    if (reads) return SL_OK;
    io_uring_queue_exit(ring);
    return sl_fail(err, SL_UNSUPPORTED, "io_uring of this kernel does not support plain reads");
}

sl_status sl_uring_open(const sl_read_files *files, sl_reader **out, sl_error *err) {
    static const sl_reader_ops ops = {"io_uring", submit, next, poll_reader, close_reader};
    const sl_allocator *allocator = files->arena.allocator;
    uring_reader *self = sl_allocate(allocator, sizeof *self, _Alignof(uring_reader));
    if (!self) return sl_no_memory(err, "a reader", sizeof *self);
    const sl_status status = start_ring(&self->ring, files->depth, err);
    if (status != SL_OK) {
        sl_release(allocator, self, sizeof *self, _Alignof(uring_reader));
        return status;
    }
    sl_reader_base_init(&self->base, &ops, files);
    *out = &self->base.reader;
    return SL_OK;
}
