/* catalog.c - The models on this machine, from the table of places where programs keep them. */
#include "apps/cli/catalog.h"
#include "apps/cli/cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder is `below` in the folder that the environment variable names; without a variable it is
 * `below` itself. */
static const struct {
    const char *name;
    cli_catalog_scan *scan;
    const char *variable, *below;
} places[] = {
    {"current folder", cli_scan_flat, NULL, "."},
    {"Hugging Face", cli_scan_hub, "HF_HUB_CACHE", ""},
    {"Hugging Face", cli_scan_hub, "HF_HOME", "/hub"},
    {"Hugging Face", cli_scan_hub, "XDG_CACHE_HOME", "/huggingface/hub"},
    {"Hugging Face", cli_scan_hub, "HOME", "/.cache/huggingface/hub"},
    {"LM Studio", cli_scan_tree, "HOME", "/.lmstudio/models"},
    {"LM Studio", cli_scan_tree, "HOME", "/.cache/lm-studio/models"},
    {"Ollama", cli_scan_ollama, "OLLAMA_MODELS", ""},
    {"Ollama", cli_scan_ollama, "HOME", "/.ollama/models"},
    {"Ollama", cli_scan_ollama, NULL, "/usr/share/ollama/.ollama/models"},
    {"llama.cpp", cli_scan_tree, "LLAMA_CACHE", ""},
    {"llama.cpp", cli_scan_tree, "XDG_CACHE_HOME", "/llama.cpp"},
    {"llama.cpp", cli_scan_tree, "HOME", "/.cache/llama.cpp"},
};
enum { PLACES = sizeof places / sizeof places[0] };

char *cli_catalog_text(cli_catalog *catalog, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        catalog->failed = true;
        text = NULL;
    }
    va_end(args);
    return text;
}

/* The same file or folder in another place, or through a link. */
static bool is_known(const cli_catalog *catalog, const cli_found *found) {
    for (size_t i = 0; i < catalog->count; i++) {
        const cli_found *other = &catalog->items[i];
        if (strcmp(other->path, found->path) == 0 ||
            (found->inode && found->inode == other->inode && found->device == other->device))
            return true;
    }
    return false;
}

static bool grow(cli_catalog *catalog) {
    if (catalog->count < catalog->capacity) return true;
    const size_t capacity = catalog->capacity * 2 + 16;
    cli_found *items = realloc(catalog->items, capacity * sizeof *items);
    if (!items) return false;
    catalog->items = items;
    catalog->capacity = capacity;
    return true;
}

void cli_catalog_add(cli_catalog *catalog, const char *name, char *path) {
    struct stat info = {0};
    cli_found found = {.path = path, .place = catalog->place};
    if (path && stat(path, &info) == 0) {
        found.device = (unsigned long long)info.st_dev;
        found.inode = (unsigned long long)info.st_ino;
    }
    if (name && path && !is_known(catalog, &found)) {
        found.name = cli_catalog_text(catalog, "%s", name);
        if (found.name && grow(catalog)) {
            catalog->items[catalog->count++] = found;
            return;
        }
        free(found.name);
        catalog->failed = true;
    }
    free(path);
}

void cli_catalog_free(cli_catalog *catalog) {
    for (size_t i = 0; i < catalog->count; i++) {
        free(catalog->items[i].name);
        free(catalog->items[i].path);
    }
    free(catalog->items);
    *catalog = (cli_catalog){0};
}

static void scan_places(cli_catalog *catalog) {
    const char *bundled = cli_bundled_model();
    for (int i = 0; i < PLACES; i++) {
        const char *base = places[i].variable ? getenv(places[i].variable) : "";
        if (!base || (places[i].variable && !base[0])) continue;
        char *folder = cli_catalog_text(catalog, "%s%s", base, places[i].below);
        catalog->place = places[i].name;
        if (folder) places[i].scan(catalog, folder);
        free(folder);
    }
    catalog->place = "bundled";
    if (bundled)
        cli_catalog_add(catalog, strrchr(bundled, '/') + 1,
                        cli_catalog_text(catalog, "%s", bundled));
}

/* Whether the user can read it; false after a message. */
static bool is_folder(const char *path) {
    struct stat info;
    const bool found = stat(path, &info) == 0;
    if (found && !S_ISDIR(info.st_mode)) errno = ENOTDIR;
    if (found && S_ISDIR(info.st_mode) && access(path, R_OK | X_OK) == 0) return true;
    (void)cli_fail_text("%s: %s", path, strerror(errno));
    return false;
}

bool cli_catalog_read(const char *folder, cli_catalog *out) {
    *out = (cli_catalog){.place = folder};
    if (folder && !is_folder(folder)) return false;
    if (folder)
        cli_scan_tree(out, folder);
    else
        scan_places(out);
    return !out->failed || cli_fail_text("no memory for the list of models") == CLI_OK;
}

static bool is_end_of(const char *name, const char *whole) {
    const size_t bytes = strlen(name), all = strlen(whole);
    return bytes && bytes < all && whole[all - bytes - 1] == '/' &&
           strcmp(whole + all - bytes, name) == 0;
}

/* whole: only to its full name. */
static bool answers_to(const cli_found *item, const char *name, bool whole) {
    if (whole) return strcmp(item->name, name) == 0;
    return is_end_of(name, item->name) || is_end_of(name, item->path);
}

/* How many there are, and the last of them. */
static size_t find(const cli_catalog *catalog, const char *name, bool whole,
                   const cli_found **out) {
    size_t count = 0;
    for (size_t i = 0; i < catalog->count; i++)
        if (answers_to(&catalog->items[i], name, whole)) {
            *out = &catalog->items[i];
            count++;
        }
    return count;
}

static bool refuse(const cli_catalog *catalog, const char *name, bool whole) {
    char text[768] = "";
    for (size_t i = 0, used = 0; i < catalog->count && used < sizeof text; i++) {
        const cli_found *item = &catalog->items[i];
        if (answers_to(item, name, whole))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     whole ? item->path : item->name);
    }
    return cli_fail_text("'%s' is the name of several models: %s", name, text) == CLI_OK;
}

bool cli_catalog_resolve(const char *name, char **out) {
    cli_catalog catalog;
    const cli_found *found = NULL;
    *out = NULL;
    bool good = cli_catalog_read(NULL, &catalog), whole = true;
    size_t count = good ? find(&catalog, name, whole, &found) : 0;
    if (count == 0) count = find(&catalog, name, whole = false, &found);
    if (count > 1) good = refuse(&catalog, name, whole);
    if (good && count == 1) {
        *out = cli_copy(found->path);
        good = *out != NULL;
    }
    cli_catalog_free(&catalog);
    return good;
}
