#include "engine/formats/file.h"
#include "base/sizes.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, MAX_ALIGN = 4096, MAX_READ_BYTES = 1 << 30 };

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

sl_status sl_file_read(const sl_file *file, uint64_t offset, void *out, uint64_t bytes,
                       sl_error *err) {
    for (uint64_t done = 0; done < bytes;) {
        const uint64_t left = bytes - done;
        const ssize_t got =
            pread(file->fd, (char *)out + done, left < MAX_READ_BYTES ? left : MAX_READ_BYTES,
                  (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return sl_fail(err, SL_IO, "%s: read failed: %s", file->path, strerror(errno));
        if (got == 0)
            return sl_fail(err, SL_IO,
                           "%s: %llu bytes wanted at offset %llu, but the file has become shorter: "
                           "it had %llu bytes and ends at %llu",
                           file->path, (unsigned long long)bytes, (unsigned long long)offset,
                           (unsigned long long)file->bytes, (unsigned long long)(offset + done));
        done += (uint64_t)got;
    }
    return SL_OK;
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

sl_status sl_file_writer_open(sl_file_writer *writer, const char *path,
                              const sl_allocator *allocator, sl_error *err) {
    *writer = (sl_file_writer){.fd = -1, .failed = true};
    sl_arena_init(&writer->arena, allocator);
    writer->path = sl_arena_copy_text(&writer->arena, path, strlen(path));
    writer->temporary = sl_arena_format(&writer->arena, "%s.tmp-%ld", path, (long)getpid());
    writer->buffer = sl_arena_alloc(&writer->arena, BUFFER_BYTES, 64);
    if (!writer->path || !writer->temporary || !writer->buffer)
        return sl_no_memory(err, "a write buffer", BUFFER_BYTES);
    writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->fd < 0 && errno == ENOENT)
        return sl_fail(err, SL_IO, "%s: cannot create: its folder does not exist", path);
    if (writer->fd < 0)
        return sl_fail(err, SL_IO, "%s: cannot create: %s", writer->temporary, strerror(errno));
    writer->failed = false;
    return SL_OK;
}

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
    if (fsync(writer->fd) != 0) return write_failed(writer, err);
    if (rename(writer->temporary, writer->path) != 0) {
        writer->failed = true;
        return sl_fail(err, SL_IO, "%s: cannot rename %s to it: %s", writer->path,
                       sl_file_name(writer->temporary), strerror(errno));
    }
    writer->committed = true;
    return SL_OK;
}

void sl_file_writer_close(sl_file_writer *writer) {
    if (writer->fd >= 0) {
        if (!writer->committed) (void)unlink(writer->temporary);
        (void)close(writer->fd);
    }
    sl_arena_deinit(&writer->arena);
    writer->fd = -1;
}
