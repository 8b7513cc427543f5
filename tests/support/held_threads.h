/* held_threads.h - Threads that are created but do not run until they are let go: what a thread
 * looks like to others that has lost its core.  Takes the place of pthread_create in the test that
 * includes it. */
#ifndef SL_TESTS_SUPPORT_HELD_THREADS_H
#define SL_TESTS_SUPPORT_HELD_THREADS_H
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

typedef void *thread_body(void *);
typedef struct {
    thread_body *body;
    void *argument;
    bool held;
} held_thread;

static bool hold_threads; /* those created while it is set */
static atomic_bool threads_let_go;

static void *begin_thread(void *argument) {
    const held_thread t = *(held_thread *)argument;
    free(argument);
    while (t.held && !atomic_load(&threads_let_go)) (void)usleep(100);
    return t.body(t.argument);
}

typedef int pthread_create_fn(pthread_t *, const pthread_attr_t *, thread_body *, void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, thread_body *start_routine,
                   void *arg) {
    union {
        void *found;
        pthread_create_fn *call;
    } real = {.found = dlsym(RTLD_NEXT, "pthread_create")};
    held_thread *t = malloc(sizeof *t);
    *t = (held_thread){start_routine, arg, hold_threads};
    return real.call(thread, attr, begin_thread, t);
}
#endif
