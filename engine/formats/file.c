#include "engine/formats/file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_READ_BYTES = 1 << 30 };

const char *sl_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

bool sl_file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

static sl_status open_regular(const char *path, int *out_fd, uint64_t *out_bytes, sl_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return sl_fail(err, SL_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0) {
        const int reason = errno;
        (void)close(fd);
        return sl_fail(err, SL_IO, "%s: cannot inspect: %s", path, strerror(reason));
    }
    if (!S_ISREG(info.st_mode)) {
        (void)close(fd);
        return sl_fail(err, SL_IO, "%s: not a regular file", path);
    }
    *out_fd = fd;
    *out_bytes = (uint64_t)info.st_size;
    return SL_OK;
}

sl_status sl_file_open(const char *path, sl_file *out, sl_error *err) {
    *out = (sl_file){.path = path};
    SL_TRY(open_regular(path, &out->fd, &out->bytes, err));
    out->is_open = true;
    return SL_OK;
}

void sl_file_close(sl_file *file) {
    if (file->is_open) (void)close(file->fd);
    *file = (sl_file){0};
}

/* The file ended at `end`, before a read did. */
static sl_status has_shrunk(const sl_file *file, uint64_t offset, uint64_t bytes, uint64_t end,
                            sl_error *err) {
    struct stat info;
    if (fstat(file->fd, &info) == 0 && info.st_size >= 0 && (uint64_t)info.st_size < end)
        end = (uint64_t)info.st_size;
    return sl_fail(err, SL_IO,
                   "%s: %llu bytes wanted at offset %llu, but the file has become shorter: it had "
                   "%llu bytes and has %llu",
                   file->path, (unsigned long long)bytes, (unsigned long long)offset,
                   (unsigned long long)file->bytes, (unsigned long long)end);
}

sl_status sl_file_read(const sl_file *file, uint64_t offset, void *out, uint64_t bytes,
                       sl_error *err) {
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t left = bytes - done;
        const ssize_t got =
            pread(file->fd, (char *)out + done, left < MAX_READ_BYTES ? left : MAX_READ_BYTES,
                  (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return sl_fail(err, SL_IO, "%s: read failed: %s", file->path, strerror(errno));
        if (got == 0) return has_shrunk(file, offset, bytes, offset + done, err);
        done += (uint64_t)got;
    }
    return SL_OK;
}

sl_status sl_file_begins_with(const char *path, const char *magic, bool *out, sl_error *err) {
    enum { MOST = 16 };
    char found[MOST];
    const size_t wanted = strlen(magic);
    sl_file file;
    *out = false;
    SL_TRY(sl_file_open(path, &file, err));
    sl_status status = SL_OK;
    if (wanted <= MOST && wanted <= file.bytes) {
        status = sl_file_read(&file, 0, found, wanted, err);
        *out = status == SL_OK && memcmp(found, magic, wanted) == 0;
    }
    sl_file_close(&file);
    return status;
}

sl_status sl_file_read_text(const char *path, size_t max_bytes, sl_arena *arena,
                            const char **out_text, size_t *out_bytes, sl_error *err) {
    sl_status status = SL_OK;
    sl_file file;
    char *text = NULL;
    SL_TRY(sl_file_open(path, &file, err));
    const uint64_t bytes = file.bytes;
    if (bytes > max_bytes) {
        status = sl_fail(err, SL_FORMAT, "%s: has %llu bytes, at most %zu are supported", path,
                         (unsigned long long)bytes, max_bytes);
        goto done;
    }
    text = sl_arena_alloc(arena, (size_t)bytes + 1, 1);
    if (!text) {
        status = sl_no_memory(err, path, bytes + 1);
        goto done;
    }
    SL_TRY_ELSE(done, sl_file_read(&file, 0, text, bytes, err));
    *out_text = text;
    *out_bytes = (size_t)bytes;
done:
    sl_file_close(&file);
    return status;
}
