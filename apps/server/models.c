#include "apps/server/models.h"
#include "apps/server/server.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void server_models_init(server_models *m) {
    *m = (server_models){.current = 0};
    (void)pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t clock;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&m->changed, &clock);
    (void)pthread_condattr_destroy(&clock);
}

void server_models_deinit(server_models *m) {
    for (uint32_t i = 0; i < m->count; i++) {
        free(m->paths[i]);
        free(m->names[i]);
    }
    (void)pthread_mutex_destroy(&m->lock);
    (void)pthread_cond_destroy(&m->changed);
}

/* ---- The folder ---- */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), bytes = strlen(end);
    return length > bytes && strcmp(text + length - bytes, end) == 0;
}

/* Whether it is a later part of a model that is split: "-00002-of-00003.gguf". */
static bool is_later_part(const char *path) {
    static const char ending[] = "-00001-of-00001.gguf";
    const size_t length = strlen(path), bytes = sizeof ending - 1;
    const char *end = path + length - bytes;
    if (length < bytes || strncmp(end + 6, "-of-", 4) != 0 || strcmp(end + 15, ".gguf") != 0)
        return false;
    return strspn(end + 1, "0123456789") == 5 && strncmp(end + 1, "00001", 5) != 0;
}

static bool is_model(const char *path) {
    char config[4096 + 16];
    (void)snprintf(config, sizeof config, "%s/config.json", path);
    if (is_later_part(path)) return false;
    return ends_with(path, ".gguf") || ends_with(path, ".sluice") || access(config, R_OK) == 0;
}

static bool add(server_models *m, const char *path) {
    char name[128];
    server_model_name(path, name, sizeof name);
    char *const copies[] = {strdup(path), strdup(name)};
    if (m->count == SERVER_MOST_MODELS || !copies[0] || !copies[1]) {
        free(copies[0]);
        free(copies[1]);
        return false;
    }
    m->paths[m->count] = copies[0];
    m->names[m->count++] = copies[1];
    return true;
}

bool server_models_find(server_models *m, const char *folder, sl_error *err) {
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, NULL, alphasort);
    bool good = true;
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && is_model(path)) good = add(m, path) && good;
        free(entries[i]);
    }
    free(entries);
    if (good && m->count) return true;
    *err = (sl_error){.status = SL_IO};
    (void)snprintf(err->message, sizeof err->message, "%s: %s", folder,
                   count < 0 ? "the folder cannot be read"
                   : good    ? "there is no model in it"
                             : "there are too many models in it");
    return false;
}

/* ---- Holding ---- */

static uint32_t find(const server_models *m, const char *name) {
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->names[i], name) == 0) return i;
    return SERVER_NO_MODEL;
}

bool server_models_has(const server_models *m, const char *name) {
    return find(m, name) != SERVER_NO_MODEL;
}

/* With the lock held; it wakes up every half second to look whether the client is still there. */
static void wait_for_change(server_models *m) {
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 500000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&m->changed, &m->lock, &until);
}

/* Waits until the model of this name is there, or until the other one may be taken away; *out is
 * its index.  NULL: whichever is there then, for which nothing is loaded.  With the lock held.
 * false: the client has gone, or the server stops. */
static bool wait_for_turn(server_exchange *x, const char *name, uint32_t *out) {
    server_models *m = &x->server->models;
    for (;;) {
        const uint32_t index = name && m->count ? find(m, name) : m->current;
        const bool wants = index != m->current;
        *out = index;
        if (wants && (x->server->draining || server_exchange_gone(x))) return false;
        if (!m->loading && (wants ? m->uses == 0 : m->wanted == 0)) return true;
        m->wanted += wants;
        wait_for_change(m);
        m->wanted -= wants;
    }
}

/* With the lock held, which it gives up meanwhile. */
static bool load(server *s, uint32_t index, server_error *err) {
    server_models *m = &s->models;
    sl_error cause = {SL_NO_MEMORY, ""};
    const bool loaded = m->current != SERVER_NO_MODEL;
    m->loading = true;
    (void)pthread_mutex_unlock(&m->lock);
    if (loaded) (void)m->load(s, NULL, NULL, &cause);
    const bool good = m->load(s, m->paths[index], m->names[index], &cause);
    (void)pthread_mutex_lock(&m->lock);
    m->loading = false;
    m->current = good ? index : SERVER_NO_MODEL;
    (void)pthread_cond_broadcast(&m->changed);
    return good || server_refuse(err, 400, "model", "the model '%s' cannot be loaded: %s",
                                 m->names[index], cause.message);
}

static bool hold(server_exchange *x, const char *name, server_error *err) {
    server_models *m = &x->server->models;
    uint32_t index;
    if (name && m->count && !server_models_has(m, name)) {
        (void)server_refuse(err, 404, "model", "there is no model '%.100s'", name);
        err->code = "model_not_found";
        return false;
    }
    if (!wait_for_turn(x, name, &index))
        return server_refuse(err, 503, NULL, "the server is shutting down");
    if (index == SERVER_NO_MODEL)
        return server_refuse(err, 503, NULL,
                             "no model is loaded; a request that names one loads it");
    if (index != m->current && !load(x->server, index, err)) return false;
    m->uses++;
    return true;
}

bool server_models_hold(server_exchange *x, const char *name, server_error *err) {
    server_models *m = &x->server->models;
    (void)pthread_mutex_lock(&m->lock);
    const bool held = hold(x, name, err);
    /* Others may have waited for this one to load or to give up. */
    if (!held) (void)pthread_cond_broadcast(&m->changed);
    (void)pthread_mutex_unlock(&m->lock);
    return held;
}

bool server_models_hold_present(server *s) {
    server_models *m = &s->models;
    (void)pthread_mutex_lock(&m->lock);
    const bool there = !m->loading && m->current != SERVER_NO_MODEL;
    m->uses += there;
    (void)pthread_mutex_unlock(&m->lock);
    return there;
}

void server_models_release(server *s) {
    (void)pthread_mutex_lock(&s->models.lock);
    s->models.uses--;
    (void)pthread_cond_broadcast(&s->models.changed);
    (void)pthread_mutex_unlock(&s->models.lock);
}
