/* catalog_places.c - How programs lay out the folders in which they keep models.
 *
 *   tree     folders of model files, at most four deep (LM Studio: org/repo/file.gguf)
 *   flat     the same, of which only the folder itself and those in it are looked at
 *   hub      models--org--repo/snapshots/commit/..., refs/main has the commit (Hugging Face)
 *   ollama   manifests/host/space/model/tag: JSON that names a file in blobs/ */
#include "apps/cli/catalog.h"
#include "apps/cli/cli.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TREE_DEPTH = 4, FLAT_DEPTH = 1, MANIFEST_DEPTH = 3, PART_BYTES = 20, COMMIT_BYTES = 80 };

typedef struct {
    struct dirent **items;
    int count;
} listing;

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* What is in a folder, by name; nothing where there is no folder. */
static listing list_folder(const char *folder) {
    listing l = {0};
    l.count = scandir(folder, &l.items, is_visible, alphasort);
    if (l.count >= 0) return l;
    if (cli_is_verbose() && errno != ENOENT && errno != ENOTDIR)
        cli_note("%s: %s", folder, strerror(errno));
    return (listing){0};
}

static void free_listing(listing l) {
    for (int i = 0; i < l.count; i++) free(l.items[i]);
    free(l.items);
}

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), bytes = strlen(end);
    return length > bytes && strcmp(name + length - bytes, end) == 0;
}

/* config.json with safetensors: a model of Hugging Face or MLX. */
static bool is_model_folder(listing l) {
    bool config = false, weights = false;
    for (int i = 0; i < l.count; i++) {
        config |= strcmp(l.items[i]->d_name, "config.json") == 0;
        weights |= ends_with(l.items[i]->d_name, ".safetensors");
    }
    return config && weights;
}

/* Bytes of a model's file name without its ending, and "-00001-of-00003" where it is the first of
 * several parts; 0: no model, or another part of one, or a vision projector. */
static size_t stem_bytes(const char *name) {
    const size_t bytes = strlen(name);
    if (ends_with(name, ".sluice")) return bytes - strlen(".sluice");
    if (!ends_with(name, ".gguf") || strncmp(name, "mmproj", 6) == 0) return 0;
    if (bytes > PART_BYTES && name[bytes - PART_BYTES] == '-' &&
        strncmp(name + bytes - PART_BYTES + 6, "-of-", 4) == 0)
        return strncmp(name + bytes - PART_BYTES, "-00001", 6) == 0 ? bytes - PART_BYTES : 0;
    return bytes - strlen(".gguf");
}

/* prefix: of names, "" or ending in '/'. */
static void walk(cli_catalog *catalog, const char *folder, const char *prefix, int depth) {
    const listing l = list_folder(folder);
    const bool whole = is_model_folder(l) && prefix[0];
    if (whole) {
        char *name = cli_catalog_text(catalog, "%.*s", (int)strlen(prefix) - 1, prefix);
        cli_catalog_add(catalog, name, cli_catalog_text(catalog, "%s", folder));
        free(name);
    }
    for (int i = 0; i < l.count && !whole; i++) {
        const char *entry = l.items[i]->d_name;
        const size_t stem = stem_bytes(entry);
        char *path = cli_catalog_text(catalog, "%s/%s", folder, entry);
        char *name = cli_catalog_text(catalog, "%s%.*s", prefix, (int)stem, entry);
        if (path && name && stem) {
            cli_catalog_add(catalog, name, path);
            path = NULL;
        } else if (path && depth > 0 && is_folder(path)) {
            char *below = cli_catalog_text(catalog, "%s%s/", prefix, entry);
            if (below) walk(catalog, path, below, depth - 1);
            free(below);
        }
        free(path);
        free(name);
    }
    free_listing(l);
}

void cli_scan_tree(cli_catalog *catalog, const char *folder) {
    walk(catalog, folder, "", TREE_DEPTH);
}

void cli_scan_flat(cli_catalog *catalog, const char *folder) {
    walk(catalog, folder, "", FLAT_DEPTH);
}

/* ---- Hugging Face ---- */

