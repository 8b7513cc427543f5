#include "base/helper.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

struct sl_helper {
    const sl_allocator *allocator;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    sl_helper_fn *fn; /* that is to run, or runs; NULL: none */
    void *ctx;
    bool leaves;
};

static void *live(void *ctx) {
    sl_helper *h = ctx;
    (void)pthread_mutex_lock(&h->lock);
    for (;;) {
        while (!h->fn && !h->leaves) (void)pthread_cond_wait(&h->changed, &h->lock);
        if (!h->fn) break;
        (void)pthread_mutex_unlock(&h->lock);
        h->fn(h->ctx);
        (void)pthread_mutex_lock(&h->lock);
        h->fn = NULL;
        (void)pthread_cond_broadcast(&h->changed);
    }
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void discard(sl_helper *h) {
    (void)pthread_mutex_destroy(&h->lock);
    (void)pthread_cond_destroy(&h->changed);
    sl_release(h->allocator, h, sizeof *h, _Alignof(sl_helper));
}

/* Signals are for the threads of the caller. */
static int start(sl_helper *h) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failure = pthread_create(&h->thread, NULL, live, h);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}

sl_status sl_helper_create(const sl_allocator *allocator, sl_helper **out, sl_error *err) {
    sl_helper *h = sl_allocate(allocator, sizeof *h, _Alignof(sl_helper));
    if (!h) return sl_no_memory(err, "a helper thread", sizeof *h);
    h->allocator = allocator;
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->changed, NULL);
    const int failure = start(h);
    if (failure) {
        discard(h);
        return sl_fail(err, SL_NO_MEMORY, "a helper thread: %s", strerror(failure));
    }
    *out = h;
    return SL_OK;
}

void sl_helper_destroy(sl_helper *h) {
    if (!h) return;
    (void)pthread_mutex_lock(&h->lock);
    h->leaves = true;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
    (void)pthread_join(h->thread, NULL);
    discard(h);
}

void sl_helper_begin(sl_helper *h, sl_helper_fn *fn, void *ctx) {
    (void)pthread_mutex_lock(&h->lock);
    h->fn = fn;
    h->ctx = ctx;
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
}

void sl_helper_wait(sl_helper *h) {
    (void)pthread_mutex_lock(&h->lock);
    while (h->fn) (void)pthread_cond_wait(&h->changed, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
}
