/* queue_test.c - Whoever comes first is served first, and nobody is served beside another one. */
#include "runtime/queue.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 200 };

static sl_error err;
static sl_queue *queue;

static void open_queue(void) {
    assert_int_equal(sl_queue_create(NULL, &queue, &err), SL_OK);
}

typedef struct {
    uint32_t *at, *log, number;
} noted;
static void note(void *ctx) {
    noted *n = ctx;
    n->log[(*n->at)++] = n->number;
}

static void jobs_run_in_order(void **state) {
    (void)state;
    uint32_t at = 0, log[ROUNDS] = {0};
    noted notes[ROUNDS];
    sl_queue_job jobs[ROUNDS];
    open_queue();
    sl_queue_enter(queue); /* all of them have to wait */
    for (uint32_t i = 0; i < ROUNDS; i++) {
        notes[i] = (noted){&at, log, i};
        jobs[i] = (sl_queue_job){.run = note, .ctx = &notes[i]};
        assert_int_equal(sl_queue_start(queue, &jobs[i], &err), SL_OK);
    }
    assert_int_equal(at, 0);
    sl_queue_leave(queue);
    sl_queue_enter(queue); /* after the jobs, which came before */
    assert_int_equal(at, ROUNDS);
    sl_queue_leave(queue);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        sl_queue_wait(queue, &jobs[i]);
        assert_int_equal(log[i], i);
    }
    sl_queue_destroy(queue);
}

/* Nothing but the queue protects them. */
static struct {
    int inside, most;
    uint64_t count;
} shared;
static void touch(void *ctx) {
    (void)ctx;
    shared.inside++;
    if (shared.inside > shared.most) shared.most = shared.inside;
    shared.count++;
    shared.inside--;
}
static void *work(void *ctx) {
    for (int i = 0; i < ROUNDS; i++) {
        sl_queue_job job = {.run = touch};
        sl_error error;
        if (i % 2) {
            sl_queue_enter(queue);
            touch(NULL);
            sl_queue_leave(queue);
        } else if (sl_queue_start(queue, &job, &error) == SL_OK) {
            sl_queue_wait(queue, &job);
        }
    }
    return ctx;
}

static void one_at_a_time(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    open_queue();
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, work, NULL), 0);
    for (int t = 0; t < THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
    assert_int_equal(shared.most, 1);
    assert_int_equal(shared.count, THREADS * ROUNDS);
    sl_queue_destroy(queue);
}

static void *none(void *ctx, void *ptr, size_t old_bytes, size_t new_bytes, size_t align) {
    (void)ctx, (void)ptr, (void)old_bytes, (void)new_bytes, (void)align;
    return NULL;
}
static void memory_may_be_short(void **state) {
    (void)state;
    const sl_allocator nothing = {.resize = none};
    sl_queue *made = NULL;
    assert_int_equal(sl_queue_create(&nothing, &made, &err), SL_NO_MEMORY);
    assert_null(made);
    sl_queue_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_run_in_order),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
