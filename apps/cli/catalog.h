/* catalog.h - The models on this machine: where programs keep them, and their short names. */
#ifndef SL_APPS_CATALOG_H
#define SL_APPS_CATALOG_H
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *name;        /* what -m accepts: "fable", "org/repo", "org/repo/file", "qwen3:30b" */
    char *path;        /* what sl_model_open opens */
    const char *place; /* "Ollama" */
    unsigned long long device, inode;
} cli_found;

typedef struct {
    cli_found *items; /* in the order of the places, by name within a place */
    size_t count, capacity;
    const char *place; /* that is being looked through */
    bool failed;       /* no memory */
} cli_catalog;

/* Looks through the usual places, or through `folder` alone unless it is NULL.  Only names are
 * read, and the manifests of Ollama.  What is not there or cannot be read is passed over, with a
 * note if the program is verbose.  False after a message; *out is released with cli_catalog_free in
 * any case. */
bool cli_catalog_read(const char *folder, cli_catalog *out);
void cli_catalog_free(cli_catalog *catalog);
/* The model that a name stands for: the whole of one in the catalog, or what follows a '/' in it.
 * *out is a path to be released with free, or NULL if there is no such model; false after a
 * message, where there are several. */
bool cli_catalog_resolve(const char *name, char **out);

/* For what fills it in (catalog.c, catalog_places.c): name is copied, path is taken over. */
void cli_catalog_add(cli_catalog *catalog, const char *name, char *path);
/* The same, formatted; NULL and catalog->failed without memory. */
char *cli_catalog_text(cli_catalog *catalog, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* catalog_places.c: what is in a folder. */
typedef void cli_catalog_scan(cli_catalog *catalog, const char *folder);
cli_catalog_scan cli_scan_hub, cli_scan_tree, cli_scan_flat, cli_scan_ollama;
#endif
