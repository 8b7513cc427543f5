#include "apps/server/store.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kept_response {
    struct kept_response *next;
    char id[48];
    uint64_t owner;
    char *messages, *response; /* JSON */
    size_t bytes;
} kept_response;

struct server_store {
    pthread_mutex_t lock;
    kept_response *first; /* the latest */
    uint32_t count, most;
    size_t bytes, most_bytes;
};

server_store *server_store_create(uint32_t responses, size_t bytes) {
    server_store *store = calloc(1, sizeof *store);
    if (!store) return NULL;
    store->most = responses;
    store->most_bytes = bytes;
    (void)pthread_mutex_init(&store->lock, NULL);
    return store;
}

static void release(kept_response *kept) {
    free(kept->messages);
    free(kept->response);
    free(kept);
}

void server_store_destroy(server_store *store) {
    if (!store) return;
    while (store->first) {
        kept_response *next = store->first->next;
        release(store->first);
        store->first = next;
    }
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

/* Takes the response at *at out of the list. */
static void drop(server_store *store, kept_response **at) {
    kept_response *kept = *at;
    *at = kept->next;
    store->count--;
    store->bytes -= kept->bytes;
    release(kept);
}

static void drop_last(server_store *store) {
    kept_response **at = &store->first;
    while (*at && (*at)->next) at = &(*at)->next;
    if (*at) drop(store, at);
}

void server_store_put(server_store *store, const char *id, uint64_t owner, const json_t *messages,
                      const json_t *response) {
    kept_response *kept = calloc(1, sizeof *kept);
    if (!kept) return;
    (void)snprintf(kept->id, sizeof kept->id, "%s", id);
    kept->owner = owner;
    kept->messages = json_dumps(messages, JSON_COMPACT);
    kept->response = json_dumps(response, JSON_COMPACT);
    if (!kept->messages || !kept->response) {
        release(kept);
        return;
    }
    kept->bytes = strlen(kept->messages) + strlen(kept->response) + sizeof *kept;
    (void)pthread_mutex_lock(&store->lock);
    kept->next = store->first;
    store->first = kept;
    store->count++;
    store->bytes += kept->bytes;
    while (store->count > store->most || (store->bytes > store->most_bytes && store->count > 1))
        drop_last(store);
    (void)pthread_mutex_unlock(&store->lock);
}

static kept_response **find(server_store *store, const char *id, uint64_t owner) {
    kept_response **at = &store->first;
    while (*at && (strcmp((*at)->id, id) != 0 || (*at)->owner != owner)) at = &(*at)->next;
    return at;
}

bool server_store_get(server_store *store, const char *id, uint64_t owner, json_t **messages,
                      json_t **response) {
    (void)pthread_mutex_lock(&store->lock);
    const kept_response *kept = *find(store, id, owner);
    if (kept && messages) *messages = json_loads(kept->messages, 0, NULL);
    if (kept && response) *response = json_loads(kept->response, 0, NULL);
    (void)pthread_mutex_unlock(&store->lock);
    return kept != NULL;
}

bool server_store_remove(server_store *store, const char *id, uint64_t owner) {
    (void)pthread_mutex_lock(&store->lock);
    kept_response **at = find(store, id, owner);
    const bool found = *at != NULL;
    if (found) drop(store, at);
    (void)pthread_mutex_unlock(&store->lock);
    return found;
}
