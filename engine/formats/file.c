#include "engine/formats/file.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

sl_status sl_file_map_open(const char *path, sl_file_map *out, sl_error *err) {
    int fd = -1;
    uint64_t bytes = 0;
    *out = (sl_file_map){0};
    SL_TRY(open_regular(path, &fd, &bytes, err));
    if (bytes == 0) {
        (void)close(fd);
        return SL_OK;
    }
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    const int reason = errno;
    (void)close(fd);
    if (data == MAP_FAILED)
        return sl_fail(err, SL_IO, "%s: cannot map %llu bytes: %s", path, (unsigned long long)bytes,
                       strerror(reason));
    (void)madvise(data, bytes, MADV_RANDOM);
    *out = (sl_file_map){data, bytes};
    return SL_OK;
}

void sl_file_map_close(sl_file_map *map) {
    if (map->data) (void)munmap((void *)(uintptr_t)map->data, map->bytes);
    *map = (sl_file_map){0};
}

void sl_file_read_ahead(const void *data, uint64_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)data / page * page;
    if (bytes) (void)madvise((void *)start, (uintptr_t)data + bytes - start, MADV_WILLNEED);
}

void sl_file_let_go(const void *data, uint64_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (start < end) (void)madvise((void *)start, end - start, MADV_DONTNEED);
}

static sl_status read_exactly(int fd, const char *path, char *out, size_t bytes, sl_error *err) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(fd, out + done, bytes - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return sl_fail(err, SL_IO, "%s: read failed: %s", path, strerror(errno));
        if (got == 0)
            return sl_fail(err, SL_IO, "%s: ends at byte %zu, %zu were expected", path, done,
                           bytes);
        done += (size_t)got;
    }
    return SL_OK;
}

sl_status sl_file_begins_with(const char *path, const char *magic, bool *out, sl_error *err) {
    enum { MOST = 16 };
    char found[MOST];
    const size_t wanted = strlen(magic);
    int fd = -1;
    uint64_t bytes = 0;
    *out = false;
    SL_TRY(open_regular(path, &fd, &bytes, err));
    sl_status status = SL_OK;
    if (wanted <= MOST && wanted <= bytes) {
        status = read_exactly(fd, path, found, wanted, err);
        *out = status == SL_OK && memcmp(found, magic, wanted) == 0;
    }
    (void)close(fd);
    return status;
}

sl_status sl_file_read_text(const char *path, size_t max_bytes, sl_arena *arena,
                            const char **out_text, size_t *out_bytes, sl_error *err) {
    sl_status status = SL_OK;
    int fd = -1;
    uint64_t bytes = 0;
    char *text = NULL;
    SL_TRY(open_regular(path, &fd, &bytes, err));
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
    SL_TRY_ELSE(done, read_exactly(fd, path, text, (size_t)bytes, err));
    *out_text = text;
    *out_bytes = (size_t)bytes;
done:
    (void)close(fd);
    return status;
}
