/* file_write.c - Files that are complete or absent: written beside their destination under a
 * temporary name, which is `destination`.tmp-<random>.  The writer holds a lock (flock) on the
 * file, so that the next writer can tell and remove what a killed process has left. */
#include "base/sizes.h"
#include "engine/formats/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, MAX_ALIGN = 4096, RANDOM_DIGITS = 16, ATTEMPTS = 16 };
static const char mark[] = ".tmp-";

/* ---- the destination ---- */

/* The folder of a path, and the name in it. */
static sl_status split_path(const char *path, sl_arena *arena, const char **out_folder,
                            const char **out_name, sl_error *err) {
    const char *slash = strrchr(path, '/');
    *out_name = slash ? slash + 1 : path;
    *out_folder = !slash          ? "."
                  : slash == path ? "/"
                                  : sl_arena_copy_text(arena, path, (size_t)(slash - path));
    return *out_folder ? SL_OK : sl_no_memory(err, path, strlen(path));
}

/* What a symbolic link leads to is replaced, not the link. */
static sl_status resolve(sl_file_writer *writer, const char *path, sl_error *err) {
    struct stat info, link;
    writer->path = sl_arena_copy_text(&writer->arena, path, strlen(path));
    if (!writer->path) return sl_no_memory(err, path, strlen(path));
    writer->target = writer->path;
    const bool exists = stat(path, &info) == 0;
    if (!exists && lstat(path, &link) == 0)
        return sl_fail(err, SL_IO, "%s: a symbolic link that leads to no file", path);
    if (!exists) return SL_OK;
    if (S_ISDIR(info.st_mode)) return sl_fail(err, SL_IO, "%s: is a folder, wanted a file", path);
    writer->replaces = S_ISREG(info.st_mode);
    writer->through = !writer->replaces;
    writer->mode = info.st_mode & 0777;
    if (writer->through || lstat(path, &link) != 0 || !S_ISLNK(link.st_mode)) return SL_OK;
    char *found = realpath(path, NULL);
    if (!found) return sl_fail(err, SL_IO, "%s: %s", path, strerror(errno));
    writer->target = sl_arena_copy_text(&writer->arena, found, strlen(found));
    free(found);
    return writer->target ? SL_OK : sl_no_memory(err, path, strlen(path));
}

/* A device or a pipe: the bytes go there as they come. */
static sl_status open_through(sl_file_writer *writer, sl_error *err) {
    writer->fd = open(writer->path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (writer->fd < 0 && errno == ENXIO)
        return sl_fail(err, SL_IO, "%s: a pipe or device that nobody reads", writer->path);
    if (writer->fd < 0)
        return sl_fail(err, SL_IO, "%s: cannot open: %s", writer->path, strerror(errno));
    const int flags = fcntl(writer->fd, F_GETFL);
    if (flags >= 0) (void)fcntl(writer->fd, F_SETFL, flags & ~O_NONBLOCK);
    writer->failed = false;
    return SL_OK;
}

sl_status sl_file_check_space(const char *path, uint64_t bytes, sl_error *err) {
    struct statvfs disk;
    const char *folder, *name;
    sl_arena arena;
    sl_arena_init(&arena, NULL);
    sl_status status = split_path(path, &arena, &folder, &name, err);
    if (status == SL_OK && statvfs(folder, &disk) == 0) {
        const uint64_t blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
        const uint64_t left = blocks * disk.f_frsize;
        if (disk.f_blocks && left < bytes)
            status = sl_fail(err, SL_IO,
                             "%s: No space left on device: %llu bytes will be written, %llu are "
                             "free",
                             path, (unsigned long long)bytes, (unsigned long long)left);
    }
    sl_arena_deinit(&arena);
    return status;
}

sl_status sl_file_check_new(const char *path, bool replace, sl_error *err) {
    struct stat info;
    if (stat(path, &info) != 0) return SL_OK;
    if (S_ISDIR(info.st_mode)) return sl_fail(err, SL_IO, "%s: is a folder, wanted a file", path);
    if (!S_ISREG(info.st_mode))
        return sl_fail(err, SL_IO, "%s: neither a regular file nor new", path);
    if (!replace)
        return sl_fail(err, SL_IO, "%s: exists, and is only replaced with the option force", path);
    return SL_OK;
}

bool sl_file_is_same(const char *left, const char *right) {
    struct stat a, b;
    return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* ---- temporary files ---- */

static bool is_temporary(const char *entry, const char *name) {
    const size_t bytes = strlen(name);
    if (strncmp(entry, name, bytes) != 0 || strncmp(entry + bytes, mark, sizeof mark - 1) != 0)
        return false;
    const char *rest = entry + bytes + sizeof mark - 1;
    return strspn(rest, "0123456789abcdef") == RANDOM_DIGITS && !rest[RANDOM_DIGITS];
}

/* Removes a temporary file unless a writer holds its lock. */
static void remove_stale(int folder, const char *name) {
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    struct stat info;
    if (fd < 0) return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    (void)close(fd);
}

static sl_status remove_stale_files(sl_file_writer *writer, sl_error *err) {
    const char *folder, *name;
    SL_TRY(split_path(writer->target, &writer->arena, &folder, &name, err));
    DIR *entries = opendir(folder);
    if (!entries) return SL_OK; /* creating the file will say why */
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (is_temporary(entry->d_name, name)) remove_stale(dirfd(entries), entry->d_name);
    (void)closedir(entries);
    return SL_OK;
}

static uint64_t random_number(void) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number) return number;
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000007 + (uint64_t)now.tv_nsec) ^ ((uint64_t)getpid() << 40);
}

