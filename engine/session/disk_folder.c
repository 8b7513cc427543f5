#include "engine/session/disk_folder.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGN = 16, LOCK_ATTEMPTS = 100, LOCK_NANOSECONDS = 10000000, FRESH_NANOSECONDS = 50000000 };
static const char lock_name[] = "lock", ending[] = ".kv", temporary[] = ".kv.tmp-";

/* ---- names ---- */

static void write_name(const sl_disk_name *name, char *out, size_t capacity) {
    (void)snprintf(out, capacity, "%016" PRIx64 "-%" PRIu64 "-%" PRIu64 "-%016" PRIx64 "%s",
                   name->model, name->from, name->to, name->hash, ending);
}

/* Exactly what write_name writes. */
static bool read_name(const char *text, sl_disk_name *out) {
    char again[128];
    *out = (sl_disk_name){0};
    if (sscanf(text, "%16" SCNx64 "-%10" SCNu64 "-%10" SCNu64 "-%16" SCNx64, &out->model,
               &out->from, &out->to, &out->hash) != 4)
        return false;
    write_name(out, again, sizeof again);
    return strcmp(text, again) == 0;
}

void sl_disk_folder_path(const sl_disk_folder *folder, const sl_disk_name *name,
                         char path[SL_DISK_PATH]) {
    char text[96];
    write_name(name, text, sizeof text);
    (void)snprintf(path, SL_DISK_PATH, "%s/%s", folder->path, text);
}

/* ---- the folder ---- */

sl_status sl_disk_folder_open(sl_disk_folder *folder, const char *path, uint64_t bytes,
                              const sl_allocator *allocator, sl_error *err) {
    struct stat info;
    *folder = (sl_disk_folder){.path = path, .bytes = bytes, .allocator = allocator, .lock = -1};
    if (strlen(path) >= PATH_MAX) return sl_fail(err, SL_INVALID, "%s: too long a path", path);
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return sl_fail(err, SL_IO, "%s: cannot make the folder: %s", path, strerror(errno));
    if (stat(path, &info) != 0) return sl_fail(err, SL_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return sl_fail(err, SL_IO, "%s: not a folder", path);
    return SL_OK;
}

void sl_disk_folder_close(sl_disk_folder *folder) {
    sl_disk_folder_unlock(folder);
    sl_release(folder->allocator, folder->names, folder->room * sizeof *folder->names, ALIGN);
}

bool sl_disk_folder_changed(const sl_disk_folder *folder) {
    struct stat info;
    if (!folder->listed || stat(folder->path, &info) != 0) return true;
    return info.st_mtim.tv_sec != folder->changed.tv_sec ||
           info.st_mtim.tv_nsec != folder->changed.tv_nsec;
}

static bool append(sl_disk_folder *folder, const sl_disk_name *name) {
    if (folder->count == folder->room) {
        const size_t room = 2 * folder->room + 64;
        sl_disk_name *fresh = sl_resize(folder->allocator, folder->names,
                                        folder->room * sizeof *fresh, room * sizeof *fresh, ALIGN);
        if (!fresh) return false;
        folder->names = fresh;
        folder->room = room;
    }
    folder->names[folder->count++] = *name;
    return true;
}

/* The clock of files has steps: of a change that is as old as one, there may be another. */
static bool is_fresh(const struct timespec *changed) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return true;
    const double age =
        (double)(now.tv_sec - changed->tv_sec) + (double)(now.tv_nsec - changed->tv_nsec) / 1e9;
    return age < FRESH_NANOSECONDS / 1e9;
}

sl_status sl_disk_folder_list(sl_disk_folder *folder, sl_error *err) {
    struct stat info;
    sl_disk_name name;
    bool good = true;
    DIR *entries = opendir(folder->path);
    if (!entries || fstat(dirfd(entries), &info) != 0) {
        const int why = errno;
        if (entries) (void)closedir(entries);
        return sl_fail(err, SL_IO, "%s: %s", folder->path, strerror(why));
    }
    folder->count = 0;
    for (const struct dirent *e; good && (e = readdir(entries));)
        if (read_name(e->d_name, &name)) good = append(folder, &name);
    (void)closedir(entries);
    folder->changed = info.st_mtim;
    folder->listed = good && !is_fresh(&info.st_mtim);
    return good ? SL_OK : sl_no_memory(err, folder->path, folder->count);
}