/* The commit in refs/main, or the last one by name. */
static bool find_commit(const char *repo, cli_catalog *catalog, char commit[COMMIT_BYTES]) {
    char *path = cli_catalog_text(catalog, "%s/refs/main", repo);
    FILE *file = path ? fopen(path, "r") : NULL;
    bool found = file && fgets(commit, COMMIT_BYTES, file);
    if (file) (void)fclose(file);
    free(path);
    if (found) commit[strcspn(commit, "\r\n")] = '\0';
    if (found && !strchr(commit, '/') && commit[0] != '.' && commit[0]) return true;
    path = cli_catalog_text(catalog, "%s/snapshots", repo);
    const listing l = path ? list_folder(path) : (listing){0};
    const char *last = l.count ? l.items[l.count - 1]->d_name : "";
    const size_t bytes = strlen(last);
    found = bytes > 0 && bytes < COMMIT_BYTES;
    if (found) memcpy(commit, last, bytes + 1);
    free_listing(l);
    free(path);
    return found;
}

static void scan_repo(cli_catalog *catalog, const char *hub, const char *entry) {
    static const char begin[] = "models--";
    char commit[COMMIT_BYTES];
    if (strncmp(entry, begin, strlen(begin)) != 0) return;
    char *repo = cli_catalog_text(catalog, "%s/%s", hub, entry);
    char *prefix = cli_catalog_text(catalog, "%s/", entry + strlen(begin));
    char *dashes = prefix ? strstr(prefix, "--") : NULL;
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    if (repo && prefix && find_commit(repo, catalog, commit)) {
        char *snapshot = cli_catalog_text(catalog, "%s/snapshots/%s", repo, commit);
        if (snapshot) walk(catalog, snapshot, prefix, FLAT_DEPTH);
        free(snapshot);
    }
    free(prefix);
    free(repo);
}

void cli_scan_hub(cli_catalog *catalog, const char *folder) {
    const listing l = list_folder(folder);
    for (int i = 0; i < l.count; i++) scan_repo(catalog, folder, l.items[i]->d_name);
    free_listing(l);
}

/* ---- Ollama ---- */

/* The digest of the layer that holds the weights, or NULL. */
static const char *find_digest(const json_t *manifest) {
    size_t i;
    const json_t *layer;
    json_array_foreach(json_object_get(manifest, "layers"), i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        if (type && digest && strcmp(type, "application/vnd.ollama.image.model") == 0 &&
            strncmp(digest, "sha256:", 7) == 0 &&
            strspn(digest + 7, "0123456789abcdef") == strlen(digest + 7))
            return digest + 7;
    }
    return NULL;
}

/* path: of a manifest, which ends in host/space/model/tag.  What ollama itself leaves out of names
 * is left out here. */
static void add_manifest(cli_catalog *catalog, const char *models, const char *path,
                         const char *below) {
    static const char *const usual[] = {"registry.ollama.ai/", "library/"};
    json_t *manifest = json_load_file(path, 0, NULL);
    const char *digest = find_digest(manifest);
    for (int i = 0; i < 2; i++)
        if (strncmp(below, usual[i], strlen(usual[i])) == 0) below += strlen(usual[i]);
    const char *tag = strrchr(below, '/');
    if (digest && tag) {
        char *name = cli_catalog_text(catalog, "%.*s:%s", (int)(tag - below), below, tag + 1);
        cli_catalog_add(catalog, name,
                        cli_catalog_text(catalog, "%s/blobs/sha256-%s", models, digest));
        free(name);
    } else if (cli_is_verbose()) {
        cli_note("%s: a manifest that names no model", path);
    }
    json_decref(manifest);
}

/* below: the path below manifests/, "" or ending in '/'. */
static void walk_manifests(cli_catalog *catalog, const char *models, const char *below, int depth) {
    char *folder = cli_catalog_text(catalog, "%s/manifests/%s", models, below);
    const listing l = folder ? list_folder(folder) : (listing){0};
    for (int i = 0; i < l.count; i++) {
        const char *entry = l.items[i]->d_name;
        char *name = cli_catalog_text(catalog, "%s%s%s", below, entry, depth ? "/" : "");
        char *path = cli_catalog_text(catalog, "%s%s", folder, entry);
        if (name && path && depth)
            walk_manifests(catalog, models, name, depth - 1);
        else if (name && path)
            add_manifest(catalog, models, path, name);
        free(name);
        free(path);
    }
    free_listing(l);
    free(folder);
}

void cli_scan_ollama(cli_catalog *catalog, const char *folder) {
    walk_manifests(catalog, folder, "", MANIFEST_DEPTH);
}
