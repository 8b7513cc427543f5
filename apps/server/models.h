/* models.h - Which model is in memory.  Requests hold it while they use it; where a folder has
 * several, another is loaded in its place as soon as nobody holds it. */
#ifndef SL_APPS_SERVER_MODELS_H
#define SL_APPS_SERVER_MODELS_H
#include "apps/server/error.h"
#include <pthread.h>
#include <stdint.h>

enum { SERVER_MOST_MODELS = 256 };
#define SERVER_NO_MODEL UINT32_MAX

struct server;
struct server_exchange;
/* Loads a model, or unloads the one that is loaded (path NULL). */
typedef bool server_load_fn(struct server *s, const char *path, const char *name, sl_error *err);

typedef struct {
    server_load_fn *load;
    const void *load_ctx;
    char *paths[SERVER_MOST_MODELS], *names[SERVER_MOST_MODELS]; /* of the folder, by name */
    uint32_t count;                                              /* 0: there is only one model */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t current; /* index of the model that is loaded, or SERVER_NO_MODEL */
    uint32_t uses;    /* requests that hold it */
    uint32_t wanted;  /* requests that wait for another */
    bool loading;
} server_models;

void server_models_init(server_models *models);
void server_models_deinit(server_models *models);
/* The packs, GGUF files and model folders in a folder; false after filling err. */
bool server_models_find(server_models *models, const char *folder, sl_error *err);
/* Holds the model of this name, which is loaded if it has to be; NULL: the one that is there, or
 * will be when the one that is being loaded is. Where there is only one, every name is its. */
bool server_models_hold(struct server_exchange *x, const char *name, server_error *err);
/* Holds the model that is there; false if there is none, or it is being replaced. */
bool server_models_hold_present(struct server *s);
bool server_models_has(const server_models *models, const char *name); /* in the folder */
void server_models_release(struct server *s);
#endif