void sl_disk_folder_touch(const sl_disk_folder *folder, const sl_disk_name *name) {
    char path[SL_DISK_PATH];
    sl_disk_folder_path(folder, name, path);
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* where that fails, it only looks older */
}

void sl_disk_folder_remove(const sl_disk_folder *folder, const sl_disk_name *name) {
    char path[SL_DISK_PATH];
    sl_disk_folder_path(folder, name, path);
    (void)unlink(path);
}

/* ---- the lock ---- */

sl_status sl_disk_folder_lock(sl_disk_folder *folder, sl_error *err) {
    char path[SL_DISK_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, lock_name);
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock < 0) return sl_fail(err, SL_IO, "%s: cannot open: %s", path, strerror(errno));
    for (int i = 0; i < LOCK_ATTEMPTS; i++) {
        if (flock(folder->lock, LOCK_EX | LOCK_NB) == 0) return SL_OK;
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        (void)nanosleep(&(struct timespec){0, LOCK_NANOSECONDS}, NULL);
    }
    const int why = errno;
    sl_disk_folder_unlock(folder);
    return sl_fail(err, SL_IO, "%s: cannot lock: %s", path,
                   why == EWOULDBLOCK ? "another process has it for long" : strerror(why));
}

void sl_disk_folder_unlock(sl_disk_folder *folder) {
    if (folder->lock >= 0) (void)close(folder->lock);
    folder->lock = -1;
}

/* ---- room ---- */

typedef struct {
    sl_disk_name name;
    uint64_t bytes;
    struct timespec used;
} aged;

/* The oldest first; of a path that was used at once, what comes last goes first. */
static int compare_age(const void *left, const void *right) {
    const aged *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec) return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec) return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return a->name.from > b->name.from ? -1 : a->name.from < b->name.from;
}

/* Removes what a killed writer has left; returns the bytes of what a living one is writing. */
static uint64_t clear_temporary(int folder, const char *name) {
    struct stat info;
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0) return 0;
    uint64_t bytes = 0;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(folder, name, 0);
        else
            bytes = (uint64_t)info.st_size;
    }
    (void)close(fd);
    return bytes;
}

/* A name of an entry with the ending of a temporary file (engine/formats/file_write.c). */
static bool is_temporary(const char *text) {
    char stem[96];
    sl_disk_name name;
    const char *mark = strstr(text, temporary);
    if (!mark || (size_t)(mark - text) + sizeof ending > sizeof stem) return false;
    (void)snprintf(stem, sizeof stem, "%.*s%s", (int)(mark - text), text, ending);
    return read_name(stem, &name);
}

static uint64_t clear_temporaries(const sl_disk_folder *folder) {
    uint64_t bytes = 0;
    DIR *entries = opendir(folder->path);
    for (const struct dirent *e; entries && (e = readdir(entries));)
        if (is_temporary(e->d_name)) bytes += clear_temporary(dirfd(entries), e->d_name);
    if (entries) (void)closedir(entries);
    return bytes;
}

sl_status sl_disk_folder_make_room(sl_disk_folder *folder, uint64_t bytes, sl_error *err) {
    if (bytes > folder->bytes)
        return sl_fail(err, SL_IO,
                       "%s: an entry of %llu bytes is not written, the folder may have %llu",
                       folder->path, (unsigned long long)bytes, (unsigned long long)folder->bytes);
    uint64_t total = clear_temporaries(folder);
    SL_TRY(sl_disk_folder_list(folder, err));
    const size_t list_bytes = (folder->count + 1) * sizeof(aged);
    aged *list = sl_resize(folder->allocator, NULL, 0, list_bytes, ALIGN);
    if (!list) return sl_no_memory(err, folder->path, list_bytes);
    size_t count = 0;
    for (size_t i = 0; i < folder->count; i++) {
        char path[SL_DISK_PATH];
        struct stat info;
        sl_disk_folder_path(folder, &folder->names[i], path);
        if (stat(path, &info) != 0) continue;
        list[count++] = (aged){folder->names[i], (uint64_t)info.st_size, info.st_mtim};
        total += (uint64_t)info.st_size;
    }
    qsort(list, count, sizeof *list, compare_age);
    for (size_t i = 0; i < count && total > folder->bytes - bytes; i++) {
        sl_disk_folder_remove(folder, &list[i].name);
        total -= list[i].bytes;
    }
    sl_release(folder->allocator, list, list_bytes, ALIGN);
    folder->listed = false;
    return SL_OK;
}
