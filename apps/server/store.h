/* store.h - Responses that can be continued by their id. */
#ifndef SL_APPS_SERVER_STORE_H
#define SL_APPS_SERVER_STORE_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The latest responses, within limits of number and bytes; used by several threads. */
typedef struct server_store server_store;
server_store *server_store_create(uint32_t responses, size_t bytes);
void server_store_destroy(server_store *store); /* NULL is allowed */
/* Keeps a copy of a response and of the conversation that it ends, as texts.  What belongs to one
 * owner is not found by another. */
void server_store_put(server_store *store, const char *id, uint64_t owner, const json_t *messages,
                      const json_t *response);
/* New references; NULL: there is none.  messages or response may be NULL. */
bool server_store_get(server_store *store, const char *id, uint64_t owner, json_t **messages,
                      json_t **response);
bool server_store_remove(server_store *store, const char *id, uint64_t owner);
#endif