/* False: the file was taken for a stale one before its lock was held. */
static bool lock_file(const sl_file_writer *writer) {
    struct stat info;
    (void)flock(writer->fd, LOCK_EX | LOCK_NB); /* some file systems have no locks */
    return fstat(writer->fd, &info) != 0 || info.st_nlink > 0;
}

static sl_status open_temporary(sl_file_writer *writer, sl_error *err) {
    SL_TRY(remove_stale_files(writer, err));
    for (int i = 0; i < ATTEMPTS; i++) {
        writer->temporary = sl_arena_format(&writer->arena, "%s%s%016llx", writer->target, mark,
                                            (unsigned long long)random_number());
        if (!writer->temporary) return sl_no_memory(err, writer->path, strlen(writer->path));
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd < 0 && errno == EEXIST) continue;
        if (writer->fd < 0) break;
        if (lock_file(writer)) {
            if (writer->replaces) (void)fchmod(writer->fd, writer->mode);
            writer->failed = false;
            return SL_OK;
        }
        (void)close(writer->fd);
        writer->fd = -1;
    }
    if (errno == ENOENT)
        return sl_fail(err, SL_IO, "%s: cannot create: its folder does not exist", writer->path);
    return sl_fail(err, SL_IO, "%s: cannot create: %s", writer->path, strerror(errno));
}

sl_status sl_file_writer_open(sl_file_writer *writer, const char *path,
                              const sl_allocator *allocator, sl_error *err) {
    *writer = (sl_file_writer){.fd = -1, .failed = true};
    sl_arena_init(&writer->arena, allocator);
    SL_TRY(resolve(writer, path, err));
    writer->buffer = sl_arena_alloc(&writer->arena, BUFFER_BYTES, 64);
    if (!writer->buffer) return sl_no_memory(err, "a write buffer", BUFFER_BYTES);
    return writer->through ? open_through(writer, err) : open_temporary(writer, err);
}

/* ---- writing ---- */

static sl_status write_failed(sl_file_writer *writer, sl_error *err) {
    writer->failed = true;
    return sl_fail(err, SL_IO, "%s: write failed: %s", writer->path, strerror(errno));
}

static sl_status write_all(sl_file_writer *writer, const uint8_t *data, uint64_t bytes,
                           sl_error *err) {
    while (bytes) {
        const ssize_t written = write(writer->fd, data, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return write_failed(writer, err);
        data += written;
        bytes -= (uint64_t)written;
    }
    return SL_OK;
}

static sl_status check_usable(const sl_file_writer *writer, sl_error *err) {
    if (writer->failed)
        return sl_fail(err, SL_INVALID, "%s: an earlier write failed", writer->path);
    if (writer->committed) return sl_fail(err, SL_INVALID, "%s: already complete", writer->path);
    return SL_OK;
}

static sl_status flush(sl_file_writer *writer, sl_error *err) {
    SL_TRY(write_all(writer, writer->buffer, writer->buffered, err));
    writer->buffered = 0;
    return SL_OK;
}

sl_status sl_file_writer_append(sl_file_writer *writer, const void *data, uint64_t bytes,
                                sl_error *err) {
    SL_TRY(check_usable(writer, err));
    if (bytes == 0) return SL_OK;
    if (bytes > BUFFER_BYTES - writer->buffered) SL_TRY(flush(writer, err));
    if (bytes >= BUFFER_BYTES) {
        SL_TRY(write_all(writer, data, bytes, err));
    } else {
        memcpy(writer->buffer + writer->buffered, data, bytes);
        writer->buffered += bytes;
    }
    writer->position += bytes;
    return SL_OK;
}

sl_status sl_file_writer_align(sl_file_writer *writer, uint64_t align, sl_error *err) {
    static const uint8_t zeros[MAX_ALIGN];
    const uint64_t padding = sl_round_up(writer->position, align) - writer->position;
    return sl_file_writer_append(writer, zeros, padding, err);
}

sl_status sl_file_writer_patch(sl_file_writer *writer, const void *data, size_t bytes,
                               sl_error *err) {
    SL_TRY(check_usable(writer, err));
    if (bytes > writer->position)
        return sl_fail(err, SL_INVALID, "%s: cannot replace %zu of %llu bytes", writer->path, bytes,
                       (unsigned long long)writer->position);
    SL_TRY(flush(writer, err));
    if (lseek(writer->fd, 0, SEEK_SET) < 0) return write_failed(writer, err);
    SL_TRY(write_all(writer, data, bytes, err));
    if (lseek(writer->fd, 0, SEEK_END) < 0) return write_failed(writer, err);
    return SL_OK;
}

sl_status sl_file_writer_commit(sl_file_writer *writer, sl_error *err) {
    SL_TRY(check_usable(writer, err));
    SL_TRY(flush(writer, err));
    if (writer->through) {
        writer->committed = true;
        return SL_OK;
    }
    if (fsync(writer->fd) != 0) return write_failed(writer, err);
    if (rename(writer->temporary, writer->target) != 0) {
        writer->failed = true;
        return sl_fail(err, SL_IO, "%s: cannot rename %s to it: %s", writer->path,
                       sl_file_name(writer->temporary), strerror(errno));
    }
    writer->committed = true;
    return SL_OK;
}

void sl_file_writer_close(sl_file_writer *writer) {
    if (writer->fd >= 0) {
        if (!writer->committed && !writer->through) (void)unlink(writer->temporary);
        (void)close(writer->fd);
    }
    sl_arena_deinit(&writer->arena);
    writer->fd = -1;
}
